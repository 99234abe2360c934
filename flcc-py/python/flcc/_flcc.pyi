from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = [
    "Matcher",
    "Plan",
    "Queue",
    "Stream",
    "__version__",
    "_block_lengths",
    "_exclusive",
    "_match_block",
    "_matcher",
    "_peaks_from",
    "_plan",
    "_source",
    "convolve",
    "correlate",
    "correlation_lags",
    "export_wisdom",
    "find",
    "find_posed",
    "fine_angle",
    "forget_wisdom",
    "import_wisdom",
    "match_template",
    "peaks",
    "plan",
]

_Measure: TypeAlias = Literal["zncc", "lcc", "ncc", "cc", "ssd", "nssd", "sad"]
_Mode: TypeAlias = Literal["full", "same", "valid"]
_Method: TypeAlias = Literal["auto", "direct", "fourier", "separable"]
_Accuracy: TypeAlias = Literal["promised", "fast", "exact"]
_Effort: TypeAlias = Literal["estimate", "measure", "patient"]
_Subpixel: TypeAlias = bool | Literal["quadratic", "gauss", "cubic", "septic"]
_Numbers: TypeAlias = float | Sequence[float] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
_Result: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
_Records: TypeAlias = NDArray[np.void]

class _Shared(Protocol):
    """What shares its memory by DLPack, as tensors of torch."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

class _OnGpu(Protocol):
    """What shows its memory on a GPU, as arrays of CuPy. Results are such arrays then."""

    @property
    def __cuda_array_interface__(self) -> Any: ...

_Array: TypeAlias = ArrayLike | _Shared | _OnGpu
_Templates: TypeAlias = _Array | Sequence[NDArray[Any] | _Shared | _OnGpu]

class _Bar(Protocol):
    total: Any
    def update(self, n: int, /) -> object: ...

_Progress: TypeAlias = Callable[[int, int], object] | _Bar
_Region: TypeAlias = slice | tuple[slice, ...]

class _Sliced(Protocol):
    """What is read by slices, as arrays of zarr."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, place: Any, /) -> Any: ...

def match_template(
    image: _Array,
    template: _Array,
    *,
    measure: _Measure = "zncc",
    mode: _Mode = "valid",
    boundary: str = "zero",
    cval: float = 0.0,
    mask: _Array | None = None,
    image_mask: _Array | None = None,
    min_overlap: float = 0.0,
    channel_axis: int | None = None,
    method: _Method = "auto",
    device: str = "auto",
    accuracy: _Accuracy = "promised",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    out: _Result | _Shared | _OnGpu | None = None,
    progress: _Progress | None = None,
) -> _Result: ...
def convolve(
    in1: _Array,
    in2: _Array,
    mode: _Mode = "full",
    *,
    boundary: str = "zero",
    cval: float = 0.0,
    channel_axis: int | None = None,
    method: _Method = "auto",
    device: str = "auto",
    accuracy: _Accuracy = "promised",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    out: _Result | _Shared | _OnGpu | None = None,
    progress: _Progress | None = None,
) -> _Result: ...
def correlate(
    in1: _Array,
    in2: _Array,
    mode: _Mode = "full",
    *,
    boundary: str = "zero",
    cval: float = 0.0,
    channel_axis: int | None = None,
    method: _Method = "auto",
    device: str = "auto",
    accuracy: _Accuracy = "promised",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    out: _Result | _Shared | _OnGpu | None = None,
    progress: _Progress | None = None,
) -> _Result: ...
def correlation_lags(in1_len: int, in2_len: int, mode: _Mode = "full") -> NDArray[np.int64]: ...
def find(
    image: _Array,
    templates: _Templates,
    *,
    k: int | None = None,
    threshold: float | None = None,
    min_distance: int | None = None,
    exclude_border: int = 0,
    subpixel: _Subpixel | None = None,
    exclusive: bool = False,
    measure: _Measure = "zncc",
    mode: _Mode = "valid",
    boundary: str = "zero",
    cval: float = 0.0,
    mask: _Array | None = None,
    image_mask: _Array | None = None,
    min_overlap: float = 0.0,
    channel_axis: int | None = None,
    method: _Method = "auto",
    device: str = "auto",
    accuracy: _Accuracy = "promised",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> _Records: ...
def find_posed(
    image: _Array,
    template: _Array,
    *,
    angles: _Numbers = 0.0,
    scales: _Numbers = 1.0,
    k: int | None = None,
    threshold: float | None = None,
    min_distance: int | None = None,
    exclude_border: int = 0,
    subpixel: _Subpixel | None = None,
    coarse: int | None = None,
    finest: float | None = None,
    measure: Literal["zncc", "lcc", "ncc", "nssd"] = "zncc",
    mask: _Array | None = None,
    channel_axis: int | None = None,
    method: _Method = "auto",
    device: str = "auto",
    accuracy: _Accuracy = "promised",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> _Records: ...
def fine_angle(template_shape: Sequence[int]) -> float: ...
def peaks(
    scores: _Array,
    *,
    k: int | None = None,
    threshold: float | None = None,
    min_distance: int | None = None,
    exclude_border: int = 0,
    subpixel: _Subpixel | None = None,
    smallest: bool = False,
) -> _Records: ...
def plan(
    spec: str | Sequence[int],
    template_shape: Sequence[int] | None = None,
    image_dtype: DTypeLike | None = None,
    *,
    template_dtype: DTypeLike | None = None,
    measure: _Measure | Literal["conv", "corr"] | None = None,
    mode: _Mode | None = None,
    boundary: str | None = None,
    cval: float | None = None,
    mask: Literal["binary", "weights"] | None = None,
    templates: int | None = None,
    channel_axis: int | None = None,
    accuracy: _Accuracy | None = None,
    dtype: DTypeLike | None = None,
    method: _Method = "auto",
    device: str = "auto",
    threads: int | None = None,
    effort: _Effort = "estimate",
    memory_limit: int | None = None,
) -> Plan: ...
def import_wisdom(file: str | PathLike[str]) -> None: ...
def export_wisdom(file: str | PathLike[str] | None = None) -> str: ...
def forget_wisdom() -> None: ...
@final
class Plan:
    def __call__(
        self,
        image: _Array,
        template: _Templates,
        *,
        mask: _Array | None = None,
        out: _Result | _Shared | _OnGpu | None = None,
        progress: _Progress | None = None,
    ) -> _Result: ...
    def bind(self, template: _Templates, mask: _Array | None = None) -> Matcher: ...
    def explain(self) -> str: ...
    @property
    def spec(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.float32] | np.dtype[np.float64]: ...
    @property
    def scratch_bytes(self) -> int: ...
    @property
    def seams(self) -> tuple[list[int], ...]: ...
    def tiles(self, memory_limit: int) -> list[tuple[slice, ...]]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Matcher:
    def __call__(
        self,
        image: _Array,
        *,
        out: _Result | _Shared | _OnGpu | None = None,
        progress: _Progress | None = None,
    ) -> _Result: ...
    def peaks(
        self,
        image: _Array,
        *,
        k: int | None = None,
        threshold: float | None = None,
        min_distance: int | None = None,
        exclude_border: int = 0,
        subpixel: _Subpixel | None = None,
        progress: _Progress | None = None,
    ) -> _Records: ...
    def region(
        self,
        cutout: _Array,
        region: _Region,
        *,
        out: _Result | _Shared | _OnGpu | None = None,
        progress: _Progress | None = None,
    ) -> _Result: ...
    def needs(self, region: _Region) -> tuple[tuple[slice, ...], ...]: ...
    def cut(self, image: _Sliced, region: _Region) -> Any: ...
    def stream(self, images: Iterable[_Array]) -> Stream: ...
    def queue(self, device: int = 0, *, extraordinary: Literal["told", "computed"] = "told") -> Queue: ...
    def explain(self) -> str: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def kernel(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Queue:
    def __call__(self, image: _Shared | _OnGpu, *, out: _Shared | _OnGpu | None = None) -> Any: ...
    @property
    def unserved(self) -> bool: ...
    def forget(self) -> bool: ...
    @property
    def device(self) -> int: ...

@final
class Stream(Iterator[_Result]):
    def __next__(self) -> _Result: ...
    def __iter__(self) -> Stream: ...

_source: str
__version__: str

def _plan(
    spec: str,
    kernel: str,
    settings: tuple[str, str, int, str, int | None],
    channel_axis: int | None,
) -> Plan: ...
def _block_lengths(spec: str) -> tuple[int, ...]: ...
def _match_block(
    image: _Array,
    template: _Array,
    image_mask: _Array,
    largest: float,
    *,
    measure: _Measure,
    mask: _Array | None,
    min_overlap: float,
    channel_axis: int | None,
    accuracy: _Accuracy,
    dtype: DTypeLike | None,
) -> _Result: ...
def _exclusive(
    specs: Sequence[tuple[str, int]],
    found: Sequence[tuple[Sequence[Sequence[int]], Sequence[float]]],
    k: int | None,
) -> list[list[int]]: ...
def _peaks_from(
    scores: _Array,
    origin: Sequence[int],
    k: int | None,
    threshold: float,
    min_distance: int,
    subpixel: _Subpixel | None,
    smallest: bool,
) -> _Records: ...
def _matcher(
    plan: Plan,
    templates: Sequence[NDArray[Any]],
    mask: NDArray[Any] | None,
    stacked: bool,
    kernel: str,
) -> Matcher: ...

"""Arrays on GPUs: what CuPy and torch are asked for. Other packages' arrays are looked at by one of the two."""

import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Array: TypeAlias = Any

# What each type becomes that kernels do not read, as on the CPU.
_BECOMES = {
    "bool": "float32",
    "int8": "float32",
    "int16": "float32",
    "float16": "float32",
    "int32": "float64",
    "uint32": "float64",
    "int64": "float64",
    "uint64": "float64",
}
# The types that they read.
_READ = {np.dtype(name): name for name in ("uint8", "uint16", "float32", "float64")}
_TAKEN = "uint8, uint16, float32 or float64 (or " + ", ".join(_BECOMES) + ", which become float32 or float64)"
# The largest integers that float64 holds with all that are smaller.
_EXACT = 2**53


class _Library(Protocol):
    """What is asked of a package."""

    def adopted(self, given: _Array) -> _Array:
        """Its array over the memory of another package's."""

    def kind(self, array: _Array) -> str:
        """The name of a type, as numpy's."""

    def converted(self, array: _Array, kind: str) -> _Array: ...
    def within(self, array: _Array, most: int) -> bool:
        """Whether no integer of 64 bits is larger, or less than minus that."""

    def device(self, array: _Array) -> int: ...
    def stream(self, device: int) -> int:
        """The stream that is current in this thread, as a number."""

    def wait(self, device: int) -> None:
        """Waits for that stream."""

    def empty(self, shape: tuple[int, ...], kind: str, device: int) -> _Array: ...
    def copy(self, to: _Array, values: _Array) -> None: ...
    def host(self, array: _Array) -> NDArray[Any]: ...


class _CuPy:
    def __init__(self, module: Any) -> None:
        self.cupy = module

    def adopted(self, given: _Array) -> _Array:
        if isinstance(given, self.cupy.ndarray):
            return given
        shown = hasattr(given, "__cuda_array_interface__")
        return self.cupy.asarray(given) if shown else self.cupy.from_dlpack(given)

    def kind(self, array: _Array) -> str:
        return _READ.get(array.dtype) or str(array.dtype)

    def converted(self, array: _Array, kind: str) -> _Array:
        with array.device:
            return array.astype(kind)

    def within(self, array: _Array, most: int) -> bool:
        with array.device:
            return bool((array <= most).all() and (array.dtype.kind == "u" or (array >= -most).all()))

    def device(self, array: _Array) -> int:
        return int(array.device.id)

    def stream(self, device: int) -> int:
        return int(self.cupy.cuda.get_current_stream(device).ptr)

    def wait(self, device: int) -> None:
        with self.cupy.cuda.Device(device):
            self.cupy.cuda.get_current_stream(device).synchronize()

    def empty(self, shape: tuple[int, ...], kind: str, device: int) -> _Array:
        with self.cupy.cuda.Device(device):
            return self.cupy.empty(shape, kind)

    def copy(self, to: _Array, values: _Array) -> None:
        with to.device:
            to[...] = values

    def host(self, array: _Array) -> NDArray[Any]:
        with array.device:
            host: NDArray[Any] = self.cupy.asnumpy(array)
        return host


class _Torch:
    def __init__(self, module: Any) -> None:
        self.torch = module

    def adopted(self, given: _Array) -> _Array:
        if not isinstance(given, self.torch.Tensor):
            shown = hasattr(given, "__cuda_array_interface__")
            given = self.torch.as_tensor(given, device="cuda") if shown else self.torch.from_dlpack(given)
        # A tensor may say of its values that each stands for its negative.
        return given.resolve_neg() if given.is_neg() else given

    def kind(self, array: _Array) -> str:
        return str(array.dtype).removeprefix("torch.")

    def converted(self, array: _Array, kind: str) -> _Array:
        return array.to(getattr(self.torch, kind))

    def within(self, array: _Array, most: int) -> bool:
        # torch compares no uint64; those from 2^63 on are negative as int64.
        least = 0 if self.kind(array) == "uint64" else -most
        signed = array.view(self.torch.int64)
        return bool(((signed >= least) & (signed <= most)).all())

    def device(self, array: _Array) -> int:
        return int(array.device.index)

    def stream(self, device: int) -> int:
        return int(self.torch.cuda.current_stream(device).cuda_stream)

    def wait(self, device: int) -> None:
        self.torch.cuda.current_stream(device).synchronize()

    def empty(self, shape: tuple[int, ...], kind: str, device: int) -> _Array:
        return self.torch.empty(shape, dtype=getattr(self.torch, kind), device=f"cuda:{device}")

    def copy(self, to: _Array, values: _Array) -> None:
        to.copy_(values)

    def host(self, array: _Array) -> NDArray[Any]:
        host: NDArray[Any] = array.cpu().numpy()
        return host


def _library(given: _Array) -> _Library | None:
    """The package of an array, else CuPy, else torch, where one is installed."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return _Torch(torch)
    libraries: list[tuple[str, Callable[[Any], _Library]]] = [("cupy", _CuPy), ("torch", _Torch)]
    for name, library in libraries:
        try:
            return library(importlib.import_module(name))
        except ImportError:
            continue
    return None


def _name(given: _Array) -> str:
    return type(given).__name__


def _adopted(argument: str, given: _Array) -> tuple[_Library, _Array]:
    library = _library(given)
    if library is None:
        raise TypeError(
            f"{argument}: expected an array of CuPy or torch, or one of the two installed to look at others by, "
            f"got a {_name(given)} on a CUDA device"
        )
    try:
        return library, library.adopted(given)
    except Exception as error:
        raise TypeError(f"{argument}: expected an array whose memory is shared, got a {_name(given)}") from error


class Described(NamedTuple):
    """An array of CuPy or torch, as the extension takes it."""

    array: _Array
    address: int
    readonly: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    kind: str
    device: int
    stream: int | None
    """What the current stream holds has to be done first; None where it is."""


def _described(argument: str, given: _Array, library: _Library, array: _Array) -> Described:
    try:
        shown = array.__cuda_array_interface__
    except Exception as error:
        expected = "an array that shows its memory by __cuda_array_interface__"
        raise TypeError(f"{argument}: expected {expected}, got a {_name(given)}: {error}") from error
    address, readonly = shown["data"]
    shape, typestr, strides = tuple(shown["shape"]), str(shown["typestr"]), shown.get("strides")
    if typestr[0] == (">" if sys.byteorder == "little" else "<"):
        raise TypeError(f"{argument}: expected the machine's byte order, got {typestr}")
    if strides is None:
        steps = [int(typestr[2:])]
        for length in shape[:0:-1]:
            steps.append(steps[-1] * length)
        strides = steps[::-1][: len(shape)]
    device = library.device(array)
    stream: int | None = library.stream(device)
    if stream == 2:
        # The default stream of this thread has another meaning in every other.
        library.wait(device)
        stream = None
    kind = library.kind(array)
    return Described(array, int(address), bool(readonly), shape, tuple(strides), kind, device, stream)


def image(argument: str, given: _Array) -> Described:
    """An array to read, of a type that kernels read."""
    library, array = _adopted(argument, given)
    kind = library.kind(array)
    if kind in _BECOMES:
        if kind in ("int64", "uint64") and not library.within(array, _EXACT):
            raise ValueError(f"{argument}: expected integers up to 2^53 in an array on a GPU, got larger ones")
        array = library.converted(array, _BECOMES[kind])
    elif kind not in _READ.values():
        raise TypeError(f"{argument}: expected {_TAKEN}, got dtype {kind}")
    return _described(argument, given, library, array)


def kind(given: _Array) -> str:
    """The type of an array to write."""
    library, array = _adopted("out", given)
    return library.kind(array)


def written(given: _Array) -> Described:
    """An array to write."""
    library, array = _adopted("out", given)
    if isinstance(given, type(array)) and array is not given:
        raise TypeError(f"out: expected an array to write, got a {_name(given)} that stands for another's values")
    shown = None if isinstance(given, type(array)) else getattr(given, "__cuda_array_interface__", None)
    if shown is not None:
        # What is adopted may have forgotten that it is for reading, or be a copy on another device.
        address, reads = shown["data"]
        if reads:
            raise TypeError(f"out: expected an array to write, got a {_name(given)} that is read-only")
        if _address(array) != address:
            raise TypeError(f"out: expected an array on the current device, got a {_name(given)} on another")
    return _described("out", given, library, array)


def _address(array: _Array) -> int:
    """Where an array of CuPy or torch begins."""
    return int(array.data_ptr() if hasattr(array, "data_ptr") else array.data.ptr)


def fresh(like: _Array, shape: tuple[int, ...], kind: str) -> Described:
    """A new array of a package whose array is at hand, on the same device."""
    library, array = _adopted("out", like)
    made = library.empty(shape, kind, library.device(array))
    return _described("out", made, library, made)


def copy(to: _Array, values: _Array) -> None:
    """Copies values of the same shape, in the order of the current stream."""
    library, array = _adopted("out", to)
    library.copy(array, values)


def host(argument: str, given: _Array) -> NDArray[Any]:
    """A copy in the memory of the CPU."""
    library, array = _adopted(argument, given)
    try:
        return np.asarray(library.host(array))
    except Exception as error:
        raise TypeError(f"{argument}: expected an array that can be copied, got a {_name(given)}") from error

"""The functions of flcc on arrays of dask, computed block by block and only when they are asked for.

An image is an array of dask of any chunks, or anything of a ``shape``, a ``dtype`` and slices of its own, such as an
array of zarr: each task then reads what it looks at, and no more, from there. Templates are arrays in memory. Results
are arrays of dask, and :func:`find` and :func:`peaks` give a ``Delayed`` of what :func:`flcc.find` and
:func:`flcc.peaks` return. All have the bits that they have in memory: every block is a region of one plan's result
(:meth:`flcc.Matcher.region`), computed by that plan's kernel. A worker that does not have the kernel says so.

``threads`` is how many threads a task takes, by default 1, since dask runs a task in each thread of its own.
``chunks`` are those of the result: by default about as large as the image's, and whole tiles, so that no tile is
computed twice.

``image_mask`` is an array of dask of any chunks, which need not be the image's, an array in memory, or an array of
zarr. ``mask``, the weights of a template, is an array in memory. A task reads the part of the ``image_mask`` that
belongs to the samples that it looks at. An ``image_mask`` of another type than bool is read once more, before the first
score: what its largest weight is, and whether all weights are 0 or 1, counts for all scores. Weights that are negative
or not finite are found then, so it is ``compute`` that raises ``ValueError``.

What this module needs beside flcc comes by ``pip install './flcc-py[dask]'`` from a checkout.

Examples
--------
>>> import dask.array, flcc.dask, numpy as np
>>> image = np.random.default_rng(1).random((300, 400), dtype=np.float32)
>>> blocks = dask.array.from_array(image, chunks=(70, 90))
>>> scores = flcc.dask.match_template(blocks, image[40:52, 60:75], mode="same", boundary="mirror")
>>> np.array_equal(scores.compute(), flcc.match_template(image, image[40:52, 60:75], mode="same", boundary="mirror"))
True
>>> flcc.dask.find(blocks, image[40:52, 60:75]).compute()["position"]
array([[40, 60]])
>>> known = image < 0.9
>>> scores = flcc.dask.match_template(blocks, image[40:52, 60:75], image_mask=known)
>>> np.array_equal(scores.compute(), flcc.match_template(image, image[40:52, 60:75], image_mask=known))
True
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _flcc, _masked

try:
    import dask.array
    from dask.base import tokenize as _tokenize
    from dask.delayed import Delayed
    from dask.delayed import delayed as _delayed
    from dask.highlevelgraph import HighLevelGraph
except ImportError as _missing:
    _words = "flcc.dask: expected the packages of pip install './flcc-py[dask]', got no dask.array"
    raise ImportError(_words) from _missing

__all__ = ["convolve", "correlate", "find", "match_template", "peaks"]

# dask's functions have no types.
_da: Any = dask.array
_token: Any = _tokenize

# As numpy arrays are read: what is not named becomes what the last column says.
_TYPES = {"u1": "u1", "u2": "u2", "f4": "f4", "f8": "f8", "b1": "f4", "i1": "f4", "i2": "f4", "f2": "f4"}
_TYPES |= {"i4": "f8", "u4": "f8", "i8": "f8", "u8": "f8"}

_RULES = ("constant", "replicate", "reflect", "mirror", "wrap")

# How many scores on either side of a peak a fit looks at, at most.
_REACH = {"quadratic": 1, "gauss": 1, "cubic": 4, "septic": 6}

_Slices = tuple[slice, ...]


def match_template(
    image: Any,
    template: Any,
    *,
    measure: Any = "zncc",
    mode: Any = "valid",
    boundary: str = "zero",
    cval: float = 0.0,
    mask: Any = None,
    image_mask: Any = None,
    min_overlap: float = 0.0,
    channel_axis: int | None = None,
    method: Any = "auto",
    accuracy: Any = "promised",
    dtype: Any = None,
    threads: int = 1,
    chunks: Any = None,
) -> Any:
    """:func:`flcc.match_template`, as an array of dask."""
    words = dict(mode=mode, boundary=boundary, cval=cval, method=method, accuracy=accuracy, dtype=dtype)
    words["channel_axis"] = channel_axis
    known = _known(image_mask, min_overlap, boundary)
    return _problem(_source(image), [np.asarray(template)], mask, known, measure, words, threads).scores(chunks)


def convolve(
    in1: Any,
    in2: Any,
    mode: Any = "full",
    *,
    boundary: str = "zero",
    cval: float = 0.0,
    channel_axis: int | None = None,
    method: Any = "auto",
    accuracy: Any = "promised",
    dtype: Any = None,
    threads: int = 1,
    chunks: Any = None,
) -> Any:
    """:func:`flcc.convolve`, as an array of dask."""
    words = dict(mode=mode, boundary=boundary, cval=cval, method=method, accuracy=accuracy, dtype=dtype)
    words["channel_axis"] = channel_axis
    return _Problem(_source(in1), [np.asarray(in2)], None, "conv", words, threads).scores(chunks)


def correlate(
    in1: Any,
    in2: Any,
    mode: Any = "full",
    *,
    boundary: str = "zero",
    cval: float = 0.0,
    channel_axis: int | None = None,
    method: Any = "auto",
    accuracy: Any = "promised",
    dtype: Any = None,
    threads: int = 1,
    chunks: Any = None,
) -> Any:
    """:func:`flcc.correlate`, as an array of dask."""
    words = dict(mode=mode, boundary=boundary, cval=cval, method=method, accuracy=accuracy, dtype=dtype)
    words["channel_axis"] = channel_axis
    return _Problem(_source(in1), [np.asarray(in2)], None, "corr", words, threads).scores(chunks)


def find(
    image: Any,
    templates: Any,
    *,
    k: int | None = None,
    threshold: float | None = None,
    min_distance: int | None = None,
    exclude_border: int = 0,
    subpixel: Any = None,
    exclusive: bool = False,
    measure: Any = "zncc",
    mode: Any = "valid",
    boundary: str = "zero",
    cval: float = 0.0,
    mask: Any = None,
    image_mask: Any = None,
    min_overlap: float = 0.0,
    channel_axis: int | None = None,
    method: Any = "auto",
    accuracy: Any = "promised",
    dtype: Any = None,
    threads: int = 1,
    chunks: Any = None,
) -> Delayed:
    """:func:`flcc.find`, as a ``Delayed`` of its structured array.

    A task computes a block of scores with as much around it as suppression looks at, searches it, and keeps what it
    found alone. With ``exclusive`` that is every peak which ``threshold`` leaves, since any may count.
    """
    words = dict(mode=mode, boundary=boundary, cval=cval, method=method, accuracy=accuracy, dtype=dtype)
    words["channel_axis"] = channel_axis
    listed = isinstance(templates, (list, tuple)) and all(hasattr(template, "shape") for template in templates)
    arrays = [np.asarray(template) for template in templates] if listed else [np.asarray(templates)]
    if not arrays:
        raise ValueError("templates: expected at least one template, got none")
    known = _known(image_mask, min_overlap, boundary)
    wanted = _Wanted(k, threshold, exclude_border, subpixel, measure in ("ssd", "nssd", "sad"), exclusive)
    source, parts, number = _source(image), [], 0
    specs: list[tuple[str, int]] = []
    # Templates of one shape and type that follow each other take one plan, as in memory.
    for _, group in itertools.groupby(arrays, key=lambda template: (template.shape, template.dtype)):
        problem = _problem(source, list(group), mask, known, measure, words, threads)
        sides = problem.sides
        distance = max(1, min(sides) // 2) if min_distance is None else min_distance
        numbers = list(range(number, number + len(problem.templates)))
        number += len(numbers)
        specs += [(problem.plan.spec, distance)] * len(numbers)
        parts += [(numbers, problem.first, block) for block in problem.searched(wanted, distance, chunks)]
    axes = len(source.shape) - (channel_axis is not None)
    return wanted.merged(parts, axes, numbered=True, specs=specs)


def peaks(
    scores: Any,
    *,
    k: int | None = None,
    threshold: float | None = None,
    min_distance: int | None = None,
    exclude_border: int = 0,
    subpixel: Any = None,
    smallest: bool = False,
) -> Delayed:
    """:func:`flcc.peaks` of an array of dask, as a ``Delayed`` of its structured array."""
    scores = _da.asarray(scores)
    wanted = _Wanted(k, threshold, exclude_border, subpixel, smallest)
    blocks = wanted.blocks(scores, 1 if min_distance is None else min_distance)
    return wanted.merged([([0], (0,) * scores.ndim, block) for block in blocks], scores.ndim, numbered=False)


def _source(image: Any) -> Any:
    """An array of dask, or what tasks read from."""
    if isinstance(image, _da.Array):
        return image
    if isinstance(image, np.ndarray) or not all(hasattr(image, name) for name in ("shape", "dtype", "__getitem__")):
        return _da.asarray(image)
    return image


def _type(argument: str, dtype: Any) -> str:
    code = np.dtype(dtype).str[1:]
    if code not in _TYPES:
        raise TypeError(f"{argument}: expected real numbers that float64 holds, got dtype {dtype}")
    return _TYPES[code]


class _Problem:
    """An image with templates of one shape and type, and the matcher that all blocks are computed by."""

    def __init__(
        self, source: Any, templates: list[NDArray[Any]], mask: Any, measure: Any, words: dict[str, Any], threads: int
    ) -> None:
        self.source, self.templates = source, templates
        # None, or counted from the front.
        axis: int | None = words["channel_axis"]
        axes = len(source.shape)
        if axis is not None and not -axes <= axis < axes:
            expected = f"an axis of the image, from {-axes} to {axes - 1}"
            raise ValueError(f"channel_axis: expected {expected}, got {axis}")
        self.channel_axis = None if axis is None else axis % axes
        kind: Any = None
        if mask is not None:
            mask = np.asarray(mask)
            kind = "binary" if ((mask == 0) | (mask == 1)).all() else "weights"
        plan = partial(
            _flcc.plan,
            tuple(source.shape),
            templates[0].shape,
            _type("image", source.dtype),
            template_dtype=_type("template", templates[0].dtype),
            measure=measure,
            mask=kind,
            templates=len(templates),
            device="cpu",
            **words,
        )
        self.plan: _flcc.Plan = plan(threads=threads)
        self.seams = self.plan.seams
        self.sides = tuple(side for at, side in enumerate(templates[0].shape) if at != self.channel_axis)
        self.first = tuple(_FIRST[words["mode"]](side) for side in self.sides)
        self._bind(plan, mask)

    def _bind(self, plan: Any, mask: Any) -> None:
        # By the kernel that takes the whole image in memory, with all threads.
        kernel = plan().bind(self.templates, mask).kernel
        # As pickled templates lie.
        axis = self.channel_axis
        templates = self.templates if axis is None else [np.moveaxis(one, axis, -1) for one in self.templates]
        self.matcher = _flcc._matcher(self.plan, templates, mask, True, kernel)

    def scores(self, chunks: Any) -> Any:
        """The result of the one template."""
        own, token, graph = self._begun(chunks, 0)
        bound = next(iter(graph))
        name = f"flcc-scores-{token}"
        for number, region in _regions(own):
            score, keys = self._task(number, region, token, graph)
            graph[(name, *number)] = (partial(_first, score), bound, *keys)
        collected = HighLevelGraph.from_collections(name, graph, dependencies=self._layers())
        return _da.Array(collected, name, own, dtype=self.plan.dtype)

    def searched(self, wanted: _Wanted, distance: int, chunks: Any) -> list[Delayed]:
        """What each block of the results has, a list by templates."""
        halo = wanted.halo(distance)
        own, token, graph = self._begun(chunks, halo)
        bound = next(iter(graph))
        token = _token(token, distance, vars(wanted))
        searches = []
        for number, region in _regions(own):
            around = _around(region, halo, self.plan.shape)
            score, keys = self._task(number, around, token, graph)
            search = partial(wanted.of_all, region=region, around=around, shape=self.plan.shape, distance=distance)
            searches.append("-".join(["flcc-search", token, *map(str, number)]))
            graph[searches[-1]] = (partial(_searched, score, search), bound, *keys)
        return _delayed_keys(f"flcc-search-{token}", graph, searches, self._layers())

    def _begun(self, chunks: Any, halo: int) -> tuple[tuple[tuple[int, ...], ...], str, dict[Any, Any]]:
        """Chunks, what tells the graph from others, and a graph that has the matcher."""
        own = self._chunked(chunks, halo)
        payload = pickle.dumps(self.matcher)
        token = _token(self.source, payload, own)
        bind = partial(_bind, payload, self.matcher.kernel, _flcc._source)
        return own, token, {f"flcc-matcher-{token}": (bind,)}

    def _with_channels(self, reads: Sequence[tuple[slice, ...]]) -> list[tuple[slice, ...]]:
        reads = list(reads)
        if self.channel_axis is not None:
            reads.insert(self.channel_axis, (slice(0, self.source.shape[self.channel_axis]),))
        return reads

    def _layers(self) -> list[Any]:
        return [self.source] if isinstance(self.source, _da.Array) else []

    def _task(
        self, number: tuple[int, ...], region: _Slices, token: str, graph: dict[Any, Any]
    ) -> tuple[Any, list[Any]]:
        """What computes a region, and the keys of what it takes beside the matcher."""
        if not isinstance(self.source, _da.Array):
            return partial(_score_from, source=self.source, region=region), []
        reads = self._with_channels(self.matcher.needs(region))
        places, keys = _pieces(self.source, reads, (f"flcc-part-{token}", *number), graph)
        return partial(_score, region=region, lengths=_lengths(reads), places=places), keys

    def _chunked(self, chunks: Any, halo: int) -> tuple[tuple[int, ...], ...]:
        if chunks is None:
            return self._own_chunks(halo)
        given: tuple[tuple[int, ...], ...] = _da.core.normalize_chunks(chunks, self.plan.shape, dtype=self.plan.dtype)
        return given

    def _own_chunks(self, halo: int) -> tuple[tuple[int, ...], ...]:
        """Chunks of whole tiles, about as large as the image's.

        Chunks that are computed with so much around them lie that far behind the tiles: then what is around a chunk
        takes one more tile an axis, and not two.
        """
        shape, seams = self.plan.shape, self.seams
        given = getattr(self.source, "chunks", None)
        if given is None:
            given = _da.core.normalize_chunks("auto", tuple(self.source.shape), dtype=self.source.dtype)
        sides = [chunk if isinstance(chunk, int) else max(chunk) for chunk in given]
        if self.channel_axis is not None:
            sides.pop(self.channel_axis)
        tiles = [of_axis[1] - of_axis[0] for of_axis in seams]
        counts = [max(1, round(side / tile)) for side, tile in zip(sides, tiles)]
        while True:
            lengths = [min(count * tile, length) for count, tile, length in zip(counts, tiles, shape)]
            halved = [axis for axis, count in enumerate(counts) if count > 1]
            if not halved or math.prod(lengths) <= 2 * math.prod(sides):
                break
            longest = max(halved, key=lambda axis: lengths[axis])
            counts[longest] //= 2
        bounds = []
        for of_axis, count in zip(seams, counts):
            length = of_axis[-1]
            behind = [seam + halo for seam in of_axis[count:-1:count] if seam + halo < length]
            bounds.append([0, *behind, length])
        return tuple(tuple(end - begin for begin, end in itertools.pairwise(of_axis)) for of_axis in bounds)


class _Known(NamedTuple):
    """What a call says of which samples of an image are known."""

    #: An array of dask.
    image_mask: Any
    min_overlap: float


def _known(image_mask: Any, min_overlap: float, boundary: Any) -> _Known | None:
    if image_mask is None and boundary != "unknown" and min_overlap == 0:
        return None
    return _Known(None if image_mask is None else _da.asarray(image_mask), min_overlap)


def _problem(
    source: Any,
    templates: list[NDArray[Any]],
    mask: Any,
    known: _Known | None,
    measure: Any,
    words: dict[str, Any],
    threads: int,
) -> _Problem:
    if known is None:
        return _Problem(source, templates, mask, measure, words, threads)
    return _MaskedProblem(source, templates, mask, known, measure, words, threads)


class _MaskedProblem(_Problem):
    """The same where not all of the image is known: blocks of :mod:`flcc._masked` take the place of a matcher."""

    def __init__(
        self,
        source: Any,
        templates: list[NDArray[Any]],
        mask: Any,
        known: _Known,
        measure: Any,
        words: dict[str, Any],
        threads: int,
    ) -> None:
        self.known, self.words = known, {**words, "measure": measure, "min_overlap": known.min_overlap}
        outside = "zero" if words["boundary"] == "unknown" else words["boundary"]
        super().__init__(source, templates, mask, measure, {**words, "boundary": outside}, threads)

    def _bind(self, plan: Any, mask: Any) -> None:
        axis, image_mask = self.channel_axis, self.known.image_mask
        image = tuple(length for at, length in enumerate(self.source.shape) if at != axis)
        if image_mask is not None:
            _type("image_mask", image_mask.dtype)
            if image_mask.shape != image:
                expected, got = ("x".join(map(str, shape)) for shape in (image, image_mask.shape))
                raise ValueError(f"image_mask: expected {expected} with 1 channel, as the image, got {got}")
        types = [_type(*of) for of in [("image", self.source.dtype), ("template", self.templates[0].dtype)]]
        # Of an image as large as the template, of which nothing is known: what is wrong is told now, as in memory.
        nothing = None if image_mask is None else np.zeros(self.sides, bool)
        for template in self.templates:
            of_size = np.zeros(template.shape, types[0])
            _flcc.match_template(of_size, template, mask=mask, image_mask=nothing, **self.words)
        unknown = self.words["boundary"] == "unknown"
        rule = next((rule for rule in _RULES if f",{rule}" in self.plan.spec), "zero")
        value = float(self.words["cval"]) if rule == "constant" else 0.0
        integer = max(types) if set(types) <= {"u1", "u2"} else None
        if integer is not None and not (value.is_integer() and 0 <= value <= np.iinfo(integer).max):
            integer = None
        named = ("measure", "min_overlap", "accuracy")
        self.blocks = _masked.Blocks(
            templates=self.templates,
            mask=mask,
            image=image,
            window=self.sides,
            shape=self.plan.shape,
            lengths=_flcc._block_lengths(self.plan.spec),
            first=self.first,
            boundary=rule,
            value=value,
            outside=0.0 if unknown or self.words["mode"] == "valid" else 1.0,
            sample_type=integer or "f8",
            channel_axis=axis,
            words={name: self.words[name] for name in named} | {"dtype": self.plan.dtype},
            threads=self.plan.threads,
        )
        self.seams = self.blocks.seams

    def _begun(self, chunks: Any, halo: int) -> tuple[tuple[tuple[int, ...], ...], str, dict[Any, Any]]:
        own = self._chunked(chunks, halo)
        payload, image_mask = pickle.dumps(self.blocks), self.known.image_mask
        token = _token(self.source, image_mask, payload, own)
        bind = partial(_bind_masked, payload, self.blocks.kernels, _flcc._source)
        graph: dict[Any, Any] = {}
        if image_mask is not None and image_mask.dtype != bool:
            for number in itertools.product(*map(range, image_mask.numblocks)):
                graph[(f"flcc-weights-{token}", *number)] = (_masked.weights, (image_mask.name, *number))
        return own, token, {f"flcc-matcher-{token}": (bind, *graph), **graph}

    def _layers(self) -> list[Any]:
        image_mask = self.known.image_mask
        return super()._layers() + ([] if image_mask is None else [image_mask])

    def _task(
        self, number: tuple[int, ...], region: _Slices, token: str, graph: dict[Any, Any]
    ) -> tuple[Any, list[Any]]:
        needs = self.blocks.needs(region)
        reads = self._with_channels(needs)
        of_mask: tuple[Any, list[Any]] | None = None
        image_mask = self.known.image_mask
        keys_of_mask: list[Any] = []
        if image_mask is not None:
            places, keys_of_mask = _pieces(image_mask, needs, (f"flcc-known-{token}", *number), graph)
            of_mask = _lengths(needs), places
        if not isinstance(self.source, _da.Array):
            read = partial(_read, self.source, reads)
            return partial(_score_masked, region=region, image=read, image_mask=of_mask), keys_of_mask
        places, keys = _pieces(self.source, reads, (f"flcc-part-{token}", *number), graph)
        whole = partial(_assembled, _lengths(reads), places)
        return partial(_score_masked, region=region, image=whole, image_mask=of_mask), [*keys_of_mask, *keys]


# Where a template's first sample lies in the image at the first position of each mode, along an axis.
_FIRST: dict[str, Any] = {
    "full": lambda side: 1 - side,
    "same": lambda side: (side - 1) // 2 - (side - 1),
    "valid": lambda side: 0,
}


def _regions(chunks: tuple[tuple[int, ...], ...]) -> Any:
    """The number of each block, and where it lies."""
    ends = [list(itertools.accumulate(of_axis, initial=0)) for of_axis in chunks]
    for number in itertools.product(*(range(len(of_axis)) for of_axis in chunks)):
        yield number, tuple(slice(end[at], end[at + 1]) for end, at in zip(ends, number))


def _pieces(array: Any, reads: Any, name: tuple[Any, ...], graph: dict[Any, Any]) -> tuple[list[_Slices], list[Any]]:
    """What some slices along each axis cut out of an array of dask: where the pieces go, and their keys in a graph.

    A piece that is not a whole chunk is cut out by a task of its own, which the worker of the chunk runs.
    """
    along = []
    for runs, chunks in zip(reads, array.chunks):
        ends = list(itertools.accumulate(chunks, initial=0))
        found, place = [], 0
        for run in runs:
            first = next(at for at in range(len(chunks)) if ends[at + 1] > run.start)
            for at in itertools.takewhile(lambda at: ends[at] < run.stop, range(first, len(chunks))):
                begin, end = max(run.start, ends[at]), min(run.stop, ends[at + 1])
                if begin < end:
                    inside = slice(begin - ends[at], end - ends[at])
                    found.append((at, inside, slice(place, place + end - begin), end - begin == chunks[at]))
                    place += end - begin
        along.append(found)
    places, keys = [], []
    for number, of_axes in enumerate(itertools.product(*along)):
        key: Any = (array.name, *(at for at, _, _, _ in of_axes))
        if not all(whole for _, _, _, whole in of_axes):
            part = (name[0], *name[1:], number)
            graph[part] = (partial(_part, tuple(inside for _, inside, _, _ in of_axes)), key)
            key = part
        places.append(tuple(place for _, _, place, _ in of_axes))
        keys.append(key)
    return places, keys


def _part(inside: _Slices, chunk: Any) -> Any:
    # A copy, so that nothing of the chunk stays.
    return np.array(chunk[inside])


def _assembled(lengths: tuple[int, ...], places: list[_Slices], pieces: Sequence[Any]) -> NDArray[Any]:
    if len(pieces) == 1:
        return np.asarray(pieces[0])
    whole = np.empty(lengths, np.asarray(pieces[0]).dtype)
    for place, piece in zip(places, pieces):
        whole[place] = piece
    return whole


def _stacked(lengths: tuple[int, ...], places: list[_Slices], *pieces: Any) -> list[NDArray[Any]]:
    return [_assembled(lengths, places, pieces)]


def _lengths(reads: Sequence[_Slices]) -> tuple[int, ...]:
    return tuple(sum(run.stop - run.start for run in runs) for runs in reads)


def _bind(payload: bytes, kernel: str, source: str) -> _flcc.Matcher:
    _check_source(source)
    matcher: _flcc.Matcher = pickle.loads(payload)
    _check_kernel(kernel, matcher.kernel, "FLCC_ISA=avx2 on all machines, or method='direct'")
    return matcher


def _bind_masked(
    payload: bytes, kernels: list[str], source: str, *parts: _masked.Weights
) -> tuple[_masked.Blocks, _masked.Weights]:
    _check_source(source)
    blocks: _masked.Blocks = pickle.loads(payload)
    for expected, got in zip(kernels, blocks.kernels):
        _check_kernel(expected, got, "FLCC_ISA=avx2 on all machines")
    if not parts:
        return blocks, _masked.BOOLEAN
    outside = [_masked.BOOLEAN] if blocks.outside else []
    return blocks, _masked.weights_of_all([*parts, *outside])


def _check_source(source: str) -> None:
    if _flcc._source != source:
        raise RuntimeError(f"flcc: expected {source}, which built the graph, got {_flcc._source} on a worker")


def _check_kernel(expected: str, got: str, remedy: str) -> None:
    if got != expected:
        raise RuntimeError(
            f"kernel: expected {expected}, which all blocks are to be computed by, got {got}, since this worker's "
            f"processor or wisdom is another ({remedy})"
        )


def _score(
    matcher: _flcc.Matcher, *pieces: Any, region: _Slices, lengths: tuple[int, ...], places: list[_Slices]
) -> NDArray[Any]:
    return matcher.region(_assembled(lengths, places, pieces), region)


def _score_from(matcher: _flcc.Matcher, *, source: Any, region: _Slices) -> NDArray[Any]:
    return matcher.region(np.asarray(matcher.cut(source, region)), region)


def _read(source: Any, reads: Sequence[_Slices]) -> NDArray[Any]:
    """What slices along each axis cut out of what is sliced."""
    begins = [list(itertools.accumulate((run.stop - run.start for run in runs), initial=0)) for runs in reads]
    places, pieces = [], []
    for number in itertools.product(*(range(len(runs)) for runs in reads)):
        places.append(tuple(slice(begin[at], begin[at + 1]) for begin, at in zip(begins, number)))
        pieces.append(np.asarray(source[tuple(runs[at] for runs, at in zip(reads, number))]))
    return _assembled(_lengths(reads), places, pieces)


def _score_masked(
    bound: tuple[_masked.Blocks, _masked.Weights],
    *pieces: Any,
    region: _Slices,
    image: Any,
    image_mask: tuple[tuple[int, ...], list[_Slices]] | None,
) -> list[NDArray[Any]]:
    """``pieces`` are those of the mask, then those of the image, which ``image`` makes an array."""
    blocks, all_weights = bound
    count, known = 0, None
    if image_mask is not None:
        lengths, places = image_mask
        count = len(places)
        known = _assembled(lengths, places, pieces[:count])
    samples = image(pieces[count:]) if len(pieces) > count else image()
    return blocks.scores(region, samples, known, all_weights)


def _searched(score: Any, search: Any, *given: Any) -> list[NDArray[np.void]]:
    found: list[NDArray[np.void]] = search(score(*given))
    return found


def _around(region: _Slices, halo: int, shape: tuple[int, ...]) -> _Slices:
    return tuple(slice(max(0, run.start - halo), min(length, run.stop + halo)) for run, length in zip(region, shape))


def _delayed_keys(name: str, graph: dict[Any, Any], keys: list[str], layers: list[Any]) -> list[Delayed]:
    collected = HighLevelGraph.from_collections(name, graph, dependencies=layers)
    of_key: Any = partial(Delayed, dsk=collected, layer=name)
    return [of_key(key) for key in keys]


def _first(score: Any, *given: Any) -> NDArray[Any]:
    # A list was bound, so templates lie along a first axis.
    of_one: NDArray[Any] = score(*given)[0]
    return of_one


class _Wanted:
    """What is asked of peaks."""

    def __init__(
        self,
        k: int | None,
        threshold: float | None,
        exclude_border: int,
        subpixel: Any,
        smallest: bool,
        exclusive: bool = False,
    ) -> None:
        # What is wrong is told now, as in memory.
        _flcc.peaks([0.0], k=k, threshold=threshold, exclude_border=exclude_border, subpixel=subpixel)
        self.left = 1 if k is None and threshold is None else k
        # What is found behind the best counts where another template takes the best's place.
        self.exclusive, self.top = exclusive, None if exclusive else self.left
        self.threshold = threshold if threshold is not None else (math.inf if smallest else -math.inf)
        self.exclude_border, self.smallest = exclude_border, smallest
        self.subpixel: Any = "septic" if subpixel is True else (subpixel or None)

    def blocks(self, scores: Any, distance: int) -> list[Delayed]:
        """What each block of some scores has, searched with what lies around it."""
        halo = self.halo(distance)
        token = _token(scores, distance, vars(self))
        graph: dict[Any, Any] = {}
        keys = []
        for number, region in _regions(scores.chunks):
            around = _around(region, halo, scores.shape)
            reads = tuple((run,) for run in around)
            places, pieces = _pieces(scores, reads, (f"flcc-around-{token}", *number), graph)
            lengths = tuple(run.stop - run.start for run in around)
            search = partial(self.of_all, region=region, around=around, shape=scores.shape, distance=distance)
            keys.append("-".join(["flcc-search", token, *map(str, number)]))
            graph[keys[-1]] = (partial(_searched, partial(_stacked, lengths, places), search), *pieces)
        return _delayed_keys(f"flcc-search-{token}", graph, keys, [scores])

    def halo(self, distance: int) -> int:
        """How much around a position decides whether and where there is a peak."""
        # What is wrong is told now, as in memory.
        _flcc.peaks([0.0], min_distance=distance)
        return max(distance, _REACH[self.subpixel] if self.subpixel else 0)

    def of_all(
        self, scores: Any, *, region: _Slices, around: _Slices, shape: tuple[int, ...], distance: int
    ) -> list[NDArray[np.void]]:
        """The peaks in a region of the scores of each template, which are there with what lies around it."""
        return [self._search(of_one, region, around, shape, distance) for of_one in scores]

    def _search(
        self, scores: Any, region: _Slices, around: _Slices, shape: tuple[int, ...], distance: int
    ) -> NDArray[np.void]:
        origin = [run.start for run in around]
        # Those that lie outside the block take places of the best, so there may have to be more.
        asked = None if self.top is None else min(4 * self.top + 16, scores.size)
        while True:
            found = _flcc._peaks_from(scores, origin, asked, self.threshold, distance, self.subpixel, self.smallest)
            inside = np.ones(len(found), bool)
            for at, run, length in zip(found["position"].T, region, shape):
                # As in memory, an axis of one position has no border.
                border = self.exclude_border if length > 1 else 0
                inside &= (at >= max(run.start, border)) & (at < min(run.stop, length - border))
            enough = self.top is not None and inside.sum() >= self.top
            if asked is None or enough or len(found) < asked or asked == scores.size:
                return self._best(found[inside])
            asked = min(8 * asked, scores.size)

    def _best(self, found: NDArray[np.void]) -> NDArray[np.void]:
        """The best first, of equal ones the earlier; no more than are asked for."""
        scores = found["score"] if self.smallest else -found["score"]
        order = np.lexsort((*found["position"].T[::-1], scores))
        return found[order[: self.top]]

    def merged(
        self,
        parts: list[tuple[list[int], tuple[int, ...], Delayed]],
        axes: int,
        numbered: bool,
        specs: list[tuple[str, int]] | None = None,
    ) -> Delayed:
        """The peaks of all blocks, each of some templates (their numbers, and where their position 0 lies); ``specs``
        are those of the templates, with the distance that each keeps."""
        fields: list[Any] = [("template", "i8")] if numbered else []
        fields += [("position", "i8", (axes,)), ("score", "f8")]
        fields += [("refined", "f8", (axes,))] if self.subpixel else []
        of_parts = [(numbers, first) for numbers, first, _ in parts]
        gather: Any = _delayed(partial(self._merge, of_parts, fields, specs or []), pure=True)
        merged: Delayed = gather([block for _, _, block in parts])
        return merged

    def _merge(
        self,
        of_parts: list[tuple[list[int], tuple[int, ...]]],
        fields: list[Any],
        specs: list[tuple[str, int]],
        blocks: list[list[NDArray[np.void]]],
    ) -> NDArray[np.void]:
        of_templates: dict[tuple[int, tuple[int, ...]], list[NDArray[np.void]]] = {}
        for (numbers, first), block in zip(of_parts, blocks):
            for number, found in zip(numbers, block):
                of_templates.setdefault((number, first), []).append(found)
        best_of_each = [self._best(np.concatenate(of_one)) for _, of_one in sorted(of_templates.items())]
        if self.exclusive:
            told = [(best["position"].tolist(), best["score"].tolist()) for best in best_of_each]
            stays = _flcc._exclusive(specs, told, self.left)
            best_of_each = [best[places] for best, places in zip(best_of_each, stays)]
        merged = []
        for (number, first), best in zip(sorted(of_templates), best_of_each):
            records = np.empty(len(best), np.dtype(fields))
            for name in best.dtype.names or ():
                records[name] = best[name] + (0 if name == "score" else np.array(first))
            if "template" in (records.dtype.names or ()):
                records["template"] = number
            merged.append(records)
        return np.concatenate(merged)

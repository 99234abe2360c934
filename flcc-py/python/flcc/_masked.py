"""Scores under a mask of the image, block by block: what a block looks at, and its scores from that alone.

:func:`flcc.match_template` computes such scores in blocks of a grid, and each block from its own samples. Here a block
of the grid is a problem by itself, with what lies outside of the image as samples, and so has the bits that it has in
memory. What counts for all blocks is the largest weight, and whether all are 0 or 1: :class:`Weights`.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _flcc

#: What of the largest weight a positive one has at least, as in memory.
_FAINTEST = 2.0**-300

_Slices = tuple[slice, ...]


class Weights(NamedTuple):
    """What is to be known of all weights of an image before any score."""

    largest: float
    #: Of those that are positive.
    least: float
    #: Whether all are 0 or 1.
    binary: bool


#: Of weights that are False and True.
BOOLEAN = Weights(1.0, 1.0, True)


def weights(part: Any) -> Weights:
    """The weights of a part of the image."""
    part = np.asarray(part).astype(np.float64, copy=False)
    wrong = ~(np.isfinite(part) & (part >= 0))
    if wrong.any():
        raise ValueError(f"image_mask: expected finite weights >= 0, got {part[wrong][0]:g}")
    positive = part[part > 0]
    return Weights(
        positive.max(initial=0.0), positive.min(initial=math.inf), bool(((part == 0) | (part == 1)).all())
    )


def weights_of_all(parts: list[Weights]) -> Weights:
    """Those of all parts and of what lies outside; refused where some are too faint beside others."""
    largest, least = max(part.largest for part in parts), min(part.least for part in parts)
    if least < largest * _FAINTEST:
        expected = f"positive weights of at least 2^-300 of the largest, {largest:e}"
        raise ValueError(f"image_mask: expected {expected}, got {least:e}")
    return Weights(largest, least, all(part.binary for part in parts))


@dataclass(frozen=True, eq=False)
class Blocks:
    """A problem, with the grid of its blocks. Axes are those of space, without channels."""

    templates: list[NDArray[Any]]
    mask: NDArray[Any] | None
    image: tuple[int, ...]
    window: tuple[int, ...]
    #: The shapes of the result and of its blocks, and where its first position lies in the image.
    shape: tuple[int, ...]
    lengths: tuple[int, ...]
    first: tuple[int, ...]
    #: The rule by its own name, the value and the weight of samples that it does not take from the image.
    boundary: str
    value: float
    outside: float
    #: The type that samples of a block have while all weights are 0 or 1; they are float64 otherwise. Of integers sums
    #: are rounded to integers then.
    sample_type: str
    channel_axis: int | None
    #: ``measure``, ``min_overlap``, ``accuracy`` and ``dtype`` of :func:`flcc.match_template`.
    words: dict[str, Any]
    threads: int

    @property
    def seams(self) -> tuple[list[int], ...]:
        """Where blocks begin along each axis, and where the result ends."""
        return tuple([*range(0, whole, side), whole] for whole, side in zip(self.shape, self.lengths))

    @property
    def kernels(self) -> list[str]:
        """What correlates blocks here: others have other roundings."""
        if self.words["measure"] == "sad":
            return []
        samples = [side + window - 1 for side, window in zip(self.lengths, self.window)]
        plans = (_flcc.plan(samples, self.window, "f8", measure="corr", mode="valid", templates=count, device="cpu",
                            threads=1) for count in (1, 2))
        return [plan.kernel for plan in plans]

    def needs(self, region: _Slices) -> list[_Slices]:
        """What the blocks of a region look at along each axis of the image, as ascending slices."""
        return [_runs(self._indices(axis, self._numbers(axis, run))) for axis, run in enumerate(region)]

    def scores(
        self, region: _Slices, image: NDArray[Any], image_mask: NDArray[Any] | None, all_weights: Weights
    ) -> list[NDArray[Any]]:
        """The scores of a region for each template, from what :meth:`needs` tells of the image and its mask."""
        numbers = [self._numbers(axis, run) for axis, run in enumerate(region)]
        indices = [self._indices(axis, of_axis) for axis, of_axis in enumerate(numbers)]
        kept = [run.stop - run.start for run in region]
        results = [np.empty(kept, self.words["dtype"]) for _ in self.templates]
        sample_type = self.sample_type if all_weights.binary else "f8"

        def one(number: tuple[int, ...]) -> None:
            origin = [at * side for at, side in zip(number, self.lengths)]
            places = [self._places(axis, at) for axis, at in enumerate(number)]
            inside = [np.searchsorted(of_axis, place) for of_axis, place in zip(indices, places)]
            samples, known = self._block(image, image_mask, places, inside, sample_type)
            begin = [max(run.start, at) for run, at in zip(region, origin)]
            end = [min(run.stop, at + side) for run, at, side in zip(region, origin, self.lengths)]
            of_block = tuple(slice(a - at, b - at) for a, b, at in zip(begin, end, origin))
            of_region = tuple(slice(a - run.start, b - run.start) for a, b, run in zip(begin, end, region))
            for template, result in zip(self.templates, results):
                scores = _flcc._match_block(
                    samples,
                    template,
                    known,
                    all_weights.largest,
                    mask=self.mask,
                    channel_axis=self.channel_axis,
                    **self.words,
                )
                result[of_region] = scores[of_block]

        blocks = itertools.product(*numbers)
        if self.threads == 1:
            for number in blocks:
                one(number)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(one, blocks))
        return results

    def _numbers(self, axis: int, run: slice) -> range:
        side = self.lengths[axis]
        return range(run.start // side, -(-run.stop // side))

    def _places(self, axis: int, number: int) -> NDArray[np.int64]:
        """The sample of the image at each place along an axis of a block; -1 where it is none of the image.

        What a last block has beyond the result repeats what is there.
        """
        side, window, n = self.lengths[axis], self.window[axis], self.image[axis]
        kept = min(side, self.shape[axis] - number * side)
        at = self.first[axis] + number * side + np.minimum(np.arange(side + window - 1), kept + window - 2)
        last = n - 1
        if self.boundary == "replicate":
            at = np.clip(at, 0, last)
        elif self.boundary == "reflect":
            at %= 2 * n
            at = np.minimum(at, 2 * last + 1 - at)
        elif self.boundary == "mirror":
            at %= max(1, 2 * last)
            at = np.minimum(at, 2 * last - at)
        elif self.boundary == "wrap":
            at %= n
        return np.where((at >= 0) & (at < n), at, -1)

    def _indices(self, axis: int, numbers: range) -> NDArray[np.int64]:
        places = np.unique(np.concatenate([self._places(axis, number) for number in numbers]))
        return places[places >= 0]

    def _block(
        self,
        image: NDArray[Any],
        image_mask: NDArray[Any] | None,
        places: list[NDArray[np.int64]],
        inside: list[NDArray[np.intp]],
        sample_type: str,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The samples and weights of a block."""
        samples, axes = image, list(range(len(places)))
        if self.channel_axis is not None:
            axes = [axis + (axis >= self.channel_axis) for axis in axes]
        for axis, at in zip(axes, inside):
            samples = samples.take(at, axis)
        samples = _exactly(samples, sample_type)
        if image_mask is None:
            known = np.ones([len(at) for at in inside], bool)
        else:
            known = image_mask
            for axis, at in enumerate(inside):
                known = known.take(at, axis)
        for axis, (in_samples, place) in enumerate(zip(axes, places)):
            outside = np.flatnonzero(place < 0)
            if len(outside):
                samples[(slice(None),) * in_samples + (outside,)] = self.value
                known[(slice(None),) * axis + (outside,)] = self.outside
        return samples, known


def _runs(indices: NDArray[np.int64]) -> _Slices:
    """Ascending indices as slices."""
    ends = np.flatnonzero(np.diff(indices) != 1) + 1
    return tuple(slice(int(run[0]), int(run[-1]) + 1) for run in np.split(indices, ends))


def _exactly(samples: NDArray[Any], dtype: str) -> NDArray[Any]:
    """A copy in a type that has to hold each value."""
    held = samples.astype(dtype)
    if samples.dtype.kind in "iu" and samples.dtype.itemsize == 8 and (held.astype(samples.dtype) != samples).any():
        raise ValueError(f"image: expected integers that float64 holds exactly, got others of {samples.dtype}")
    return held

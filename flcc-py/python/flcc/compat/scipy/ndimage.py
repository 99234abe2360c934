"""``scipy.ndimage``'s correlate and convolve.

How results differ from SciPy's:

- Mode ``reflect`` is ``numpy.pad(mode="symmetric")`` also for weights of eight times the input's length and more.
- ``wrap`` and ``constant`` are ``grid-wrap`` and ``grid-constant``, which SciPy's filters take as the same.
- More than three axes with more than one sample raise ``ValueError``; ``axes`` may leave out others.
- Long doubles and objects raise ``TypeError``; 64-bit integers that float64 would round raise ``ValueError``.
- Arrays of other packages become numpy arrays.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from .. import _sums
from .._sums import Array

__all__ = ["convolve", "correlate"]

#: numpy's names of the modes.
_PADS: dict[str, Any] = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "constant": "constant",
    "grid-constant": "constant",
    "nearest": "edge",
    "mirror": "reflect",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}


def _axes(axes: Any, count: int) -> list[int]:
    if axes is None:
        return list(range(count))
    listed: list[Any] = list(axes) if np.iterable(axes) else [axes]
    chosen = [operator.index(axis) for axis in listed]
    for axis in chosen:
        if not -count <= axis < count:
            raise ValueError(f"axes: specified axis: {axis} is out of range of {count} axes")
    chosen = [axis % count for axis in chosen]
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"axes must be unique, got {axes}")
    return chosen


def _origins(origin: Any, axes: list[int]) -> list[int]:
    if np.iterable(origin):
        origins = [operator.index(one) for one in origin]
        if len(origins) != len(axes):
            raise RuntimeError(
                f"origin: sequence argument must have length equal to input rank, {len(axes)}, got {len(origins)}"
            )
        return origins
    return [operator.index(origin)] * len(axes)


def _output(output: Any, shape: tuple[int, ...], dtype: np.dtype[Any], is_complex: bool) -> Array:
    if isinstance(output, np.ndarray):
        if output.shape != shape:
            raise RuntimeError(f"output: output shape not correct, expected {shape}, got {output.shape}")
        if is_complex and output.dtype.kind != "c":
            raise RuntimeError(f"output must have complex dtype, got {output.dtype}")
        return output
    wanted = dtype if output is None else np.dtype(output)
    if isinstance(output, str) and is_complex and wanted.kind != "c":
        raise RuntimeError(f"output must have complex dtype, got {wanted}")
    if is_complex and wanted.kind != "c":
        if output is not None:
            warnings.warn("promoting specified output dtype to complex", stacklevel=4)
        wanted = np.promote_types(wanted, np.complex64)
    return np.zeros(shape, wanted)


def _filter(input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, flip: bool, axes: Any) -> Array:
    input, weights = _sums.numbers("input", input), _sums.numbers("weights", weights)
    if not flip:
        weights = weights.conj()
    chosen = _axes(axes, input.ndim)
    if weights.ndim != len(chosen) or weights.size == 0:
        # Axes without weights do not count.
        count = sum(1 for n in weights.shape if n > 0)
        raise RuntimeError(f"weights.ndim ({count}) must match len(axes) ({len(chosen)})")
    origins = [0] * input.ndim
    lengths = [1] * input.ndim
    for axis, one in zip(chosen, _origins(origin, chosen)):
        origins[axis] = one
    # The axes of the weights stay in their order, whatever that of the axes.
    for axis, n in zip(sorted(chosen), weights.shape):
        lengths[axis], one = n, origins[axis]
        limit = one if not flip else (-one if n % 2 else -one - 1)
        if not -(n // 2) <= limit <= (n - 1) // 2:
            raise ValueError(
                "Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2"
                f", got {one} for weights of {n} samples"
            )
    if not isinstance(mode, str):
        raise RuntimeError(f"mode: A sequence of modes is not supported, got {mode!r}")
    if np.iscomplexobj(cval) and input.dtype.kind != "c":
        raise TypeError("cval: expected a real number for an input of real numbers, got a complex one")
    result = _output(output, input.shape, input.dtype, "c" in (input.dtype.kind, weights.dtype.kind))
    if input.size == 0:
        return result
    wide = np.complex128 if "c" in (input.dtype.kind, weights.dtype.kind) else np.float64
    a = input.astype(np.complex128 if input.dtype.kind == "c" else np.float64)
    b = weights.reshape(lengths).astype(np.complex128 if weights.dtype.kind == "c" else np.float64)
    for name, given, held in (("input", input, a), ("weights", weights.reshape(lengths), b)):
        if given.dtype.kind in "iu" and given.dtype.itemsize == 8 and (held.astype(given.dtype) != given).any():
            raise ValueError(f"{name}: expected integers that float64 holds exactly, got others")
    if mode not in _PADS:
        raise RuntimeError(f"mode: boundary mode not supported, got {mode!r}")
    b = _without_small(b)
    # Of weights with an even length the middle is the later one of two; an origin moves the result.
    first = [(t // 2 + o) if flip else (t - 1 - t // 2 - o) for t, o in zip(lengths, origins)]
    # What is cut off to integers, or is True where it is not 0, is not to be off by a rounding of transforms.
    whole_numbers = result.dtype.kind in "iub"
    method = "direct" if whole_numbers else "auto"
    if np.isfinite(a).all() and np.isfinite(b).all() and (_PADS[mode] != "constant" or np.isfinite(cval)):
        flat, small = _sums.axes_of_one(a, b)
        whole = _sums.full(flat, small, flip, method, mode, cval).astype(wide, copy=False)
        both = [n + t - 1 if max(n, t) > 1 else 1 for n, t in zip(input.shape, lengths)]
        whole = whole.reshape(both)
        values = whole[tuple(slice(start, start + n) for start, n in zip(first, input.shape))]
    else:
        values = _by_weights(a, np.flip(b) if flip else b, first, mode, cval)
    with np.errstate(invalid="ignore"):
        if whole_numbers:
            values = np.trunc(values)
            if result.dtype.kind != "b":
                values = values.astype(np.uint64 if result.dtype == np.uint64 and (values >= 0).all() else np.int64)
        result[...] = values.astype(result.dtype)
    return result


def _without_small(weights: Array) -> Array:
    """The weights with 0 for what SciPy leaves out of its sums: what is not above the epsilon of float64, and NaN."""
    if weights.dtype.kind == "c":
        kept = np.empty_like(weights)
        kept.real, kept.imag = _without_small(weights.real), _without_small(weights.imag)
        return kept
    return np.where(abs(weights) > np.finfo(np.float64).eps, weights, 0.0)


def _by_weights(a: Array, weights: Array, first: list[int], mode: str, cval: Any) -> Array:
    """The sums one weight after the other: what is infinite or NaN counts where it meets a weight that is not 0."""
    parts = [(part, value) for part, value in ((a.real, np.real(cval)), (a.imag, np.imag(cval)))]
    pads = [(t - 1 - one, one) for t, one in zip(weights.shape, first)]

    def real(part: int, weights: Array) -> Array:
        samples, value = parts[part]
        padded = np.pad(samples, pads, _PADS[mode], **({"constant_values": value} if _PADS[mode] == "constant" else {}))
        total = np.zeros(a.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            for at in zip(*np.nonzero(weights)):
                total += weights[at] * padded[tuple(slice(k, k + n) for k, n in zip(at, a.shape))]
        return total

    if a.dtype.kind != "c" and weights.dtype.kind != "c":
        return real(0, weights)
    result = np.zeros(a.shape, np.complex128)
    result.real, result.imag = real(0, weights.real), real(0, weights.imag)
    if a.dtype.kind == "c":
        with np.errstate(invalid="ignore"):
            result.real -= real(1, weights.imag)
            result.imag += real(1, weights.real)
    return result


def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """``scipy.ndimage.correlate``.

    Examples
    --------
    >>> from flcc.compat.scipy import ndimage
    >>> ndimage.correlate([1, 2, 3, 4], [1, 0, -1])
    array([-1, -2, -2, -1])
    >>> ndimage.correlate([[1, 0], [0, 1]], [1, 2], axes=0)
    array([[3, 0],
           [1, 2]])
    """
    return _filter(input, weights, output, mode, cval, origin, False, axes)


def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """``scipy.ndimage.convolve``.

    Examples
    --------
    >>> from flcc.compat.scipy import ndimage
    >>> ndimage.convolve([1, 2, 3, 4], [1, 0, -1], mode="constant", cval=9)
    array([-7,  2,  2,  6])
    """
    return _filter(input, weights, output, mode, cval, origin, True, axes)

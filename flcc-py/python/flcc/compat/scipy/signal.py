"""``scipy.signal``'s convolutions and correlations.

How results differ from SciPy's:

- Sums of products of integers are exact, and then taken to the result's type: those of a narrow type wrap around, as
  SciPy's do. Where they may reach 2**53 these raise ``ValueError``; SciPy's go on to 2**64. Beside floats 64-bit
  integers are rounded to float64 first, as SciPy's are.
- Long doubles, decimals and other objects raise ``TypeError``.
- More than three axes with more than one sample raise ``ValueError``; ``axes`` of ``fftconvolve`` and ``oaconvolve``
  may leave out others.
- ``method="fft"`` is the Fourier method of tiles for floats; integers are summed directly, so that they are exact.
- float32 is summed in float32 or better, float16 in float32.
- Arrays of other packages become numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _sums
from .._sums import Array

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve"]

_METHODS = {"auto": "auto", "direct": "direct", "fft": "fourier"}
_BOUNDARIES = {
    "fill": "constant",
    "pad": "constant",
    "wrap": "wrap",
    "circular": "wrap",
    "symm": "reflect",
    "symmetric": "reflect",
}


def _check(in1: Any, in2: Any, mode: str) -> tuple[Array, Array]:
    in1, in2 = _sums.numbers("in1", in1), _sums.numbers("in2", in2)
    if in1.ndim != in2.ndim:
        raise ValueError(f"in1 and in2 should have the same dimensionality, got {in1.ndim} and {in2.ndim} axes")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode: acceptable mode flags are 'valid', 'same', or 'full', got {mode!r}")
    return in1, in2


def _swaps(in1: Array, in2: Array, mode: str, axes: Iterable[int] | None = None) -> bool:
    """Whether in2 is the one in which the other lies."""
    if mode != "valid":
        return False
    axes = range(in1.ndim) if axes is None else axes
    longer = [in1.shape[axis] >= in2.shape[axis] for axis in axes]
    shorter = [in1.shape[axis] <= in2.shape[axis] for axis in axes]
    if not all(longer) and not all(shorter):
        raise ValueError(
            "For 'valid' mode, one must be at least as large as the other in every dimension, "
            f"got in1 of {in1.shape} and in2 of {in2.shape}"
        )
    return not all(longer)


def _part(whole: Array, shape: tuple[int, ...], template: tuple[int, ...], mode: str) -> Array:
    """What a mode leaves of a full result."""
    if mode == "full":
        return whole
    if mode == "same":
        return whole[tuple(slice((t - 1) // 2, (t - 1) // 2 + n) for n, t in zip(shape, template))]
    return whole[tuple(slice(t - 1, n) for n, t in zip(shape, template))]


def _compute(
    in1: Array, in2: Array, mode: str, flip: bool, method: str, boundary: str = "zero", cval: Any = 0
) -> Array:
    axes = [max(n, t) for n, t in zip(in1.shape, in2.shape)]
    a, b = _sums.axes_of_one(in1, in2)
    whole = _sums.full(a, b, flip, method, boundary, cval)
    whole = whole.reshape([n + t - 1 if most > 1 else 1 for n, t, most in zip(in1.shape, in2.shape, axes)])
    return _part(whole, in1.shape, in2.shape, mode).copy()


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """``scipy.signal.convolve``.

    Examples
    --------
    >>> from flcc.compat.scipy import signal
    >>> signal.convolve([1, 2, 3, 4], [1, 0, 2], mode="same")
    array([2, 5, 8, 6])
    """
    in1, in2 = _check(in1, in2, mode)
    if method not in _METHODS:
        raise ValueError(f"method: Acceptable method flags are 'auto', 'direct', or 'fft', got {method!r}")
    if in1.ndim == 0:
        return in1 * in2
    if _swaps(in1, in2, mode):
        in1, in2 = in2, in1
    if in1.size == 0 or in2.size == 0:
        return np.array([], np.result_type(in1, in2))
    return _compute(in1, in2, mode, True, _METHODS[method])


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """``scipy.signal.correlate``.

    Examples
    --------
    >>> from flcc.compat.scipy import signal
    >>> signal.correlate([1, 2, 3], [0, 1, 0.5])
    array([0.5, 2. , 3.5, 3. , 0. ])
    """
    in1, in2 = _check(in1, in2, mode)
    if method not in _METHODS:
        raise ValueError(f"method: Acceptable method flags are 'auto', 'direct', or 'fft', got {method!r}")
    if in1.ndim == 0:
        return in1 * in2.conj()
    if _swaps(in1, in2, mode):
        # Of the arrays in the other order the lags run backwards, and the other factor is the conjugate.
        return np.flip(_compute(in2, in1.conj(), mode, False, _METHODS[method]).conj())
    if in1.size == 0 or in2.size == 0:
        return np.array([], np.result_type(in1, in2))
    return _compute(in1, in2.conj(), mode, False, _METHODS[method])


def _two_axes(in1: Any, in2: Any, mode: str, boundary: str) -> tuple[Array, Array]:
    in1, in2 = _check(in1, in2, mode)
    if in1.ndim != 2:
        raise ValueError(f"in1 and in2: expected 2 axes, got {in1.ndim}")
    if in1.size == 0 or in2.size == 0:
        raise ValueError("in1 and in2: expected at least one sample on every axis, got none")
    if boundary not in _BOUNDARIES:
        raise ValueError(
            "boundary: Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm'), "
            f"got {boundary!r}"
        )
    return in1, in2


def _value(fillvalue: Any, in1: Array, in2: Array) -> Any:
    value = np.asarray(fillvalue)
    if value.size != 1:
        raise ValueError(f"`fillvalue` must be scalar or an array with one element, got one with {value.size}")
    if value.dtype.kind == "c" and "c" not in (in1.dtype.kind, in2.dtype.kind):
        raise ValueError(f"could not cast `fillvalue` directly to the output type, got {fillvalue!r}")
    return value.reshape(())[()]


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """``scipy.signal.convolve2d``.

    Examples
    --------
    >>> from flcc.compat.scipy import signal
    >>> signal.convolve2d([[0, 1, 2], [3, 4, 5], [6, 7, 8]], [[1, 1], [1, 1]], mode="valid")
    array([[ 8, 12],
           [20, 24]])
    """
    in1, in2 = _two_axes(in1, in2, mode, boundary)
    if _swaps(in1, in2, mode):
        in1, in2 = in2, in1
    return _compute(in1, in2, mode, True, "auto", _BOUNDARIES[boundary], _value(fillvalue, in1, in2))


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """``scipy.signal.correlate2d``: its mode same begins at half of in2, rounded down, of the full result.

    Examples
    --------
    >>> from flcc.compat.scipy import signal
    >>> signal.correlate2d([[0, 1, 2], [3, 4, 5], [6, 7, 8]], [[0, 1], [1, 0]], mode="same", boundary="symm")
    array([[ 4,  6,  7],
           [10, 12, 13],
           [13, 15, 16]])
    """
    in1, in2 = _two_axes(in1, in2, mode, boundary)
    if _swaps(in1, in2, mode):
        # Of the arrays in the other order; as in SciPy the conjugate is that of in1, other than in correlate.
        return np.flip(_compute(in2, in1.conj(), mode, False, "auto"))
    value = _value(fillvalue, in1, in2)
    if mode != "same":
        return _compute(in1, in2.conj(), mode, False, "auto", _BOUNDARIES[boundary], value)
    whole = _compute(in1, in2.conj(), "full", False, "auto", _BOUNDARIES[boundary], value)
    return whole[tuple(slice(t // 2, t // 2 + n) for n, t in zip(in1.shape, in2.shape))].copy()


def _floats(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _along(in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    in1, in2 = _sums.numbers("in1", in1), _sums.numbers("in2", in2)
    if in1.ndim == in2.ndim == 0:
        return in1 * in2
    in1, in2 = _check(in1, in2, mode)
    if in1.size == 0 or in2.size == 0:
        return np.array([])
    if axes is None:
        chosen = list(range(in1.ndim))
    else:
        given = np.atleast_1d(axes)
        if given.size == 0:
            raise ValueError("when provided, axes cannot be empty")
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise ValueError(f"axes must be a scalar or iterable of integers, got {axes!r}")
        chosen = given.tolist()
        if any(axis < -in1.ndim or axis >= in1.ndim for axis in chosen):
            raise ValueError(f"axes exceeds dimensionality of input, {in1.ndim}, got {axes!r}")
        chosen = [axis % in1.ndim for axis in chosen]
        if len(set(chosen)) != len(chosen):
            raise ValueError(f"all axes must be unique, got {axes!r}")
    others = [axis for axis in range(in1.ndim) if axis not in chosen]
    for axis in others:
        if in1.shape[axis] != in2.shape[axis] and 1 not in (in1.shape[axis], in2.shape[axis]):
            raise ValueError(f"incompatible shapes for in1 and in2: {in1.shape} and {in2.shape}")
    # As in SciPy modes leave out axes on which either has one sample: along them the other is multiplied.
    counted = [axis for axis in chosen if in1.shape[axis] != 1 and in2.shape[axis] != 1]
    if _swaps(in1, in2, mode, counted):
        in1, in2 = in2, in1
    result = in1 * in2 if not counted else _whole(_floats(in1), _floats(in2), others, sorted(chosen))
    spans = [slice(None)] * in1.ndim
    if mode == "same":
        # Of in1's shape on all axes, also on those that in2 is longer on: their middle.
        middles = [(most - n) // 2 for most, n in zip(result.shape, in1.shape)]
        spans = [slice(first, first + n) for first, n in zip(middles, in1.shape)]
    elif mode == "valid":
        for axis in counted:
            spans[axis] = slice(in2.shape[axis] - 1, in1.shape[axis])
    return result[tuple(spans)].copy()


def _whole(in1: Array, in2: Array, others: list[int], axes: list[int]) -> Array:
    """The full convolution along some axes, of each pair along the others."""
    order = others + axes
    a, b = in1.transpose(order), in2.transpose(order)
    count = len(others)
    shape = np.broadcast_shapes(a.shape[:count], b.shape[:count])
    a, b = np.broadcast_to(a, shape + a.shape[count:]), np.broadcast_to(b, shape + b.shape[count:])
    parts = [_compute(a[at], b[at], "full", True, "auto") for at in np.ndindex(*shape)]
    result: Array = np.array(parts).reshape(shape + parts[0].shape)
    return result.transpose(np.argsort(order))


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """``scipy.signal.fftconvolve``.

    Examples
    --------
    >>> from flcc.compat.scipy import signal
    >>> signal.fftconvolve([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, -1.0]], axes=1)
    array([[ 1.,  1.,  1., -3.],
           [ 4.,  1.,  1., -6.]])
    """
    return _along(in1, in2, mode, axes)


def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """``scipy.signal.oaconvolve``.

    Examples
    --------
    >>> from flcc.compat.scipy import signal
    >>> signal.oaconvolve([1.0, 2.0, 4.0, 8.0], [1.0, 1.0], mode="valid")
    array([ 3.,  6., 12.])
    """
    return _along(in1, in2, mode, axes)

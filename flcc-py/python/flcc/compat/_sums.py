"""Sums of products of arrays of any numbers, put together from sums of real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _flcc

Array = NDArray[Any]

#: What float64 holds of integers.
EXACT = 2.0**53


def numbers(argument: str, value: Any) -> Array:
    """The argument as an array of numbers that float64 or complex128 holds."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{argument}: expected an array without a mask, got a MaskedArray")
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        value = np.from_dlpack(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        raise TypeError(f"{argument}: expected numbers of up to 64 bits (complex: 128), got dtype {array.dtype}")
    return array


def full(in1: Array, in2: Array, flip: bool, method: str = "auto", boundary: str = "zero", cval: Any = 0) -> Array:
    """The full convolution (flip) or correlation, in the type that SciPy gives it; nothing is conjugated."""
    dtype = np.result_type(in1, in2)
    # Other rules take no value, and SciPy does not look at it.
    cval = cval if boundary in ("constant", "grid-constant") else 0
    call = _flcc.convolve if flip else _flcc.correlate
    if dtype.kind in "biu":
        # Integers: exact, or refused.
        largest = max(abs(int(in1.min())), abs(int(in1.max())), abs(float(np.real(cval))))
        if largest * float(abs(in2.astype(np.float64)).sum()) > EXACT:
            raise ValueError("in1 and in2: expected integers whose sums of products are below 2^53, got larger ones")
        whole = call(in1, in2, boundary=boundary, cval=float(np.real(cval)), method="direct", dtype=np.float64)
        return whole != 0 if dtype.kind == "b" else whole.astype(np.int64).astype(dtype)
    real = np.float64 if dtype in (np.float64, np.complex128) else np.float32

    def part(a: Array, b: Array, value: float) -> Array:
        a, b = a.astype(real, copy=False), b.astype(real, copy=False)
        return call(a, b, boundary=boundary, cval=value, method=method)  # type: ignore[arg-type]

    if dtype.kind == "f":
        return part(in1, in2, float(np.real(cval))).astype(dtype, copy=False)
    re, im = float(np.real(cval)), float(np.imag(cval))
    result = np.zeros([n + t - 1 for n, t in zip(in1.shape, in2.shape)], dtype)
    result.real = part(in1.real, in2.real, re)
    if in1.dtype.kind == "c" or im != 0:
        result.imag += part(in1.imag, in2.real, im)
    if in2.dtype.kind == "c":
        result.imag += part(in1.real, in2.imag, re)
        if in1.dtype.kind == "c" or im != 0:
            result.real -= part(in1.imag, in2.imag, im)
    return result


def axes_of_one(in1: Array, in2: Array) -> tuple[Array, Array]:
    """The arrays without axes along which neither has more than one sample, but for one axis at least."""
    both = [max(n, t) for n, t in zip(in1.shape, in2.shape)]
    kept = [axis for axis, n in enumerate(both) if n > 1] or [0]
    return (a.reshape([a.shape[axis] for axis in kept]) for a in (in1, in2))  # type: ignore[return-value]

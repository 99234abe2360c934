"""The C library held against the conformance vectors, by Python's own foreign functions:

    python3 conformance/run_vectors.py --python flcc-capi/tests/vectors.py:run

FLCC_LIBRARY names the library; without it that is target/release/libflcc.so. Arrays go as they are: an address and
strides, so that what is transposed or reversed is not copied.
"""
import ctypes
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ctypes.CDLL(os.environ.get("FLCC_LIBRARY") or str(ROOT / "target/release/libflcc.so"))
LIBRARY.flcc_last_error.restype = ctypes.c_char_p
LIBRARY.flcc_status_text.restype = ctypes.c_char_p
TYPES = {"uint8": ("u8", 0), "uint16": ("u16", 1), "float32": ("f32", 2), "float64": ("f64", 3)}


class Layout(ctypes.Structure):
    _fields_ = [("strides", ctypes.c_ssize_t * 3), ("channel", ctypes.c_ssize_t), ("next", ctypes.c_ssize_t)]


class Shape(ctypes.Structure):
    _fields_ = [("axes", ctypes.c_size_t), ("lengths", ctypes.c_size_t * 3)]


class Info(ctypes.Structure):
    """As far as the shapes: the library fills as much as there is room for."""

    _fields_ = [("size", ctypes.c_size_t), ("image", Shape), ("templat", Shape), ("result", Shape)]


def done(status):
    if status != 0:
        words = LIBRARY.flcc_status_text(status).decode()
        raise ValueError(f"{words}: {LIBRARY.flcc_last_error().decode()}")


def layout(array):
    steps = [stride // array.itemsize for stride in array.strides]
    return Layout((ctypes.c_ssize_t * 3)(*steps), 1, 0)


def address(array):
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def sides(array):
    return "x".join(map(str, array.shape))


def run(image, template, op, measure, mode, boundary, cval, mask):
    name = {"lcc": "zncc", "match": measure}.get(op, op)
    outside = f"constant({float(cval)!r})" if boundary == "constant" else boundary
    weights = "" if mask is None else ",mask01" if np.isin(mask, (0, 1)).all() else ",maskw"
    types = f"{TYPES[image.dtype.name][0]}/{TYPES[template.dtype.name][0]}"
    spec = f"{name}:{types}:{sides(image)}*{sides(template)}:{mode},{outside}{weights}"
    plan, matcher = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        done(LIBRARY.flcc_plan_create(spec.encode(), None, ctypes.byref(plan)))
        info = Info(size=ctypes.sizeof(Info))
        done(LIBRARY.flcc_plan_info(plan, ctypes.byref(info)))
        held = None
        if mask is not None:
            if mask.shape != template.shape:
                raise ValueError("the library takes masks of the template's shape")
            held = np.ascontiguousarray(mask)
        weight, kind = (None, 0) if held is None else (address(held), TYPES[held.dtype.name][1])
        part = ctypes.byref(layout(template))
        done(LIBRARY.flcc_matcher_create(plan, address(template), part, weight, kind, ctypes.byref(matcher)))
        wide = "float64" in (image.dtype.name, template.dtype.name)
        result = np.full(info.result.lengths[: info.result.axes], 7, "float64" if wide else "float32")
        whole = ctypes.byref(layout(image))
        done(LIBRARY.flcc_execute(matcher, address(image), whole, ctypes.c_size_t(1), address(result), None))
        return result
    finally:
        LIBRARY.flcc_matcher_destroy(matcher)
        LIBRARY.flcc_plan_destroy(plan)

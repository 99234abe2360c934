"""MKL by ctypes: its transforms (DFTI) as an engine of fourier.py, and its own correlation (VSL)."""

import ctypes
from ctypes import byref, c_int, c_long, c_void_p

import numpy as np

from environment import library
from fourier import composed
from parts import bounds, together

# Names of its headers, without their prefix.
SINGLE, REAL = 35, 33
PLACEMENT, NOT_INPLACE = 11, 44
CONJUGATE_EVEN_STORAGE, COMPLEX_COMPLEX = 10, 39
INPUT_STRIDES, OUTPUT_STRIDES = 12, 13
MODES = (("auto", 0), ("direct", 1), ("fft", 2))
SINGLE_PRECISION = 1


def ok(status):
    if status != 0:
        raise RuntimeError(f"MKL status {status}")


def at(array):
    return c_void_p(array.ctypes.data)


def integers(values):
    return (c_int * len(values))(*values)


def strides(array):
    return [stride // array.itemsize for stride in array.strides]


class Descriptor:
    """A committed transform between arrays of two layouts."""

    def __init__(self, mkl, lengths, source, target):
        self.mkl, self.handle = mkl, c_void_p()
        count = len(lengths)
        # A line's length is passed by value, more of them as an array.
        extent = c_long(lengths[0]) if count == 1 else (c_long * count)(*lengths)
        ok(mkl.DftiCreateDescriptor(byref(self.handle), c_int(SINGLE), c_int(REAL), c_long(count), extent))
        ok(mkl.DftiSetValue(self.handle, c_int(PLACEMENT), c_int(NOT_INPLACE)))
        ok(mkl.DftiSetValue(self.handle, c_int(CONJUGATE_EVEN_STORAGE), c_int(COMPLEX_COMPLEX)))
        for name, array in ((INPUT_STRIDES, source), (OUTPUT_STRIDES, target)):
            ok(mkl.DftiSetValue(self.handle, c_int(name), (c_long * (count + 1))(0, *strides(array))))
        ok(mkl.DftiCommitDescriptor(self.handle))

    def __del__(self):
        self.mkl.DftiFreeDescriptor(byref(self.handle))


class Task:
    """A correlation with the template bound to it, and the arrays it runs on."""

    def __init__(self, mkl, mode, image, template, out):
        self.mkl, self.handle, self.arrays = mkl, c_void_p(), (image, template, out)
        self.arguments = at(image), integers(strides(image)), at(out), integers(strides(out))
        shapes = [integers(array.shape) for array in (template, image, out)]
        create = mkl.vslsCorrNewTaskX
        steps = integers(strides(template))
        ok(create(byref(self.handle), c_int(mode), c_int(image.ndim), *shapes, at(template), steps))
        ok(mkl.vslCorrSetInternalPrecision(self.handle, c_int(SINGLE_PRECISION)))
        ok(mkl.vslCorrSetStart(self.handle, integers([0] * image.ndim)))

    def __del__(self):
        self.mkl.vslCorrDeleteTask(byref(self.handle))

    def run(self):
        ok(self.mkl.vslsCorrExecX(self.handle, *self.arguments))


class Mkl:
    """The library; its correlation and its composition take image, template and threads and give a run."""

    def __init__(self):
        try:
            library("libiomp5.so")
        except ImportError:
            pass
        self.mkl = library("libmkl_rt.so.3")
        text = ctypes.create_string_buffer(200)
        self.mkl.MKL_Get_Version_String(text, c_int(len(text)))
        self.version = text.value.decode().partition("Version")[2].partition("for")[0].strip()
        self.transform = composed(self.engine)

    def engine(self, real, spectrum, back, threads):
        mkl = self.mkl
        mkl.MKL_Set_Num_Threads(c_int(threads))
        there, home = Descriptor(mkl, real.shape, real, spectrum), Descriptor(mkl, real.shape, spectrum, back)
        places = [at(array) for array in (real, spectrum, back)]
        return (
            lambda: ok(mkl.DftiComputeForward(there.handle, places[0], places[1])),
            lambda: ok(mkl.DftiComputeBackward(home.handle, places[1], places[2])),
        )

    def correlate(self, mode):
        """VSL's correlation; it gains little by MKL's own threads, so parts of the result are shared out."""

        def make(image, template, threads):
            self.mkl.MKL_Set_Num_Threads(c_int(1))
            lengths = [whole - part + 1 for whole, part in zip(image.shape, template.shape)]
            out, calls = np.empty(lengths, np.float32), []
            for begin, end in bounds(len(out), threads):
                part, into = image[begin : end + len(template) - 1], out[begin:end]
                calls.append(Task(self.mkl, mode, part, template, into).run)
            whole = together(calls)

            def run():
                whole()
                return out

            return run

        return make

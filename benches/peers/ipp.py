"""IPP's image and signal libraries by ctypes. It has no threads of its own: two threads are two parts of the result, as
its manual advises."""

import ctypes
from ctypes import byref, c_float, c_int, c_uint64, c_void_p

import numpy as np

from environment import library
from parts import bounds, together

ALGORITHMS = (("auto", 0), ("direct", 1), ("fft", 2))
VALID, COEFFICIENT = 0x10000, 0x200
BORDERS_IN_MEMORY = 0xF0
FLOAT = 13
# Every feature up to AVX2 and FMA, none of AVX-512.
AVX2_FEATURES = 0xFFFFF


class Size(ctypes.Structure):
    _fields_ = [("width", c_int), ("height", c_int)]


class Version(ctypes.Structure):
    _fields_ = [(name, c_int) for name in ("major", "minor", "update", "build")]
    _fields_ += [("target", ctypes.c_char * 4)]
    _fields_ += [(name, ctypes.c_char_p) for name in ("name", "version", "date")]


class Buffer:
    """Scratch of at least so many bytes on a cache line."""

    def __init__(self, size):
        self.bytes = np.zeros(size.value + 64, np.uint8)
        self.at = c_void_p(-(-self.bytes.ctypes.data // 64) * 64)


def at(array, element=0):
    return c_void_p(array.ctypes.data + element * array.itemsize)


def shape(array):
    return Size(array.shape[1], array.shape[0])


def step(array):
    return c_int(array.strides[0])


def empty(image, template):
    """Memory for a valid result."""
    return np.empty([whole - part + 1 for whole, part in zip(image.shape, template.shape)], np.float32)


def ok(status):
    if status != 0:
        raise RuntimeError(f"IPP status {status}")


def prepared(function, *arguments, keep):
    """A call with its arguments converted, that holds what they point to."""

    def call(_keep=keep):
        ok(function(*arguments))

    return call


class Ipp:
    """The libraries, and what is made of them: each takes image, template and threads and gives a run."""

    def __init__(self, isa):
        for support in ("libimf.so", "libintlc.so.5", "libsvml.so"):
            try:
                library(support)
            except ImportError:
                pass
        core = library("libippcore.so.12")
        library("libippvm.so.12")
        self.signals, self.images = library("libipps.so.12"), library("libippi.so.12")
        core.ippInit()
        if isa == "avx2":
            core.ippGetEnabledCpuFeatures.restype = c_uint64
            ok(core.ippSetCpuFeatures(c_uint64(core.ippGetEnabledCpuFeatures() & AVX2_FEATURES)))
        self.images.ippiGetLibVersion.restype = ctypes.POINTER(Version)
        version = self.images.ippiGetLibVersion().contents
        self.version = f"{version.version.decode()} {version.name.decode()}"

    def match(self, algorithm, coefficient):
        """CrossCorrNorm: correlation, or the zero-mean coefficient."""
        kind = c_int(algorithm | VALID | (COEFFICIENT if coefficient else 0))

        def make(image, template, threads):
            out, calls = empty(image, template), []
            function = getattr(self.images, f"ippiCrossCorrNorm_{'8u32f' if image.dtype == np.uint8 else '32f'}_C1R")
            for begin, end in bounds(len(out), threads):
                part, into, size = image[begin : end + len(template) - 1], out[begin:end], c_int()
                ok(self.images.ippiCrossCorrNormGetBufferSize(shape(part), shape(template), kind, byref(size)))
                buffer = Buffer(size)
                arguments = at(part), step(part), shape(part), at(template), step(template), shape(template)
                arguments += at(into), step(out), kind, buffer.at
                calls.append(prepared(function, *arguments, keep=(image, template, out, buffer)))
            return self.run(calls, out)

        return make

    def convolve(self, image, template, threads):
        """Conv with the template flipped: a plain correlation."""
        out, calls, kind = empty(image, template), [], c_int(VALID)
        flipped = np.ascontiguousarray(template[::-1, ::-1])
        for begin, end in bounds(len(out), threads):
            part, into, size = image[begin : end + len(template) - 1], out[begin:end], c_int()
            ask = self.images.ippiConvGetBufferSize
            ok(ask(shape(part), shape(flipped), c_int(FLOAT), c_int(1), kind, byref(size)))
            buffer = Buffer(size)
            arguments = at(part), step(part), shape(part), at(flipped), step(flipped), shape(flipped)
            arguments += at(into), step(out), kind, buffer.at
            calls.append(prepared(self.images.ippiConv_32f_C1R, *arguments, keep=(image, flipped, out, buffer)))
        return self.run(calls, out)

    def filter(self, image, template, threads):
        """FilterBorder with the border in memory: a plain correlation, its fastest for small templates."""
        out, calls = empty(image, template), []
        spec_size, buffer_size, kind = c_int(), c_int(), c_int(FLOAT)
        ask = self.images.ippiFilterBorderGetSize
        ok(ask(shape(template), shape(out), kind, kind, c_int(1), byref(spec_size), byref(buffer_size)))
        spec, nothing = Buffer(spec_size), c_float(0)
        ok(self.images.ippiFilterBorderInit_32f(at(template), shape(template), kind, c_int(1), c_int(0), spec.at))
        # Its anchor is the sample (size - 1) / 2 of the template.
        skipped = (template.shape[0] - 1) // 2 * image.shape[1] + (template.shape[1] - 1) // 2
        for begin, end in bounds(len(out), threads):
            buffer, into = Buffer(buffer_size), out[begin:end]
            arguments = at(image, begin * image.shape[1] + skipped), step(image), at(into), step(out), shape(into)
            arguments += c_int(BORDERS_IN_MEMORY), byref(nothing), spec.at, buffer.at
            kept = image, template, out, spec, buffer
            calls.append(prepared(self.images.ippiFilterBorder_32f_C1R, *arguments, keep=kept))
        return self.run(calls, out)

    def match_line(self, algorithm):
        """The signal library's CrossCorrNorm, not normalised: the template slides as the first signal."""
        kind = c_int(algorithm)

        def make(image, template, threads):
            out, calls, taps, lag = empty(image, template), [], len(template), c_int(0)
            for begin, end in bounds(len(out), threads):
                lengths, size = (c_int(taps), c_int(end - begin + taps - 1), c_int(end - begin)), c_int()
                ok(self.signals.ippsCrossCorrNormGetBufferSize(*lengths, lag, c_int(FLOAT), kind, byref(size)))
                buffer = Buffer(size)
                arguments = at(template), lengths[0], at(image, begin), lengths[1], at(out, begin), lengths[2]
                arguments += lag, kind, buffer.at
                kept = image, template, out, buffer
                calls.append(prepared(self.signals.ippsCrossCorrNorm_32f, *arguments, keep=kept))
            return self.run(calls, out)

        return make

    def filter_line(self, algorithm):
        """FIR of the flipped template, whose delay line is what lies before each part of the signal."""

        def make(image, template, threads):
            out, calls, taps = empty(image, template), [], len(template)
            flipped, spec_size, buffer_size = np.ascontiguousarray(template[::-1]), c_int(), c_int()
            ok(self.signals.ippsFIRSRGetSize(c_int(taps), c_int(FLOAT), byref(spec_size), byref(buffer_size)))
            spec = Buffer(spec_size)
            ok(self.signals.ippsFIRSRInit_32f(at(flipped), c_int(taps), c_int(algorithm), spec.at))
            for begin, end in bounds(len(out), threads):
                buffer = Buffer(buffer_size)
                arguments = at(image, begin + taps - 1), at(out, begin), c_int(end - begin), spec.at
                arguments += at(image, begin), None, buffer.at
                calls.append(prepared(self.signals.ippsFIRSR_32f, *arguments, keep=(image, flipped, out, spec, buffer)))
            return self.run(calls, out)

        return make

    @staticmethod
    def run(calls, out):
        whole = together(calls)

        def run():
            whole()
            return out

        return run

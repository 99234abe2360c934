#!/usr/bin/env python3
"""Times FLCC and its peers on a CPU in one run and prints the ratio of the best peer to FLCC. See README.md."""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

LIBRARIES = os.path.join(sys.prefix, "lib")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flcc", required=True, help="the release binary")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--group", default="corr,zncc,u8,volume,line")
    parser.add_argument("--only", default="", help="workloads whose name holds this")
    parser.add_argument("--isa", choices=["avx512", "avx2"], default="avx512")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each cell")
    return parser.parse_args()


ARGUMENTS = arguments()
if ARGUMENTS.isa == "avx2":
    # OpenCV reads this when it is loaded.
    os.environ["OPENCV_CPU_DISABLE"] = "AVX512_SKX,AVX512-SKX"
    print("# no switch to AVX2: scipy, scikit-image (pocketfft), pyfftw", file=sys.stderr)

import cv2
import numpy as np
import pyfftw
import scipy.fft
import scipy.signal
from skimage.feature import match_template


class Size(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int)]


class Ipp:
    """IPP's image library by ctypes; two threads are two halves of the result, as its documentation advises."""

    VALID, DIRECT, FFT, COEFFICIENT = 0x10000, 1, 2, 0x200
    BORDERS_IN_MEMORY = 0xF0
    FLOAT = 13

    def __init__(self):
        for support in ("libimf.so", "libintlc.so.5", "libsvml.so"):
            try:
                ctypes.CDLL(os.path.join(LIBRARIES, support), ctypes.RTLD_GLOBAL)
            except OSError:
                pass
        self.core = ctypes.CDLL(os.path.join(LIBRARIES, "libippcore.so.12"), ctypes.RTLD_GLOBAL)
        for part in ("vm", "s"):
            ctypes.CDLL(os.path.join(LIBRARIES, f"libipp{part}.so.12"), ctypes.RTLD_GLOBAL)
        self.images = ctypes.CDLL(os.path.join(LIBRARIES, "libippi.so.12"), ctypes.RTLD_GLOBAL)
        self.core.ippInit()
        if ARGUMENTS.isa == "avx2":
            # Everything up to AVX2 and FMA, nothing of AVX-512.
            self.core.ippSetCpuFeatures(ctypes.c_uint64(0xFFFFF))

    @staticmethod
    def ok(status):
        if status != 0:
            raise RuntimeError(f"IPP status {status}")

    @staticmethod
    def at(array):
        return ctypes.c_void_p(array.ctypes.data)

    def halves(self, rows, threads, one):
        bounds = [rows * part // threads for part in range(threads + 1)]
        calls = [one(begin, end) for begin, end in zip(bounds, bounds[1:])]
        if threads == 1:
            return calls[0]
        pool = ThreadPoolExecutor(threads - 1)

        def run():
            others = [pool.submit(call) for call in calls[1:]]
            calls[0]()
            for other in others:
                other.result()

        return run

    def match(self, image, template, algorithm, normalised, threads):
        """CrossCorrNorm: correlation, or the zero-mean coefficient."""
        (height, width), (rows, columns) = image.shape, template.shape
        out = np.empty((height - rows + 1, width - columns + 1), np.float32)
        kind = algorithm | self.VALID | (self.COEFFICIENT if normalised else 0)
        name = "8u32f" if image.dtype == np.uint8 else "32f"
        call = getattr(self.images, f"ippiCrossCorrNorm_{name}_C1R")
        patch = Size(columns, rows)

        def one(begin, end):
            part, into = image[begin : end + rows - 1], out[begin:end]
            size, bytes_needed = Size(width, end - begin + rows - 1), ctypes.c_int()
            self.ok(self.images.ippiCrossCorrNormGetBufferSize(size, patch, ctypes.c_int(kind), ctypes.byref(bytes_needed)))
            buffer = np.zeros(bytes_needed.value + 64, np.uint8)
            steps = [ctypes.c_int(array.strides[0]) for array in (image, template, out)]
            return lambda: self.ok(
                call(self.at(part), steps[0], size, self.at(template), steps[1], patch, self.at(into), steps[2], ctypes.c_int(kind), self.at(buffer))
            )

        return self.halves(out.shape[0], threads, one), out

    def filter(self, image, template, threads):
        """FilterBorder with the border in memory: a plain correlation, its fastest for small templates."""
        (height, width), (rows, columns) = image.shape, template.shape
        out = np.empty((height - rows + 1, width - columns + 1), np.float32)
        patch, whole = Size(columns, rows), Size(out.shape[1], out.shape[0])
        spec_size, buffer_size, kind = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(self.FLOAT)
        images = self.images
        self.ok(images.ippiFilterBorderGetSize(patch, whole, kind, kind, ctypes.c_int(1), ctypes.byref(spec_size), ctypes.byref(buffer_size)))
        spec = np.zeros(spec_size.value + 64, np.uint8)
        self.ok(images.ippiFilterBorderInit_32f(self.at(template), patch, kind, ctypes.c_int(1), ctypes.c_int(0), self.at(spec)))
        # Its anchor is the sample (size - 1) / 2 of the template.
        skipped = (rows - 1) // 2 * image.strides[0] + (columns - 1) // 2 * image.itemsize
        nothing = ctypes.c_float(0)

        def one(begin, end):
            buffer = np.zeros(buffer_size.value + 64, np.uint8)
            source = ctypes.c_void_p(image.ctypes.data + begin * image.strides[0] + skipped)
            into, size = out[begin:end], Size(out.shape[1], end - begin)
            steps = ctypes.c_int(image.strides[0]), ctypes.c_int(out.strides[0])
            border = ctypes.c_int(self.BORDERS_IN_MEMORY)
            return lambda: self.ok(
                images.ippiFilterBorder_32f_C1R(
                    source, steps[0], self.at(into), steps[1], size, border, ctypes.byref(nothing), self.at(spec), self.at(buffer)
                )
            )

        return self.halves(out.shape[0], threads, one), out


def fftw(image, template, threads):
    """Correlation by FFTW with plans, buffers and the template's spectrum prepared."""
    lengths = [scipy.fft.next_fast_len(side, real=True) for side in image.shape]
    padded = pyfftw.zeros_aligned(lengths, "float32")
    spectrum = pyfftw.empty_aligned(lengths[:-1] + [lengths[-1] // 2 + 1], "complex64")
    back = pyfftw.empty_aligned(lengths, "float32")
    axes = tuple(range(image.ndim))
    forward = pyfftw.FFTW(padded, spectrum, axes=axes, threads=threads)
    inverse = pyfftw.FFTW(spectrum, back, axes=axes, direction="FFTW_BACKWARD", threads=threads)
    padded[...] = 0
    padded[tuple(slice(side) for side in template.shape)] = template
    forward.execute()
    multiplier = np.conj(spectrum) / back.size
    inside = tuple(slice(side) for side in image.shape)
    kept = tuple(slice(side - other + 1) for side, other in zip(image.shape, template.shape))
    padded[...] = 0

    def run():
        padded[inside] = image
        forward.execute()
        np.multiply(spectrum, multiplier, out=spectrum)
        inverse.execute()

    return run, back[kept]


def peers(kind, image, template, threads, ipp):
    """Names and makers: each gives a function and the array that holds its result, or a function that returns it."""
    plane = image.ndim == 2
    algorithms = (("auto", 0), ("direct", Ipp.DIRECT), ("fft", Ipp.FFT))
    if kind == "corr":
        flipped = template[tuple(slice(None, None, -1) for _ in template.shape)]
        if image.dtype == np.float32:
            yield "FFTW", lambda: fftw(image, template, threads)
        yield "scipy.oaconvolve", lambda: (lambda: scipy.signal.oaconvolve(image, flipped, "valid"), None)
        yield "scipy.fftconvolve", lambda: (lambda: scipy.signal.fftconvolve(image, flipped, "valid"), None)
        if plane:
            yield "OpenCV", lambda: (lambda: cv2.matchTemplate(image, template, cv2.TM_CCORR), None)
            if image.dtype == np.float32:
                yield "IPP FilterBorder", lambda: ipp.filter(image, template, threads)
            for name, algorithm in algorithms:
                yield f"IPP CrossCorrNorm {name}", lambda algorithm=algorithm: ipp.match(image, template, algorithm, False, threads)
    else:
        if image.size * template.size < 5e11:
            yield "scikit-image", lambda: (lambda: match_template(image, template), None)
        if plane:
            yield "OpenCV", lambda: (lambda: cv2.matchTemplate(image, template, cv2.TM_CCOEFF_NORMED), None)
            for name, algorithm in algorithms:
                yield f"IPP CrossCorrNorm {name}", lambda algorithm=algorithm: ipp.match(image, template, algorithm, True, threads)


def median(run):
    """Milliseconds of a call."""
    began = time.perf_counter()
    run()
    once = time.perf_counter() - began
    times = []
    for _ in range(int(min(31, max(5, ARGUMENTS.seconds / once))) if once < 3 * ARGUMENTS.seconds else 0):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times or [once])


def answer(made):
    run, out = made
    result = run()
    return np.asarray(result if out is None else out, np.float64)


def reference(kind, image, template):
    """The plain sums, of a small case."""
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), template.shape)
    axes = tuple(range(image.ndim, 2 * image.ndim))
    weights = template.astype(np.float64)
    if kind == "corr":
        return (windows * weights).sum(axes)
    weights = weights - weights.mean()
    centred = windows - windows.mean(axes, keepdims=True)
    return (centred * weights).sum(axes) / np.sqrt((centred**2).sum(axes) * (weights**2).sum())


def sound(name, kind, dtype, ndim, threads, ipp):
    """Whether a peer's answer on a small case is right within 2 %."""
    rng = np.random.default_rng(7)
    image, template = (sample(rng, (side,) * ndim, dtype) for side in (24, 5))
    makers = dict(peers(kind, image, template, threads, ipp))
    got, want = answer(makers[name]()), reference(kind, image, template)
    return got.shape == want.shape and np.abs(got - want).max() <= 2e-2 * np.abs(want).max()


def sample(rng, shape, dtype):
    return rng.integers(0, 256, shape, dtype=np.uint8) if dtype == "u8" else rng.random(shape, dtype=np.float32)


def flcc(spec, threads):
    command = [ARGUMENTS.flcc, "bench", spec, "--threads", str(threads), "--platform", "cpu", "--effort", "measure", "--json"]
    environment = dict(os.environ, FLCC_ISA=ARGUMENTS.isa)
    done = subprocess.run(command + ["--seconds", str(ARGUMENTS.seconds)], capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def workloads():
    squares = {"corr": (3, 5, 8, 11, 12, 16, 24, 32, 64, 128), "zncc": (4, 8, 12, 16, 24, 32, 64)}
    for kind, sides in squares.items():
        for side in sides:
            yield kind, kind, "f32", (2000, 2000), (side, side)
    for image, side in ((1024, 76), (1024, 413), (4096, 76)):
        yield "zncc", "zncc", "f32", (image, image), (side, side)
    for image, side in (((303, 384), 52), ((1080, 1920), 64), ((2160, 3840), 214)):
        yield "u8", "zncc", "u8", image, (side, side)
    for side in (8, 16, 32):
        yield "u8", "corr", "u8", (2000, 2000), (side, side)
    for image, side in ((100, 3), (100, 5), (100, 8), (250, 8)):
        for kind in ("corr", "zncc"):
            yield "volume", kind, "f32", (image,) * 3, (side,) * 3
    for side in (64, 500, 5000):
        yield "line", "corr", "f32", (10_000_000,), (side,)


def main():
    ipp, rng, groups = Ipp(), np.random.default_rng(1), ARGUMENTS.group.split(",")
    text = lambda shape: "x".join(map(str, shape))
    for group, kind, dtype, shape, template_shape in workloads():
        spec = f"{kind}:{dtype}:{text(shape)}*{text(template_shape)}:valid"
        workload = f"{spec} k{template_shape[0]}"
        if group not in groups or ARGUMENTS.only not in workload:
            continue
        image, template = sample(rng, shape, dtype), sample(rng, template_shape, dtype)
        for threads in map(int, ARGUMENTS.threads.split(",")):
            cv2.setNumThreads(threads)
            best = None
            for name, make in peers(kind, image, template, threads, ipp):
                try:
                    if sound(name, kind, dtype, image.ndim, threads, ipp):
                        milliseconds = median(make()[0])
                        print(json.dumps({"spec": spec, "threads": threads, "peer": name, "ms": round(milliseconds, 4)}), flush=True)
                        best = min(best or (milliseconds, name), (milliseconds, name))
                except (RuntimeError, cv2.error, ValueError) as error:
                    print(json.dumps({"spec": spec, "threads": threads, "peer": name, "error": str(error)}), flush=True)
            own = flcc(spec, threads)
            line = {"spec": spec, "threads": threads, "flcc": round(own["median_ns"] / 1e6, 4), "error": own["max_error"], "kernel": own["kernel"]}
            if best:
                line |= {"best": best[1], "best_ms": round(best[0], 4), "ratio": round(best[0] / line["flcc"], 2)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

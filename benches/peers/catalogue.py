"""The peers of a workload: what a user would take instead. A peer that is not installed is named and left out."""

from dataclasses import dataclass
from typing import Callable

import numpy as np

import fourier
from ipp import ALGORITHMS, Ipp
from mkl import MODES, Mkl
from onednn import OneDnn
from programs import Program

# Multiply-adds up to which implementations without fast loops are tried, so that no cell takes minutes.
SLOW, BLOCKED, DENSE = 3e9, 5e9, 4e11


@dataclass(frozen=True)
class Peer:
    """`make(image, template, threads)` prepares all that can be and gives a run, which returns its result."""

    name: str
    make: Callable
    most: float = float("inf")


@dataclass(frozen=True)
class Outside:
    """A peer that is a program: `time(workload, threads)` gives milliseconds and the error that it found itself."""

    name: str
    time: Callable
    most: float = float("inf")


class Catalogue:
    """All that could be loaded, with versions; what could not, with the reason."""

    def __init__(self, isa, programs):
        self.versions, self.missing = {"numpy": np.__version__}, {}
        self.ipp = self.load("IPP", lambda: versioned(Ipp(isa)))
        self.mkl = self.load("MKL", lambda: versioned(Mkl()))
        self.onednn = self.load("oneDNN", lambda: versioned(OneDnn()))
        self.fftw = self.load("FFTW", fourier.fftw)
        self.ducc = self.load("ducc0", fourier.ducc)
        self.cv2 = self.load("OpenCV", opencv)
        self.scipy = self.load("scipy", scipy)
        self.skimage = self.load("scikit-image", skimage)
        self.itk = self.load("SimpleITK", simple_itk)
        self.rust = self.load("Rust programs", lambda: versioned(Program(programs)))

    def load(self, name, maker):
        """What a maker gives, or none."""
        try:
            made, self.versions[name] = maker()
        except (ImportError, OSError, AttributeError, RuntimeError) as error:
            self.missing[name] = str(error)
            return None
        return made

    def peers(self, workload):
        """Those that can compute it."""
        found = self.correlations(workload) if workload.kind == "corr" else self.coefficients(workload)
        return [peer for peer in found if workload.operations <= peer.most]

    def correlations(self, workload):
        axes, floats = len(workload.image), workload.dtype == "f32"
        if axes == 1 and self.ipp:
            for name, algorithm in ALGORITHMS:
                yield Peer(f"IPP CrossCorrNorm {name}", self.ipp.match_line(algorithm), DENSE)
            for name, algorithm in ALGORITHMS[1:]:
                yield Peer(f"IPP FIR {name}", self.ipp.filter_line(algorithm), DENSE)
        if axes == 2 and self.ipp:
            for name, algorithm in ALGORITHMS:
                yield Peer(f"IPP CrossCorrNorm {name}", self.ipp.match(algorithm, False), DENSE)
            if floats:
                yield Peer("IPP Conv", self.ipp.convolve)
                yield Peer("IPP FilterBorder", self.ipp.filter, DENSE)
        if axes == 2 and self.cv2:
            yield Peer("OpenCV matchTemplate", self.match_template("TM_CCORR"))
            yield Peer("OpenCV filter2D", self.filter_2d)
        if floats and self.mkl:
            yield Peer("FFT by MKL", self.mkl.transform)
            for name, mode in MODES:
                yield Peer(f"MKL VSL {name}", self.mkl.correlate(mode), SLOW if name == "direct" else float("inf"))
        if floats and self.fftw:
            yield Peer("FFT by FFTW", self.fftw)
        if floats and self.ducc:
            yield Peer("FFT by ducc0", self.ducc)
        if floats and self.onednn:
            yield Peer("oneDNN", self.onednn.correlate, BLOCKED)
        if self.scipy:
            yield Peer("scipy oaconvolve", self.scipy("oaconvolve"))
            yield Peer("scipy fftconvolve", self.scipy("fftconvolve"))
        if axes == 1:
            yield Peer(
                "numpy correlate", lambda image, template, _: lambda: np.correlate(image, template, "valid"), SLOW
            )
        if floats and self.rust:
            if axes == 2:
                yield Outside("imageproc filter", self.program("ic_filter"), SLOW / 3)
            yield Outside("ndarray-conv fft", self.program("ndc_fft"))

    def coefficients(self, workload):
        axes = len(workload.image)
        if axes == 2 and self.ipp:
            for name, algorithm in ALGORITHMS:
                yield Peer(f"IPP CrossCorrNorm {name}", self.ipp.match(algorithm, True), DENSE)
        if axes == 2 and self.cv2:
            yield Peer("OpenCV matchTemplate", self.match_template("TM_CCOEFF_NORMED"))
        if axes > 1 and self.skimage:
            yield Peer("scikit-image", self.skimage)
        # An image takes it seconds, so many of them would take minutes.
        if axes > 1 and self.itk and workload.images == 1:
            yield Peer("SimpleITK", self.correlate_itk)

    def match_template(self, measure):
        cv2 = self.cv2
        method = getattr(cv2, measure)

        def make(image, template, threads):
            cv2.setNumThreads(threads)
            out = np.empty([whole - part + 1 for whole, part in zip(image.shape, template.shape)], np.float32)
            return lambda: cv2.matchTemplate(image, template, method, result=out)

        return make

    def filter_2d(self, image, template, threads):
        cv2 = self.cv2
        cv2.setNumThreads(threads)
        out, weights = np.empty(image.shape, np.float32), template.astype(np.float32)
        kept = tuple(slice(side // 2, side // 2 + whole - side + 1) for whole, side in zip(image.shape, template.shape))
        return lambda: cv2.filter2D(image, cv2.CV_32F, weights, dst=out, borderType=cv2.BORDER_CONSTANT)[kept]

    def correlate_itk(self, image, template, threads):
        """Its result is the full one."""
        itk = self.itk
        filter_ = itk.FFTNormalizedCorrelationImageFilter()
        filter_.SetNumberOfThreads(threads)
        pair = [itk.GetImageFromArray(array.astype(np.float32)) for array in (image, template)]
        kept = tuple(slice(side - 1, whole) for whole, side in zip(image.shape, template.shape))
        return lambda: itk.GetArrayFromImage(filter_.Execute(*pair))[kept]

    def program(self, operation):
        return lambda workload, threads: self.rust.time(operation, workload, threads)


def versioned(made):
    return made, made.version


def opencv():
    import cv2

    return cv2, cv2.__version__


def simple_itk():
    import SimpleITK

    return SimpleITK, SimpleITK.Version.VersionString()


def scipy():
    import scipy as package
    import scipy.signal

    def correlate(name):
        function = getattr(scipy.signal, name)

        def make(image, template, threads):
            flipped = np.ascontiguousarray(template[tuple(slice(None, None, -1) for _ in template.shape)])
            # Bytes would be summed in bytes.
            arrays = [array.astype(np.float32) if array.dtype == np.uint8 else array for array in (image, flipped)]

            def run():
                with package.fft.set_workers(threads):
                    return function(*arrays, "valid")

            return run

        return make

    return correlate, package.__version__


def skimage():
    import scipy.fft
    from skimage import __version__
    from skimage.feature import match_template

    def make(image, template, threads):
        def run():
            with scipy.fft.set_workers(threads):
                return match_template(image, template)

        return run

    return make, __version__

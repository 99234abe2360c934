"""Correlation by one transform of the whole image, a product and a transform back, by FFTW, MKL or ducc0.

Lengths, plans, buffers and the template's spectrum are prepared. Only the image's copy into longer rows is timed with
it, and not even that where the image's own lengths suit a transform: a valid result never wraps around. The library has
the threads; the product is shared out.
"""

import numpy as np

from parts import bounds, together


def composed(engine):
    """A maker from an engine: `engine(real, spectrum, back, threads)` gives the transform forwards and the one back,
    not scaled."""

    def make(image, template, threads):
        lengths = [smooth(side) for side in image.shape]
        real, back = aligned(lengths, np.float32), aligned(lengths, np.float32)
        spectrum = aligned(lengths[:-1] + [lengths[-1] // 2 + 1], np.complex64)
        # Planning may overwrite all of them.
        forward, backward = engine(real, spectrum, back, threads)
        multiplier = (np.conj(np.fft.rfftn(template.astype(np.float64), lengths)) / back.size).astype(np.complex64)
        inside = tuple(slice(side) for side in image.shape)
        kept = back[tuple(slice(side - other + 1) for side, other in zip(image.shape, template.shape))]
        real[...] = 0
        real[inside] = image
        copy = real.shape != image.shape

        def product(begin, end):
            part = flat[begin:end]
            np.multiply(part, weights[begin:end], out=part)

        flat, weights = spectrum.reshape(-1), multiplier.reshape(-1)
        multiply = together(
            [lambda begin=begin, end=end: product(begin, end) for begin, end in bounds(flat.size, threads)]
        )

        def run():
            if copy:
                real[inside] = image
            forward()
            multiply()
            backward()
            return kept

        return run

    return make


def smooth(length):
    """The smallest number from there on that 2, 3 and 5 make up."""
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1


def aligned(lengths, dtype):
    """Zeros on a cache line."""
    count = int(np.prod(lengths)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + count].view(dtype).reshape(lengths)


def fftw():
    import pyfftw

    def engine(real, spectrum, back, threads):
        # Measured plans of very long lines would take minutes.
        effort, axes = "FFTW_MEASURE" if real.size < 5_000_000 else "FFTW_ESTIMATE", tuple(range(real.ndim))
        forward = pyfftw.FFTW(real, spectrum, axes=axes, threads=threads, flags=(effort,))
        flags = (effort, "FFTW_DESTROY_INPUT")
        backward = pyfftw.FFTW(spectrum, back, axes=axes, direction="FFTW_BACKWARD", threads=threads, flags=flags)
        return forward.execute, backward.execute

    return composed(engine), pyfftw.__version__


def ducc():
    import ducc0

    def engine(real, spectrum, back, threads):
        axes = tuple(range(real.ndim))

        def forward():
            ducc0.fft.r2c(real, axes=axes, nthreads=threads, out=spectrum)

        def backward():
            ducc0.fft.c2r(
                spectrum,
                axes=axes,
                lastsize=back.shape[-1],
                forward=False,
                nthreads=threads,
                out=back,
                allow_overwriting_input=True,
            )

        return forward, backward

    return composed(engine), ducc0.__version__

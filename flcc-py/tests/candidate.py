"""What conformance/run_vectors.py calls: flcc by its Python package."""

import flcc


def run(image, template, op, measure, mode, boundary, cval, mask):
    words = {"mode": mode, "boundary": boundary, "cval": cval if boundary == "constant" else 0.0}
    if op in ("conv", "corr"):
        if mask is not None:
            raise ValueError("mask: expected none")
        call = flcc.convolve if op == "conv" else flcc.correlate
        return call(image, template, **words)
    return flcc.match_template(image, template, measure="lcc" if op == "lcc" else measure, mask=mask, **words)


def run_on_gpu(image, **words):
    """The same of an image of CuPy, whose result stays on its GPU."""
    import cupy

    result = run(cupy.asarray(image), **words)
    if not isinstance(result, cupy.ndarray):
        raise TypeError(f"the result is a {type(result).__name__}")
    return cupy.asnumpy(result)

"""Every operation, measure, extent, boundary and type beside the oracle."""

import itertools

import flcc
import numpy as np
import pytest

import oracle

MEASURES = ["zncc", "ncc", "cc", "ssd", "nssd", "sad"]
MODES = ["full", "same", "valid"]
BOUNDARIES = ["zero", "constant", "replicate", "reflect", "mirror", "wrap"]
TYPES = ["u1", "u2", "f4", "f8"]
OTHERS = ["?", "i1", "i2", "i4", "i8", "u4", "u8", "f2"]


def samples(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -(2**20)), min(info.max, 2**20), shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def value_of(boundary):
    """What lies outside, where the rule takes a value."""
    return 3.0 if boundary == "constant" else 0.0


def check(got, image, template, op, mode, boundary="zero", cval=0.0, mask=None):
    expected = oracle.result(image, template, op, mode, boundary, cval, mask)
    assert got.shape == expected.shape
    wide = np.float64 in (image.dtype, template.dtype) or any(
        a.dtype.kind in "iu" and a.dtype.itemsize > 2 for a in (image, template)
    )
    assert got.dtype == (np.float64 if wide else np.float32)
    padded = np.append(image.astype(float).ravel(), cval)
    worst = float(abs(got - expected).max(initial=0))
    assert worst <= oracle.tolerance(padded, template, op, got.dtype, mask)


@pytest.mark.parametrize("dtype", TYPES + OTHERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ["conv", "corr"])
def test_sums(op, mode, dtype):
    rng = np.random.default_rng(1)
    call = flcc.convolve if op == "conv" else flcc.correlate
    for shapes in [((40,), (7,)), ((12, 17), (5, 4)), ((6, 7, 8), (2, 3, 4)), ((9, 3), (1, 3))]:
        image, template = (samples(rng, shape, dtype) for shape in shapes)
        check(call(image, template, mode), image, template, op, mode)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("measure", MEASURES)
def test_measures(measure, mode, boundary, dtype):
    rng = np.random.default_rng(2)
    for shapes in [((40,), (7,)), ((15, 17), (5, 4)), ((6, 7, 8), (2, 3, 4))]:
        image, template = (samples(rng, shape, dtype) for shape in shapes)
        value = value_of(boundary)
        got = flcc.match_template(image, template, measure=measure, mode=mode, boundary=boundary, cval=value)
        check(got, image, template, measure, mode, boundary, value)


@pytest.mark.parametrize("mask", ["binary", "weights", "bool"])
@pytest.mark.parametrize("measure", MEASURES)
def test_masks(measure, mask):
    rng = np.random.default_rng(3)
    image, template = samples(rng, (20, 23), "f8"), samples(rng, (5, 6), "f8")
    weights = {"binary": rng.integers(0, 2, (5, 6)), "bool": rng.random((5, 6)) < 0.5, "weights": rng.random((5, 6))}
    got = flcc.match_template(image, template, measure=measure, mask=weights[mask], mode="same", boundary="wrap")
    check(got, image, template, measure, "same", "wrap", mask=weights[mask])


def test_a_template_longer_than_the_image():
    rng = np.random.default_rng(4)
    image, template = samples(rng, (3, 5), "f8"), samples(rng, (9, 4), "f8")
    for mode, boundary in itertools.product(["full", "same"], BOUNDARIES):
        got = flcc.match_template(image, template, mode=mode, boundary=boundary, cval=value_of(boundary))
        check(got, image, template, "zncc", mode, boundary, value_of(boundary))


@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    rng = np.random.default_rng([5, seed])
    axes = rng.integers(1, 4)
    most = {1: 300, 2: 60, 3: 16}[axes]
    image_shape = rng.integers(1, most, axes)
    mode, boundary = rng.choice(MODES), rng.choice(BOUNDARIES)
    template_shape = [rng.integers(1, (n if mode == "valid" else most) // 2 + 2) for n in image_shape]
    if mode == "valid":
        template_shape = np.minimum(template_shape, image_shape)
    op = rng.choice(["conv", "corr"] + MEASURES)
    image, template = samples(rng, image_shape, rng.choice(TYPES)), samples(rng, template_shape, rng.choice(TYPES))
    if op not in ("conv", "corr") and (template == template.flat[0]).all():
        template.flat[0] += 1
        if template.size == 1:
            op = "ssd"
    keywords = {"mode": mode, "boundary": boundary, "cval": value_of(boundary)}
    keywords["method"] = rng.choice(["auto", "direct", "fourier"])
    if op == "sad":
        keywords["method"] = "auto"
    if op == "conv":
        got = flcc.convolve(image, template, **keywords)
    elif op == "corr":
        got = flcc.correlate(image, template, **keywords)
    else:
        got = flcc.match_template(image, template, measure=op, **keywords)
    check(got, image, template, op, mode, boundary, value_of(boundary))


def test_integers_are_exact():
    rng = np.random.default_rng(6)
    image, template = samples(rng, (40, 50), "u2"), samples(rng, (7, 8), "u2")
    exact = oracle.result(image, template, "corr", "full").astype(np.float64)
    for method in ["auto", "direct", "fourier"]:
        assert (flcc.correlate(image, template, dtype="f8", method=method) == exact).all()
    scores = flcc.match_template(image, template, accuracy="exact", dtype="f8")
    assert (scores == flcc.match_template(image, template, accuracy="exact", dtype="f8", method="direct")).all()


def test_sums_of_wide_integers_are_exact_by_the_direct_method():
    rng = np.random.default_rng(7)
    image, template = rng.integers(-(2**20), 2**20, (30, 31)), rng.integers(-(2**20), 2**20, (5, 5))
    got = flcc.convolve(image, template, method="direct")
    assert (got.astype(np.int64) == oracle.result(image, template, "conv", "full").astype(np.int64)).all()


def test_colours_are_summed():
    rng = np.random.default_rng(8)
    image, template = rng.random((20, 22, 3)), rng.random((4, 5, 3))
    scores = flcc.match_template(image, template, measure="ssd", channel_axis=-1)
    alone = [oracle.result(image[..., c], template[..., c], "ssd") for c in range(3)]
    assert abs(scores - sum(alone)).max() < 1e-12
    planar = flcc.match_template(np.moveaxis(image, -1, 0), np.moveaxis(template, -1, 0), measure="ssd", channel_axis=0)
    assert (planar == scores).all()


def test_numbers_that_are_none():
    rng = np.random.default_rng(9)
    image = rng.random((30, 30))
    template = image[3:8, 4:10].copy()
    image[12, 13], image[20, 2] = np.nan, np.inf
    for method, measure in itertools.product(["direct", "fourier"], ["zncc", "ncc", "nssd"]):
        scores = flcc.match_template(image, template, measure=measure, method=method)
        clean = np.where(np.isfinite(image), image, 0)
        touched = np.lib.stride_tricks.sliding_window_view(~np.isfinite(image), template.shape).any(axis=(2, 3))
        assert (np.isnan(scores) == touched).all()
        expected = oracle.result(clean, template, measure)
        assert abs(scores - expected)[~touched].max() < 1e-11


def test_flat_places():
    image = np.full((20, 20), 7, np.float32)
    image[10:15, 10:15] = np.arange(25).reshape(5, 5)
    template = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    scores = flcc.match_template(image, template)
    assert (scores[:7, :7] == 0).all() and np.isfinite(scores).all()


def test_lags():
    for n, t, mode in itertools.product([1, 5, 8], [1, 2, 5], MODES):
        if mode == "valid" and t > n:
            continue
        lags = flcc.correlation_lags(n, t, mode)
        assert lags.dtype == np.int64
        assert (lags == np.arange(1 - t, n)[oracle.region((n,), (t,), mode)]).all()

"""The functions of other packages beside the originals."""

import itertools

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("colours", [(), (3,)])
@pytest.mark.parametrize("method", range(6))
def test_match_template_of_opencv(method, colours, dtype):
    cv2 = pytest.importorskip("cv2")
    ours = flcc.compat.cv2
    image = RNG.integers(0, 256, (40, 50, *colours)).astype(dtype)
    # Nowhere a perfect match: there OpenCV's differences are rounding.
    templ = (image[10:17, 20:29] // 2 + RNG.integers(0, 99, (7, 9, *colours))).astype(dtype)
    assert [getattr(cv2, name) for name in ours.__all__[:6]] == [getattr(ours, name) for name in ours.__all__[:6]]
    expected = cv2.matchTemplate(image, templ, method)
    got = ours.matchTemplate(image, templ, method)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    scale = 1 if method in (1, 3, 5) else abs(expected).max()
    assert abs(got - expected).max() <= 2e-5 * scale
    mask = RNG.integers(0, 2, (7, 9)).astype("u1") * 255
    masked = cv2.matchTemplate(image, templ, method, mask=np.dstack([mask] * 3) if colours else mask)
    assert abs(ours.matchTemplate(image, templ, method, mask=mask) - masked).max() <= 1e-4 * scale
    if method < 4:
        weights = RNG.random((7, 9)).astype("f4")
        masked = cv2.matchTemplate(
            image.astype("f4"), templ.astype("f4"), method, mask=np.dstack([weights] * 3) if colours else weights
        )
        got = ours.matchTemplate(image.astype("f4"), templ.astype("f4"), method, mask=weights)
        assert abs(got - np.minimum(masked, 1 if method == 1 else np.inf)).max() <= 1e-4 * scale
    result = np.empty_like(expected)
    assert ours.matchTemplate(image, templ, method, result) is result and abs(result - expected).max() <= 2e-5 * scale


def test_match_template_of_opencv_refuses():
    image = np.zeros((9, 9), np.float32)
    for arguments in [(image, image[:3].astype("u1"), 0), (image, image[:3], 9), (image.astype("f8"), image, 0)]:
        with pytest.raises(ValueError, match="expected"):
            flcc.compat.cv2.matchTemplate(*arguments)
    with pytest.raises(ValueError, match="mask: expected one weight"):
        mask = np.arange(9, dtype="f4").reshape(3, 3)
        flcc.compat.cv2.matchTemplate(image, np.eye(3, dtype="f4"), 5, mask=mask)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_match_template_of_scikit_image(mode):
    feature = pytest.importorskip("skimage.feature")
    for shapes in [((30, 35), (6, 7)), ((10, 11, 12), (3, 4, 5))]:
        image, template = RNG.random(shapes[0]), RNG.random(shapes[1])
        for pad in [False, True]:
            expected = feature.match_template(image, template, pad, mode, 0.5)
            assert abs(flcc.compat.skimage.match_template(image, template, pad, mode, 0.5) - expected).max() < 1e-9


def numbers(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return RNG.integers(0, 2 if dtype.kind == "b" else 9, shape).astype(dtype)
    values = RNG.standard_normal(shape)
    return (values + 1j * RNG.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve", "oaconvolve", "convolve2d", "correlate2d"])
def test_signal(name):
    signal = pytest.importorskip("scipy.signal")
    theirs, ours = getattr(signal, name), getattr(flcc.compat.scipy.signal, name)
    shapes = [((9, 11), (3, 4)), ((3, 4), (9, 11)), ((5, 5), (5, 5)), ((6, 2), (2, 2))]
    if "2d" not in name:
        shapes += [((30,), (7,)), ((7,), (30,)), ((5, 6, 7), (2, 3, 2))]
    types = ["?", "u1", "i2", "i8", "f2", "f4", "f8", "c8", "c16"]
    keywords = [{}]
    if "2d" in name:
        keywords = [{"boundary": b, "fillvalue": 2} for b in ["fill", "wrap", "symm"]]
    for (a, b), mode, t1, t2, more in itertools.product(shapes, ["full", "same", "valid"], types, types, keywords):
        in1, in2 = numbers(a, t1), numbers(b, t2)
        if mode == "valid" and any(n < t for n, t in zip(a, b)) and any(n > t for n, t in zip(a, b)):
            continue
        got = ours(in1, in2, mode, **more)
        try:
            expected = theirs(in1, in2, mode, **more)
        except ValueError as error:
            assert "type" in str(error)  # SciPy has it for some types alone.
            continue
        what = f"{a} {b} {mode} {t1} {t2} {more}"
        assert got.shape == expected.shape, what
        assert got.dtype == expected.dtype, what
        rounding = 1e-1 if got.dtype == np.float16 else 1e-4 if {t1, t2} & {"f2", "f4", "c8"} else 1e-9
        got, expected = got.astype(complex), expected.astype(complex)
        assert abs(got - expected).max() <= rounding * (1 + abs(expected).max()), what


@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_ndimage(name, mode):
    ndimage = pytest.importorskip("scipy.ndimage")
    theirs, ours = getattr(ndimage, name), getattr(flcc.compat.scipy.ndimage, name)
    for a, b in [((9, 11), (3, 4)), ((30,), (7,)), ((30,), (6,)), ((5, 6, 7), (2, 3, 2))]:
        for dtype in ["u1", "i4", "f4", "f8", "c16"]:
            for origin in range(-(min(b) // 2), (min(b) - 1) // 2 + 1):
                if name == "convolve" and min(b) % 2 == 0 and not -(min(b) // 2) <= -origin - 1:
                    continue
                array, weights = numbers(a, dtype), numbers(b, "i8" if dtype in ("u1", "i4") else "f8")
                try:
                    expected = theirs(array, weights, mode=mode, cval=2, origin=origin)
                except ValueError:
                    with pytest.raises(ValueError, match="Invalid origin"):
                        ours(array, weights, mode=mode, cval=2, origin=origin)
                    continue
                got = ours(array, weights, mode=mode, cval=2, origin=origin)
                assert got.dtype == expected.dtype
                got, expected = got.astype(complex), expected.astype(complex)
                assert abs(got - expected).max() <= 1e-5 * (1 + abs(expected).max()), f"{a} {b} {dtype} {origin}"


@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_ndimage_leaves_out_what_has_no_weight(name, mode):
    ndimage = pytest.importorskip("scipy.ndimage")
    theirs, ours = getattr(ndimage, name), getattr(flcc.compat.scipy.ndimage, name)
    tiny = np.finfo("f8").eps
    for weights in [
        np.array([[0, 1, 2], [3, 0, tiny]]),
        np.array([[tiny, -tiny, 1.5 * tiny], [np.nan, 1, -2]]),
        np.array([[1, 0, 0], [0, np.inf, -1]]),
        np.array([[1 + 0j, 2j, 0], [0, tiny * 1j + 1, 3 - 1j]]),
    ]:
        for kind in ["finite", "large", "nan", "inf", "complex"]:
            array = RNG.standard_normal((7, 8))
            if kind == "large":
                array *= 1e18
            elif kind == "nan":
                array[2, 3] = array[0, 0] = np.nan
            elif kind == "inf":
                array[2, 3], array[0, 0], array[2, 4] = np.inf, -np.inf, -np.inf
            elif kind == "complex":
                array = array + 1j * RNG.standard_normal((7, 8))
                array[2, 3], array[0, 7] = complex(1, np.nan), complex(np.inf, 2)
            for cval, origin in itertools.product([2.0, np.nan, -np.inf], [0, (-1, 1)]):
                origin = origin if name == "correlate" else 0
                expected = theirs(array, weights, mode=mode, cval=cval, origin=origin)
                got = ours(array, weights, mode=mode, cval=cval, origin=origin)
                np.testing.assert_allclose(got, expected, 1e-9, 1e-9, err_msg=f"{weights} {kind} {cval} {origin}")


def test_integers_beside_floats_are_rounded_as_those_of_scipy():
    signal = pytest.importorskip("scipy.signal")
    wide = np.array([2**53 + 1, 3, 2**60 + 1])
    for name in ["convolve", "correlate", "fftconvolve"]:
        for floats in ["f8", "f4"]:
            expected = getattr(signal, name)(wide, np.array([1], floats))
            got = getattr(flcc.compat.scipy.signal, name)(wide, np.array([1], floats))
            assert got.dtype == expected.dtype and (got == expected).all()


def test_narrow_integers_wrap_around_as_those_of_scipy():
    signal = pytest.importorskip("scipy.signal")
    for dtype in ["u1", "i1", "u2", "i4"]:
        a, b = RNG.integers(0, 127, (2, 20)).astype(dtype)
        for name in ["convolve", "correlate"]:
            expected = getattr(signal, name)(a, b, method="direct")
            got = getattr(flcc.compat.scipy.signal, name)(a, b, method="direct")
            assert got.dtype == expected.dtype and (got == expected).all()


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve"])
def test_axes_of_one_sample(name):
    signal = pytest.importorskip("scipy.signal")
    theirs, ours = getattr(signal, name), getattr(flcc.compat.scipy.signal, name)
    shapes = [(1,), (5,), (1, 1), (1, 5), (4, 1), (4, 5), (4, 3), (2, 1, 3), (2, 4, 1), (1, 1, 1)]
    for a, b in itertools.product(shapes, shapes):
        if len(a) != len(b):
            continue
        choices = [None, *range(len(a)), tuple(range(len(a)))]
        for mode, types, axes in itertools.product(["full", "same", "valid"], [("i8", "i8"), ("f2", "f8")], choices):
            in1, in2 = numbers(a, types[0]), numbers(b, types[1])
            what = f"{a} {b} {mode} {types} {axes}"
            try:
                expected = theirs(in1, in2, mode, axes)
            except ValueError as error:
                with pytest.raises(ValueError, match=str(error)[:20]):
                    ours(in1, in2, mode, axes)
                continue
            got = ours(in1, in2, mode, axes)
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype), what
            assert abs(got - expected).max(initial=0) < (1e-9 if types[0] == "i8" else 1e-6), what


def test_integers_that_might_be_rounded_are_refused():
    with pytest.raises(ValueError, match="below 2\\^53"):
        flcc.compat.scipy.signal.convolve([2**40], [2**40])
    assert flcc.compat.scipy.signal.convolve([2**26], [2**26]).tolist() == [2**52]


def test_arrays_without_samples():
    for name in ["convolve", "correlate", "fftconvolve", "oaconvolve"]:
        for arguments in [([], [1.0]), ([1.0], []), ([], [])]:
            assert getattr(flcc.compat.scipy.signal, name)(*arguments).shape == (0,)
    with pytest.raises(ValueError, match="at least one sample"):
        flcc.compat.scipy.signal.convolve2d([[]], [[1.0]])


def test_normxcorr2():
    image = RNG.random((20, 22))
    template = image[3:8, 4:10].copy()
    scores = flcc.normxcorr2(template, image)
    assert scores.shape == (24, 27) and np.unravel_index(scores.argmax(), scores.shape) == (7, 9)
    assert (scores == flcc.match_template(image, template, mode="full")).all()
    with pytest.raises(ValueError, match="template: expected one that is no larger than the image"):
        flcc.normxcorr2(image, template)

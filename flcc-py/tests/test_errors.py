"""Wrong calls: which argument, what was expected, what came."""

import flcc
import numpy as np
import pytest

IMAGE = np.random.default_rng(1).random((20, 30))
TEMPLATE = IMAGE[3:7, 4:9].copy()


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"measure": "best"}, "measure: expected cc, ncc, zncc, ssd, nssd or sad, got best"),
        ({"mode": "all"}, "mode: expected full, same or valid, got all"),
        ({"boundary": "bounce"}, "boundary: expected zero, constant, .*, got bounce"),
        ({"mode": "same", "boundary": "constant", "cval": np.nan}, "cval: expected a finite number, got NaN"),
        ({"mode": "same", "boundary": "wrap", "cval": 2}, "cval: expected 0 unless boundary is constant, got 2"),
        ({"cval": np.nan}, "cval: expected 0 unless boundary is constant, got NaN"),
        ({"method": "magic"}, "method: expected auto, direct, fourier or separable, got magic"),
        ({"device": "tpu"}, "device: expected auto, cpu, cuda or cuda:NUMBER, got tpu"),
        ({"accuracy": "some"}, "accuracy: expected promised, fast or exact, got some"),
        ({"dtype": "i4"}, "dtype: expected float32 or float64, got int32"),
        ({"threads": -1}, r"threads: expected 0 \(one a core\) or more, got -1"),
        ({"mask": np.ones((3, 3))}, "mask: expected 4x5 .*, got 3x3"),
        ({"mask": -np.ones((4, 5))}, "mask: expected finite weights"),
        ({"mask": np.zeros((4, 5))}, "mask: expected"),
        ({"mask": np.full((4, 5), np.nan)}, "mask: expected finite weights"),
        ({"channel_axis": 2}, "channel_axis: expected an axis of the image, from -2 to 1, got 2"),
        ({"channel_axis": -1}, "template: expected 30 along channel_axis, got 5 along channel_axis"),
    ],
)
def test_values(keywords, words):
    with pytest.raises(ValueError, match=words):
        flcc.match_template(IMAGE, TEMPLATE, **keywords)


@pytest.mark.parametrize(
    ("template", "measure", "words"),
    [
        (np.zeros((21, 5)), "zncc", "template: expected at most 20x30 for mode valid, got 21x5"),
        (np.zeros(5), "zncc", "template: expected 2 axes, as the image, got 1 axis"),
        (np.zeros((0, 5)), "zncc", "template: expected at least one sample on every axis, got 0x5"),
        (np.ones((4, 5)), "zncc", "template: expected"),
        (np.zeros((4, 5)), "ncc", "template: expected"),
        (np.full((4, 5), np.inf), "ssd", "template: expected"),
    ],
)
def test_templates(template, measure, words):
    with pytest.raises(ValueError, match=words):
        flcc.match_template(IMAGE, template, measure=measure)


def test_arguments_have_the_names_of_the_call():
    with pytest.raises(ValueError, match="in2: expected 2 axes"):
        flcc.convolve(IMAGE, np.ones(3))
    with pytest.raises(ValueError, match="in2: expected at most"):
        flcc.correlate(TEMPLATE, IMAGE, "valid")
    with pytest.raises(TypeError, match="in2: expected uint8"):
        flcc.convolve(IMAGE, np.ones((2, 2), complex))
    with pytest.raises(ValueError, match="template 1: expected 2 axes"):
        flcc.find(IMAGE, [TEMPLATE, TEMPLATE[0]])
    with pytest.raises(TypeError, match="template 1: expected uint8"):
        flcc.find(IMAGE, [TEMPLATE, TEMPLATE.astype(complex)])
    with pytest.raises(ValueError, match="templates: expected at least one template, got none"):
        flcc.find(IMAGE, [])


@pytest.mark.parametrize("argument", ["progress", "dtype", "cval", "threads", "mode"])
def test_types(argument):
    with pytest.raises(TypeError):
        flcc.match_template(IMAGE, TEMPLATE, **{argument: object()})


def test_exact_needs_integers_outside():
    image = (IMAGE * 255).astype("u1")
    with pytest.raises(ValueError, match="cval: expected an integer from 0 to 255"):
        flcc.match_template(image, image[:3, :4], mode="same", boundary="constant", cval=0.5, accuracy="exact")


def test_a_gpu_that_is_not_there():
    try:
        flcc.match_template(IMAGE, TEMPLATE, device="cuda")
    except ValueError as error:
        assert "cuda" in str(error)
    with pytest.raises(ValueError, match="device|cuda"):
        flcc.match_template(IMAGE, TEMPLATE, device="cuda:99")


def test_results_that_no_memory_holds():
    line = np.broadcast_to(np.float32(1), (2**45,))
    with pytest.raises(MemoryError):
        flcc.convolve(line, np.ones(3, np.float32))
    with pytest.raises(MemoryError):
        flcc.correlation_lags(2**45, 3)


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"threads": "x"}, TypeError, "threads: expected a whole number, got str"),
        ({"threads": 2.5}, TypeError, "threads: expected a whole number, got float"),
        ({"threads": 2**70}, ValueError, "threads: expected a whole number of 64 bits, got 1180591620717411303424"),
        ({"dtype": "foo"}, TypeError, "dtype: expected float32 or float64, got 'foo'"),
        ({"mode": 3}, TypeError, "mode: expected a str, got int"),
        ({"measure": None}, TypeError, "measure: expected a str, got NoneType"),
        ({"boundary": 3}, TypeError, "boundary: expected a str, got int"),
        ({"cval": "x"}, TypeError, "cval: expected a number, got str"),
        ({"channel_axis": 1.0}, TypeError, "channel_axis: expected a whole number, got float"),
        ({"measure": "sad", "method": "fourier"}, ValueError, "method: expected one that serves this problem"),
    ],
)
def test_other_types(keywords, error, words):
    with pytest.raises(error, match=words):
        flcc.match_template(IMAGE, TEMPLATE, **keywords)


def test_other_types_of_other_calls():
    for call, error, words in [
        (lambda: flcc.find(IMAGE, TEMPLATE, k="x"), TypeError, "k: expected a whole number, got str"),
        (lambda: flcc.find(IMAGE, TEMPLATE, k=2**70), ValueError, "k: expected a whole number of 64 bits"),
        (lambda: flcc.peaks(IMAGE, threshold="x"), TypeError, "threshold: expected a number, got str"),
        (lambda: flcc.plan((9, 9), (3, 3), memory_limit=-1), ValueError, "memory_limit: expected a whole number from"),
        (lambda: flcc.plan((9, 9), (3, 3), templates="x"), TypeError, "templates: expected a whole number, got str"),
        (lambda: flcc.plan((9, 9), (3, 3), image_dtype="foo"), TypeError, "image_dtype: expected uint8, .* got 'foo'"),
        (lambda: flcc.plan((9, 9), (3, 3), measure=3), TypeError, "measure: expected a str, got int"),
        (lambda: flcc.convolve(IMAGE, TEMPLATE, 3), TypeError, "mode: expected a str, got int"),
        (lambda: flcc.correlation_lags(-1, 2), ValueError, "in1_len: expected a whole number from 0"),
        (lambda: flcc.correlation_lags(3, "x"), TypeError, "in2_len: expected a whole number, got str"),
        (lambda: flcc.correlation_lags(0, 2), ValueError, "in1_len: expected at least 1, got 0"),
        (lambda: flcc.import_wisdom(3), TypeError, "file: expected a str or an os.PathLike, got int"),
        (lambda: flcc.export_wisdom(3), TypeError, "file: expected a str or an os.PathLike, got int"),
        (lambda: flcc.plan((20, 30), (4, 5), "f8").bind(TEMPLATE).stream(3), TypeError, "images: expected an iterable"),
    ]:
        with pytest.raises(error, match=words):
            call()

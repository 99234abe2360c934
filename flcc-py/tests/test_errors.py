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

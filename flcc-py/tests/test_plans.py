"""Plans, matchers, streams, wisdom."""

import pickle

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(1)
IMAGE = RNG.random((60, 70), dtype=np.float32)
TEMPLATE = IMAGE[10:15, 20:26].copy()


@pytest.fixture(autouse=True)
def no_wisdom():
    flcc.forget_wisdom()
    yield
    flcc.forget_wisdom()


def test_what_a_plan_says():
    plan = flcc.plan("zncc:f32:60x70*5x6:valid", threads=1, device="cpu")
    assert (plan.spec, plan.device, plan.threads) == ("zncc:f32:60x70*5x6:valid", "cpu", 1)
    assert (plan.shape, plan.dtype) == ((56, 65), np.float32)
    assert plan.method in ("direct", "fourier", "separable") and plan.kernel in plan.explain()
    assert plan.scratch_bytes > 0 and plan.spec in repr(plan)


def test_two_ways_to_say_it():
    plan = flcc.plan((60, 70, 3), (5, 6, 3), "u1", template_dtype="f4", measure="ssd", mode="same", boundary="constant",
                     cval=2, mask="binary", templates=4, channel_axis=-1, accuracy="fast", dtype="f8")
    assert plan.spec == "ssd:u8/f32>f64:60x70*4@5x6:same,constant(2.0),mask01,acc=fast,channels=3"
    assert flcc.plan(plan.spec).spec == plan.spec


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "words"),
    [
        (("zncc",), {}, ValueError, "spec: expected a pixel type as the second field"),
        (("zncc:f32:9x9*3x3:valid",), {"mode": "full"}, ValueError, "mode: expected nothing beside the text"),
        (("zncc:f32:4@9x9*3x3:valid",), {}, ValueError, "spec: expected one image at a time .*, got 4 images"),
        (((9, 9),), {}, TypeError, "template_shape: expected the shape of the templates"),
        (((9, -9), (3, 3)), {}, TypeError, "image_shape: expected a tuple of lengths"),
        (((9, 9), (3, 3)), {"image_dtype": "i2"}, ValueError, "image_dtype: expected uint8, uint16, float32"),
        (((9, 9), (3, 3)), {"mask": "some"}, ValueError, "mask: expected None, binary or weights, got some"),
        (((9, 9), (3, 3)), {"measure": "u"}, ValueError, "measure: expected conv, corr"),
        (((9, 9), (3, 3)), {"templates": 0}, ValueError, "templates: expected at least 1, got 0"),
        (((9, 9), (3, 3)), {"effort": "some"}, ValueError, "effort: expected estimate, measure or patient, got some"),
        (((999, 999), (31, 31)), {"memory_limit": 10}, MemoryError, "memory_limit: expected at least"),
    ],
)
def test_refused(arguments, keywords, error, words):
    with pytest.raises(error, match=words):
        flcc.plan(*arguments, **keywords)


def test_the_type_of_images_is_said_beside_that_of_results():
    with pytest.raises(TypeError, match="image_dtype: expected the type of the images"):
        flcc.plan((9, 9), (3, 3), dtype="f8")
    assert flcc.plan((9, 9), (3, 3), "f4", dtype="f8").dtype == np.float64


def test_planned_is_unplanned():
    plan = flcc.plan("zncc:f32:60x70*5x6:valid")
    expected = flcc.match_template(IMAGE, TEMPLATE)
    assert (plan(IMAGE, TEMPLATE) == expected).all()
    matcher = plan.bind(TEMPLATE)
    out = np.empty(plan.shape, plan.dtype)
    assert (matcher(IMAGE) == expected).all() and matcher(IMAGE, out=out) is out and (out == expected).all()
    assert matcher.plan.spec == plan.spec and matcher.kernel in matcher.explain()
    found = matcher.peaks(IMAGE, k=4, subpixel=True)
    assert (found == flcc.find(IMAGE, TEMPLATE, k=4, subpixel=True)).all()


def test_arrays_of_another_plan():
    matcher = flcc.plan("zncc:f32:60x70*5x6:valid").bind(TEMPLATE)
    with pytest.raises(ValueError, match="image: expected f32 60x70, got f32 59x70"):
        matcher(IMAGE[1:])
    with pytest.raises(ValueError, match="image: expected f32 60x70, got f64 60x70"):
        matcher(IMAGE.astype("f8"))
    with pytest.raises(ValueError, match="template: expected f32 5x6, got f32 4x6"):
        matcher.plan.bind(TEMPLATE[1:])
    with pytest.raises(ValueError, match="template: expected one template, got 2"):
        matcher.plan.bind([TEMPLATE, TEMPLATE])
    with pytest.raises(ValueError, match="mask: expected"):
        matcher.plan.bind(TEMPLATE, np.ones((5, 6)))


def test_several_templates():
    plan = flcc.plan("zncc:f32:60x70*2@5x6:valid")
    templates = [TEMPLATE, IMAGE[30:35, 1:7]]
    stack = plan(IMAGE, templates)
    assert stack.shape == (2, 56, 65)
    for scores, template in zip(stack, templates):
        assert abs(scores - flcc.match_template(IMAGE, template)).max() < 1e-5
    for order in "CF":
        out = np.empty(stack.shape, "f4", order=order)
        assert plan(IMAGE, templates, out=out) is out and (out == stack).all()
    assert plan.bind(templates).peaks(IMAGE)["template"].tolist() == [0, 1]


def test_a_stream_of_any_sizes():
    matcher = flcc.plan("zncc:f32:60x70*5x6:valid").bind(TEMPLATE)
    frames = [IMAGE, IMAGE[:30], IMAGE[5:], IMAGE[:30], IMAGE]
    stream = matcher.stream(iter(frames))
    assert iter(stream) is stream
    for frame, scores in zip(frames, stream, strict=True):
        assert abs(scores - flcc.match_template(frame, TEMPLATE)).max() < 1e-5
    with pytest.raises(TypeError, match="iterable"):
        matcher.stream(3)


def test_a_stream_goes_on_after_an_image_that_is_none():
    stream = flcc.plan("zncc:f32:60x70*5x6:valid").bind(TEMPLATE).stream([IMAGE, IMAGE[:2], "x", IMAGE])
    next(stream)
    with pytest.raises(ValueError, match="template: expected at most"):
        next(stream)
    with pytest.raises(TypeError, match="image: expected an array of numbers"):
        next(stream)
    assert next(stream).shape == (56, 65)
    with pytest.raises(StopIteration):
        next(stream)


def test_what_an_iterator_raises_is_raised():
    def frames():
        yield IMAGE
        raise KeyError("camera")

    stream = flcc.plan("zncc:f32:60x70*5x6:valid").bind(TEMPLATE).stream(frames())
    next(stream)
    with pytest.raises(KeyError, match="camera"):
        next(stream)


@pytest.mark.parametrize(
    "spec",
    ["zncc:f32:60x70*5x6:valid", "ssd:u8/f64:60x70*3@5x6:same,mirror,maskw,acc=fast,channels=3", "conv:f64:100*7:full"],
)
def test_pickles(spec):
    plan = flcc.plan(spec, threads=1, method="direct")
    again = pickle.loads(pickle.dumps(plan))
    assert (again.spec, again.kernel, again.threads) == (plan.spec, plan.kernel, plan.threads)
    channels = (3,) if "channels" in spec else ()
    image_shape, template_shape = ((100,), (7,)) if "100" in spec else ((60, 70), (5, 6))
    dtype = {"u8": "u1", "f3": "f4", "f6": "f8"}[spec.split(":")[1][:2]]
    image = RNG.integers(0, 255, image_shape + channels).astype(dtype)
    templates = [RNG.random(template_shape + channels).astype("f8" if "f64" in spec else "f4") for _ in range(3)]
    mask = RNG.random(template_shape) if "mask" in spec else None
    matcher = plan.bind(templates if "3@" in spec else templates[0], mask)
    assert (pickle.loads(pickle.dumps(matcher))(image) == matcher(image)).all()


def test_wisdom(tmp_path):
    spec = "zncc:f32:64x64*9x9:valid"
    plan = flcc.plan(spec, effort="measure", threads=1, device="cpu")
    text = flcc.export_wisdom(tmp_path / "wisdom")
    assert spec in text and (tmp_path / "wisdom").read_text() == text
    assert "by wisdom" in flcc.plan(spec, threads=1).explain() or plan.kernel == flcc.plan(spec, threads=1).kernel
    flcc.forget_wisdom()
    assert spec not in flcc.export_wisdom()
    flcc.import_wisdom(str(tmp_path / "wisdom"))
    assert flcc.export_wisdom() == text
    (tmp_path / "other").write_text("none\n")
    with pytest.raises(ValueError, match="line 1: header: expected flcc-wisdom 2, got none"):
        flcc.import_wisdom(tmp_path / "other")
    with pytest.raises(OSError, match="cannot read wisdom"):
        flcc.import_wisdom(tmp_path / "nothing")


def test_wisdom_reaches_plans_that_were_kept():
    spec = "zncc:f32:64x64*9x9:valid"
    assert "wisdom" not in flcc.plan(spec, threads=1, device="cpu").explain()
    flcc.plan(spec, threads=1, device="cpu", effort="measure")
    assert "chosen by wisdom" in flcc.plan(spec, threads=1, device="cpu").explain()
    flcc.forget_wisdom()
    assert "wisdom" not in flcc.plan(spec, threads=1, device="cpu").explain()


def test_named_methods():
    for method in ["direct", "fourier", "separable"]:
        assert flcc.plan("corr:f32:60x70*5x6:valid", method=method).method == method

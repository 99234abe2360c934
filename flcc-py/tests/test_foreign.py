"""Arrays of other packages."""

import sys
import types

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(1)
IMAGE = RNG.random((40, 50))
TEMPLATE = IMAGE[10:16, 20:27].copy()
SCORES = flcc.match_template(IMAGE, TEMPLATE)


class Shared:
    """What has DLPack's methods and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device, self.asked = array, device, 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked += 1
        return self.array.__dlpack__(**keywords)


class Interface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Tensor(Shared):
    """As a tensor of torch."""

    dtype = "torch.float64"

    def is_neg(self):
        return False

    def detach(self):
        return self

    def numpy(self):
        return self.array


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.Tensor, module.from_numpy = Tensor, Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.parametrize("kind", [Shared, Interface])
def test_are_looked_at(kind):
    image, template = kind(IMAGE), kind(TEMPLATE)
    scores = flcc.match_template(image, template, mask=kind(np.ones(TEMPLATE.shape)))
    assert type(scores) is np.ndarray and abs(scores - SCORES).max() < 1e-11
    part = IMAGE[::2, ::-1]
    assert (flcc.match_template(kind(part), template) == flcc.match_template(part, TEMPLATE)).all()
    assert (flcc.convolve(image, template) == flcc.convolve(IMAGE, TEMPLATE)).all()
    assert (flcc.find(image, [template, template]) == flcc.find(IMAGE, [TEMPLATE, TEMPLATE])).all()
    assert (flcc.peaks(kind(SCORES)) == flcc.peaks(SCORES)).all()
    matcher = flcc.plan((40, 50), (6, 7), "f8", templates=2).bind([template, template])
    assert (matcher(image)[1] == SCORES).all() and (next(matcher.stream([image]))[0] == SCORES).all()


def test_are_taken_in_the_place_of_other_packages():
    image, template = Shared(IMAGE), Shared(TEMPLATE)
    assert (flcc.compat.skimage.match_template(image, template) == SCORES).all()
    assert (flcc.compat.scipy.signal.correlate(image, template) == flcc.correlate(IMAGE, TEMPLATE)).all()
    assert flcc.compat.scipy.ndimage.convolve(image, template).shape == IMAGE.shape


def test_are_not_copied():
    image = Shared(RNG.random((1200, 1200)))
    told = []

    def look(done, total):
        if not told:
            # It is the memory of the array, which is read now.
            with pytest.raises(ValueError, match="out: expected an array that no other call reads"):
                flcc.correlate(np.ones((1200, 1200)), np.ones((3, 3)), "same", out=image.array)
            told.append(done)

    flcc.correlate(image, image.array[:90, :90].copy(), "same", method="direct", progress=look)
    assert told and image.asked == 1


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (Shared(IMAGE, (10, 0)), "image: expected .* memory that the CPU reads, got a Shared on ROCm device 0"),
        (Shared(IMAGE, (8, 0)), "image: .*, got a Shared on device 0 of DLPack's kind 8"),
        (Shared(IMAGE, None), "image: .*, got a Shared that does not say where it is"),
        (Shared(np.array([[object()]])), "image: expected an array whose memory numpy.from_dlpack takes, got a Shared"),
        (Shared(IMAGE + 1j), "image: expected uint8, uint16, float32 or float64 .*, got dtype complex128"),
    ],
)
def test_refused(image, words):
    with pytest.raises(TypeError, match=words):
        flcc.match_template(image, TEMPLATE)
    with pytest.raises(TypeError, match=words.replace("image", "templates?", 1)):
        flcc.find(IMAGE, [image])


def test_tensors_give_tensors(torch):
    image, template = Tensor(IMAGE), Tensor(TEMPLATE)
    for scores in [
        flcc.match_template(image, template),
        flcc.match_template(image, TEMPLATE),
        flcc.plan((40, 50), (6, 7), "f8")(image, template),
        next(flcc.plan((40, 50), (6, 7), "f8").bind(template).stream([image])),
    ]:
        assert type(scores) is Tensor and (scores.array == SCORES).all()
    assert type(flcc.match_template(IMAGE, template)) is np.ndarray
    assert type(flcc.find(image, template)) is np.ndarray
    assert type(flcc.match_template(Shared(IMAGE), template)) is np.ndarray


def test_tensors_are_written(torch):
    for out in [np.zeros(SCORES.shape), np.zeros(SCORES.shape, "f4"), np.zeros((35, 88))[:, ::2]]:
        tensor = Tensor(out)
        assert flcc.match_template(IMAGE, TEMPLATE, out=tensor) is tensor
        assert abs(out - SCORES).max() < 1e-5
    image = Tensor(IMAGE.copy())
    assert flcc.correlate(image, TEMPLATE, "same", out=image) is image
    assert (image.array == flcc.correlate(IMAGE, TEMPLATE, "same")).all()
    with pytest.raises(TypeError, match="out: .*, got a Tensor on CUDA device 0"):
        flcc.match_template(IMAGE, TEMPLATE, out=Tensor(SCORES, (2, 0)))
    with pytest.raises(ValueError, match="out: expected an array of float64 and shape"):
        flcc.match_template(IMAGE, TEMPLATE, out=Tensor(SCORES[1:]))

"""Arrays on GPUs as their packages describe them: what is told before a GPU is asked. No GPU is needed."""

import sys
import types

import flcc
import numpy as np
import pytest
from flcc import _gpu

RNG = np.random.default_rng(1)
IMAGE = RNG.random((40, 50), dtype=np.float32)
TEMPLATE = IMAGE[10:16, 20:27].copy()
SCORES = flcc.match_template(IMAGE, TEMPLATE)


class Device:
    def __init__(self, number):
        self.id = number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Stream:
    """That of a device."""

    ptr, waited = 7, 0

    def __init__(self, number):
        self.number = number

    def synchronize(self):
        Stream.waited += 1


class Array:
    """As an array of CuPy: its methods over memory of numpy, which is told to lie on a device."""

    def __init__(self, array, number=0, **shown):
        self.array, self.device, self.dtype, self.shown = array, Device(number), array.dtype, shown

    def __dlpack_device__(self):
        return (2, self.device.id)

    def astype(self, kind):
        return Array(self.array.astype(kind), self.device.id)

    def all(self):
        return self.array.all()

    def __le__(self, other):
        return self.array <= other

    def __ge__(self, other):
        return self.array >= other

    def __setitem__(self, place, values):
        self.array[place] = values.array

    @property
    def __cuda_array_interface__(self):
        strides = None if self.array.flags.c_contiguous else self.array.strides
        own = {"shape": self.array.shape, "typestr": self.array.dtype.str, "strides": strides, "version": 3}
        return {**own, "data": (self.array.ctypes.data, False), **self.shown}


class Foreign:
    """What has the interface and nothing else."""

    def __init__(self, array):
        self.__cuda_array_interface__ = Array(array).__cuda_array_interface__
        self.array = array


@pytest.fixture
def cupy(monkeypatch):
    module = types.ModuleType("cupy")
    module.ndarray = Array
    module.cuda = types.SimpleNamespace(Device=Device, get_current_stream=Stream)
    module.empty = lambda shape, kind: Array(np.empty(shape, kind))
    module.asnumpy = lambda array: array.array.copy()
    module.asarray = lambda given: Array(given.array)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(Stream, "ptr", 7)
    return module


# What is told where all is right up to here: there is no GPU, or it does not have this memory.
NO_GPU = "device: expected one that serves this problem, got cuda|devices?: |device: |memory of CUDA device 0, got"


def test_described(cupy):
    told = _gpu.image("image", Array(IMAGE))
    assert (told.address, told.shape, told.strides) == (IMAGE.ctypes.data, (40, 50), (200, 4))
    assert (told.kind, told.device, told.stream, told.readonly) == ("float32", 0, 7, False)
    part = IMAGE[::-2, 3:30:3]
    told = _gpu.image("image", Array(part, 2))
    assert (told.address, told.shape, told.strides) == (part.ctypes.data, part.shape, part.strides)
    assert told.device == 2
    told = _gpu.image("image", Foreign(IMAGE))
    assert isinstance(told.array, Array) and told.address == IMAGE.ctypes.data
    for kind, becomes in [("?", "f4"), ("i1", "f4"), ("i2", "f4"), ("f2", "f4"), ("i4", "f8"), ("u4", "f8"),
                          ("i8", "f8"), ("u8", "f8"), ("u1", "u1"), ("u2", "u2"), ("f4", "f4"), ("f8", "f8")]:
        values = (IMAGE * 2).astype(kind)
        told = _gpu.image("image", Array(values))
        assert told.kind == np.dtype(becomes).name and (told.array.array == values).all()


def test_a_stream_that_each_thread_has_is_waited_for(cupy, monkeypatch):
    monkeypatch.setattr(Stream, "ptr", 2)
    waited = Stream.waited
    assert _gpu.image("image", Array(IMAGE)).stream is None and Stream.waited == waited + 1


def test_results_are_made_and_copied(cupy):
    made = _gpu.fresh(Array(IMAGE), (3, 4), "float32")
    assert made.shape == (3, 4) and made.strides == (16, 4) and made.kind == "float32"
    out = Array(np.zeros((3, 8), "f4")[:, ::2])
    made.array.array[...] = 5
    _gpu.copy(out, made.array)
    assert (out.array == 5).all()


def test_templates_and_masks_are_copied(cupy):
    assert (flcc.match_template(IMAGE, Array(TEMPLATE)) == SCORES).all()
    ones = np.ones(TEMPLATE.shape)
    masked = flcc.match_template(IMAGE, TEMPLATE, mask=ones)
    assert (flcc.match_template(IMAGE, Foreign(TEMPLATE), mask=Array(ones)) == masked).all()
    matcher = flcc.plan((40, 50), (6, 7), templates=2).bind([Array(TEMPLATE), TEMPLATE])
    assert (matcher(IMAGE) == SCORES).all()
    assert (flcc.find(IMAGE, [Array(TEMPLATE)]) == flcc.find(IMAGE, [TEMPLATE])).all()


@pytest.mark.parametrize(
    ("image", "template", "keywords", "error", "words"),
    [
        (Array(IMAGE), TEMPLATE, {"device": "cpu"}, ValueError, "device: expected auto, cuda or cuda:0 for an image"),
        (Array(IMAGE, 1), TEMPLATE, {"device": "cuda:0"}, ValueError, "device: .* cuda:1 .*, got cuda:0"),
        (Array(IMAGE + 1j), TEMPLATE, {}, TypeError, "image: expected uint8, .*, got dtype complex"),
        (Array(np.full((9, 9), 2**53 + 1)), TEMPLATE, {}, ValueError, r"image: expected integers up to 2\^53"),
        (Array(np.full((9, 9), -(2**60))), TEMPLATE, {}, ValueError, r"image: expected integers up to 2\^53"),
        (Array(np.full((9, 9), 2**63, "u8")), TEMPLATE, {}, ValueError, r"image: expected integers up to 2\^53"),
        (Array(IMAGE[:0]), TEMPLATE, {}, ValueError, "image: expected"),
        (Array(np.array(1.5)), TEMPLATE, {}, ValueError, "image: expected"),
        (Array(IMAGE[None, None]), TEMPLATE, {}, ValueError, "image: expected"),
        (Array(IMAGE[:4]), TEMPLATE, {}, ValueError, "template: expected"),
        (Array(IMAGE, typestr=">f4"), TEMPLATE, {}, TypeError, "image: expected the machine's byte order"),
        (Array(IMAGE, data=(4097, False)), TEMPLATE, {}, ValueError, "image: expected samples .* multiples of 4 bytes"),
        (Array(IMAGE, strides=(203, 4)), TEMPLATE, {}, ValueError, "image: expected samples of float32 at multiples"),
        (Array(IMAGE), TEMPLATE, {"out": SCORES}, TypeError, "out: expected an array on CUDA device 0, .* got a ndarr"),
        (Array(IMAGE), TEMPLATE, {"out": Array(SCORES, 1)}, ValueError, "out: .*, got one on CUDA device 1"),
        (Array(IMAGE), TEMPLATE, {"out": Array(SCORES[1:])}, ValueError, "out: expected an array of float32 and shape"),
        (Array(IMAGE), TEMPLATE, {"out": Array(IMAGE.astype("u1"))}, ValueError, "out: expected float32 or float64"),
        (Array(IMAGE), TEMPLATE, {"out": Array(SCORES, data=(4096, True))}, ValueError, "out: .*, got a read-only one"),
        (Array(IMAGE), TEMPLATE, {"out": Array(SCORES, strides=(0, 4))}, ValueError, "out: .* elements lie apart"),
        (IMAGE, TEMPLATE, {"out": Array(SCORES)}, TypeError, "out: expected an array of float32 and shape"),
        (Array(IMAGE), TEMPLATE, {}, (ValueError, RuntimeError), NO_GPU),
        (Array(IMAGE[::-1, ::3]), TEMPLATE, {"out": Array(np.zeros((70, 22), "f4")[::2, ::2])}, ValueError, NO_GPU),
    ],
)
def test_told(cupy, image, template, keywords, error, words):
    with pytest.raises(error, match=words):
        flcc.match_template(image, template, **keywords)


def test_told_of_plans(cupy):
    matcher = flcc.plan("zncc:f32:40x50*6x7:valid", device="cpu").bind(TEMPLATE)
    for call in [matcher, matcher.peaks, lambda image: next(matcher.stream([image]))]:
        with pytest.raises(ValueError, match="device: expected auto, cuda or cuda:0 for an image .*, got cpu"):
            call(Array(IMAGE))
    matcher = flcc.plan("zncc:f32:40x50*6x7:valid").bind(TEMPLATE)
    for call in [matcher, matcher.peaks, lambda image: flcc.find(image, TEMPLATE)]:
        with pytest.raises((ValueError, RuntimeError), match=NO_GPU):
            call(Array(IMAGE))
    with pytest.raises((ValueError, RuntimeError), match=NO_GPU):
        matcher.queue()
    with pytest.raises(TypeError, match="cutout: expected an array in memory that the CPU reads, got one on a GPU"):
        matcher.region(Array(IMAGE), np.s_[:9, :9])
    with pytest.raises(TypeError, match="scores: expected an array in memory that the CPU reads, got a Array on CUDA"):
        flcc.peaks(Array(SCORES))


def test_without_a_package_that_knows_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TypeError, match="image: expected an array of CuPy or torch, .* got a Foreign on a CUDA"):
        flcc.match_template(Foreign(IMAGE), TEMPLATE)

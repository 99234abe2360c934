"""Arrays of CuPy and torch on a GPU: computed where they lie, after what was queued before, bit for bit as arrays of
numpy are on that GPU. Skipped where there is no GPU or no such package; FLCC_REQUIRE=cuda makes that a failure."""

import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import flcc
import numpy as np
import pytest

HERE = Path(__file__).parent
RNG = np.random.default_rng(5)
IMAGE = RNG.random((300, 417), dtype=np.float32)
TEMPLATE = IMAGE[100:116, 200:209].copy()


def absent(words):
    if "cuda" in os.environ.get("FLCC_REQUIRE", "").split(","):
        pytest.fail(words)
    pytest.skip(words)


class CuPy:
    def __init__(self, cupy):
        self.module, self.type = cupy, cupy.ndarray
        self.cupy = cupy

    def put(self, array):
        # As the array lies, gaps and steps backwards included.
        base = array if array.base is None else array.base
        there = self.cupy.asarray(base)
        first = there.data + (array.ctypes.data - base.ctypes.data)
        return self.cupy.ndarray(array.shape, array.dtype, memptr=first, strides=array.strides)

    def get(self, array):
        return self.cupy.asnumpy(array)

    def stream(self):
        return self.cupy.cuda.Stream(non_blocking=True)

    def current(self, stream):
        return stream

    def wait(self):
        self.cupy.cuda.Device().synchronize()

    def busy(self):
        a = self.cupy.ones((4096, 4096), "f4")
        for _ in range(30):
            a = a @ a

    def copy(self, to, values):
        to[...] = values

    def free(self):
        return self.cupy.cuda.runtime.memGetInfo()[0]


class Torch:
    def __init__(self, torch):
        self.module, self.type = torch, torch.Tensor
        self.torch = torch

    def put(self, array):
        if any(step < 0 for step in array.strides):
            pytest.skip("torch has no strides below 0")
        base = array if array.base is None else array.base
        there = self.torch.from_numpy(np.ascontiguousarray(base)).cuda()
        first = (array.ctypes.data - base.ctypes.data) // base.itemsize
        return there.as_strided(array.shape, [step // base.itemsize for step in array.strides], first)

    def get(self, array):
        return array.cpu().numpy()

    def stream(self):
        return self.torch.cuda.Stream()

    def current(self, stream):
        return self.torch.cuda.stream(stream)

    def wait(self):
        self.torch.cuda.synchronize()

    def busy(self):
        self.torch.cuda._sleep(200_000_000)

    def copy(self, to, values):
        to.copy_(values)

    def free(self):
        return self.torch.cuda.mem_get_info()[0]


@pytest.fixture(scope="module", params=["cupy", "torch"])
def package(request):
    try:
        module = importlib.import_module(request.param)
    except ImportError:
        absent(f"{request.param} is not installed")
    there = module.cuda.is_available()
    if not there:
        absent(f"{request.param} finds no GPU")
    return {"cupy": CuPy, "torch": Torch}[request.param](module)


def same(package, result, expected):
    assert isinstance(result, package.type)
    got = package.get(result)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert np.array_equal(got, expected, equal_nan=True), abs(got - expected).max()


VOLUME = RNG.random((19, 23, 29))
BYTES = RNG.integers(0, 256, (120, 131, 3), dtype=np.uint8)
WORDS = RNG.integers(0, 60000, (90, 101), dtype=np.uint16)


@pytest.mark.parametrize(
    ("image", "template", "words"),
    [
        (IMAGE, TEMPLATE, {}),
        (IMAGE, TEMPLATE, {"mode": "full", "boundary": "reflect", "dtype": "f8"}),
        (IMAGE, TEMPLATE, {"measure": "cc", "mode": "same", "boundary": "constant", "cval": 2.5}),
        (IMAGE, IMAGE[:40, :33], {"mode": "same", "boundary": "wrap"}),
        (IMAGE, TEMPLATE, {"measure": "nssd", "mask": (TEMPLATE > 0.3).astype("u1")}),
        (IMAGE, TEMPLATE, {"measure": "sad", "method": "direct"}),
        (BYTES, BYTES[20:29, 30:41], {"channel_axis": -1}),
        (BYTES, BYTES[20:29, 30:41], {"channel_axis": 2, "measure": "ssd", "accuracy": "exact"}),
        (WORDS, WORDS[5:14, 6:20], {"mode": "same", "boundary": "mirror"}),
        (VOLUME, VOLUME[3:7, 4:9, 5:11], {}),
        (VOLUME.astype("f4"), VOLUME[3:6, 4:7, 5:8].astype("f4"), {"measure": "cc", "mode": "full"}),
        (IMAGE.ravel(), IMAGE[3, :100], {}),
        (IMAGE[::2, 1:], TEMPLATE, {}),
        (IMAGE[:, 1:], TEMPLATE[:8, :8], {"measure": "cc"}),
        (IMAGE[1:, 3:], IMAGE[:20, :20], {"measure": "cc", "mode": "full"}),
        (IMAGE.T, TEMPLATE, {}),
        (IMAGE[::-1, ::-2], TEMPLATE, {"mode": "same"}),
        (np.broadcast_to(IMAGE[7], (60, 417)), TEMPLATE, {}),
    ],
)
def test_bits_are_those_of_the_host(package, image, template, words):
    expected = flcc.match_template(image, template, device="cuda", **words)
    there = package.put(image)
    same(package, flcc.match_template(there, template, **words), expected)
    on_device = {"mask": package.put(words["mask"])} if "mask" in words else {}
    result = flcc.match_template(there, package.put(np.array(template)), device="cuda:0", **{**words, **on_device})
    same(package, result, expected)


def test_filters(package):
    for call in (flcc.convolve, flcc.correlate):
        for taps in (TEMPLATE[:7, :7], TEMPLATE, IMAGE[:41, :35]):
            for mode in ("full", "same", "valid"):
                same(package, call(package.put(IMAGE), taps, mode), call(IMAGE, taps, mode, device="cuda"))


def test_extraordinary_samples(package):
    for value in (np.nan, np.inf, 1e30, 1e-30):
        image = IMAGE.copy()
        image[50, 60] = value
        if value < 1:
            image *= np.float32(value)
        for call in (flcc.match_template, flcc.correlate):
            expected = call(image, TEMPLATE[:8, :8], device="cuda")
            same(package, call(package.put(image), TEMPLATE[:8, :8]), expected)
            # No other result is lost than those that the sample is in.
            assert (np.isfinite(expected) == np.isfinite(call(image, TEMPLATE[:8, :8], device="cpu"))).all()


@pytest.mark.parametrize("kind", ["?", "i1", "i2", "f2", "i4", "u4", "i8", "u8", "u2", "f8"])
def test_types(package, kind):
    image = (IMAGE * 100).astype(kind)
    expected = flcc.match_template(image, TEMPLATE, device="cuda")
    same(package, flcc.match_template(package.put(image), TEMPLATE), expected)
    if kind in ("i8", "u8"):
        with pytest.raises(ValueError, match=r"image: expected integers up to 2\^53"):
            flcc.match_template(package.put(np.full((99, 99), 2**62, kind)), TEMPLATE)


@pytest.mark.parametrize(
    ("measure", "sides", "stacked"),
    [("zncc", (8, 8), False), ("zncc", (20, 24), True), ("corr", (5, 5), True), ("conv", (16, 9), False)],
)
def test_queues(package, measure, sides, stacked):
    frames = RNG.random((3, 90, 101), dtype=np.float32)
    templates = [frames[k, 10 : 10 + sides[0], 20 : 20 + sides[1]].copy() for k in range(2 if stacked else 1)]
    plan = flcc.plan((90, 101), sides, measure=measure, mode="full", templates=len(templates), device="cuda")
    matcher = plan.bind(templates if stacked else templates[0])
    expected = np.stack([matcher(frame) for frame in frames])
    queue = matcher.queue()
    there = package.put(frames)
    same(package, queue(there), expected)
    same(package, queue(there[::2]), expected[::2])
    same(package, queue(there[1]), expected[1])
    out = package.put(np.full_like(expected, np.nan))
    stream = package.stream()
    package.wait()
    with package.current(stream):
        # What was in the stream before is done first.
        package.busy()
        package.copy(there, package.put(frames[::-1].copy()))
        assert queue(there, out=out) is out
        stream.synchronize()
    same(package, out, expected[::-1])
    assert not queue.unserved and queue.device == 0
    spoilt = frames[0].copy()
    spoilt[40, 50] = np.nan
    same(package, matcher.queue(extraordinary="computed")(package.put(spoilt)), matcher(spoilt))
    queue(package.put(spoilt))
    package.wait()
    assert queue.unserved == queue.forget() == (measure != "zncc") and not queue.unserved
    with pytest.raises(ValueError, match="image"):
        queue(there[:, 1:])
    with pytest.raises(TypeError, match="image: expected an array on a CUDA device"):
        queue(frames)
    with pytest.raises(ValueError, match="extraordinary: expected 'told' or 'computed'"):
        matcher.queue(extraordinary="ignored")


def test_queues_are_recorded(package):
    matcher = flcc.plan(IMAGE.shape, (8, 8), measure="corr", device="cuda").bind(TEMPLATE[:8, :8])
    image, queue = package.put(np.zeros_like(IMAGE)), matcher.queue()
    out = queue(image)
    package.wait()
    if isinstance(package, CuPy):
        with package.stream() as stream:
            stream.begin_capture()
            queue(image, out=out)
            graph = stream.end_capture()
            launch = lambda: (graph.launch(stream), stream.synchronize())
    else:
        graph = package.torch.cuda.CUDAGraph()
        with package.torch.cuda.graph(graph):
            queue(image, out=out)
        launch = lambda: (graph.replay(), package.wait())
    for frame in (IMAGE, IMAGE[::-1].copy()):
        package.copy(image, package.put(frame))
        package.wait()
        launch()
        same(package, out, matcher(frame))


def test_plans_and_matchers(package):
    expected = flcc.match_template(IMAGE, TEMPLATE, device="cuda")
    image, template = package.put(IMAGE), package.put(TEMPLATE.copy())
    for device in ("auto", "cuda", "cuda:0"):
        plan = flcc.plan(IMAGE.shape, TEMPLATE.shape, device=device)
        same(package, plan(image, template), expected)
        matcher = plan.bind(template)
        for _ in range(3):
            same(package, matcher(image), expected)
        same(package, next(matcher.stream([image])), expected)
        larger = package.put(np.pad(IMAGE, 9))
        # Plans of images on the host and on the device may take different kernels.
        got, wanted = next(matcher.stream([larger])), flcc.match_template(np.pad(IMAGE, 9), TEMPLATE, device="cuda")
        assert isinstance(got, package.type) and package.get(got).dtype == wanted.dtype
        assert np.allclose(package.get(got), wanted, rtol=0, atol=2e-6)
        found = matcher.peaks(image, k=3, subpixel=True)
        assert (found == flcc.find(IMAGE, TEMPLATE, k=3, subpixel=True, device="cuda")).all()
        assert (found == flcc.find(image, template, k=3, subpixel=True)).all()
    several = flcc.plan(IMAGE.shape, TEMPLATE.shape, templates=2, device="cuda").bind([template, TEMPLATE[::-1]])
    same(package, several(image), several(IMAGE))
    with pytest.raises(ValueError, match="device: expected auto, cuda or cuda:0 for an image on that device, got cpu"):
        flcc.plan(IMAGE.shape, TEMPLATE.shape, device="cpu")(image, template)
    with pytest.raises(ValueError, match="image: expected f32 300x417"):
        matcher(package.put(IMAGE[1:]))


def test_out(package):
    expected = flcc.match_template(IMAGE, TEMPLATE, device="cuda")
    image = package.put(IMAGE)
    for lies in (np.zeros(expected.shape, "f4"), np.zeros((285, 900), "f4")[:, 3:821:2], np.zeros((409, 285), "f4").T):
        out = package.put(lies)
        assert flcc.match_template(image, TEMPLATE, out=out) is out
        same(package, out, expected)
    double = package.put(np.zeros(expected.shape))
    same(package, flcc.match_template(image, TEMPLATE, out=double),
         flcc.match_template(IMAGE, TEMPLATE, dtype="f8", device="cuda"))
    # It may be the image, and is written behind it.
    own = package.put(IMAGE)
    assert flcc.correlate(own, TEMPLATE, "same", out=own) is own
    same(package, own, flcc.correlate(IMAGE, TEMPLATE, "same", device="cuda"))
    matcher = flcc.plan(IMAGE.shape, TEMPLATE.shape, templates=1).bind([TEMPLATE])
    out = package.put(np.zeros((1, *expected.shape), "f4"))
    assert matcher(image, out=out) is out
    same(package, out, expected[None])
    with pytest.raises(TypeError, match="out: expected an array on CUDA device 0, where the image lies, got a ndarray"):
        flcc.match_template(image, TEMPLATE, out=expected)
    with pytest.raises(ValueError, match="out: expected an array of float32 and shape"):
        flcc.match_template(image, TEMPLATE, out=package.put(expected[1:].copy()))


def test_order_of_streams(package):
    """What the caller's stream is still going to write is what is read."""
    other = RNG.random(IMAGE.shape, dtype=np.float32)
    matcher = flcc.plan(IMAGE.shape, TEMPLATE.shape, device="cuda").bind(TEMPLATE)
    expected = matcher(other)
    for taps in (TEMPLATE, TEMPLATE[:8, :8]):
        filtered = flcc.correlate(other, taps, device="cuda")
        for call, wanted in ((matcher, expected), (lambda image, taps=taps: flcc.correlate(image, taps), filtered)):
            for stream in (None, package.stream()):
                image, source = package.put(IMAGE), package.put(other)
                call(image)
                package.wait()
                if stream is None:
                    package.busy()
                    package.copy(image, source)
                    result = call(image)
                else:
                    with package.current(stream):
                        package.busy()
                        package.copy(image, source)
                        result = call(image)
                # On another stream than the one it was computed for.
                same(package, result, wanted)


def test_threads(package):
    matcher = flcc.plan(IMAGE.shape, TEMPLATE.shape, device="cuda").bind(TEMPLATE)
    images = [RNG.random(IMAGE.shape, dtype=np.float32) for _ in range(4)]
    expected = [matcher(image) for image in images]
    wrong = []

    def work(number):
        with package.current(package.stream()):
            image = package.put(images[number])
            for _ in range(20):
                if not np.array_equal(package.get(matcher(image)), expected[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_progress(package):
    told = []
    flcc.match_template(package.put(IMAGE), TEMPLATE, progress=lambda done, total: told.append((done, total)))
    assert told and told[-1][0] == told[-1][1]


def test_memory_is_flat(package):
    image = package.put(IMAGE)
    matcher = flcc.plan(IMAGE.shape, TEMPLATE.shape).bind(TEMPLATE)
    out = matcher(image)

    def calls(count):
        for _ in range(count):
            matcher(image, out=out)
            flcc.correlate(image, TEMPLATE[:8, :8])
        package.wait()
        return package.free()

    before = calls(20)
    assert before - calls(200) < 32 << 20


class Shared:
    """What has DLPack's methods and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)


class Interface:
    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self.array = array


def test_other_packages(package):
    expected = flcc.match_template(IMAGE, TEMPLATE, device="cuda")
    for kind in (Shared, Interface):
        result = flcc.match_template(kind(package.put(IMAGE)), kind(package.put(TEMPLATE.copy())))
        # By CuPy where it is installed, else by torch.
        assert type(result).__module__.split(".")[0] in ("cupy", "torch")
        assert np.array_equal(flcc._gpu.host("result", result), expected)
    out = package.put(np.zeros(expected.shape, "f4"))
    given = Interface(out)
    assert flcc.match_template(package.put(IMAGE), TEMPLATE, out=given) is given
    same(package, out, expected)


def test_tensors_that_are_not_taken(package):
    if not isinstance(package, Torch):
        pytest.skip("only torch has these")
    torch, image = package.torch, package.put(IMAGE)
    with pytest.raises(TypeError, match="image: expected an array that shows its memory by __cuda_array_interface__"):
        flcc.match_template(image.clone().requires_grad_(), TEMPLATE)
    with pytest.raises(TypeError, match="image: expected .*got dtype bfloat16"):
        flcc.match_template(image.to(torch.bfloat16), TEMPLATE)
    with pytest.raises(TypeError, match="image: expected .*got dtype complex64"):
        flcc.match_template(image.to(torch.complex64), TEMPLATE)
    with pytest.raises(TypeError, match="image: expected an array"):
        flcc.match_template(image.to_sparse(), TEMPLATE)
    negative = torch.complex(image, -image).conj().imag
    assert negative.is_neg()
    same(package, flcc.match_template(negative, TEMPLATE), flcc.match_template(IMAGE, TEMPLATE, device="cuda"))
    with pytest.raises(TypeError, match="out: expected an array to write, got a Tensor that stands for another's"):
        flcc.correlate(image, TEMPLATE, "same", out=negative)


def test_a_stream_that_records_a_graph(package):
    if not isinstance(package, Torch):
        pytest.skip("torch's graphs alone")
    torch, image = package.torch, package.put(IMAGE)
    matcher = flcc.plan(IMAGE.shape, TEMPLATE.shape, device="cuda").bind(TEMPLATE)
    expected = package.get(matcher(image))
    said = ""
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="relaxed"):
            try:
                matcher(image)
            except RuntimeError as error:
                said = str(error)
    except RuntimeError:
        pass
    assert "records a graph" in said
    same(package, matcher(image), expected)


def test_vectors(package):
    if not isinstance(package, CuPy):
        pytest.skip("by CuPy alone")
    judge = HERE.parent.parent / "conformance" / "run_vectors.py"
    command = [sys.executable, str(judge), "--python", f"{HERE / 'candidate.py'}:run_on_gpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout[-300:])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

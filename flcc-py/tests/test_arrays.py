"""How arrays may lie in memory, and where results may go."""

import os
import subprocess
import sys
import threading

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(1)
IMAGE = RNG.random((40, 50))
TEMPLATE = IMAGE[10:16, 20:27].copy()
SCORES = flcc.match_template(IMAGE, TEMPLATE)


def layouts(array):
    """The same values in memory in many ways."""
    yield "as it is", array
    yield "Fortran's order", np.asfortranarray(array)
    yield "with gaps", np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]
    yield "backwards", np.flip(np.ascontiguousarray(np.flip(array)))
    yield "backwards with gaps", np.repeat(array[:, ::-1], 2, axis=1)[:, ::-2]
    yield "a part", np.pad(array, 3)[3:-3, 3:-3]
    yield "other byte order", array.astype(array.dtype.newbyteorder())
    field = np.zeros(array.shape, [("a", "u1"), ("b", array.dtype)])
    field["b"] = array
    yield "a field that is not aligned", field["b"]
    aligned = np.zeros(array.shape, [("a", array.dtype), ("b", array.dtype)])
    aligned["b"] = array
    yield "a field", aligned["b"]
    yield "bytes that are not aligned", np.frombuffer(b"x" + array.tobytes(), "u1")[1:].view(array.dtype).reshape(
        array.shape
    )
    fixed = array.copy()
    fixed.flags.writeable = False
    yield "read-only", fixed
    yield "a matrix", array.view(np.matrix)
    yield "a list", array.tolist()


@pytest.mark.parametrize("name", [name for name, _ in layouts(IMAGE)])
def test_layouts(name):
    image, template = dict(layouts(IMAGE))[name], dict(layouts(TEMPLATE))[name]
    assert (flcc.match_template(image, template) == SCORES).all()


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
def test_layouts_of_types(dtype):
    image = RNG.integers(0, 200, (30, 31)).astype(dtype)
    template = image[4:9, 5:12].copy()
    expected = flcc.match_template(image, template, measure="ssd")
    for name, array in layouts(image):
        if name != "a list":
            assert (flcc.match_template(array, template, measure="ssd") == expected).all(), name


def test_axes_in_any_order():
    image, template = RNG.random((9, 10, 11)), RNG.random((3, 2, 4))
    expected = flcc.correlate(image, template)
    for axes in [(1, 0, 2), (2, 1, 0), (1, 2, 0)]:
        back = np.argsort(axes)
        assert (flcc.correlate(image.transpose(axes).copy().transpose(back), template) == expected).all()


def test_one_sample_for_all():
    image = np.broadcast_to(np.float32(3), (8, 9))
    assert (flcc.convolve(image, np.ones((2, 2), np.float32), "valid") == 12).all()
    rows = np.broadcast_to(np.arange(9.0), (8, 9))
    assert (flcc.convolve(rows, np.ones((1, 2)), "valid") == np.arange(8.0) * 2 + 1).all()


def test_arrays_stay_as_they_are():
    image, template = IMAGE.copy(), TEMPLATE.copy()
    flcc.match_template(image, template, method="fourier")
    assert (image == IMAGE).all() and (template == TEMPLATE).all()


def test_what_makes_arrays_of_itself():
    class Frame:
        def __array__(self, dtype=None, copy=None):
            return IMAGE

    assert (flcc.match_template(Frame(), TEMPLATE) == SCORES).all()


def outs():
    shape = SCORES.shape
    yield "as it is", np.empty(shape)
    yield "Fortran's order", np.empty(shape, order="F")
    yield "with gaps", np.empty((shape[0] * 2, shape[1] * 3))[::2, ::3]
    yield "backwards", np.empty(shape)[::-1, ::-1]
    yield "other byte order", np.empty(shape, np.dtype("f8").newbyteorder())
    yield "not aligned", np.zeros(8 * SCORES.size + 1, "u1")[1:].view("f8").reshape(shape)


@pytest.mark.parametrize("name", [name for name, _ in outs()])
def test_out(name):
    out = dict(outs())[name]
    assert flcc.match_template(IMAGE, TEMPLATE, out=out) is out
    assert (out == SCORES).all()


def test_out_decides_the_type():
    out = np.empty(SCORES.shape, np.float32)
    assert abs(flcc.match_template(IMAGE, TEMPLATE, out=out) - SCORES).max() < 1e-5


def test_out_may_be_an_argument():
    template = np.array([[0.25, 0.5], [1.0, -1.0]])
    expected = flcc.correlate(IMAGE, template, "same")
    image = IMAGE.copy()
    assert (flcc.correlate(image, template, "same", out=image) == expected).all()
    # Between the samples of the image.
    both = np.zeros((40, 100))
    both[:, ::2] = IMAGE
    flcc.correlate(both[:, ::2], template, "same", out=both[:, 1::2])
    assert (both[:, 1::2] == expected).all() and (both[:, ::2] == IMAGE).all()
    rows = np.zeros((80, 50))
    rows[::2] = IMAGE
    flcc.correlate(rows[::2], template, "same", out=rows[1::2])
    assert (rows[1::2] == expected).all()
    # A template that lies in the result's memory.
    line = np.arange(20.0)
    expected = flcc.convolve(np.arange(20.0), np.arange(3.0), "same")
    assert (flcc.convolve(np.arange(20.0), line[:3], "same", out=line) == expected).all()


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        (np.empty((3, 3)), ValueError, r"out: expected an array of float64 and shape \[35, 44\], got float64 and"),
        (np.empty(SCORES.shape, "i4"), ValueError, "out: expected float32 or float64, got int32"),
        (np.empty(SCORES.shape, "f2"), ValueError, "out: expected float32 or float64, got float16"),
        (SCORES.tolist(), TypeError, "out: expected an array of float64 .*, got list"),
        (np.broadcast_to(0.0, SCORES.shape), ValueError, "out: expected an array that can be written, got a read-only"),
    ],
)
def test_out_refused(out, error, words):
    with pytest.raises(error, match=words):
        flcc.match_template(IMAGE, TEMPLATE, out=out)


def test_out_beside_dtype():
    with pytest.raises(ValueError, match="out: expected an array of float32"):
        flcc.match_template(IMAGE, TEMPLATE, dtype="f4", out=np.empty(SCORES.shape))


def test_results_of_threads_side_by_side():
    """Threads that write between each other's samples."""
    both = np.zeros((2, 40, 2, 50))
    both[0, :, 0], both[1, :, 0] = IMAGE, IMAGE[::-1]
    template = np.ones((3, 3))
    expected = [flcc.correlate(IMAGE, template, "same"), flcc.correlate(IMAGE[::-1], template, "same")]
    plan = flcc.plan((40, 50), (3, 3), "f8", measure="corr", mode="same", threads=1)

    def work(k):
        matcher = plan.bind(template)
        for _ in range(200):
            matcher(both[k, :, 0], out=both[k, :, 1])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (both[0, :, 1] == expected[0]).all() and (both[1, :, 1] == expected[1]).all()


def test_what_another_call_writes_is_refused():
    image = RNG.random((1200, 1200))
    template = image[:90, :90].copy()
    out = np.empty_like(image)
    refused = []

    def look(done, total):
        with pytest.raises(ValueError, match="image: expected an array that no other call writes, got one that is"):
            flcc.match_template(out, template)
        # Beside it is something else.
        flcc.match_template(image, template[:3, :3])
        refused.append(done)

    flcc.correlate(image, template, "same", out=out, progress=look, method="direct")
    assert refused


def outs_beside(image):
    """Ways to lie in the memory of an image, and whether elements are the image's."""
    yield "as it is", image, True
    yield "with gaps", image[::2, ::2], True
    yield "other byte order", image.view(image.dtype.newbyteorder()), True
    yield "between its rows", image[1::2], False


@pytest.mark.parametrize("name", [name for name, _, _ in outs_beside(np.zeros((2, 2)))])
def test_out_that_another_call_reads_is_refused(name):
    memory = RNG.random((1200, 1200))
    _, out, shared = next(row for row in outs_beside(memory) if row[0] == name)
    image = memory if shared else memory[::2]
    before, template, told = out.tobytes(), image[:90, :90].copy(), []
    small, ones = RNG.random(out.shape), np.ones((3, 3))

    def look(done, total):
        if not told:
            with pytest.raises(ValueError, match="out: expected an array that no other call reads or writes, got one"):
                flcc.correlate(small, ones, "same", out=out)
            told.append(done)

    flcc.correlate(image, template, "same", progress=look, method="direct")
    assert told and out.tobytes() == before
    # When that has ended it is written.
    assert flcc.correlate(small, ones, "same", out=out) is out and (out == flcc.correlate(small, ones, "same")).all()


def test_out_that_another_call_writes_is_refused():
    image = RNG.random((1200, 1200))
    told = []
    # Strides or not: the memory is claimed from the begin.
    out = np.zeros((1200, 2400))[:, ::2]

    def look(done, total):
        if not told:
            with pytest.raises(ValueError, match="out: expected an array that no other call reads or writes"):
                flcc.correlate(image, np.ones((3, 3)), "same", out=out)
            with pytest.raises(ValueError, match="in1: expected an array that no other call writes"):
                flcc.correlate(out, np.ones((3, 3)), "same")
            told.append(done)

    flcc.correlate(image, image[:90, :90].copy(), "same", out=out, progress=look, method="direct")
    assert told


def test_parts_of_one_array_are_written_at_once():
    image = RNG.random((1200, 1200))
    whole = np.zeros((1200, 2400))
    told = []

    def look(done, total):
        if not told:
            part = flcc.correlate(image, np.ones((3, 3)), "same", out=whole[:, 1200:])
            told.append((part == flcc.correlate(image, np.ones((3, 3)), "same")).all())

    flcc.correlate(image, image[:90, :90].copy(), "same", out=whole[:, :1200], progress=look, method="direct")
    assert told == [True] and whole.all()


def test_colours_in_place_by_threads():
    colours = RNG.random((90, 80, 3))
    expected = [flcc.correlate(colours[..., k].copy(), np.ones((3, 3)), "same") for k in range(3)]
    failed = []

    def work(k):
        try:
            for _ in range(100):
                before = colours[..., k].copy()
                flcc.correlate(colours[..., k], np.ones((3, 3)), "same", out=colours[..., k])
                assert (colours[..., k] == flcc.correlate(before, np.ones((3, 3)), "same")).all()
                colours[..., k] = before
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    for k in range(3):
        assert (flcc.correlate(colours[..., k], np.ones((3, 3)), "same") == expected[k]).all()


@pytest.mark.filterwarnings("ignore:Creating an ndarray from ragged")
@pytest.mark.parametrize(
    ("image", "error", "words"),
    [
        (1.0, ValueError, "image: expected 1 to 3 axes, got 0 axes"),
        (np.zeros((2, 2, 2, 2)), ValueError, "image: expected 1 to 3 axes, got 4 axes"),
        (np.zeros((0, 5)), ValueError, "image: expected at least one sample on every axis, got 0x5"),
        (np.zeros((5, 0)), ValueError, "image: expected at least one sample on every axis, got 5x0"),
        (np.zeros((5, 5), complex), TypeError, "image: expected uint8, .*, got dtype complex128"),
        (np.zeros((5, 5), np.longdouble), TypeError, "image: expected uint8, .*, got dtype float128|longdouble"),
        (np.zeros((5, 5), object), TypeError, "image: expected uint8, .*, got dtype object"),
        (np.zeros((5, 5), "M8[s]"), TypeError, "image: expected uint8, .*, got dtype datetime64"),
        (np.zeros((5, 5), [("a", "f4")]), TypeError, "image: expected uint8, .*, got dtype .*'a'"),
        (np.ma.zeros((5, 5)), TypeError, "image: expected an array without a mask .*, got a MaskedArray"),
        ([[1, 2], [3]], TypeError, "image: expected an array of numbers, of 1 to 3 axes, got list|dtype object"),
        (None, TypeError, "image: expected an array of numbers, of 1 to 3 axes, got NoneType"),
        ("photo.png", TypeError, "image: expected an array of numbers, of 1 to 3 axes, got str"),
        (np.full((5, 5), 2**53 + 1), ValueError, "image: expected integers that float64 .*, got 9007199254740993"),
        (np.full((5, 5), -(2**53) - 1), ValueError, "image: .* got -9007199254740993"),
        (np.full((5, 5), 2**64 - 1, "u8"), ValueError, "image: .* got 18446744073709551615"),
    ],
)
def test_refused_by_name(image, error, words):
    with pytest.raises(error, match=words):
        flcc.match_template(image, np.eye(2))
    with pytest.raises(error, match=words.replace("image", "in1")):
        flcc.convolve(image, np.eye(2))


def test_wide_integers_that_fit():
    image = np.array([2**53, -(2**60), 0, 5])
    assert (flcc.correlate(image, [1], "valid") == image.astype(float)).all()


# What a process holds after 3,000 calls and after 102,000 more, in bytes.
MANY_CALLS = """
import os
import flcc, numpy as np

image, template = np.zeros((64, 64), np.float32), np.eye(5, dtype=np.float32)
strided = np.zeros((128, 128), np.float32)[::2, ::2]

def held_after(turns):
    for _ in range(turns):
        flcc.match_template(image, template, threads=1)
        flcc.match_template(strided, template, threads=1)
        flcc.find(image, template, threads=1)
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

print(held_after(1_000), held_after(34_000))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc tells how much memory a process holds")
def test_memory_stays_flat():
    # In a process of its own, where nothing else comes and goes.
    done = subprocess.run([sys.executable, "-c", MANY_CALLS], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    # The least that malloc gives out is 32 bytes: kept by one of the three calls, they would be more than this.
    assert after - before < 1 << 20, f"{before} bytes, then {after}"

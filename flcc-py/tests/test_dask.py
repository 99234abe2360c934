"""Arrays of dask: results and peaks are those of the arrays in memory, bit for bit, whatever the chunks."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time

import dask
import dask.array as da
import flcc
import flcc.dask
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

BOUNDARIES = ["zero", "constant", "replicate", "reflect", "mirror", "wrap"]
MEASURES = ["zncc", "lcc", "ncc", "cc", "ssd", "nssd", "sad"]
SIDES = {1: ((5000,), (70,)), 2: ((230, 190), (9, 12)), 3: ((40, 33, 50), (5, 4, 7))}
CHUNKS = {1: [(701,), (5000,)], 2: [(64, 50), ((1, 200, 29), (190,))], 3: [(13, 20, 17), (40, 33, (7, 43))]}


def noise(shape, dtype="f4", seed=1):
    return np.asarray(np.random.default_rng(seed).integers(0, 200, shape), dtype)


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_modes_boundaries_and_chunks(mode, axes):
    image, template = (noise(shape, seed=axes) for shape in SIDES[axes])
    for boundary in BOUNDARIES if mode != "valid" else BOUNDARIES[:1]:
        words = dict(mode=mode, boundary=boundary, cval=3.0 if boundary == "constant" else 0.0)
        expected = flcc.match_template(image, template, **words)
        for chunks in CHUNKS[axes]:
            blocks = da.from_array(image, chunks=chunks)
            scores = flcc.dask.match_template(blocks, template, **words)
            assert scores.shape == expected.shape and scores.dtype == expected.dtype
            assert np.array_equal(scores.compute(), expected)
        forced = flcc.dask.match_template(blocks, template, **words, chunks=tuple(37 + 5 * axes for _ in range(axes)))
        assert np.array_equal(forced.compute(), expected)


@pytest.mark.parametrize("measure", MEASURES)
def test_measures_masks_and_types(measure):
    for dtype in ("u1", "u2", "f4", "f8", "i2"):
        image, template = noise((120, 130), dtype), noise((7, 8), dtype, 2)
        words = dict(measure=measure, mode="same", boundary="reflect", mask=noise((7, 8), "u1") > 60)
        blocks = da.from_array(image, chunks=(50, 41))
        assert np.array_equal(
            flcc.dask.match_template(blocks, template, **words).compute(), flcc.match_template(image, template, **words)
        )


@pytest.mark.parametrize("measure", ["zncc", "ncc", "ssd"])
def test_masks_of_weights_in_volumes(measure):
    image, template = noise(SIDES[3][0], "u2"), noise(SIDES[3][1], "f4", 2)
    words = dict(measure=measure, mode="full", boundary="mirror", mask=noise(SIDES[3][1], "f4", 3) / 200)
    for chunks in CHUNKS[3]:
        scores = flcc.dask.match_template(da.from_array(image, chunks=chunks), template, **words)
        assert np.array_equal(scores.compute(), flcc.match_template(image, template, **words))


@pytest.mark.parametrize(
    ("method", "axes"),
    [*itertools.product(["direct", "fourier", "auto"], [1, 2, 3]), ("separable", 2), ("separable", 3)],
)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_sums(name, method, axes):
    shape, sides = SIDES[axes]
    image, template = noise(shape, "f8"), noise(sides, "f8", 2)
    if method == "separable":
        template = np.ones(sides)
    for mode in ("full", "same", "valid"):
        words = dict(mode=mode, boundary="wrap" if mode != "valid" else "zero", method=method, dtype="f4")
        expected = getattr(flcc, name)(image, template, **words)
        for chunks in CHUNKS[axes]:
            blocks = da.from_array(image, chunks=chunks)
            assert np.array_equal(getattr(flcc.dask, name)(blocks, template, **words).compute(), expected)


def test_nothing_is_computed_before_it_is_asked_for():
    reads = []

    def read(block, block_info=None):
        reads.append(block_info[0]["chunk-location"])
        return block

    image = da.from_array(noise((3000, 2000)), chunks=(500, 500)).map_blocks(read, dtype="f4")
    scores = flcc.dask.match_template(image, noise((6, 7)), chunks=(500, 500))
    assert not reads
    scores[:100, :100].compute()
    # Whole tiles are computed, so some neighbours are read, and no more.
    assert 0 < len(reads) < 24


def test_an_array_that_is_sliced_is_read_by_what_is_looked_at(tmp_path):
    image = noise((400, 500), "u2")
    stored = zarr.create_array(tmp_path / "image.zarr", shape=image.shape, chunks=(64, 64), dtype="u2")
    stored[...] = image
    template = image[100:109, 57:70]
    expected = flcc.match_template(image, template, mode="same", boundary="wrap")
    direct = flcc.dask.match_template(stored, template, mode="same", boundary="wrap")
    assert len(direct.chunks[0]) > 1
    by_dask = flcc.dask.match_template(da.from_zarr(stored), template, mode="same", boundary="wrap")
    assert np.array_equal(direct.compute(), expected) and np.array_equal(by_dask.compute(), expected)
    into = tmp_path / "scores.zarr"
    direct.rechunk((100, 100)).to_zarr(str(into))
    assert np.array_equal(zarr.open_array(into, mode="r")[...], expected)


def same_peaks(found, expected):
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected), (found, expected)


ASKED = [
    {},
    {"k": 7},
    {"k": 12, "min_distance": 0},
    {"k": 9, "min_distance": 40},
    {"threshold": 0.2},
    {"threshold": 0.1, "k": 5, "exclude_border": 11},
    {"k": 6, "subpixel": True},
    {"k": 6, "subpixel": "gauss"},
    {"exclude_border": 30},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_peaks_are_those_of_the_whole(axes, asked):
    shape, sides = SIDES[axes]
    # Of few levels, so that many scores are equal.
    image = noise(shape, "u1") // 60
    templates = [image[tuple(slice(n // 3, n // 3 + side) for n, side in zip(shape, sides))]]
    templates += [image[tuple(slice(side) for side in sides)], image[tuple(slice(n // 2, n // 2 + 3) for n in shape)]]
    chunks = tuple(n // (6 - axes) + 3 for n in shape)
    blocks = da.from_array(image, chunks=chunks)
    for words in ({"mode": "full"}, {"mode": "same", "boundary": "mirror", "measure": "nssd"}):
        found = flcc.dask.find(blocks, templates, **words, **asked, chunks=None).compute()
        same_peaks(found, flcc.find(image, templates, **words, **asked))
        one = flcc.dask.find(blocks, templates[2], **words, **asked, chunks=None)
        same_peaks(one.compute(), flcc.find(image, templates[2], **words, **asked))
        forced = flcc.dask.find(blocks, templates[0], **words, **asked, chunks=chunks)
        same_peaks(forced.compute(), flcc.find(image, templates[0], **words, **asked))


@pytest.mark.parametrize("measure", ["zncc", "ssd"])
@pytest.mark.parametrize("k", [None, 3])
def test_no_place_is_left_to_two_templates(measure, k):
    image = noise((230, 190))
    # Each lies in the other, so that the same places are good for both.
    templates = [image[50:62, 60:75], image[53:60, 63:70], image[53:60, 64:71], image[150:162, 90:105]]
    scores = flcc.match_template(image, templates[1], measure=measure)
    threshold = float(np.quantile(scores, 0.1 if measure == "ssd" else 0.9))
    for words in (dict(k=k, threshold=threshold), dict(k=k, min_distance=2, threshold=threshold, subpixel=True)):
        expected = flcc.find(image, templates, exclusive=True, measure=measure, **words)
        assert len(expected) and len(expected) < len(flcc.find(image, templates, measure=measure, **words)) or k
        for chunks in CHUNKS[2]:
            blocks = da.from_array(image, chunks=chunks)
            found = flcc.dask.find(blocks, templates, exclusive=True, measure=measure, **words).compute()
            assert found.dtype == expected.dtype and (found == expected).all()
    best = flcc.dask.find(da.from_array(image, chunks=(64, 50)), templates, exclusive=True, measure=measure).compute()
    assert (best == flcc.find(image, templates, exclusive=True, measure=measure)).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_channels(axis, tmp_path):
    image = np.moveaxis(noise((130, 120, 3), "u1"), -1, axis)
    place = [slice(40, 49), slice(33, 45)]
    place.insert(axis % 3, slice(None))
    template = image[tuple(place)].copy()
    chunks = [50, 41]
    chunks.insert(axis % 3, 2)
    blocks = da.from_array(image, chunks=tuple(chunks))
    for words in (dict(mode="same", boundary="reflect"), dict(measure="nssd", mask=noise((9, 12), "u1") > 60)):
        expected = flcc.match_template(image, template, channel_axis=axis, **words)
        assert np.array_equal(
            flcc.dask.match_template(blocks, template, channel_axis=axis, **words).compute(), expected
        )
        stored = zarr.create_array(tmp_path / f"{len(words)}{axis}.zarr", shape=image.shape, chunks=chunks, dtype="u1",
                                   overwrite=True)
        stored[...] = image
        assert np.array_equal(
            flcc.dask.match_template(stored, template, channel_axis=axis, **words).compute(), expected
        )
    summed = flcc.dask.correlate(blocks, template, "full", channel_axis=axis).compute()
    assert np.array_equal(summed, flcc.correlate(image, template, "full", channel_axis=axis))
    found = flcc.dask.find(blocks, [template, template], k=3, subpixel=True, channel_axis=axis).compute()
    assert (found == flcc.find(image, [template, template], k=3, subpixel=True, channel_axis=axis)).all()
    with pytest.raises(ValueError, match="channel_axis: expected an axis of the image, from -3 to 2, got 3"):
        flcc.dask.correlate(blocks, template, channel_axis=3)


@pytest.mark.parametrize("smallest", [False, True])
def test_peaks_of_scores_with_nan(smallest):
    scores = noise((90, 80)) // 50
    scores[30:50, 20:60] = np.nan
    for asked in ({"k": 20}, {"threshold": 3.0 - 2 * smallest, "min_distance": 4}, {"k": 3, "subpixel": True}):
        found = flcc.dask.peaks(da.from_array(scores, chunks=(17, 23)), smallest=smallest, **asked)
        same_peaks(found.compute(), flcc.peaks(scores, smallest=smallest, **asked))


KNOWN_SIDES = {1: ((90_000,), (70,)), 2: ((430, 390), (9, 12)), 3: ((50, 43, 50), (5, 4, 7))}


def known_of(kind, shape, seed=4):
    """A mask of an image: all of a corner is known, and of the rest some."""
    generator = np.random.default_rng(seed)
    known = generator.random(shape) > 0.3
    known[tuple(slice(2 * n // 3) for n in shape)] = True
    if kind == "bool":
        return known
    return np.asarray(known * (generator.integers(1, 4, shape) if kind == "u1" else generator.random(shape) * 7), kind)


def blocks_of(array, parts):
    """An array of dask, in chunks that no other number of parts has."""
    return da.from_array(array, chunks=tuple(n // parts + parts for n in array.shape))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["bool", "u1", "f4"])
def test_images_of_which_not_all_is_known(axes, kind):
    shape, sides = KNOWN_SIDES[axes]
    known = known_of(kind, shape)
    spots = [("valid", "zero"), ("full", "unknown"), ("full", "wrap"), ("same", "mirror"), ("same", "symmetric")]
    spots += [("full", "constant"), ("same", "edge"), ("valid", "constant"), ("same", "zero")]
    measures = itertools.cycle(["zncc", "ssd", "nssd", "ncc", "cc", "sad"])
    for (mode, boundary), dtype in zip(spots, itertools.cycle(["u1", "f8", "u2", "f4"])):
        image, template = noise(shape, dtype, axes), noise(sides, "u1" if dtype == "u2" else dtype, 2)
        words = dict(mode=mode, boundary=boundary, cval=2.5 if boundary == "constant" else 0.0, min_overlap=0.3)
        words["measure"] = next(measures)
        expected = flcc.match_template(image, template, image_mask=known, **words)
        for given, of_mask in [(blocks_of(image, 3), blocks_of(known, 4)), (blocks_of(image, 2), known)]:
            scores = flcc.dask.match_template(given, template, image_mask=of_mask, **words)
            assert scores.shape == expected.shape and scores.dtype == expected.dtype
            assert np.array_equal(scores.compute(), expected), words
        chunks = tuple(n // 2 + 7 for n in expected.shape)
        forced = flcc.dask.match_template(given, template, image_mask=known, **words, chunks=chunks, threads=2)
        assert np.array_equal(forced.compute(), expected), words


def test_what_is_unknown_may_be_anything_and_outside_alone_may_be():
    image, template = noise((430, 390)), noise((9, 12), "f4", 2)
    known = known_of("bool", image.shape)
    spoilt = np.where(known, image, np.nan).astype("f4")
    words = dict(mode="full", boundary="unknown", min_overlap=0.4, mask=noise((9, 12), "f4", 3) / 200)
    expected = flcc.match_template(image, template, image_mask=known, **words)
    found = flcc.dask.match_template(blocks_of(spoilt, 3), template, image_mask=blocks_of(known, 2), **words)
    assert np.array_equal(found.compute(), expected)
    alone = flcc.dask.match_template(blocks_of(image, 3), template, **words)
    assert np.array_equal(alone.compute(), flcc.match_template(image, template, **words))
    image[200, 100] = np.inf
    expected = flcc.match_template(image, template, image_mask=np.ones(image.shape, bool))
    found = flcc.dask.match_template(blocks_of(image, 3), template, image_mask=np.ones(image.shape, bool))
    assert np.isnan(expected).any() and np.array_equal(found.compute(), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["u1", "f8"])
@pytest.mark.parametrize("outside", [1e-3, 3.0])
def test_the_largest_weight_counts_for_all_blocks(dtype, outside):
    # It lies in the last block alone, and roots of sums round differently where it counts.
    image, template = noise((430, 390), dtype), noise((9, 12), dtype, 2)
    known = np.ones(image.shape, "f8")
    known[::3] = 0.5
    known[-1, -1] = 3 * outside
    for words in ({}, {"mode": "same", "boundary": "constant", "cval": 7.0}):
        expected = flcc.match_template(image, template, image_mask=known, **words)
        found = flcc.dask.match_template(blocks_of(image, 3), template, image_mask=blocks_of(known, 2), **words)
        assert np.array_equal(found.compute(), expected)


@pytest.mark.parametrize("axis", [0, -1])
def test_channels_of_which_not_all_is_known(axis, tmp_path):
    image = np.moveaxis(noise((330, 320, 3), "u1"), -1, axis)
    template = np.moveaxis(noise((9, 12, 3), "u1", 2), -1, axis)
    known = known_of("u1", (330, 320))
    stored = {}
    for name, array in (("image", image), ("known", known)):
        chunks = tuple(n // 3 + 1 for n in array.shape)
        stored[name] = zarr.create_array(tmp_path / f"{name}.zarr", shape=array.shape, chunks=chunks, dtype="u1")
        stored[name][...] = array
    for words in (dict(mode="full", boundary="wrap"), dict(measure="ssd", mask=noise((9, 12), "u1") > 60)):
        expected = flcc.match_template(image, template, channel_axis=axis, image_mask=known, **words)
        for given, of_mask in [(blocks_of(image, 3), blocks_of(known, 2)), (stored["image"], stored["known"])]:
            found = flcc.dask.match_template(given, template, channel_axis=axis, image_mask=of_mask, **words)
            assert np.array_equal(found.compute(), expected)


@pytest.mark.parametrize(
    "asked", [{"k": 7}, {"threshold": 0.4}, {"k": 5, "subpixel": True}, {"k": 4, "exclusive": True}], ids=str
)
@pytest.mark.parametrize("axes", [2, 3])
def test_peaks_of_what_is_known(axes, asked):
    shape, sides = KNOWN_SIDES[axes]
    image, known = noise(shape, "u1"), known_of("f4", shape)
    templates = [image[tuple(slice(n // 3, n // 3 + side) for n, side in zip(shape, sides))]]
    templates += [image[tuple(slice(side) for side in sides)], image[tuple(slice(n // 2, n // 2 + 3) for n in shape)]]
    for words in ({"min_overlap": 0.5}, {"mode": "full", "boundary": "unknown", "min_overlap": 0.6}):
        expected = flcc.find(image, templates, image_mask=known, **words, **asked)
        found = flcc.dask.find(blocks_of(image, 3), templates, image_mask=blocks_of(known, 2), **words, **asked)
        same_peaks(found.compute(), expected)
    alone = flcc.dask.find(blocks_of(image, 3), templates[0], **words, **asked)
    same_peaks(alone.compute(), flcc.find(image, templates[0], **words, **asked))


def test_a_mask_is_read_when_it_is_asked_for():
    reads = []

    def read(block, block_info=None):
        reads.append(block_info[0]["chunk-location"])
        return block

    image, template = noise((3000, 2000)), noise((6, 7))
    known = da.from_array(image > 20, chunks=(500, 500)).map_blocks(read, dtype=bool)
    scores = flcc.dask.match_template(blocks_of(image, 4), template, image_mask=known, chunks=(500, 500))
    assert not reads
    scores[:100, :100].compute()
    assert 0 < len(reads) < 8
    reads.clear()
    # All weights are looked at once where they may differ.
    weights = known.astype("f4")
    flcc.dask.match_template(image, template, image_mask=weights, chunks=(500, 500))[:100, :100].compute()
    assert len(set(reads)) == 24


def test_what_is_wrong_with_an_image_mask_is_told():
    image, template = blocks_of(noise((50, 60), "f8"), 3), noise((5, 6), "f8", 2)
    ones = np.ones(image.shape)
    for call in (flcc.dask.match_template, flcc.dask.find):
        for words, text in [
            ({"image_mask": ones[1:]}, "image_mask: expected 50x60 with 1 channel, as the image, got 49x60"),
            ({"image_mask": ones, "min_overlap": 2}, "min_overlap: expected a share from 0 to 1, got 2"),
            ({"min_overlap": 0.5}, "min_overlap: expected 0 without image_mask or boundary unknown, got 0.5"),
            ({"image_mask": ones, "method": "direct"}, "method: expected auto with image_mask"),
            ({"image_mask": ones, "accuracy": "exact"}, "accuracy: expected promised or fast"),
            ({"image_mask": ones, "boundary": "no", "mode": "same"}, "boundary: expected"),
            ({"image_mask": ones, "mask": ones}, "mask: expected"),
        ]:
            with pytest.raises(ValueError, match=text):
                call(image, template, **words)
        with pytest.raises(TypeError, match="image_mask: expected real numbers that float64 holds, got dtype complex"):
            call(image, template, image_mask=ones.astype("c8"))
        with pytest.raises(ValueError, match="not all equal"):
            call(image, np.ones((5, 6)), image_mask=ones)
        # Values of a mask are known when it is read.
        for wrong, text in [(-1, "finite weights >= 0, got -1"), (np.nan, "finite weights >= 0, got nan"),
                            (1e-200, "positive weights of at least 2\\^-300 of the largest, 1")]:
            spoilt = ones.copy()
            spoilt[40, 50] = wrong
            lazy = call(image, template, image_mask=blocks_of(spoilt, 2))
            with pytest.raises(ValueError, match=f"image_mask: expected {text}"):
                lazy.compute()
            with pytest.raises(ValueError, match=f"(?i)image_mask: expected {text}"):
                getattr(flcc, call.__name__)(image.compute(), template, image_mask=spoilt)
    with pytest.raises(TypeError, match="image_mask"):
        flcc.dask.correlate(image, template, image_mask=ones)


def test_another_kernel_is_refused_under_a_mask():
    problem = flcc.dask._MaskedProblem(
        blocks_of(noise((50, 60)), 3), [noise((5, 6))], None, flcc.dask._Known(None, 0.0), "zncc",
        dict(mode="full", boundary="unknown", cval=0.0, method="auto", accuracy="promised", dtype=None,
             channel_axis=None), 1,
    )
    payload = pickle.dumps(problem.blocks)
    assert flcc.dask._bind_masked(payload, problem.blocks.kernels, flcc._flcc._source)[0].shape == (54, 65)
    with pytest.raises(RuntimeError, match="kernel: expected another, which all blocks"):
        flcc.dask._bind_masked(payload, ["another"], flcc._flcc._source)
    with pytest.raises(RuntimeError, match="flcc: expected another-1, which built the graph, got flcc-"):
        flcc.dask._bind_masked(payload, [], "another-1")


def test_peaks_that_are_none_crowd_no_others_out():
    # A slope: at the end of each block's surroundings there are many that are none in the whole, all better.
    scores = np.tile(np.arange(90.0), (200, 1)) + noise((200, 90), "f8") / 1000
    scores[50, 5], scores[120, 7] = 8, 12
    asked = dict(k=6, min_distance=1, exclude_border=2)
    found = flcc.dask.peaks(da.from_array(scores, chunks=(200, 30)), **asked).compute()
    assert found["position"].tolist() == [[120, 7], [50, 5]]
    same_peaks(found, flcc.peaks(scores, **asked))


def test_what_is_wrong_is_told_at_once():
    blocks = da.from_array(noise((50, 60)), chunks=20)
    with pytest.raises(ValueError, match="template"):
        flcc.dask.match_template(blocks, noise((70, 3)))
    with pytest.raises(ValueError, match="not all equal"):
        flcc.dask.match_template(blocks, np.ones((3, 3), "f4"))
    with pytest.raises(ValueError, match="boundary: expected"):
        flcc.dask.match_template(blocks, noise((3, 3)), mode="same", boundary="no")
    with pytest.raises(ValueError, match="k: expected 1 or more, got 0"):
        flcc.dask.find(blocks, noise((3, 3)), k=0)
    with pytest.raises(ValueError, match="min_distance"):
        flcc.dask.find(blocks, noise((3, 3)), min_distance=-1)
    with pytest.raises(ValueError, match="at least one template"):
        flcc.dask.find(blocks, [])
    with pytest.raises(TypeError, match="image: expected real numbers"):
        flcc.dask.match_template(blocks.astype("c8"), noise((3, 3)))


def test_another_kernel_is_refused():
    matcher = flcc.plan("corr:f32:60x60*3x3:valid").bind(np.ones((3, 3), "f4"))
    with pytest.raises(RuntimeError, match="kernel: expected another, which all blocks"):
        flcc.dask._bind(pickle.dumps(matcher), "another", flcc._flcc._source)
    with pytest.raises(RuntimeError, match="flcc: expected another-1, which built the graph, got flcc-"):
        flcc.dask._bind(pickle.dumps(matcher), matcher.kernel, "another-1")


def test_blocks_have_the_kernel_of_all_threads():
    # Of rank 1, so that what is bound may take the separable runner-up, and of none.
    image, template = noise((700, 900)), np.outer(np.arange(1, 20), np.arange(3, 24)).astype("f4")
    for template in (template, noise((19, 21))):
        expected = flcc.plan(image.shape, template.shape, measure="corr").bind(template)
        blocks = da.from_array(image, chunks=(300, 300))
        for threads in (1, 2):
            scores = flcc.dask.correlate(blocks, template, "valid", threads=threads)
            assert np.array_equal(scores.compute(), expected(image))


def test_without_dask_it_is_named():
    line = (
        "import sys; sys.modules['dask'] = None; import flcc\n"
        "try:\n    import flcc.dask\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert said.stdout == "flcc.dask: expected the packages of pip install './flcc-py[dask]', got no dask.array\n"


def test_importing_flcc_does_not_import_dask():
    line = "import sys, flcc; print('dask' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_a_cluster_of_which_a_worker_is_killed(tmp_path):
    """An array larger than a worker's memory, and two workers, one of which is killed when some blocks are done."""
    side, step, limit = 22_000, 2_000, 400 << 20
    stored = zarr.create_array(tmp_path / "large.zarr", shape=(side, side), chunks=(step, step), dtype="u1")
    assert stored.nbytes > limit
    block = noise((step, step), "u1")
    template = noise((16, 16), "u1", 3)
    # In the middle of a chunk, where four of them meet, and at the last place.
    places = [(1234, 567), (7_992, 11_995), (side - 16, side - 16)]
    for row in range(0, side, step):
        for column in range(0, side, step):
            chunk = block
            for y, x in places:
                if row - 16 < y < row + step and column - 16 < x < column + step:
                    chunk = chunk.copy()
                    for dy in range(16):
                        for dx in range(16):
                            at = (y + dy - row, x + dx - column)
                            if 0 <= at[0] < step and 0 <= at[1] < step:
                                chunk[at] = template[dy, dx]
            stored[row : row + step, column : column + step] = chunk
    with (
        dask.config.set(scheduler=None, **{"distributed.worker.daemon": True}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=limit,
            dashboard_address=None,
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster) as client,
    ):
        found = client.compute(flcc.dask.find(stored, template, threshold=0.9))
        victim = client.run(os.getpid)
        before = set(victim.values())

        def done(dask_scheduler):
            states = [str(task.key) for task in dask_scheduler.tasks.values() if task.state == "memory"]
            return sum("flcc-search" in key for key in states)

        deadline = time.monotonic() + 60
        while client.run_on_scheduler(done) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not found.done()
        os.kill(before.pop(), signal.SIGKILL)
        peaks = found.result(timeout=120)
        after = set(client.run(os.getpid).values())
    assert not set(victim.values()) <= after
    assert sorted(map(tuple, peaks["position"].tolist())) == places
    assert np.allclose(peaks["score"], 1)

"""Parts of results, from the samples that they look at: those of the whole result bit for bit."""

import re

import flcc
import numpy as np
import pytest

BOUNDARIES = ["zero", "constant(7.5)", "replicate", "reflect", "mirror", "wrap"]
SPECS = [
    "zncc:f32:300x210*8x9",
    "corr:u8:200x90*5x4",
    "conv:f64:90x120*33x7",
    "ssd:f32:30x25x28*3x4x5",
    "nssd:u16:40x22x30*9x3x3",
    "corr:f32:9000*70",
]


def problem(text):
    generator = np.random.default_rng(5)
    plan = flcc.plan(text)
    image, template = text.split(":")[2].split(",")[0].split("*")
    sides = [tuple(map(int, part.split("x"))) for part in (image, template)]
    dtype = {"f32": "f4", "f64": "f8", "u8": "u1", "u16": "u2"}[text.split(":")[1]]
    return plan, *(np.asarray(generator.integers(0, 200, shape), dtype) for shape in sides)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("spec", SPECS)
def test_regions_are_parts_of_the_whole(spec, mode):
    for boundary in BOUNDARIES if mode != "valid" else BOUNDARIES[:1]:
        plan, image, template = problem(f"{spec}:{mode},{boundary}")
        matcher = plan.bind(template)
        whole = matcher(image)
        generator = np.random.default_rng(2)
        for _ in range(6):
            region = []
            for length in plan.shape:
                begin, end = sorted(generator.choice(length + 1, 2, replace=False).tolist())
                region.append(slice(begin, end) if begin else slice(end))
            region = tuple(region)
            cutout = matcher.cut(image, region)
            for runs, axis in zip(matcher.needs(region), range(image.ndim)):
                assert sum(run.stop - run.start for run in runs) == cutout.shape[axis]
            part = matcher.region(cutout, region)
            assert np.array_equal(part, whole[region])
            assert np.array_equal(matcher.region(image, region), part)


def test_regions_into_an_array_of_several_templates_and_channels():
    image = np.random.default_rng(4).random((3, 900, 80), dtype=np.float32)
    plan = flcc.plan((3, 900, 80), (3, 7, 9), templates=2, channel_axis=0, mode="same", boundary="wrap")
    matcher = plan.bind([image[:, 5:12, 3:12], image[:, 50:57, 70:79]])
    whole = matcher(image)
    region = (slice(0, 20), slice(60, 80))
    cutout = matcher.cut(image, region)
    rows, columns = (sum(run.stop - run.start for run in runs) for runs in matcher.needs(region))
    assert len(matcher.needs(region)[0]) == 2
    assert cutout.shape == (3, rows, columns) and rows < 900
    out = np.empty((2, 20, 20), np.float32)
    assert matcher.region(cutout, region, out=out) is out
    assert np.array_equal(out, whole[(slice(None), *region)])

    class Sliced:
        """Read by slices and no other way."""

        shape = image.shape

        def __getitem__(self, place):
            assert all(isinstance(run, slice) for run in place)
            return image[place]

    assert np.array_equal(matcher.cut(Sliced(), region), cutout)


def test_tiles_cover_the_result_within_the_memory():
    plan, image, template = problem("zncc:u8:700x900*9x8:same,mirror")
    matcher = plan.bind(template)
    assert plan.seams[0][0] == 0 and plan.seams[1][-1] == 900
    with pytest.raises(ValueError, match=r"memory_limit: expected \d+ bytes, which one tile takes") as refused:
        plan.tiles(1000)
    least = int(re.search(r"\d+", str(refused.value))[0])
    tiles = plan.tiles(least)
    assert len(tiles) == (len(plan.seams[0]) - 1) * (len(plan.seams[1]) - 1)
    count, scores = np.zeros(plan.shape, int), np.empty(plan.shape, np.float32)
    for region in tiles:
        count[region] += 1
        cutout = matcher.cut(image, region)
        scores[region] = matcher.region(cutout, region)
        assert cutout.nbytes + scores[region].nbytes + plan.scratch_bytes <= least
    assert (count == 1).all() and np.array_equal(scores, matcher(image))
    assert plan.tiles(1 << 40) == [(slice(0, 700), slice(0, 900))]


def test_regions_of_auto_are_those_of_the_cpu():
    # Where there is a GPU, auto would take it for the whole of this.
    generator = np.random.default_rng(6)
    template = generator.integers(0, 200, (31, 31), np.uint8)
    plans = [flcc.plan("zncc:u8:40000x40000*31x31:valid", device=device) for device in ("auto", "cpu")]
    assert plans[0].seams == plans[1].seams and plans[0].tiles(1 << 28) == plans[1].tiles(1 << 28)
    matchers = [plan.bind(template) for plan in plans]
    region = (slice(5, 40), slice(20, 60))
    assert matchers[0].needs(region) == matchers[1].needs(region)
    sides = [sum(run.stop - run.start for run in runs) for runs in matchers[0].needs(region)]
    cutout = generator.integers(0, 200, sides, np.uint8)
    assert np.array_equal(*(matcher.region(cutout, region) for matcher in matchers))


@pytest.mark.parametrize(
    ("region", "error"),
    [
        (slice(0, 3), ValueError),
        ((slice(0, 3), slice(4, 4)), ValueError),
        ((slice(0, 3), slice(900, 901)), ValueError),
        ((slice(0, 3, 2), slice(0, 3)), ValueError),
        ((1, slice(0, 3)), TypeError),
        ("no", ValueError),
    ],
)
def test_what_is_no_region_is_refused(region, error):
    plan, image, template = problem("corr:f32:60x70*5x5:valid")
    matcher = plan.bind(template)
    calls = [matcher.needs, lambda region: matcher.cut(image, region), lambda region: matcher.region(image, region)]
    for call in calls:
        with pytest.raises(error, match="region: expected a tuple of 2 slices"):
            call(region)


def test_a_wrong_cutout_is_refused():
    plan, image, template = problem("corr:f32:60x70*5x5:valid")
    matcher = plan.bind(template)
    with pytest.raises(ValueError, match=r"image: expected .*\d+x\d+, got"):
        matcher.region(image[:3, :14], (slice(0, 10), slice(0, 10)))
    with pytest.raises(ValueError, match=r"image: expected the whole image, of shape \[60, 70\]"):
        matcher.cut(image[:13], (slice(0, 10), slice(0, 10)))

"""Peaks of scores, and places of templates."""

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(1)
IMAGE = RNG.random((80, 90))


def plainly(scores, k=None, threshold=None, distance=1):
    """Peaks by their definition, largest first."""
    found = []
    for at in np.ndindex(scores.shape):
        window = tuple(slice(max(0, i - distance), i + distance + 1) for i in at)
        near = scores[window]
        before = [p for p in np.ndindex(near.shape) if near[p] == scores[at]]
        first = tuple(s.start + i for s, i in zip(window, before[0]))
        if near.max() == scores[at] and first == at and (threshold is None or scores[at] >= threshold):
            found.append((-scores[at], at))
    found.sort()
    return [at for _, at in found[:k]]


@pytest.mark.parametrize("shape", [(200,), (30, 40), (9, 10, 11)])
@pytest.mark.parametrize("distance", [1, 3])
def test_peaks(shape, distance):
    scores = RNG.integers(0, 50, shape).astype(float)
    found = flcc.peaks(scores, threshold=20, min_distance=distance)
    assert found.dtype.names == ("position", "score")
    assert [tuple(at) for at in found["position"]] == plainly(scores, None, 20, distance)
    assert (found["score"] == scores[tuple(found["position"].T)]).all()
    few = flcc.peaks(scores, k=3, min_distance=distance)
    assert [tuple(at) for at in few["position"]] == plainly(scores, 3, None, distance)
    least = flcc.peaks(-scores, k=3, min_distance=distance, smallest=True)
    assert (least["position"] == few["position"]).all()


def test_one_peak_unless_more_are_asked_for():
    assert len(flcc.peaks(IMAGE)) == len(flcc.find(IMAGE, IMAGE[:5, :6])) == 1


def test_no_number_is_no_peak():
    scores = np.full((5, 6), np.nan)
    assert flcc.peaks(scores).shape == (0,)
    scores[2, 3] = -1
    assert flcc.peaks(scores)["position"].tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"k": 0}, "k: expected 1 or more, got 0"),
        ({"threshold": np.nan}, "threshold: expected a number, got nan"),
        ({"min_distance": -1}, "min_distance: expected a number of positions, got -1"),
        ({"exclude_border": -2}, "exclude_border: expected a number of positions, got -2"),
        ({"subpixel": "best"}, "subpixel: expected True, False, quadratic, gauss, cubic or septic, got best"),
    ],
)
def test_refused(keywords, words):
    with pytest.raises(ValueError, match=words):
        flcc.peaks(IMAGE, **keywords)
    with pytest.raises(ValueError, match=words):
        flcc.find(IMAGE, IMAGE[:4, :4], **keywords)


def test_find_is_the_peaks_of_the_map():
    template = IMAGE[20:27, 33:38]
    for keywords in [{}, {"measure": "ssd"}, {"mode": "same", "boundary": "wrap"}, {"accuracy": "fast"}]:
        found = flcc.find(IMAGE, template, k=5, min_distance=4, **keywords)
        scores = flcc.match_template(IMAGE, template, **keywords)
        peaks = flcc.peaks(scores, k=5, min_distance=4, smallest="measure" in keywords)
        first = np.array([3, 2]) if keywords.get("mode") == "same" else np.array([0, 0])
        assert (found["position"] == peaks["position"] - first).all()
        assert (found["score"] == peaks["score"]).all()
        assert found["position"][0].tolist() == [20, 33]


def test_templates_of_several_sizes_and_types():
    image = (IMAGE * 255).astype("u1")
    places = [(0, 0), (5, 60), (30, 7), (70, 80)]
    templates = [image[y : y + 5 + n, x : x + 6].astype("f4" if n == 2 else "u1") for n, (y, x) in enumerate(places)]
    found = flcc.find(image, templates)
    assert found["template"].tolist() == [0, 1, 2, 3]
    assert [tuple(at) for at in found["position"]] == places
    assert abs(found["score"] - 1).max() < 1e-5


def test_no_place_for_two():
    template = IMAGE[20:28, 30:38]
    nearly = IMAGE[21:29, 30:38] + RNG.random((8, 8)) / 10
    both = flcc.find(IMAGE, [template, nearly], threshold=0.9)
    assert len(both) == 2
    one = flcc.find(IMAGE, [template, nearly], threshold=0.9, exclusive=True)
    assert one["template"].tolist() == [0]


def test_below_a_sample():
    x = np.arange(200.0)
    signal = np.exp(-((x - 81.3) ** 2) / 50)
    template = np.exp(-((np.arange(41.0) - 20) ** 2) / 50)
    for fit in [True, "quadratic", "gauss", "cubic", "septic"]:
        found = flcc.find(signal, template, subpixel=fit)
        assert found.dtype.names == ("template", "position", "score", "refined")
        assert abs(found["refined"][0, 0] - 61.3) < 0.05
    assert "refined" not in flcc.find(signal, template, subpixel=False).dtype.names


def test_places_outside():
    mask = np.ones((12, 9))
    mask[:2] = 0
    found = flcc.find(IMAGE[10:], IMAGE[8:20, 3:12], mode="full", mask=mask)
    assert found["position"].tolist() == [[-2, 3]]


def test_masks_and_colours():
    image = RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    template = image[7:15, 9:20].copy()
    template[0, 0] = 0
    mask = np.ones((8, 11))
    mask[0, 0] = 0
    found = flcc.find(image, template, mask=mask, channel_axis=-1)
    assert found["position"].tolist() == [[7, 9]] and abs(found["score"][0] - 1) < 1e-6

"""Images of which not all is known, by the formulas, and beside scikit-image's masked correlation."""

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(5)


def weighted(image, known, template, measure, mask, min_overlap):
    """The scores of mode valid, in long double."""
    wide = np.longdouble
    image = np.where(known > 0, image, 0).astype(wide)
    template, mask = template.astype(wide), mask.astype(wide)
    sliding = np.lib.stride_tricks.sliding_window_view
    panels, weights = sliding(image, template.shape), sliding(known.astype(wide), template.shape) * mask
    axes = tuple(range(-template.ndim, 0))

    def total(values):
        return (weights * values).sum(axis=axes)

    def spread(axis):
        return (slice(None),) * image.ndim + (None,) * template.ndim

    n = np.maximum(total(wide(1)), wide(1e-300))
    p, t = panels, np.broadcast_to(template, panels.shape)
    if measure == "zncc":
        p, t = (values - (total(values) / n)[spread(0)] for values in (p, t))
    pp, tt, pt = total(p * p), total(t * t), total(p * t)
    if measure == "cc":
        return pt
    if measure == "ssd":
        return total((p - t) ** 2)
    if measure == "sad":
        return total(abs(p - t))
    good = (pp > 1e-12) & (tt > 1e-12) & (n >= min_overlap * mask.sum() - 1e-9)
    root = np.sqrt(np.where(good, pp * tt, 1))
    if measure == "nssd":
        return np.where(good, np.minimum(1, (pp - 2 * pt + tt) / root), 1)
    return np.where(good, pt / root, 0)


@pytest.mark.parametrize("measure", ["zncc", "ncc", "nssd", "cc", "ssd", "sad"])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("masked", [False, True])
def test_scores_are_those_of_the_formulas(measure, dtype, masked):
    for shape, window, none in [((300,), (20,), 0.3), ((40, 50), (6, 9), 0.2), ((14, 15, 16), (3, 4, 5), 0.8)]:
        image = np.rint(RNG.normal(100, 20, shape)).astype(dtype)
        template = np.rint(RNG.normal(100, 20, window)).astype(dtype)
        known = RNG.random(shape) >= none
        mask = RNG.random(window) if masked else np.ones(window)
        overlap = 0.3 if measure in ("zncc", "nssd") else 0.0
        given = {"mask": mask} if masked else {}
        found = flcc.match_template(
            image, template, measure=measure, image_mask=known, min_overlap=overlap, **given
        )
        due = weighted(image, known, template, measure, mask, overlap)
        most = 1 if measure in ("zncc", "ncc", "nssd") else abs(due).max()
        assert found.shape == due.shape
        assert abs(found - due).max() <= (1e-11 if dtype == "f8" else 1e-5) * most


def test_what_is_unknown_does_not_matter():
    image = RNG.normal(60_000, 1, (80, 90))
    known = (RNG.random(image.shape) > 0.1).astype(np.float32)
    template = image[20:30, 40:55].copy()
    spoilt = [np.where(known > 0, image, other) for other in (np.nan, 1e30)]
    scores = [flcc.match_template(image, template, image_mask=known) for image in spoilt]
    assert (scores[0] == scores[1]).all()
    assert np.unravel_index(scores[0].argmax(), scores[0].shape) == (20, 40)
    out = np.empty((71, 76))
    again = flcc.match_template(image, template, image_mask=known, out=out, threads=1)
    assert again is out and (out == scores[0]).all()
    bars = []
    flcc.match_template(image, template, image_mask=known, progress=lambda done, total: bars.append((done, total)))
    assert bars and bars[-1][0] == bars[-1][1]


def test_places_are_found_in_what_is_known():
    image = RNG.random((100, 120))
    templates = [image[20:28, 30:37], image[50:60, 7:20], image[70:78, 80:87]]
    known = np.ones(image.shape, bool)
    image = image.copy()
    known[22:25, 30:90] = False
    image[~known] = np.nan
    found = flcc.find(image, templates, image_mask=known, min_overlap=0.5)
    assert [tuple(place) for place in found["position"]] == [(20, 30), (50, 7), (70, 80)]
    assert np.allclose(found["score"], 1)
    whole = flcc.find(
        image, templates, image_mask=known, mode="full", boundary="unknown", min_overlap=0.6, exclusive=True
    )
    assert [tuple(place) for place in whole["position"]] == [(20, 30), (50, 7), (70, 80)]
    # A part of the template beyond the edge.
    corner = flcc.find(
        image[30:, 10:], templates[1], mode="full", boundary="unknown", min_overlap=0.6, image_mask=known[30:, 10:]
    )
    assert tuple(corner[0]["position"]) == (20, -3)


def test_wrong_calls_name_their_argument():
    image, template = RNG.random((20, 30)), RNG.random((5, 6))
    ones = np.ones(image.shape)
    for arguments, text in [
        ({"image_mask": ones[1:]}, "image_mask: expected 20x30 with 1 channel, as the image"),
        ({"image_mask": -ones}, "image_mask: expected finite weights >= 0, got -1"),
        ({"image_mask": ones, "min_overlap": 2}, "min_overlap: expected a share from 0 to 1, got 2"),
        ({"min_overlap": 0.5}, "min_overlap: expected 0 without image_mask or boundary unknown, got 0.5"),
        ({"image_mask": ones, "method": "direct"}, "method: expected auto with image_mask"),
        ({"image_mask": ones, "device": "cuda"}, "device: expected auto or cpu with image_mask"),
        ({"image_mask": ones, "accuracy": "exact"}, "accuracy: expected promised or fast"),
    ]:
        for call in (flcc.match_template, flcc.find):
            with pytest.raises(ValueError, match=text):
                call(image, template, **arguments)
    with pytest.raises(TypeError, match="min_overlap: expected a number"):
        flcc.match_template(image, template, image_mask=ones, min_overlap="half")
    with pytest.raises(ValueError, match="boundary: expected"):
        flcc.correlate(image, template, boundary="unknown")


def test_scores_are_those_of_scikit_image():
    skimage = pytest.importorskip("skimage.registration._masked_phase_cross_correlation")
    image, template = RNG.random((60, 70)), RNG.random((11, 14))
    known, mask = RNG.random(image.shape) > 0.3, RNG.random(template.shape) > 0.2
    theirs = skimage.cross_correlate_masked(image, template, known, mask, mode="full", axes=(0, 1), overlap_ratio=0)
    ours = flcc.match_template(
        image, template, mask=mask, image_mask=known, mode="full", boundary="unknown", min_overlap=0.2
    )
    enough = ours != 0
    assert enough.mean() > 0.5
    assert abs(theirs - ours)[enough].max() < 1e-8

"""Places of templates that stand turned and scaled."""

import os
import signal
import threading
import time

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(3)
IMAGE = RNG.random((60, 70))
TEMPLATE = IMAGE[20:29, 33:44]
FIELDS = ("middle", "score", "angle", "scale", "position", "shape")


def scene(y, x):
    """Waves of several directions, none of which is the same turned."""
    waves = 30 * np.sin(0.31 * x + 0.11 * y) + 25 * np.cos(0.23 * y - 0.37 * x + 1)
    return 100 + waves + 20 * np.sin(0.005 * x * y + 0.17 * y)


SCENE = scene(*np.indices((110, 120)).astype(float))


def standing(sides, middle, angle, scale):
    """What stands turned and scaled about a place of the scene, as a template of its own."""
    y, x = (at - (side - 1) / 2 for at, side in zip(np.indices(sides), sides))
    cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    return scene(middle[0] + scale * (cos * y - sin * x), middle[1] + scale * (sin * y + cos * x))


def test_a_turned_and_scaled_object_is_found_with_its_angle_and_scale():
    for angle, scale, middle in [(37, 1, (55, 60)), (201, 1.25, (50, 66)), (300, 0.8, (70, 40))]:
        template = standing((25, 31), middle, angle, scale)
        given = {"angles": np.arange(0, 360, 6), "scales": [0.8, 1, 1.25]}
        found = flcc.find_posed(SCENE, template, **given)
        assert found.shape == (1,) and found.dtype.names == FIELDS
        assert abs(found["angle"][0] - angle) <= 3 and found["scale"][0] == scale
        assert np.abs(found["middle"][0] - middle).max() <= 1
        fine = flcc.find_posed(SCENE, template, finest=0.2, subpixel="quadratic", **given)
        assert abs(fine["angle"][0] - angle) <= 0.2 and abs(fine["scale"][0] / scale - 1) < 0.02
        assert np.abs(fine["middle"][0] - middle).max() < 0.25
        assert fine["score"][0] > 0.98 and fine["score"][0] >= found["score"][0]


def test_a_smaller_image_leads_to_the_same_place():
    template = standing((41, 49), (55, 60), 38, 1)
    given = {"angles": np.arange(0, 360, 2), "scales": [0.9, 1, 1.1]}
    plain = flcc.find_posed(SCENE, template, **given)
    found = flcc.find_posed(SCENE, template, coarse=3, **given)
    assert (found["angle"], found["scale"]) == (38, 1) and (found["middle"] == plain["middle"]).all()
    assert abs(found["score"][0] - plain["score"][0]) < 1e-5
    for wrong, expected in [(1, "2 to 4"), (5, "2 to 4"), (-1, "a whole number")]:
        with pytest.raises(ValueError, match=f"coarse: expected {expected}"):
            flcc.find_posed(SCENE, template, coarse=wrong, **given)


def test_a_template_may_be_larger_than_the_image():
    large = np.kron(IMAGE[20:37, 33:50], np.ones((5, 5)))
    found = flcc.find_posed(IMAGE, large, scales=[0.2, 1])
    assert found["scale"][0] == 0.2 and found["middle"].tolist() == [[28, 41]]
    with pytest.raises(ValueError, match="expected a pose that fits"):
        flcc.find_posed(IMAGE, large)


@pytest.mark.parametrize("measure", ["zncc", "ncc", "nssd"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
def test_as_it_is_a_template_has_the_peaks_that_find_finds(measure, dtype):
    image, template = ((array * 255).astype(dtype) for array in (IMAGE, TEMPLATE))
    for keywords in [{"k": 7}, {"k": 4, "min_distance": 6}, {"k": 5, "exclude_border": 22}, {"k": 3, "subpixel": True}]:
        found = flcc.find_posed(image, template, measure=measure, **keywords)
        plain = flcc.find(image, template, measure=measure, **keywords)
        assert (found["position"] == plain["position"]).all() and (found["score"] == plain["score"]).all()
        place = plain["refined" if "subpixel" in keywords else "position"]
        assert np.array_equal(found["middle"], place + [4, 5])
        assert (found["shape"] == [9, 11]).all() and (found["angle"] == 0).all() and (found["scale"] == 1).all()
    threshold = float(plain["score"][1])
    kept = flcc.find_posed(image, template, measure=measure, threshold=threshold)
    assert (kept["position"] == flcc.find(image, template, measure=measure, threshold=threshold)["position"]).all()


def test_quarters_are_those_of_turned_templates():
    """Peaks of the best score of four turned templates, whose middles lie alike."""
    image = (IMAGE * 255).astype("u1")
    template = image[20:29, 33:42]
    # numpy turns counterclockwise, too.
    scores = np.array([flcc.match_template(image, np.rot90(template, turns)) for turns in range(4)])
    expected = flcc.peaks(scores.max(axis=0), k=3, min_distance=5)
    found = flcc.find_posed(image, template, angles=[0, 90, 180, 270], k=3, min_distance=5)
    assert (found["position"] == expected["position"]).all() and (found["score"] == expected["score"]).all()
    assert (found["angle"] == 90 * scores.argmax(axis=0)[tuple(expected["position"].T)]).all()
    assert found["angle"][0] == 0 and found["position"][0].tolist() == [20, 33] and len(set(found["angle"])) > 1


def test_a_mask_leaves_out_what_turns_with_the_template():
    y, x = np.indices((25, 25)) - 12
    disc = np.hypot(y, x) <= 12
    template = standing((25, 25), (55, 60), 40, 1)
    spoilt = np.where(disc, template, 1e3 * RNG.random(disc.shape))
    given = {"angles": np.arange(0, 360, 5), "mask": disc}
    found, same = (flcc.find_posed(SCENE, array, **given) for array in (template, spoilt))
    assert found["angle"][0] == 40 and found["score"][0] > 0.99 and found["middle"][0].tolist() == [55, 60]
    assert (same == found).all()
    plain = flcc.find(SCENE, template, k=3, mask=disc)
    found = flcc.find_posed(SCENE, template, k=3, mask=disc)
    assert (found["position"] == plain["position"]).all() and (found["score"] == plain["score"]).all()


def test_arrays_of_any_strides_types_and_axes():
    expected = flcc.find_posed(IMAGE, TEMPLATE, angles=[0, 30, 180], k=3)
    wide = np.empty((120, 140))
    wide[::2, ::2] = IMAGE
    for image in (wide[::2, ::2], np.asfortranarray(IMAGE), IMAGE[::-1].copy()[::-1], IMAGE.astype(">f8")):
        found = flcc.find_posed(image, TEMPLATE[::-1].copy()[::-1], angles=np.array([0, 9, 30, 9, 180, 9])[::2], k=3)
        assert (found == expected).all()
    found = flcc.find_posed(IMAGE, TEMPLATE, angles=(np.float32(0), 30, 180.0), scales=np.array(1), k=3)
    assert (found == expected).all()
    colours = np.stack([IMAGE, IMAGE[::-1], RNG.random(IMAGE.shape)], axis=-1)
    found = flcc.find_posed(colours, np.rot90(colours[20:29, 33:44]), angles=[0, 270], channel_axis=-1)
    assert found["position"].tolist() == [[20, 33]] and found["angle"] == 270 and found["shape"].tolist() == [[9, 11]]
    volume = RNG.random((12, 30, 31))
    found = flcc.find_posed(volume, np.rot90(volume[3:7, 8:15, 9:18], axes=(1, 2)), angles=[0, 270])
    assert found["position"].tolist() == [[3, 8, 9]] and found["shape"].tolist() == [[4, 7, 9]]
    assert found["angle"] == 270 and found["middle"].tolist() == [[4.5, 11, 13]]
    signal_ = np.sin(np.arange(300.0) ** 2 / 900)
    found = flcc.find_posed(signal_, np.sin(np.arange(100, 141, 0.5) ** 2 / 900), scales=[1, 0.5])
    assert found["scale"] == 0.5 and abs(found["middle"][0, 0] - 120.25) <= 0.5 and found["score"] > 0.99


def test_nothing_is_found_and_what_is_larger_is_left_out():
    for found in (
        flcc.find_posed(IMAGE, TEMPLATE[::-1], angles=[0, 45], threshold=1.5),
        flcc.find_posed(IMAGE, TEMPLATE, exclude_border=40, k=3),
    ):
        assert found.shape == (0,) and found.dtype.names == FIELDS and found["middle"].shape == (0, 2)
    flat = IMAGE[:12]
    found = flcc.find_posed(flat, flat[:, 10:40], angles=[0, 90], k=1)
    assert found["angle"] == 0 and found["position"].tolist() == [[0, 10]]
    with pytest.raises(ValueError, match="angles and scales: expected a pose that fits in the image, 12x70"):
        flcc.find_posed(flat, flat[:, 10:40], angles=90)


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"angles": []}, ValueError, "angles: expected at least one, got none"),
        ({"scales": ()}, ValueError, "scales: expected at least one, got none"),
        ({"angles": "x"}, TypeError, "angles: expected a number, or numbers along one axis, got str"),
        ({"angles": None}, TypeError, "angles: expected a number, or numbers along one axis, got NoneType"),
        ({"scales": [1, "x"]}, TypeError, "scales: expected a number, or numbers along one axis, got list"),
        ({"scales": 1j}, TypeError, "scales: expected a number, or numbers along one axis, got complex"),
        ({"angles": [[0, 1]]}, ValueError, "angles: expected a number, or numbers along one axis, got 2 axes"),
        ({"angles": [[0], [1, 2]]}, TypeError, "angles: expected a number, or numbers along one axis, got list"),
        ({"angles": [0, np.nan]}, ValueError, "angles: expected a finite number of degrees, at most 1000000, got NaN"),
        ({"scales": 0}, ValueError, "scales: expected 0.015625 to 64, got 0"),
        ({"scales": [1, 65]}, ValueError, "scales: expected 0.015625 to 64, got 65"),
        ({"angles": range(2000), "scales": np.linspace(1, 2, 1000)}, ValueError, "angles and scales: expected at most"),
        ({"finest": 0}, ValueError, "finest: expected degrees above 0, got 0"),
        ({"finest": 0.1, "angles": 0}, ValueError, "finest: expected none of poses that have one angle and one scale"),
        ({"finest": "x"}, TypeError, "finest: expected a number, got str"),
        ({"measure": "ssd"}, ValueError, "measure: expected a normalised measure"),
        ({"measure": "best"}, ValueError, "measure: expected cc, ncc, zncc, ssd, nssd or sad, got best"),
        ({"k": 0}, ValueError, "k: expected 1 or more, got 0"),
        ({"threshold": np.nan}, ValueError, "threshold: expected a number, got nan"),
        ({"min_distance": -1}, ValueError, "min_distance: expected a number of positions, got -1"),
        ({"subpixel": "best"}, ValueError, "subpixel: expected True, False, quadratic, gauss, cubic or septic"),
        ({"mask": np.ones((3, 3))}, ValueError, "mask: expected 9x11 .*, got 3x3"),
        ({"mask": np.zeros((9, 11))}, ValueError, "mask: expected at least one weight > 0"),
        ({"threads": -1}, ValueError, r"threads: expected 0 \(one a core\) or more, got -1"),
        ({"device": "tpu"}, ValueError, "device: expected auto, cpu, cuda or cuda:NUMBER, got tpu"),
        ({"progress": 3}, TypeError, "progress: expected a function"),
        ({"mode": "full"}, TypeError, "mode"),
    ],
)
def test_refused(keywords, error, words):
    with pytest.raises(error, match=words):
        flcc.find_posed(IMAGE, TEMPLATE, **{"angles": [0, 10], **keywords})


def test_refused_arrays():
    for image, template, error, words in [
        (IMAGE, IMAGE[0], ValueError, "template: expected 2 axes, as the image, got 1 axis"),
        (IMAGE, np.ones((4, 5)), ValueError, "template: expected"),
        (IMAGE, TEMPLATE.astype(complex), TypeError, "template: expected uint8"),
        (IMAGE, [TEMPLATE, TEMPLATE], ValueError, "template: expected 2 axes, as the image, got 3 axes"),
        ("image", TEMPLATE, TypeError, "image: expected an array of numbers"),
        (IMAGE[0], IMAGE[0, :20], ValueError, "angles: expected 0 for a signal, got 10"),
    ]:
        with pytest.raises(error, match=words):
            flcc.find_posed(image, template, angles=[0, 10])


def test_threads_and_types_of_results():
    one, two = (flcc.find_posed(SCENE, SCENE[30:50, 40:61], angles=range(-40, 41, 8), k=3, threads=n) for n in (1, 2))
    assert (one["position"] == two["position"]).all() and np.abs(one["score"] - two["score"]).max() < 1e-11
    single = flcc.find_posed(SCENE, SCENE[30:50, 40:61], angles=range(-40, 41, 8), k=3, dtype="f4", method="direct")
    assert (single["position"] == one["position"]).all() and np.abs(one["score"] - single["score"]).max() < 1e-5
    assert one.dtype == single.dtype


def test_progress_is_told_and_ctrl_c_stops():
    told = []
    image = RNG.random((900, 900))
    given = {"angles": np.arange(0, 360, 2), "scales": [0.8, 1, 1.25]}
    flcc.find_posed(SCENE, SCENE[30:50, 40:61], progress=lambda done, total: told.append((done, total)), **given)
    assert told[-1][0] == told[-1][1] > 0 and told == sorted(set(told))
    # While it looks for some, and while it makes many.
    for scales in ([0.8, 1, 1.25], np.linspace(0.5, 2, 200)):
        begin = time.monotonic()
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            flcc.find_posed(image, image[:40, :40], angles=np.arange(0, 360, 2), scales=scales)
        timer.join()
        assert time.monotonic() - begin < 8


def test_fine_steps():
    assert flcc.fine_angle((52, 52)) == pytest.approx(np.degrees(1 / np.hypot(25.5, 25.5)))
    assert flcc.fine_angle([3, 41, 9]) == pytest.approx(np.degrees(1 / np.hypot(20, 4)))
    assert flcc.fine_angle((1, 2)) == pytest.approx(np.degrees(1))
    with pytest.raises(TypeError, match="template_shape: expected a tuple of lengths, got 3"):
        flcc.fine_angle(3)
    for wrong in [(), (1, 2, 3, 4), (0, 3)]:
        with pytest.raises(ValueError, match="template_shape: expected"):
            flcc.fine_angle(wrong)

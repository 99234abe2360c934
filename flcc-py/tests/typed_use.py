"""Calls as users write them, for mypy --strict; nothing here is run."""

import flcc
import numpy as np
from numpy.typing import NDArray


class Tensor:
    """As one of torch."""

    def __dlpack__(self, stream: int | None = None) -> object:
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def shared(image: Tensor, template: Tensor, out: Tensor) -> None:
    flcc.match_template(image, template, out=out)
    flcc.find(image, [template, template])
    flcc.plan((9, 9), (3, 3)).bind(template).stream([image])


def calls(image: NDArray[np.uint8], template: NDArray[np.uint8], frames: list[NDArray[np.uint8]]) -> list[float]:
    scores = flcc.match_template(image, template, measure="ssd", mode="same", boundary="mirror", threads=2)
    out = np.empty(scores.shape, np.float32)
    flcc.correlate(image, template, "same", out=out, progress=lambda done, total: print(done, total))
    found = flcc.find(image, [template, template], k=3, subpixel=True)
    posed = flcc.find_posed(image, template, angles=range(0, 360, 5), scales=np.array([0.9, 1.0]), finest=0.5)
    flcc.find_posed(image, template, angles=30, scales=(1, 1.5), k=2, threshold=posed["angle"][0])
    step: float = flcc.fine_angle(template.shape)
    print(step)
    best: NDArray[np.float64] = flcc.peaks(scores, smallest=True)["score"]
    plan: flcc.Plan = flcc.plan(image.shape, template.shape, "u1", effort="measure")
    matcher: flcc.Matcher = plan.bind(template)
    flcc.compat.cv2.matchTemplate(image, template, flcc.compat.cv2.TM_CCORR)
    for region in plan.tiles(1 << 20):
        part = matcher.region(matcher.cut(image, region), region)
        print(part.shape, matcher.needs(region)[0][0].start, plan.seams[0])
    lags: NDArray[np.int64] = flcc.correlation_lags(3, 2)
    shape: tuple[int, ...] = plan.shape
    print(plan.explain(), lags, shape, flcc.convolve([1, 2], [0.5]), flcc.normxcorr2(template, image))
    print(flcc.export_wisdom("wisdom.txt"))
    flcc.import_wisdom("wisdom.txt")
    tops = [float(score) for score in [*best, *found["score"]]]
    return [float(one.max()) for one in matcher.stream(frames)] + tops

"""What is timed: the specs of each group, and made-up data for them."""

from dataclasses import dataclass

import numpy as np

GROUPS = ("corr", "zncc", "u8", "volume", "line", "stream", "piv")


def text(shape):
    return "x".join(map(str, shape))


@dataclass(frozen=True)
class Workload:
    """Images of one shape with one template, or, where they are paired, each with a template of its own."""

    group: str
    kind: str
    dtype: str
    image: tuple
    template: tuple
    images: int = 1
    paired: bool = False

    @property
    def spec(self):
        """The spec that `flcc bench` times, for pairs with `--pairs`."""
        count = f"{self.images}@" if self.images > 1 else ""
        return f"{self.kind}:{self.dtype}:{count}{text(self.image)}*{text(self.template)}:valid"

    @property
    def name(self):
        """The spec, with what a time counts where that is not one call of one image."""
        if self.paired:
            return f"{self.images} pairs of {self.kind}:{self.dtype}:{text(self.image)}*{text(self.template)}:valid"
        return self.spec + (", an image" if self.images > 1 else "")

    @property
    def side(self):
        """How `--only` may name the template."""
        return f"k{self.template[0]}"

    @property
    def calls(self):
        """By what a time is divided: a stream counts an image, pairs count all of them."""
        return 1 if self.paired else self.images

    @property
    def operations(self):
        """Multiply-adds of the direct method."""
        outputs = np.prod([image - template + 1 for image, template in zip(self.image, self.template)], dtype=float)
        return float(outputs * np.prod(self.template, dtype=float))

    def pairs(self):
        """Images with their templates."""
        rng = np.random.default_rng(1)
        one = sample(rng, self.template, self.dtype)
        return [
            (sample(rng, self.image, self.dtype), sample(rng, self.template, self.dtype) if self.paired else one)
            for _ in range(self.images)
        ]


def sample(rng, shape, dtype):
    return rng.integers(0, 256, shape, dtype=np.uint8) if dtype == "u8" else rng.random(shape, dtype=np.float32)


def workloads():
    for side in (3, 5, 8, 11, 12, 16, 24, 32, 64, 128):
        yield Workload("corr", "corr", "f32", (2000, 2000), (side, side))
    for side in (4, 8, 12, 16, 24, 32, 64):
        yield Workload("zncc", "zncc", "f32", (2000, 2000), (side, side))
    for image, side in ((1024, 76), (1024, 413), (4096, 76)):
        yield Workload("zncc", "zncc", "f32", (image, image), (side, side))
    for image, side in (((303, 384), 52), ((1080, 1920), 64), ((2160, 3840), 214)):
        yield Workload("u8", "zncc", "u8", image, (side, side))
    for side in (8, 16, 32):
        yield Workload("u8", "corr", "u8", (2000, 2000), (side, side))
    for image, side in ((100, 3), (100, 5), (100, 8), (250, 8)):
        for kind in ("corr", "zncc"):
            yield Workload("volume", kind, "f32", (image,) * 3, (side,) * 3)
    for side in (64, 500, 5000):
        yield Workload("line", "corr", "f32", (10_000_000,), (side,))
    yield Workload("stream", "zncc", "f32", (2000, 2000), (16, 16), images=10)
    yield Workload("piv", "zncc", "f32", (64, 64), (24, 24), images=1000, paired=True)

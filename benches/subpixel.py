#!/usr/bin/env python3
"""Errors of the sub-pixel fits of `flcc match` on photographs with planted shifts; docs/subpixel.md has its tables.

    cargo build --release --bin flcc
    python3 benches/subpixel.py target/release/flcc        # needs numpy, scipy and Pillow

Each photograph of conformance/real is shifted by a known part of a pixel, in four ways:
  fourier  by the shift theorem
  cubic    by interpolation with a cubic spline
  block4   seen through pixels four times larger, the second time from one to two pixels further: true aliasing
  block8   made eight times larger by a cubic spline, then seen through pixels of its first size
and rounded to 8 bits. Templates with corners in them (the smaller eigenvalue of the gradients' tensor is over 16 grey
values squared) are cut from one and found in the other. Where no fit is within one pixel, nothing was matched.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from scipy import ndimage

# The parabola of each axis by itself is computed here, from the map.
FITS = ["by axes", "quadratic", "gauss", "cubic", "septic"]
MEASURES = ["zncc", "ncc", "ssd", "nssd", "sad"]
ROOM = 10
REAL = pathlib.Path(__file__).resolve().parent.parent / "conformance/real"
PHOTOS = {
    name: np.asarray(Image.open(REAL / f"{name}.png").convert("L"), float)
    for name in ("coins", "camera", "text", "brick")
}
LARGE = {name: ndimage.zoom(photo, 8, order=3, mode="mirror", grid_mode=True) for name, photo in PHOTOS.items()}


def block(image, side, down, right):
    h, w = [(length - side) // side * side for length in image.shape]
    return image[down : down + h, right : right + w].reshape(h // side, side, w // side, side).mean((1, 3))


def pair(kind, name, rng):
    photo = PHOTOS[name]
    shift = rng.uniform(-0.5, 0.5, 2)
    if kind == "fourier":
        down, right = np.fft.fftfreq(photo.shape[0])[:, None], np.fft.fftfreq(photo.shape[1])
        turned = np.fft.fft2(photo) * np.exp(-2j * np.pi * (down * shift[0] + right * shift[1]))
        return photo, np.fft.ifft2(turned).real, shift
    if kind == "cubic":
        return photo, ndimage.shift(photo, shift, order=3, mode="mirror"), shift
    side, source = (4, photo) if kind == "block4" else (8, LARGE[name])
    steps = rng.integers(-(side // 2), side // 2 + 1, 2)
    first = side // 2
    return block(source, side, first, first), block(source, side, *(first + steps)), -steps / side


def corners(part):
    down, right = np.gradient(part)
    tensor = [[np.mean(a * b) for a in (down, right)] for b in (down, right)]
    return np.sqrt(max(np.linalg.eigvalsh(np.array(tensor))[0], 0))


def by_axes(scores, position):
    y, x = position
    refined = []
    for at, line in ((y, scores[:, x]), (x, scores[y])):
        left, middle, right = [float(line[at + k]) if 0 <= at + k < len(line) else np.nan for k in (-1, 0, 1)]
        away = (left - right) / (2 * (left - 2 * middle + right))
        refined.append(at + (np.clip(away, -0.5, 0.5) if np.isfinite(away) else 0))
    return np.array(refined)


def main(flcc, trials):
    rng = np.random.default_rng(1)
    rows = []
    folder = pathlib.Path(tempfile.mkdtemp())
    image, template, scores = folder / "image.png", folder / "template.png", folder / "scores.npy"
    for kind in ("fourier", "cubic", "block4", "block8"):
        for name in PHOTOS:
            for _ in range(trials):
                one, other, shift = pair(kind, name, rng)
                one, other = [np.clip(np.round(a), 0, 255).astype(np.uint8) for a in (one, other)]
                for side in (16, 32, 64):
                    if min(one.shape) < side + 2 * ROOM + 1:
                        continue
                    for _ in range(100):
                        y, x = [rng.integers(ROOM, length - side - ROOM + 1) for length in one.shape]
                        part = one[y : y + side, x : x + side]
                        if corners(part.astype(float)) > 4:
                            break
                    else:
                        continue
                    Image.fromarray(part).save(template)
                    near = other[y - ROOM : y + side + ROOM, x - ROOM : x + side + ROOM]
                    Image.fromarray(np.ascontiguousarray(near)).save(image)
                    for measure in MEASURES:
                        for fit in FITS[1:]:
                            call = [flcc, "match", image, template, "--measure", measure, f"--subpixel={fit}"]
                            call += ["--json", "--threads", "1", "-o", scores]
                            said = subprocess.run(call, capture_output=True, check=True)
                            found = json.loads(said.stdout)["peaks"][0]
                            if np.abs(np.array(found["position"]) - ROOM - shift).max() <= 1:
                                error = np.array(found["refined"]) - ROOM - shift
                                rows.append((kind, name, side, measure, fit, *error, *shift))
                                if fit == FITS[1]:
                                    error = by_axes(np.load(scores), found["position"]) - ROOM - shift
                                    rows.append((kind, name, side, measure, FITS[0], *error, *shift))
    show(rows)


def show(rows):
    def cell(fit, keep):
        chosen = [row for row in rows if row[4] == fit and keep(row)]
        error, shift = np.array([r[5:7] for r in chosen]), np.array([r[7:9] for r in chosen])
        # Towards whole pixels, as a part of the shift: the slope of the error over the shift.
        pull = -(error * shift).sum() / (shift * shift).sum()
        q = np.quantile(np.abs(error), 0.95)
        return f"{np.sqrt((error**2).mean()):.3f} / {q:.3f} / {np.abs(error).max():.2f} / {pull:+.3f}", len(error)

    print("rms / 95 % / max / pull to whole pixels")
    print("| | " + " | ".join(FITS) + " | templates |")
    print("|---|" + "---|" * (len(FITS) + 1))
    groups = [(measure, lambda r, m=measure: r[3] == m) for measure in MEASURES]
    kinds = ("fourier", "cubic", "block4", "block8")
    groups += [(f"zncc, {kind}", lambda r, k=kind: r[3] == "zncc" and r[0] == k) for kind in kinds]
    groups += [(f"zncc, {side}x{side}", lambda r, s=side: r[3] == "zncc" and r[2] == s) for side in (16, 32, 64)]
    groups += [(f"zncc, {name}", lambda r, n=name: r[3] == "zncc" and r[1] == n) for name in PHOTOS]
    for title, keep in groups:
        cells = [cell(fit, keep) for fit in FITS]
        print(f"| {title} | " + " | ".join(text for text, _ in cells) + f" | {cells[0][1]} |")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8)

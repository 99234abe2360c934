"""A job of jobs.py done with OpenCV, scikit-image or SciPy: prints the places, one line a template or frame."""

import os
import sys

import numpy as np


def best(scores):
    import cv2

    _, _, _, (x, y) = cv2.minMaxLoc(scores)
    return f"{y},{x}"


def frames(template, images):
    import cv2

    template = np.load(template)
    for image in images:
        print(best(cv2.matchTemplate(image, template, cv2.TM_CCOEFF_NORMED)))


def pipe(template):
    size = 480 * 640
    while len(data := sys.stdin.buffer.read(size)) == size:
        yield np.frombuffer(data, np.uint8).reshape(480, 640)


def folder(path):
    import cv2

    for name in sorted(os.listdir(path)):
        yield cv2.imread(os.path.join(path, name), cv2.IMREAD_GRAYSCALE)


def photo(image, templates):
    import cv2

    image = cv2.imread(image, cv2.IMREAD_GRAYSCALE)
    for template in templates:
        print(best(cv2.matchTemplate(image, np.load(template), cv2.TM_CCOEFF_NORMED)))


def masked(image, template, mask):
    import cv2

    image, mask = cv2.imread(image, cv2.IMREAD_GRAYSCALE), np.load(mask)
    scores = cv2.matchTemplate(image, np.load(template), cv2.TM_CCOEFF_NORMED, mask=mask)
    # Flat windows have scores that are no numbers.
    print(best(np.where(np.isfinite(scores), scores, -1)))


def arrays(image, template):
    """An array of two or three axes, by scikit-image."""
    from skimage.feature import match_template

    scores = match_template(np.load(image), np.load(template))
    print(",".join(str(place) for place in np.unravel_index(np.argmax(scores), scores.shape)))


def traces(trace, templates, top):
    """zncc of each row of `templates` by transforms of blocks; the best few places, none within 250 of another."""
    import scipy.fft
    import scipy.signal

    trace, templates = np.load(trace), np.load(templates)
    taps = templates.shape[1]
    centred = trace.astype(np.float64) - trace.mean()
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    squares = np.concatenate([[0.0], np.cumsum(centred * centred)])
    window = sums[taps:] - sums[:-taps]
    energy = squares[taps:] - squares[:-taps] - window * window / taps
    norm = 1 / np.sqrt(np.maximum(energy, 1e-12))
    single = centred.astype(np.float32)
    for template in templates:
        template = template.astype(np.float64) - template.mean()
        template /= np.linalg.norm(template)
        flipped = template[::-1].astype(np.float32)
        scores = scipy.signal.oaconvolve(single, flipped, mode="valid") * norm
        places, _ = scipy.signal.find_peaks(scores, height=0.5, distance=251)
        places = places[np.argsort(-scores[places], kind="stable")][:top]
        print(" ".join(str(place) for place in places))


def main():
    job, *arguments = sys.argv[1:]
    if job == "pipe":
        frames(arguments[0], pipe(arguments[0]))
    elif job == "folder":
        frames(arguments[0], folder(arguments[1]))
    elif job in ("photo", "three"):
        photo(arguments[0], arguments[1:])
    elif job == "masked":
        masked(*arguments)
    elif job in ("volume", "sixteen"):
        arrays(*arguments)
    elif job == "traces":
        traces(arguments[0], arguments[1], 4)


if __name__ == "__main__":
    main()

"""Times whole jobs of flcc beside OpenCV, scikit-image and SciPy, processes in turns; see README.md."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def texture(shape, seed):
    """A made-up photograph: noise at all scales, 8 bits."""
    draw = np.random.default_rng(seed)
    image = np.zeros(shape)
    for level in range(7):
        step = 1 << level
        coarse = draw.standard_normal([side // step + 2 for side in shape]) * step**0.9
        fine = np.kron(coarse, np.ones((step, step)))
        image += fine[: shape[0], : shape[1]]
    image += draw.standard_normal(shape)
    low, high = np.percentile(image, [0.5, 99.5])
    return np.clip((image - low) / (high - low) * 255, 0, 255).astype(np.uint8)


def make(folder):
    """The data of all jobs, unless they are there."""
    if os.path.exists(os.path.join(folder, "complete-8")):
        return
    import cv2

    os.makedirs(os.path.join(folder, "frames"), exist_ok=True)
    draw = np.random.default_rng(1)
    scene = texture((900, 1200), 2)
    with open(os.path.join(folder, "frames.raw"), "wb") as raw:
        for number in range(200):
            y, x = draw.integers(150, 300), draw.integers(200, 400)
            frame = scene[y : y + 480, x : x + 640].astype(np.int16) + draw.integers(-3, 4, (480, 640))
            frame = np.clip(frame, 0, 255).astype(np.uint8)
            raw.write(frame.tobytes())
            cv2.imwrite(os.path.join(folder, "frames", f"{number:04}.png"), frame)
    np.save(os.path.join(folder, "template.npy"), scene[400:432, 500:532])
    photo = texture((1080, 1920), 3)
    cv2.imwrite(os.path.join(folder, "photo.png"), photo)
    for number, (y, x) in enumerate([(200, 300), (700, 1500), (512, 77)]):
        noisy = photo[y : y + 52, x : x + 52].astype(np.int16) + draw.integers(-9, 10, (52, 52))
        np.save(os.path.join(folder, f"photo{number}.npy"), np.clip(noisy, 0, 255).astype(np.uint8))
    rows, columns = np.mgrid[:52, :52]
    disc = (rows - 25.5) ** 2 + (columns - 25.5) ** 2 <= 25.5**2
    np.save(os.path.join(folder, "disc.npy"), disc.astype(np.uint8))
    coarse = np.kron(draw.standard_normal((32, 32, 32)), np.ones((4, 4, 4)))
    volume = (100 * coarse + 30 * draw.standard_normal(coarse.shape) + 1000).astype(np.float32)
    np.save(os.path.join(folder, "volume.npy"), volume)
    part = volume[40:52, 50:62, 60:72] + 9 * draw.standard_normal((12, 12, 12))
    np.save(os.path.join(folder, "part.npy"), part.astype(np.float32))
    counts = texture((2048, 2048), 4).astype(np.uint16) * 200 + draw.integers(0, 400, (2048, 2048)).astype(np.uint16)
    np.save(os.path.join(folder, "counts.npy"), counts)
    cell = counts[901:965, 333:397] + draw.integers(0, 800, (64, 64)).astype(np.uint16)
    np.save(os.path.join(folder, "cell.npy"), cell)
    trace = np.convolve(draw.standard_normal(8_640_000), np.hanning(9), "same").astype(np.float32)
    templates = []
    for number in range(50):
        event = np.convolve(draw.standard_normal(500), np.hanning(13), "same") * np.exp(-np.arange(500) / 150)
        for at in draw.integers(0, 8_640_000 - 500, 4):
            trace[at : at + 500] += (8 * event).astype(np.float32)
        templates.append((event * 8).astype(np.float32))
    np.save(os.path.join(folder, "trace.npy"), trace)
    np.save(os.path.join(folder, "events.npy"), np.array(templates))
    for number, template in enumerate(templates):
        np.save(os.path.join(folder, f"event{number:02}.npy"), template)
    open(os.path.join(folder, "complete-8"), "w").close()


def places(text):
    """Of lines of flcc: the positions of each frame or template, best first."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            found.append(" ".join(",".join(map(str, peak["position"])) for peak in json.loads(line)["peaks"]))
        else:
            found.append(line.split()[1])
    return found


def jobs(flcc, data):
    """Name, command of flcc, command of the peer, file on standard input."""
    at = lambda *names: [os.path.join(data, name) for name in names]
    peer = [sys.executable, os.path.join(HERE, "peer.py")]
    template, photo = at("template.npy")[0], at("photo.png")[0]
    three = at("photo0.npy", "photo1.npy", "photo2.npy")
    volume, counts = at("volume.npy", "part.npy"), at("counts.npy", "cell.npy")
    events = at(*[f"event{number:02}.npy" for number in range(50)])
    more = lambda files: [word for file in files for word in ("--template", file)]
    trace = [flcc, "match", *at("trace.npy"), *more(events), "--top", "4", "--threshold", "0.5", "--json"]
    return [
        ("pipe", [flcc, "stream", template, "--frame", "u8:480x640"], [*peer, "pipe", template], at("frames.raw")[0]),
        ("folder", [flcc, "stream", template, *at("frames")], [*peer, "folder", template, *at("frames")], None),
        ("photo", [flcc, "match", photo, three[0]], [*peer, "photo", photo, three[0]], None),
        ("three", [flcc, "match", photo, *more(three)], [*peer, "three", photo, *three], None),
        (
            "masked",
            [flcc, "match", photo, three[0], "--mask", *at("disc.npy")],
            [*peer, "masked", photo, three[0], *at("disc.npy")],
            None,
        ),
        ("volume", [flcc, "match", *volume], [*peer, "volume", *volume], None),
        ("sixteen", [flcc, "match", *counts], [*peer, "sixteen", *counts], None),
        ("traces", trace, [*peer, "traces", *at("trace.npy", "events.npy")], None),
    ]


def run(command, standard_input):
    """Milliseconds and what was printed."""
    with open(standard_input or os.devnull, "rb") as source:
        began = time.perf_counter()
        done = subprocess.run(command, stdin=source, stdout=subprocess.PIPE, check=True)
        return 1e3 * (time.perf_counter() - began), done.stdout.decode()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--flcc", default="target/release/flcc")
    arguments.add_argument("--data", default="target/jobs")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", help="names of jobs, with commas between them")
    arguments = arguments.parse_args()
    make(arguments.data)
    print("| job | flcc ms | peer ms | peer / flcc | spread of flcc |\n|---|---|---|---|---|")
    for name, own, peer, source in jobs(arguments.flcc, arguments.data):
        if arguments.only and name not in arguments.only.split(","):
            continue
        found, expected = places(run(own, source)[1]), run(peer, source)[1].splitlines()
        wrong = [k for k, (a, b) in enumerate(zip(found, expected)) if a != b]
        if len(found) != len(expected) or wrong:
            sys.exit(f"{name}: flcc and its peer differ: {len(found)} and {len(expected)} lines, {wrong[:5]}, "
                     f"{[(found[k], expected[k]) for k in wrong[:3]]}")
        times = [(run(own, source)[0], run(peer, source)[0]) for _ in range(arguments.rounds)]
        ours, theirs = (sorted(column) for column in zip(*times))
        median, other = statistics.median(ours), statistics.median(theirs)
        print(f"| {name} | {median:.0f} | {other:.0f} | {other / median:.2f} | {ours[0]:.0f} to {ours[-1]:.0f} |")


if __name__ == "__main__":
    main()

"""Microseconds of a call whose image and result lie on a GPU, beside CuPy and torch: each answer is checked first.

Every call is timed as a caller sees it, many in a row and the device waited for at the end; medians of turns. Needs
CuPy, torch, SciPy and a GPU."""

import statistics
import sys
import time

import cupy
import cupyx.scipy.signal
import flcc
import numpy as np
import torch

TURNS, LEAST = 9, 0.02
# Sums of products may be off by this share of the largest.
ALLOWED = 1e-5
CASES = [((2000, 2000), side) for side in (3, 8, 16, 32, 64)] + [((256, 256), 8), ((1024, 1024), 76)]


def timed(calls):
    """The median of each, taken in turns."""
    counts, times = [], [[] for _ in calls]
    for call in calls:
        call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        counts.append(max(1, int(LEAST / (time.perf_counter() - begin))))
    for _ in range(TURNS):
        for call, count, own in zip(calls, counts, times):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            torch.cuda.synchronize()
            own.append((time.perf_counter() - begin) / count * 1e6)
    return [statistics.median(own) for own in times]


def exact(image, template):
    sides = [a + b - 1 for a, b in zip(image.shape, template.shape)]
    product = np.fft.rfft2(image.astype("f8"), sides) * np.fft.rfft2(template[::-1, ::-1].astype("f8"), sides)
    return np.fft.irfft2(product, sides)


def main():
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, us a call, correlation in float32, mode full; zncc of mode valid")
    names = ["flcc one-shot", "flcc planned", "flcc, host", "cupyx fft", "cupyx direct", "torch conv2d", "flcc zncc"]
    print("| case | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for shape, side in CASES:
        rng = np.random.default_rng(side)
        host = rng.standard_normal(shape, dtype=np.float32)
        part = rng.standard_normal((side, side), dtype=np.float32)
        image, template = cupy.asarray(host), cupy.asarray(part)
        batch = torch.from_numpy(host).cuda()[None, None]
        weights = torch.from_numpy(part).cuda()[None, None]
        matcher = flcc.plan(shape, part.shape, measure="corr", mode="full", device="cuda").bind(part)
        scores = flcc.plan(shape, part.shape, device="cuda").bind(part)
        out, zncc = matcher(image), scores(image)
        calls = [
            lambda: flcc.correlate(image, part),
            lambda: matcher(image, out=out),
            lambda: matcher(host),
            lambda: cupyx.scipy.signal.correlate(image, template, method="fft"),
            lambda: cupyx.scipy.signal.correlate(image, template, method="direct") if side <= 16 else out,
            lambda: torch.nn.functional.conv2d(batch, weights, padding=side - 1)[0, 0],
            lambda: scores(image, out=zncc),
        ]
        expected = exact(host, part)
        allowed = ALLOWED * abs(expected).max()
        for name, call in zip(names[:-1], calls):
            got = call()
            got = got.cpu().numpy() if isinstance(got, torch.Tensor) else cupy.asnumpy(got)
            error = abs(got - expected).max()
            if not error <= allowed:
                sys.exit(f"{shape} {side} {name}: off by {error:.1e} where {allowed:.1e} is allowed")
        off = abs(cupy.asnumpy(zncc) - flcc.match_template(host, part, device="cpu")).max()
        if not off <= 2e-5:
            sys.exit(f"{shape} {side} zncc: {off:.1e} from the CPU's")
        row = [f"{us:.1f}" for us in timed(calls)]
        row[4] = row[4] if side <= 16 else ""
        print(f"| {shape[0]}^2 {side}x{side}, {matcher.kernel} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()

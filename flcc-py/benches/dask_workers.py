"""What workers of dask gain and hold: templates searched in an array of zarr by one and by two workers, in turns.

    python flcc-py/benches/dask_workers.py [--side 16000] [--templates 8] [--turns 3]

A worker is a process of one thread. Times are of whole searches in a cluster that is up; memory is the largest that a
worker has held, with and without what it holds before it has computed anything.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import dask.array
import flcc
import flcc.dask
import numpy as np
import zarr
from distributed import Client, LocalCluster


def peak():
    """Megabytes that this process has held at most, on Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def searched(source, templates, workers):
    """Seconds of a search, what it found, and the memory of the workers before and after it."""
    options = dict(threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None)
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.run(lambda: (flcc.dask, zarr) and None)
        before = max(client.run(peak).values())
        begin = time.monotonic()
        found = flcc.dask.find(source, templates, k=3).compute()
        return time.monotonic() - begin, found, before, max(client.run(peak).values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=16_000)
    parser.add_argument("--templates", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    generator = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        side, step = options.side, 2_000
        stored = zarr.create_array(f"{folder}/image.zarr", shape=(side, side), chunks=(step, step), dtype="u1")
        for row in range(0, side, step):
            shape = (min(step, side - row), side)
            stored[row : row + step] = generator.integers(0, 256, shape, dtype=np.uint8)
        places = [[side // 2, 700 + 100 * number] for number in range(options.templates)]
        templates = [np.asarray(stored[row : row + 16, column : column + 16]) for row, column in places]
        size = f"{side}x{side} ({stored.nbytes / 1e6:.0f} MB)"
        print(f"zncc of uint8 {size} with {len(templates)} of 16x16, chunks {step}x{step}")
        print("| read | workers | s | MB of a worker before | after |\n|---|---|---|---|---|")
        expected = None
        sources = {"slices of zarr": stored, "chunks of dask": dask.array.from_zarr(stored)}
        rows = {}
        for _ in range(options.turns):
            for name, source in sources.items():
                for workers in (1, 2):
                    rows.setdefault((name, workers), []).append(searched(source, templates, workers))
        for (name, workers), turns in rows.items():
            for _, found, _, _ in turns:
                expected = found if expected is None else expected
                assert np.array_equal(found, expected) and found["position"][::3].tolist() == places
            seconds, _, before, after = zip(*turns)
            medians = [statistics.median(column) for column in (seconds, before, after)]
            print(f"| {name} | {workers} | {medians[0]:.2f} | {medians[1]:.0f} | {medians[2]:.0f} |")


if __name__ == "__main__":
    main()

"""What a small call costs: flcc beside OpenCV and SciPy, in turns, medians of all turns in microseconds of the
processor: what others do on the machine is left out.

    python flcc-py/benches/small_calls.py [--turns 21]

`kernel` is the least time that the planner measured for the chosen kernel alone; what a planned call takes above it is
the cost of Python, of the arrays and of the result.
"""

import argparse
import re
import statistics
import time

import cv2
import flcc
import numpy as np
from scipy import signal


def turn(call, seconds=0.01):
    """Microseconds of the processor that one call takes, of as many as fit."""
    begin, count = time.process_time(), 0
    while time.process_time() - begin < seconds:
        for _ in range(20):
            call()
        count += 20
    return (time.process_time() - begin) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=21)
    turns = parser.parse_args().turns
    cv2.setNumThreads(1)
    print(f"numpy {np.__version__}, OpenCV {cv2.__version__}, one thread")
    rng = np.random.default_rng(1)
    for n, t in [(16, 5), (64, 9), (128, 16), (256, 16)]:
        image = rng.random((n, n), dtype=np.float32)
        template = image[:t, :t].copy()
        plan = flcc.plan((n, n), (t, t), effort="measure", threads=1, device="cpu")
        matcher, out = plan.bind(template), np.empty((n - t + 1, n - t + 1), np.float32)
        calls = {
            "planned": lambda: matcher(image),
            "planned, out=": lambda: matcher(image, out=out),
            "one shot, from wisdom": lambda: flcc.match_template(image, template, threads=1, device="cpu"),
            "cv2.matchTemplate": lambda: cv2.matchTemplate(image, template, cv2.TM_CCOEFF_NORMED),
            "scipy correlate alone": lambda: signal.correlate(image, template, "valid"),
        }
        times = {name: [] for name in calls}
        for _ in range(turns):
            for name, call in calls.items():
                times[name].append(turn(call))
        measured = re.search(r"time +([\d.]+) (us|ms) an image, measured", plan.explain())
        kernel = float(measured[1]) * (1000 if measured[2] == "ms" else 1)
        print(f"\nzncc of {n}x{n} float32 with {t}x{t}, {plan.method}: kernel {kernel:.1f}")
        for name, values in times.items():
            median = statistics.median(values)
            print(f"  {name:24} {median:8.1f}    least {min(values):8.1f}")


if __name__ == "__main__":
    main()

"""Peers that are programs of their own: they make their data, check them and print a line of JSON with "ms" and
"err"."""

import json
import os
import subprocess

TOLERANCE = 2e-2


class Program:
    """`rustpeers OPERATION THREADS HEIGHT WIDTH ROWS COLUMNS [DEPTH LAYERS]`: imageproc and ndarray-conv, correlations
    of f32."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "rustpeers") if folder else "rustpeers"
        if not os.access(self.path, os.X_OK):
            raise ImportError(f"{self.path} is no program (see --programs)")
        self.version = self.path

    def time(self, operation, workload, threads):
        """Milliseconds and error."""
        image, template = ([1] * (2 - len(shape)) + list(shape) for shape in (workload.image, workload.template))
        sizes = [*image[-2:], *template[-2:], *image[:-2], *template[:-2]]
        command = [self.path, operation, str(threads), *map(str, sizes)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{operation} exits with {done.returncode}: {done.stderr.strip()[:200]}")
        line = json.loads(done.stdout.strip().splitlines()[-1])
        if not line["err"] <= TOLERANCE:
            raise ValueError(f"the answer is off by {line['err']:.1e}")
        return line["ms"], line["err"]

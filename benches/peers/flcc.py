"""FLCC itself, by `flcc bench`: the first call of a spec learns what is fastest before it times it, the later
ones read that."""

import json
import os
import subprocess
import tempfile


class Flcc:
    """The binary with wisdom of its own, which lasts as long as this."""

    def __init__(self, binary, isa):
        self.binary = binary
        self.folder = tempfile.TemporaryDirectory()
        # FLCC's avx512 leaves out VNNI and AMX, which peers use where they are.
        self.environment = {name: value for name, value in os.environ.items() if name != "FLCC_ISA"}
        self.environment |= {} if isa == "avx512" else {"FLCC_ISA": isa}
        self.version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def time(self, workload, threads, seconds):
        """The line of a spec; `median_ns` there is of all images of the spec."""
        spec = workload.spec
        wisdom = os.path.join(self.folder.name, "wisdom")
        command = [self.binary, "bench", spec, "--threads", str(threads), "--seconds", str(seconds), "--json"]
        command += ["--platform", "cpu", "--effort", "measure", "--wisdom", wisdom]
        command += ["--pairs"] if workload.paired else []
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"flcc bench {spec}: {done.stderr.strip()}")
        return json.loads(done.stdout.strip().splitlines()[-1])

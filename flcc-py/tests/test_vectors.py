"""The vectors of the conventions, judged as the command's results are."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent.parent / "conformance"


def test_vectors():
    command = [sys.executable, str(CONFORMANCE / "run_vectors.py"), "--python", f"{HERE / 'candidate.py'}:run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

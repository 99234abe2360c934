"""The tests of SciPy and scikit-image, from where they are installed, with ours in the place of their functions."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parent / "peers"

SIGNAL = "TestConvolve or TestFFTConvolve or TestAllFreq or TestCorrelate or correlation_lags"


def replaced(module, selection, functions):
    # Where it stands in front of the path, a package that is not installed is not found by its name.
    path = os.pathsep.join([str(PEERS), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-p", "stand_in", "-p", "no:cacheprovider", "-W", "ignore", "-q"]
    command += ["--pyargs", module, "-k", selection]
    env = {**os.environ, "PYTHONPATH": path, "FLCC_STAND_IN": functions}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) passed", done.stdout).group(1))


# As many as pass with SciPy 1.17.1 and scikit-image 0.25.2 themselves, less the three of exceptions.txt.
@pytest.mark.parametrize(
    ("module", "selection", "functions", "least"),
    [
        ("scipy.signal.tests.test_signaltools", SIGNAL, "", 888),
        ("scipy.signal.tests.test_signaltools", SIGNAL, "convolve correlate convolve2d correlate2d", 888),
        ("scipy.signal.tests.test_signaltools", "TestOAConvolve", "oaconvolve", 10_827),
        ("scipy.ndimage.tests.test_filters", "correlate or convolve or TestNdimageFilters", "", 2_240),
        ("skimage.feature.tests.test_template", "test", "", 11),
    ],
)
def test_of_the_peer(module, selection, functions, least):
    pytest.importorskip(module.split(".")[0])
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not part of what is installed")
    assert replaced(module, selection, functions) >= least

"""A pytest plugin: ours in the place of SciPy's and scikit-image's functions, before their own tests import them.

    python -m pytest -p stand_in --pyargs scipy.signal.tests.test_signaltools -k "..."

FLCC_STAND_IN names the functions that are replaced, by default all: where a test holds one function against another,
the other stays the peer's. Nothing of the tests is copied or changed. Those that ours do not pass are named in
exceptions.txt, with the reason.
"""

import os
from pathlib import Path

import pytest
from flcc.compat import scipy as ours
from flcc.compat import skimage as our_skimage

STOOD_IN = []
WANTED = os.environ.get("FLCC_STAND_IN", "").split()


def put(module, source):
    for name in source.__all__:
        if hasattr(module, name) and (not WANTED or name in WANTED):
            stand_for(getattr(module, name), getattr(source, name))
            setattr(module, name, getattr(source, name))
            STOOD_IN.append(f"{module.__name__}.{name}")


def stand_for(original, replacement):
    """What SciPy's tests ask of a function by its identity: which kinds of arrays it takes."""
    try:
        from scipy._lib._array_api import xp_capabilities_table
    except ImportError:
        return
    if original in xp_capabilities_table:
        xp_capabilities_table[replacement] = xp_capabilities_table[original]


def pytest_configure(config):
    import scipy.ndimage
    import scipy.signal

    put(scipy.signal, ours.signal)
    put(scipy.ndimage, ours.ndimage)
    try:
        import skimage.feature
    except ImportError:
        return
    put(skimage.feature, our_skimage)


def exceptions():
    """Test and reason."""
    for line in (Path(__file__).parent / "exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            test, reason = line.split("  ", 1)
            yield test, reason.strip()


def pytest_collection_modifyitems(items):
    named = dict(exceptions())
    for item in items:
        short = item.nodeid.split("::", 1)[1]
        reason = named.get(short) or named.get(short.split("[")[0])
        if reason and reason.startswith("not run"):
            item.add_marker(pytest.mark.skip(reason=reason))
        elif reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_report_header():
    return f"flcc stands in for {', '.join(STOOD_IN)}"

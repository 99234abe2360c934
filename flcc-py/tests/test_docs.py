"""The examples of docstrings and pages."""

import doctest
from pathlib import Path

import flcc
import flcc.dask
import pytest

DOCUMENTED = [getattr(flcc, name) for name in flcc.__all__ if name != "compat"] + [flcc.Matcher.stream]
DOCUMENTED += [flcc.Plan.bind, flcc.Plan.tiles, flcc.Matcher.peaks, flcc.dask]
DOCUMENTED += [flcc.Matcher.region, flcc.Matcher.needs, flcc.Matcher.cut]
# What others' examples show.
WITHOUT = [flcc.Plan, flcc.Matcher, flcc.Queue, flcc.Stream, flcc.import_wisdom, flcc.forget_wisdom]
SCIPY = flcc.compat.scipy
for module in (flcc.compat.skimage, flcc.compat.cv2, SCIPY.signal, SCIPY.ndimage):
    DOCUMENTED += [getattr(module, name) for name in module.__all__ if callable(getattr(module, name))]


def name_of(item):
    module = getattr(item, "__module__", None) or ""
    return f"{module}.{item.__qualname__}" if "compat" in module else item.__name__


@pytest.mark.parametrize("item", DOCUMENTED, ids=name_of)
def test_docstrings(item):
    text = item.__doc__
    assert text
    examples = doctest.DocTestParser().get_doctest(text, {}, item.__name__, None, None)
    assert examples.examples or item in WITHOUT
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples).failed == 0


ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("page", ["flcc-py/README.md", "README.md"])
def test_pages(page, monkeypatch):
    monkeypatch.chdir(ROOT / "conformance/real")
    # What an example prints ends with its block.
    text = (ROOT / page).read_text().replace("```", "")
    examples = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert examples.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples).failed == 0

"""The examples of docstrings and pages."""

import doctest
from pathlib import Path

import flcc
import flcc.dask
import pytest

DOCUMENTED = [getattr(flcc, name) for name in flcc.__all__ if name != "compat"] + [flcc.Matcher.stream]
DOCUMENTED += [flcc.Plan.tiles, flcc.Matcher.needs, flcc.dask]


@pytest.mark.parametrize("item", DOCUMENTED, ids=lambda item: item.__name__)
def test_docstrings(item):
    text = item.__doc__
    assert text
    examples = doctest.DocTestParser().get_doctest(text, {}, item.__name__, None, None)
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

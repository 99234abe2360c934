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


@pytest.mark.parametrize("page", ["README.md"])
def test_pages(page):
    path = Path(__file__).parent.parent / page
    assert doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0

"""The book of docs/book: its blocks of Python run and make the pictures that it shows, its links lead somewhere."""

import importlib.util
from pathlib import Path

import pytest

BOOK = Path(__file__).parents[2] / "docs" / "book" / "run.py"
_spec = importlib.util.spec_from_file_location("book", BOOK)
assert _spec and _spec.loader
book = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(book)


@pytest.mark.parametrize("page", book.pages(), ids=lambda page: page.stem)
def test_pages(page):
    book.run(page)


def test_there_are_pages_and_their_blocks_can_fail(tmp_path, monkeypatch):
    assert len(book.pages()) >= 8
    page = tmp_path / "page.md"
    page.write_text("```python\nn = 1\n```\n\n```python\nassert n == 2\n```\n")
    with pytest.raises(AssertionError):
        book.run(page)
    for why, required, runs in [
        ("needs a GPU", "", False),
        ("needs a GPU", "cxx,cuda", True),
        ("takes minutes", "cxx,cuda", False),
    ]:
        monkeypatch.setenv("FLCC_REQUIRE", required)
        page.write_text(f"<!-- not run: {why} -->\n```python\nassert False\n```\n")
        if runs:
            with pytest.raises(AssertionError):
                book.run(page)
        else:
            book.run(page)
    page.write_text("```python\nimport matplotlib\n```\n![A picture](pictures/none.png)\n")
    with pytest.raises(FileNotFoundError):
        book.run(page)


def test_links_lead_somewhere():
    assert book.wrong_links() == []


def test_rows_are_those_of_the_pages_that_they_were_taken_from(tmp_path, monkeypatch):
    assert book.wrong_rows() == []
    assert (BOOK.parent / "libraries.md").read_text().count("<!-- rows of ") == 3
    monkeypatch.setattr(book, "BOOK", tmp_path)
    (tmp_path / "source.md").write_text("| a | b |\n|---|---|\n| 1 | 2 |\n")
    (tmp_path / "page.md").write_text("<!-- rows of source.md -->\n| a | b |\n|---|---|\n| 1 | 3 |\n\n| other |\n")
    assert book.wrong_rows() == ["page.md: | 1 | 3 |"]

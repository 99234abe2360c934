"""How Sphinx makes the book: `sphinx-build -W -c docs/book docs target/book` from the repository's root, where flcc is
installed, whose docstrings it reads."""

project = "FLCC"
author = "the FLCC developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "book/index"
source_suffix = {".md": "markdown"}
# Tables that xtask figures writes for docs/experiments.md.
exclude_patterns = ["pictures"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Template matching, planned and fast",
    "page_width": "1100px",
    "sidebar_collapse": True,
}
html_show_copyright = False
# Links to files of the repository that are no pages; flcc-py/tests/test_book.py checks all links.
suppress_warnings = ["myst.xref_missing"]
# Titles down to the third level can be linked to.
myst_heading_anchors = 3

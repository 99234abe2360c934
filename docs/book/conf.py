"""How Sphinx makes the book: `sphinx-build -W -c docs/book docs target/book` from the repository's root, where the
Python package flcc is installed, whose docstrings it reads, and the command flcc lies in target/release or on the path,
whose help it prints."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

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


def help_of(*command):
    """What `flcc help COMMAND` prints."""
    built = Path(__file__).resolve().parents[2] / "target" / "release" / "flcc"
    program = built if built.exists() else shutil.which("flcc")
    if program is None:
        raise ExtensionError("the command flcc: expected it in target/release or on the path, got none")
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run([program, "help", *command], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


class FlccHelp(SphinxDirective):
    """The help of the program and, each below a title, of all its commands."""

    def run(self):
        whole = help_of()
        return [nodes.literal_block(whole, whole, language="text"), *self.below((), whole)]

    def below(self, parent, text):
        """Sections of the commands that a help lists. Options that all have in common stand with the program alone."""
        sections = []
        _, _, listed = text.partition("\nCommands:\n")
        for name in re.findall(r"^  (\w+) ", listed.partition("\n\n")[0], re.MULTILINE):
            if name == "help":
                continue
            command = (*parent, name)
            told = help_of(*command)
            own = re.sub(r"^Options of every command:\n(?:(?:  .*)?\n)*", "", told, flags=re.MULTILINE).strip()
            title = " ".join(("flcc", *command))
            section = nodes.section(ids=[nodes.make_id(title)], names=[nodes.fully_normalize_name(title)])
            section += [nodes.title(title, title), nodes.literal_block(own, own, language="text")]
            self.state.document.note_implicit_target(section, section)
            sections += [section, *self.below(command, told)]
        return sections


def setup(app):
    app.add_directive("flcc-help", FlccHelp)
    return {"parallel_read_safe": True}

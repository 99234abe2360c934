"""Runs the blocks of Python of a page, one after the other, in a folder with the files of conformance/real.

    python docs/book/run.py                 # all pages
    python docs/book/run.py --pictures      # and keeps their pictures in docs/book/pictures

A comment right above a block, `<!-- not run: WHY -->`, leaves that block out. One that needs a GPU is run where
FLCC_REQUIRE names cuda, and then has to have what it imports, CuPy or torch.
"""

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

BOOK = Path(__file__).resolve().parent
DATA = BOOK.parent.parent / "conformance" / "real"
BLOCK = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
GPU = "needs a GPU"
PICTURE = re.compile(r"!\[[^\]]+\]\((pictures/[^)]+)\)")


def pages():
    """Those with blocks of Python."""
    return [page for page in sorted(BOOK.glob("*.md")) if "```python" in page.read_text()]


def left_out(why):
    """Whether a block is left out, given what the comment above it says, if there is one."""
    return why is not None and not (why == GPU and "cuda" in os.environ.get("FLCC_REQUIRE", "").split(","))


def wrong_links():
    """Links between files of the repository that lead nowhere, in all pages."""
    root = BOOK.parent.parent
    wrong = []
    for page in [root / "README.md", root / "flcc-py" / "README.md", *BOOK.parent.rglob("*.md")]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if ":" in target:
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE) if anchor and file.is_file() else []
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            if not file.exists() or (anchor and anchor not in slugs):
                wrong.append(f"{page.relative_to(root)}: {target}")
        for entry in re.findall(r"^```{toctree}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            names = [line for line in entry.splitlines() if line and not line.startswith(":")]
            wrong += [f"{page.name}: {name}" for name in names if not (page.parent / f"{name}.md").exists()]
    return wrong


def wrong_rows():
    """Rows of tables below `<!-- rows of PAGE -->` that are not that page's: measured numbers have one place."""
    wrong = []
    for page in sorted(BOOK.glob("*.md")):
        for source, rows in re.findall(r"^<!-- rows of (\S+) -->\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE):
            there = (BOOK / source).read_text().splitlines()
            wrong += [f"{page.name}: {row}" for row in rows.splitlines() if row not in there]
    return wrong


def run(page, keep_pictures=False):
    """Runs a page; what it shows it has to make."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python"), f"{page.name}: a block is not closed"
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for file in DATA.iterdir():
            shutil.copy(file, folder)
        (Path(folder) / "pictures").mkdir()
        os.chdir(folder)
        try:
            names = {"__name__": "__main__"}
            for block in blocks:
                if not left_out(block["why"]):
                    # A line of a traceback is one of the page.
                    lines = "\n" * text.count("\n", 0, block.start("code"))
                    exec(compile(lines + block["code"], str(page), "exec"), names)
            pyplot.close("all")
            for picture in PICTURE.findall(text):
                made = Path(folder) / picture
                assert made.stat().st_size > 0, f"{page.name}: no {picture}"
                if keep_pictures:
                    shutil.copy(made, BOOK / "pictures")
                assert (BOOK / picture).exists(), f"{picture}: run {Path(__file__).name} --pictures"
        finally:
            os.chdir(before)


if __name__ == "__main__":
    for page in pages():
        began = time.monotonic()
        run(page, "--pictures" in sys.argv)
        print(f"{time.monotonic() - began:6.2f} s  {page.name}")

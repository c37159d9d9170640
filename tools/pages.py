"""Writes the course as a site, by Sphinx: `python tools/pages.py [--solutions]`.

The folder pages/en is English and pages/zh Chinese, each page links to its other, and
pages/translator is the page that translates. All work from a disk, without a network. Nothing is
executed. Solutions are left out, or folded with --solutions.
"""

import importlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import nbformat
from catalogue import PAGES, VIEWER, in_language, translations
from student import FOLDED
from translated_copy import cells_of

from engine.errors import InputError, run_command
from engine.export.page_form import export_page
from engine.fonts import chinese_font
from engine.run_folder import BOX
from utils import ROOT

OUT = ROOT / "pages"
EXECUTED = ROOT / "chinese"  # as `make chinese EXECUTE=1` leaves it
SITE = ROOT / "tools" / "site"
LESSONS = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/[0-9]*.ipynb")]
HIDDEN = {"source_hidden": "hide-input", "outputs_hidden": "hide-output"}  # Jupyter's, MyST's
LIVE = re.compile(r"`translator/index\.html#([^`]+)`")
OTHER_FILE = re.compile(r"(?<!!)\[([^]\n]*)\]\((?!https?:|#|[^)]*\.(?:md|ipynb)[)#])[^)\s]*\)")
TO_OTHER_LANGUAGE = re.compile(r"(?m)^\[[^]]*\]\(README[.\w]*\)\n\n")


class Edition:
    """The site in a language, None being English."""

    def __init__(self, folder, language=None):
        self.folder = folder
        self.language = language
        self.words = translations(language, "site") if language else {}

    def word(self, text):
        """A text of the site's own."""
        return self.words.get(text, text)

    def text(self, name):
        """The text of a file of the course, with its own pictures where a copy was executed."""
        text = (ROOT / name).read_text(encoding="utf-8")
        if not self.language:
            return text
        text = in_language(self.language, name, text)
        executed = EXECUTED / name
        if name in LESSONS and executed.exists():
            copy = executed.read_text(encoding="utf-8")
            return copy if cells_of(copy) == cells_of(text) else text
        return text

    def markdown(self, text):
        """A Markdown text whose links lead to pages of the site; others become plain text."""

        def live(match):
            query = "?lang=zh" if self.language else ""
            address = f"../../translator/index.html{query}#{quote(match[1])}"
            return f'<a class="live" href="{address}">{self.word("try it here")}</a>'

        text = TO_OTHER_LANGUAGE.sub("", text)
        if self.language:  # its headings, and so its anchors, are others
            text = re.sub(r"(\.md)#[\w-]+\)", r"\1)", text)
        return LIVE.sub(live, OTHER_FILE.sub(r"\1", text))

    def lesson(self, text, solutions):
        """The text of a notebook as Sphinx takes it."""
        notebook = nbformat.reads(text, as_version=4)
        if not solutions:
            notebook.cells = [one for one in notebook.cells if not one.source.startswith(FOLDED)]
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self.markdown(cell.source)
            if cell.metadata.get("jp-MarkdownHeadingCollapsed"):
                cell.source += '\n\n<span class="second-reading-mark"></span>'
            for key, tag in HIDDEN.items():
                if cell.metadata.get("jupyter", {}).get(key):
                    cell.metadata.setdefault("tags", []).append(tag)
            for output in cell.get("outputs", ()):
                about = output.get("metadata", {}).get("image/png", {})
                if "width" in about:
                    cell.metadata.mystnb.image["width"] = str(about["width"])
                if "viewer" in about:
                    maps = about["viewer"].replace("<", r"\u003c")
                    script = f'<script type="application/json">{maps}</script>'
                    output.data["text/html"] = f'<div class="viewer">{script}</div>'
        return nbformat.writes(notebook)

    def write(self, solutions):
        """Writes this edition."""
        with TemporaryDirectory() as folder:
            source, site = Path(folder) / "source", Path(folder) / "site"
            self.prepare(source, solutions)
            command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
            command += ["-D", f"language={self.language or 'en'}", "-d", f"{folder}/doctrees"]
            shown = self.word("Show code cell {type}")
            command += ["-D", f"nb_code_prompt_show={shown}"]
            done = subprocess.run([*command, source, site])
            if done.returncode:
                raise InputError(f"{self.folder}: the site has faults, which stand above")
            shutil.move(site, self.folder)

    def prepare(self, folder, solutions):
        """Writes what Sphinx makes the site of."""
        written = set("中文")
        for name in [*PAGES, *LESSONS]:
            text = self.text(name)
            written.update(sign for sign in text if sign >= "\u2e80")
            text = self.lesson(text, solutions) if name in LESSONS else self.markdown(text)
            if name == "README.md":
                text += self.contents()
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "notebooks" / "support").mkdir()
        picture = "notebooks/support/attention.png"
        shutil.copy(ROOT / picture, folder / picture)
        static = folder / "_static"
        shutil.copytree(SITE, static, ignore=shutil.ignore_patterns("*.py", "*.html"))
        (folder / "_templates").mkdir()
        shutil.copy(SITE / "language.html", folder / "_templates")
        shutil.copy(SITE / "conf.py", folder)
        (static / "chinese.woff").write_bytes(chinese_font("".join(sorted(written))))
        mathjax = Path(importlib.import_module("sphinx-mathjax-offline").__file__).parent
        shutil.copy(mathjax / "static" / "mathjax" / "tex-svg-full.js", static)
        viewer = (ROOT / VIEWER).read_text(encoding="utf-8")
        viewer = in_language(self.language, VIEWER, viewer) if self.language else viewer
        # from the disk a page loads no modules
        (static / "viewer.js").write_text(viewer.replace("export default { render };", ""))

    def contents(self):
        """The lists of pages at the side."""
        lists = {self.word("Lessons"): sorted(LESSONS), self.word("Further"): PAGES[1:]}
        trees = [f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"
                 for caption, names in lists.items()]  # fmt: skip
        return "\n" + "\n".join(trees)


def main(arguments=None):
    """The command line. Returns the exit status."""
    solutions = "--solutions" in (sys.argv if arguments is None else arguments)
    shutil.rmtree(OUT, ignore_errors=True)
    editions = [Edition(OUT / "en"), Edition(OUT / "zh", "zh_CN")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda edition: edition.write(solutions), editions))
    export_page(BOX, OUT / "translator")
    begin = '<meta http-equiv="refresh" content="0; url=en/README.html">'
    (OUT / "index.html").write_text(f"<!doctype html><title>Transformer</title>{begin}\n")
    print(f"written: open {OUT / 'index.html'}")

    if not EXECUTED.exists():
        print("Pictures of the Chinese edition are English: `make chinese EXECUTE=1` draws its own")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

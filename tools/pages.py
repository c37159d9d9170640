"""Renders the committed notebooks and the READMEs to a small static site.

    python tools/pages.py [OUT] [--solutions]

It needs no network and no server. Scripts only add the search field and the attention viewer.
Nothing is executed. Formulas become MathML; the fonts that ship with the site hold just the
characters on its pages. Solutions are left out, of the pages and of the notebooks that ship along.
The folder zh is the same site in Chinese; each page leads to itself in the other language.
A former site is written over; what else somebody has put there stays.
"""

import argparse
import html
import itertools
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from catalogue import PAGES, VIEWER, catalogue_of
from copies import changed
from grading import FOLDED
from jinja2 import Environment, FileSystemLoader
from lesson_tables import facts_of
from pages_edition import EXECUTED, Edition, write_fonts
from pages_search import search_index
from pages_text import Renderer, with_chinese_marked
from student import without_solutions

from engine.errors import InputError, run_command
from engine.export.page_form import export_page
from engine.files import at_home
from engine.run_folder import BOX

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
# docs/install.md becomes install.html, data_small/README.md data_small.html
READMES = {
    name: re.sub("^docs_|_readme$", "", catalogue_of(name).lower()) + ".html" for name in PAGES
}


@dataclass
class Page:
    """What templates are told of a page."""

    source: Path  # the file of the course that it shows
    file: str  # its own name
    cells: list
    facts: dict = field(default_factory=dict)  # of a lesson: its question, minutes to read and run
    previous: "Page | None" = None
    following: "Page | None" = None

    @property
    def title(self):
        """The first heading, without a point behind a lesson's number."""
        heading = self.cells[0].source.partition("\n")[0].removeprefix("# ").replace(" · ", " ")
        return "README" if self.file == "readme.html" else heading


def read_lesson(path, solutions, edition):
    """The notebook of a lesson as its page shows it, and the text of the file that ships along."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    if solutions:
        text = edition.text(name, text)
        return nbformat.reads(text, as_version=4), text
    text = edition.text(name, changed(name, text))
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith(FOLDED)]
    return notebook, without_solutions(name, text)


@contextmanager
def named(path):
    """What cannot be shown of a file is told in one line that names it."""
    try:
        yield
    except (InputError, OSError, ValueError, LookupError, StopIteration) as error:
        name = path.relative_to(ROOT).as_posix()
        if isinstance(error, InputError) and str(error).startswith(name):  # it says all
            raise
        what = str(error) or type(error).__name__
        hint = "A lesson begins with title, question and minutes; pictures are files of the course"
        raise InputError(f"{name}: {what}. {hint}") from error


def write_lessons(folder, solutions, edition):
    """Writes the lessons as files that pages offer. Returns their pages."""
    (folder / "notebooks").mkdir(parents=True)
    pages = []
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        with named(path):
            notebook, text = read_lesson(path, solutions, edition)
            pages.append(Page(path, f"{path.stem}.html", notebook.cells, facts_of(notebook)))
        (folder / "notebooks" / path.name).write_text(text, encoding="utf-8", newline="\n")
    for before, after in itertools.pairwise(pages):
        before.following, after.previous = after, before
    return pages


def read_readme(name, edition):
    """The cell of a Markdown file, less its way to the other language: pages have another."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"^\[[^]]*\]\(README[.\w]*\)\n\n", "", text, flags=re.MULTILINE)
    return nbformat.v4.new_markdown_cell(edition.text(name, text))


def write_edition(folder, edition, solutions):
    """Writes the site in a language to a new folder."""
    course = write_lessons(folder, solutions, edition)
    readmes = [Page(ROOT / name, file, [read_readme(name, edition)])
               for name, file in READMES.items()]  # fmt: skip
    pages = course + readmes
    index = Page(ROOT / "README.md", "index.html", readmes[0].cells, following=course[0])
    edition.files = {page.source: page.file for page in pages}
    about = {"edition": edition, "lessons": course, "course": index.title}
    templates = Environment(loader=FileSystemLoader(TOOLS), autoescape=True, trim_blocks=True)
    templates.globals["_"] = edition.word
    template = templates.get_template("pages.html.j2")
    written = {}
    for page in pages:
        with named(page.source):
            show = Renderer(page, edition)
            written[page.file] = template.render(about, page=page, show=show)
    (folder / "search.js").write_text(search_index(pages, written), encoding="utf-8")

    show = Renderer(index, edition)
    commands = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Two commands\n")[2]
    written["index.html"] = templates.get_template("pages_index.html.j2").render(
        about,
        page=index,
        readmes=readmes,
        alt=re.search(r"!\[(.*)\]\(.*attention", index.cells[0].source)[1],
        install=show.markdown(edition.text("README.md", commands.partition("\n## ")[0])),
    )
    write_files(folder, edition, written)


def write_files(folder, edition, written):
    """Writes the pages of an edition, {file name: HTML}, and what they load."""
    viewer = edition.text(VIEWER, (ROOT / VIEWER).read_text(encoding="utf-8"))
    # from the disk a page loads no modules
    files = {**written, "viewer.js": viewer.replace("export default { render };", "")}
    for name, text in files.items():
        if edition.lang == "en" and name.endswith(".html"):
            text = with_chinese_marked(text)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(TOOLS / "pages.css", folder / "style.css")
    shutil.copyfile(TOOLS / "pages.js", folder / "pages.js")
    write_fonts(folder / "fonts", edition.lang, html.unescape("".join(files.values())))
    (folder / "images").mkdir()
    for name, content in edition.images.items():
        (folder / "images" / name).write_bytes(content)


def build(site, solutions=False):
    """Writes the site to a new folder; with `solutions` they are there, folded."""
    editions = [Edition("en", "English"), Edition("zh-CN", "中文", "zh/", "zh_CN")]
    for edition, other in zip(editions, reversed(editions)):
        edition.other = other
        write_edition(site / edition.below, edition, solutions)
    export_page(BOX, site / "translator")


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    meaning = "the folder to write (default: pages)"
    parser.add_argument("out", nargs="?", default="pages", type=Path, help=meaning)
    parser.add_argument("--solutions", action="store_true", help="with the solutions, folded")
    options = parser.parse_args(arguments)
    out = at_home(options.out).resolve()
    if out.exists() and not (out / "zh" / "search.js").is_file():
        raise InputError(f"{out} is there already, and is no such site: choose another folder")
    with tempfile.TemporaryDirectory() as temporary:
        site = Path(temporary) / "site"
        build(site, options.solutions)
        shutil.copytree(site, out, dirs_exist_ok=True)
    size = sum(path.stat().st_size for path in out.rglob("*"))
    print(f"{size / 1e6:.1f} MB: open {out / 'index.html'}")
    if not EXECUTED.exists():
        print("Pictures of the Chinese edition are English: `make chinese EXECUTE=1` draws its own")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

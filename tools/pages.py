"""Renders the committed notebooks and the READMEs to a small static site.

    python tools/pages.py [OUT] [--solutions] [--address URL]

It needs no network and no server. Scripts only add the search field and the attention viewer.
Nothing is executed. Formulas become MathML; the fonts that ship with the site hold just the
characters on its pages. Solutions are left out, of the pages and of the notebooks that ship along.
"""

import argparse
import html
import os
import re
import shutil
import sys
import tempfile
import textwrap
from functools import partial
from pathlib import Path, PurePath

from engine.errors import InputError, run_command  # first: Ctrl-C is one line from here

# isort: split
import nbformat
from catalogue import VIEWER, blocks
from grading import FOLDED
from jinja2 import FileSystemLoader, pass_context
from lesson_tables import facts_of
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import MarkdownWithMath
from pages_edition import EXECUTED, Edition
from pages_fonts import write_fonts
from pages_map import series_map
from pages_search import search_index
from pages_text import Renderer, image, is_aligned, picture, with_chinese_marked
from student import CopyError, changed, without_solutions
from traitlets.config import Config

from engine.export.page_form import export_page
from engine.files import at_home, file_digest
from engine.run_folder import BOX

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
READMES = {
    "README.md": "readme.html",
    "docs/install.md": "install.html",
    "docs/own_data.md": "own_data.html",
    "docs/export.md": "export.html",
    "docs/speed.md": "speed.html",
    "notebooks/README.md": "teachers.html",
    "data_small/README.md": "data_small.html",
    "data_large/README.md": "data_large.html",
}
HERO = "attention.png"
ASIDE = (
    r"^\[[^]]*\]\(README[.\w]*\)\n\n"  # the README's way to the other language: pages have another
)
LIST = "pages.sha256"  # the files of a site: by it a former one is known

# No line may end between a formula and its bracket or comma; between Chinese words it may anywhere.
BESIDE = r"[^\s<>\u2e80-\uffff]*"
TOGETHER = rf"([（“]?{BESIDE}<math>.*?</math>{BESIDE}[，。；：、）”？！]*)"


class Exporter(HTMLExporter):
    """nbconvert's HTML exporter with the templates and the Markdown renderer of this site."""

    def __init__(self, pages, images, edition):
        config = Config({"ExtractOutputPreprocessor": {"enabled": True}})
        super().__init__(
            config=config,
            extra_loaders=[FileSystemLoader(TOOLS)],
            template_name="basic",
            template_file="pages.html.j2",
        )
        self.pages = pages
        self.images = images
        self.edition = edition
        shown = partial(picture_of, up=edition.up)
        self.environment.globals.update(is_aligned=is_aligned, picture_of=shown, _=edition.word)

    @pass_context
    def markdown2html(self, context, source):
        return self.rendered(source, context["resources"])

    def rendered(self, source, resources):
        """The HTML of Markdown in the file `source` of the resources; its headings go there."""
        about = resources["source"], self.pages, self.images, resources["headings"]
        page = MarkdownWithMath(renderer=Renderer(*about, self.edition)).render(source)
        return re.sub(TOGETHER, r'<span class="unbroken">\1</span>', page)

    def index(self, resources):
        """The first page of the site."""
        return self.environment.get_template("pages_index.html.j2").render(resources=resources)


def picture_of(output, resources, up=""):
    """The HTML of the picture that a cell shows, as large as its metadata say."""
    name = output.metadata["filenames"]["image/png"]
    about = output.metadata.get("image/png", {})
    size = (about["width"], about["height"]) if "width" in about else None
    content = resources["outputs"][name]
    return picture(PurePath(name).name, about.get("alt", ""), content, size, up=up)


def markdown_notebook(text):
    """A notebook of one cell, so that a Markdown file takes the same way as the others."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])


def title_of(notebook):
    """The first heading, without a point behind a lesson's number."""
    return notebook.cells[0].source.splitlines()[0].removeprefix("# ").replace(" · ", " ")


def description_of(notebook, question=""):
    """What a search engine shows of a page: the question that it answers, and how it begins."""
    first = next(text for text in blocks(notebook.cells[0].source) if text[0] not in "#[")
    first = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", re.split(" Reading: |阅读：", first)[0])
    return textwrap.shorten(f"{question} {re.sub('[*`]', '', first)}", 250, placeholder=" …")


def read_lesson(path, name, solutions, edition):
    """A lesson as its page shows it, and the text of the file that ships along."""
    text = path.read_text(encoding="utf-8")
    file = edition.text(name, text)
    if solutions:
        text = file
    else:
        try:
            text = edition.text(name, changed(name, text))
            file = without_solutions(name, text)
        except CopyError as error:
            raise InputError(str(error)) from error
    notebook = nbformat.reads(text, as_version=4)
    if not solutions:
        notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith(FOLDED)]
    return notebook, file


def section_of(text, heading):
    """What stands below a heading of the README."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise InputError(f'README.md has no section "{heading}"')
    return section[1]


def viewer_script(edition):
    """The attention viewer as a script that a page can load from the disk: it exports nothing."""
    script = edition.text(VIEWER, (ROOT / VIEWER).read_text(encoding="utf-8"))
    script = script.replace("export default { render };", "")
    return script + (TOOLS / "pages_viewer.js").read_text(encoding="utf-8")


def build(root, folder, translator, solutions=False, address=""):
    """Writes the site of the course in `root` to a new folder; returns its number of notebooks.

    With `solutions` they are there, folded. `address` is where the site will stand, for links that
    need it; `translator` is the folder of the page that translates, and is moved there.
    """
    (folder / "images").mkdir(parents=True)
    editions = [Edition("en", "English"), Edition("zh-CN", "中文", "zh/", "zh_CN")]
    for edition, other in zip(editions, reversed(editions)):
        count = write_edition(root, folder, edition, other, solutions, address)
    for name in ("css", "js"):
        there = "style.css" if name == "css" else "pages.js"
        shutil.copyfile(TOOLS / f"pages.{name}", folder / there)
    shutil.move(translator, folder / "translator")
    (folder / LIST).write_text("\n".join(contents(folder)), encoding="utf-8")
    return count


def write_lessons(root, folder, paths, edition, solutions):
    """Writes the lessons as files that pages offer. Returns {path: notebook as its page has it}."""
    (folder / "notebooks").mkdir(parents=True)
    notebooks = {}
    for path in paths:
        name = path.relative_to(root).as_posix()
        notebooks[path], file = read_lesson(path, name, solutions, edition)
        (folder / name).write_text(file, encoding="utf-8", newline="\n")
    return notebooks


def first_page(first, edition, exporter, readme, texts):
    """The HTML of the first page; `first` is what it is told besides what the README says."""
    said = "Seventeen lessons build an English-to-Chinese translator from raw text to beam search."
    claim = "Every class is written by hand, every claim is checked by a cell that runs."
    between = "" if edition.lang == "zh-CN" else " "  # no space follows a Chinese full stop
    first["description"] = between.join([edition.word(said), edition.word(claim)])
    first["install"] = exporter.rendered(
        edition.text("README.md", section_of(readme, "Two commands")), first
    )
    alt = re.search(rf"!\[(.*)\]\(.*{HERO}\)", texts["README.md"])[1]
    first["hero"] = image(HERO, alt, exporter.images[HERO], up=edition.up)
    return exporter.index(first)


def read_readmes(root, edition):
    """The README in English, and {name: text} of all READMES in the edition's language."""
    english = {name: (root / name).read_text(encoding="utf-8") for name in READMES}
    english["README.md"] = re.sub(ASIDE, "", english["README.md"], flags=re.MULTILINE)
    return english["README.md"], {name: edition.text(name, text) for name, text in english.items()}


def write_edition(root, site, edition, other, solutions, address):
    """Writes the pages of a language, each with a link to it in the other; returns their number."""
    folder = site / edition.below
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    pages = {path: f"{path.stem}.html" for path in paths}
    pages |= {root / name: page for name, page in READMES.items()}
    readme, texts = read_readmes(root, edition)
    sources = write_lessons(root, folder, paths, edition, solutions)
    sources |= {root / name: markdown_notebook(text) for name, text in texts.items()}
    course = title_of(sources[root / "README.md"])
    titles = {path: title_of(notebook) for path, notebook in sources.items()}
    titles[root / "README.md"] = "README"
    lessons = {path: facts_of(sources[path]) for path in paths}
    images = {}
    exporter = Exporter(pages, images, edition)
    before, after = dict(zip(paths[1:], paths)), dict(zip(paths, paths[1:]))

    def link(path):
        """What the navigation needs of a page."""
        return path and (pages[path], titles[path])

    def common(page):
        """What every page is told."""
        there = edition.up + other.below + page
        about = {"lang": edition.lang, "up": edition.up, "below": edition.below, "page": page}
        return {**about, "address": address, "course": course, "headings": [],
                "other": (other.lang, there, other.name)}  # fmt: skip

    written = {}
    for path, notebook in sources.items():
        resources = common(pages[path]) | about_page(path, notebook, titles[path], lessons)
        resources["lessons"] = list(map(link, paths))
        resources |= {"previous": link(before.get(path)), "following": link(after.get(path))}
        text, resources = exporter.from_notebook_node(notebook, resources)
        images |= {Path(name).name: content for name, content in resources["outputs"].items()}
        written[pages[path]] = text
    index = search_index([(pages[path], titles[path], written[pages[path]]) for path in sources])

    first = common("index.html") | {"source": root / "README.md", "following": link(paths[0])}
    first["map"] = series_map([pages[path] for path in paths], edition.word)
    first["lessons"] = [
        {"page": pages[path], "title": titles[path], **about} for path, about in lessons.items()
    ]
    first["more"] = [link(root / name) for name in READMES]
    written["index.html"] = first_page(first, edition, exporter, readme, texts)

    write_pages(folder, edition, written, index)
    for name, content in images.items():
        (site / "images" / name).write_bytes(content)
    return len(paths)


def about_page(path, notebook, title, lessons):
    """What a page says of itself; `lessons` has what is known of each lesson."""
    number = path.stem[:2] if path in lessons else ""
    return {
        "unique_key": path.stem,
        "output_files_dir": "images",
        "source": path,
        "title": title,
        "description": description_of(notebook, lessons.get(path, {}).get("question", "")),
        "number": number,
        "file": number and f"notebooks/{path.name}",
    }


def write_pages(folder, edition, written, index):
    """Writes the pages of an edition, {file name: HTML}, its scripts, and the fonts they need."""
    for name, text in written.items():
        text = with_chinese_marked(text) if edition.lang == "en" else text
        (folder / name).write_text(text, encoding="utf-8")
    viewer = viewer_script(edition)
    for name, text in (("search.js", index), ("viewer.js", viewer)):
        (folder / name).write_text(text, encoding="utf-8")
    write_fonts(folder / "fonts", edition.lang, html.unescape("".join(written.values())) + viewer)


def contents(folder):
    """A line for each file in a site but its list: its SHA-256 and its name."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [f"{file_digest(folder / name)}  {name}" for name in sorted(names) if name != LIST]


def check_replaceable(out):
    """Refuses a path that holds a file of anybody else's: it will be replaced as a whole."""
    if out.is_file():
        raise InputError(f"{out} is a file: choose another folder")
    known = out / LIST
    ours = known.read_text(encoding="utf-8", errors="replace") if known.is_file() else ""
    foreign = set(contents(out)) - set(ours.splitlines())
    if foreign:
        name = min(foreign)[66:]
        raise InputError(f"{out} is not as this tool left it ({name}): choose another folder")


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "out", nargs="?", default="pages", type=Path, help="the folder to write (default: pages)"
    )
    parser.add_argument("--solutions", action="store_true", help="with the solutions, folded")
    parser.add_argument("--address", default="", help="where the site will stand: https://...")
    options = parser.parse_args(arguments)
    if options.address and not re.fullmatch(r"https?://[^\s/]\S*", options.address):
        raise InputError(f"--address {options.address}: it begins with https:// or http://")
    address = options.address.rstrip("/")
    out = Path(os.path.abspath(at_home(options.out)))
    check_replaceable(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        site = Path(temporary) / "site"
        translator = Path(temporary) / "translator"
        export_page(BOX, translator)
        count = build(ROOT, site, translator, options.solutions, address)
        check_replaceable(out)  # building it took a while
        if out.exists():
            out.rename(Path(temporary) / "former")
        site.rename(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{count} notebooks, {size / 1e6:.1f} MB: open {out / 'index.html'}")
    if not EXECUTED.exists():
        print("Pictures of the Chinese edition are English: `make chinese EXECUTE=1` draws its own")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

"""Renders the committed notebooks and the READMEs to a small static site
that needs no network, no script and no server.

    python tools/pages.py [OUT]

Nothing is executed. Formulas become MathML; the fonts that ship with the site hold just the
characters on its pages.
"""

import argparse
import hashlib
import html
import importlib.util
import os
import re
import shutil
import string
import sys
import tempfile
from pathlib import Path

from notebooks.support.errors import InputError, run_command  # first: Ctrl-C is one line from here

# isort: split
import nbformat
from fontTools import subset
from jinja2 import FileSystemLoader, pass_context
from math_core import LatexError, LatexToMathML
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from tidy import without_widgets
from traitlets.config import Config

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
READMES = {
    "README.md": "index.html",
    "data_small/README.md": "data_small.html",
    "data_large/README.md": "data_large.html",
}
LIST = "pages.sha256"  # all that a site consists of: by it a former one is known

# Which packages' fonts the site ships, and of which characters: all that stand on the pages, as far
# as a pattern allows. That of cjk leaves Latin text its own quotes.
FONTS = {
    "cjk": ("mplfonts", "fonts/NotoSansCJKsc-Regular.otf", r"[\u2e80-\U0003ffff]"),
    "mono": ("matplotlib", "mpl-data/fonts/ttf/DejaVuSansMono.ttf", r"."),
    "math": ("ziamath", "fonts/STIXTwoMath-Regular.ttf", r"."),
}
# A browser draws these in formulas although the page does not say them: bars, roots, and italic
# letters for single ones.
DRAWN = "√‾ℎ" + "".join(map(chr, [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)]))

LATEX = LatexToMathML(fancy_error=False)


def to_mathml(latex, block):
    """LaTeX to MathML."""
    try:
        mathml = LATEX.convert_with_local_state(latex, displaystyle=block)
    except LatexError as error:
        raise InputError(
            f"the formula {latex.strip()} cannot be converted: {' '.join(str(error).split())}"
        ) from error
    # \overline comes as a combining character, which browsers draw beside its letters; this one is
    # drawn above
    return re.sub("<mo[^>]*>\u0332</mo></mover>", "<mo>\u203e</mo></mover>", mathml)


class Renderer(IPythonRenderer):
    """Markdown to HTML: formulas as MathML, links between sources as links between pages.

    Tables scroll in a box.
    """

    def __init__(self, source, pages, images):
        """The file whose text this is, {file: page}, and a dict for the pictures' {name: bytes}."""
        super().__init__(escape=False)
        self.folder, self.pages, self.images = source.parent, pages, images
        self.on_github = source.suffix == ".md"  # where such a file is read otherwise

    def inline_math(self, body):
        return to_mathml(body, False)

    def block_math(self, body):
        return f'<span class="formula">{to_mathml(body, True)}</span>'

    def latex_environment(self, name, body):
        return self.block_math(rf"\begin{{{name}}}{body}\end{{{name}}}")

    def heading(self, text, level, **attributes):
        plain = html.unescape(re.sub(r"<[^>]+>", "", text))
        anchor = "-".join(plain.split())  # as Jupyter names it
        if self.on_github:
            anchor = re.sub(r"[^\w-]", "", anchor.lower())
        return f'<h{level} id="{html.escape(anchor)}">{text}</h{level}>\n'

    def link(self, text, url, title=None):
        name, _, anchor = url.partition("#")
        if name and not re.match(r"[a-z]+:", name):
            page = self.pages.get((self.folder / name).resolve())
            if page is None:  # a file of the repository, which the site does not have
                return text
            url = page + (f"#{anchor}" if anchor else "")
        return super().link(text, url, title)

    def image(self, text, url, title=None):
        path = self.folder / url
        self.images[path.name] = path.read_bytes()
        return super().image(text, f"images/{path.name}", title)

    def table(self, text):
        return f'<div class="table"><table>\n{text}</table></div>\n'


class Exporter(HTMLExporter):
    """nbconvert's HTML exporter with the template and the Markdown renderer of this site."""

    def __init__(self, pages, images):
        config = Config({"ExtractOutputPreprocessor": {"enabled": True}})
        template = dict(template_name="basic", template_file="pages.html.j2")
        super().__init__(config=config, extra_loaders=[FileSystemLoader(TOOLS)], **template)
        self.pages, self.images = pages, images

    @pass_context
    def markdown2html(self, context, source):
        renderer = Renderer(context["resources"]["source"], self.pages, self.images)
        page = MarkdownWithMath(renderer=renderer).render(source)
        # no line may end between a formula and its bracket or comma
        formula = r"([^\s<>]*<math>.*?</math>[^\s<>]*)"
        return re.sub(formula, r'<span class="unbroken">\1</span>', page)


def without_bars(notebook):
    """The notebook less its progress bars."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for output in cell.outputs:
                if output.get("name") == "stderr":
                    output.text = re.sub(r".*\d+%\|.*\n?", "", output.text)
            cell.outputs = [output for output in cell.outputs if output.get("text", "-").strip()]
    return notebook


def markdown_notebook(text):
    """A notebook of one cell, so that a Markdown file takes the same way as the others."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])


def front_page(readme):
    """The README with its table of notebooks right behind the introduction."""
    first, *sections = re.split(r"^(?=## )", readme, flags=re.MULTILINE)
    if not any(section.startswith("## The notebooks") for section in sections):
        raise InputError('README.md has no section "The notebooks"')
    return first + "".join(
        sorted(sections, key=lambda section: not section.startswith("## The notebooks"))
    )


def title_of(notebook):
    """The first heading."""
    return notebook.cells[0].source.splitlines()[0].removeprefix("# ")


def narrow_roots(font):
    """Makes the tall root signs as narrow as the small one.

    Chromium keeps free behind a root what the widest would take.
    """
    small = font.getBestCmap()[ord("√")]
    width = font["hmtx"][small][0]
    variants = font["MATH"].table.MathVariants
    signs = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(small)]
    names = {v.VariantGlyph for v in signs.MathGlyphVariantRecord}
    names |= {p.glyph for p in signs.GlyphAssembly.PartRecords}
    for name in names - {small}:
        glyph, (advance, left) = font["glyf"][name], font["hmtx"][name]
        glyph.coordinates.scale((width / advance, 1))
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, round(left * width / advance))


def write_fonts(folder, text):
    """Writes the fonts of the site, each with those of these characters that it has."""
    folder.mkdir()
    for name, (package, file, pattern) in FONTS.items():
        # all names: they hold the licence
        options = subset.Options(flavor="woff", name_IDs=["*"], hinting=False)
        options.drop_tables.append("FFTM")
        path = Path(importlib.util.find_spec(package).submodule_search_locations[0]) / file
        font = subset.load_font(path, options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(text="".join(re.findall(pattern, text)))
        subsetter.subset(font)
        if name == "math":
            narrow_roots(font)
        subset.save_font(font, folder / f"{name}.woff", options)


def build(root, folder):
    """Writes the site of the course in `root` to a new folder; returns its number of notebooks."""
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    pages = {path: f"{path.stem}.html" for path in paths}
    pages |= {root / name: page for name, page in READMES.items()}
    sources = {}
    for path in pages:
        if path.suffix == ".ipynb":
            sources[path] = without_bars(without_widgets(nbformat.read(path, as_version=4)))
        else:
            text = path.read_text(encoding="utf-8")
            text = front_page(text) if pages[path] == "index.html" else text
            sources[path] = markdown_notebook(text)

    images = {}
    exporter = Exporter(pages, images)
    before = dict(zip(paths[1:], paths))
    after = dict(zip(paths, paths[1:])) | {root / "README.md": paths[0]}

    def link(path):
        """What the navigation needs of a page."""
        return path and (pages[path], title_of(sources[path]))

    (folder / "images").mkdir(parents=True)
    characters = set(string.printable + DRAWN)
    for path, notebook in sources.items():
        resources = {
            "unique_key": path.stem,
            "output_files_dir": "images",
            "source": path,
            "title": title_of(notebook),
            "page": pages[path],
            "previous": link(before.get(path)),
            "following": link(after.get(path)),
        }
        try:
            text, resources = exporter.from_notebook_node(notebook, resources)
        except InputError as error:
            raise InputError(f"{path.relative_to(root)}: {error}") from error
        images |= {Path(name).name: content for name, content in resources["outputs"].items()}
        (folder / pages[path]).write_text(text, encoding="utf-8")
        characters |= set(html.unescape(text))

    for name, content in images.items():
        (folder / "images" / name).write_bytes(content)
    write_fonts(folder / "fonts", "".join(sorted(characters)))
    shutil.copyfile(TOOLS / "pages.css", folder / "style.css")
    (folder / LIST).write_text("\n".join(contents(folder)), encoding="utf-8")
    return len(paths)


def contents(folder):
    """A line for each thing in a site but its list: the SHA-256, if it is a file, and the name."""
    lines = []
    for path in sorted(folder.rglob("*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        lines.append(f"{digest:64}  {path.relative_to(folder).as_posix()}")
    return [line for line in lines if line[66:] != LIST]


def check_replaceable(out):
    """Refuses a path that holds anything but a former site: it will be replaced as a whole."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file: choose another folder")
    known = out / LIST
    ours = known.read_text(encoding="utf-8", errors="replace") if known.is_file() else ""
    differing = set(contents(out)) ^ set(ours.splitlines())
    if differing:
        name = min(differing)[66:]
        raise InputError(f"{out} is not as this tool left it ({name}): choose another folder")


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "out", nargs="?", default="pages", type=Path, help="the folder to write (default: pages)"
    )
    out = Path(os.path.abspath(parser.parse_args(arguments).out))
    check_replaceable(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        site = Path(temporary) / "site"
        count = build(ROOT, site)
        check_replaceable(out)  # building it took a while
        if out.exists():
            out.rename(Path(temporary) / "former")
        site.rename(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{count} notebooks, {size / 1e6:.1f} MB: open {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

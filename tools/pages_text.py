"""Text as the site shows it: Markdown and formulas as HTML, Chinese marked."""

import html
import re
import struct
from urllib.parse import quote

from math_core import LatexError, LatexToMathML
from nbconvert.filters.markdown_mistune import IPythonRenderer

from engine.errors import InputError

LIVE = "translator/index.html#"
LATEX = LatexToMathML(fancy_error=False)
# Runs that a browser and a screen reader must know to be Chinese: signs, their marks, wide forms.
CHINESE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")
# What is no text of the page: whole elements, then single tags.
MARKUP = re.compile(r"(<(?:title|math|script)\b.*?</(?:title|math|script)>|<[^>]*>)", re.DOTALL)


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


def plain(markup):
    """The text of some HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def image(name, alt, content, size=None, up=""):
    """The HTML of an image of the site.

    `content` are the bytes of the PNG; `size` is (width, height) on the page, in CSS pixels, the
    file's own if not given; `up` leads from the page to the site's folder.
    """
    width, height = size or struct.unpack(">II", content[16:24])
    return (
        f'<img src="{up}images/{name}" alt="{html.escape(alt)}" width="{width}" height="{height}"'
        ' loading="lazy" decoding="async">'
    )


def picture(name, *about, up=""):
    """An image, as `image` makes it, that a tap enlarges."""
    return f'<a class="picture" href="{up}images/{name}">{image(name, *about, up=up)}</a>'


class Renderer(IPythonRenderer):
    """Markdown to HTML: formulas as MathML, links between sources as links between pages.

    Tables scroll in a box. Headings link to themselves and are noted: (level, anchor, text).
    """

    def __init__(self, source, pages, images, headings, edition):
        """The file whose text this is, {file: page}, a dict for {name: bytes}, a list to fill."""
        super().__init__(escape=False)
        self.folder = source.parent
        self.pages = pages
        self.images = images
        self.headings = headings
        self.edition = edition
        self.on_github = source.suffix == ".md"  # where such a file is read otherwise

    def inline_math(self, body):
        return to_mathml(body, False)

    def block_math(self, body):
        return f'<span class="formula">{to_mathml(body, True)}</span>'

    def latex_environment(self, name, body):
        return self.block_math(rf"\begin{{{name}}}{body}\end{{{name}}}")

    def heading(self, text, level, **attributes):
        words = plain(text)
        anchor = "-".join(self.edition.anchor(words).split())  # as Jupyter names it
        if self.on_github:
            anchor = re.sub(r"[^\w-]", "", anchor.lower())
        self.headings.append((level, anchor, words))
        there = html.escape(anchor)
        label = self.edition.word("Link to this section")
        link = f'<a class="anchor" href="#{there}" aria-label="{label}">#</a>'
        return f'<h{level} id="{there}">{text} {link if level > 1 else ""}</h{level}>\n'

    def link(self, text, url, title=None):
        name, _, anchor = url.partition("#")
        if name and not re.match(r"[a-z]+:", name):
            page = self.pages.get((self.folder / name).resolve())
            if page is None:  # a file of the repository, which the site does not have
                return text
            url = page + (f"#{anchor}" if anchor else "")
        return super().link(text, url, title)

    def codespan(self, text):
        """Code; the address of a part of the page that translates is a link that opens it."""
        if not text.startswith(LIVE):
            return super().codespan(text)
        language = "?lang=zh" if self.edition.language else ""
        part = quote(html.unescape(text.removeprefix(LIVE)), safe="/")
        address = f"{self.edition.up}translator/index.html{language}#{part}"
        return f'<a class="live" href="{address}">{self.edition.word("try it here")}</a>'

    def image(self, text, url, title=None):
        path = self.folder / url
        self.images[path.name] = path.read_bytes()
        return picture(path.name, text, self.images[path.name], up=self.edition.up)

    def table(self, text):
        return f'<div class="table"><table>\n{text}</table></div>\n'


def with_chinese_marked(page):
    """An HTML page with lang="zh" around Chinese text, but in its title, its formulas and data."""
    parts = MARKUP.split(page)
    for number in range(0, len(parts), 2):
        parts[number] = CHINESE.sub(r'<span lang="zh">\g<0></span>', parts[number])
    return "".join(parts)


def is_aligned(text):
    """Whether a printed text has columns: two or more lines with a gap inside."""
    return len(re.findall(r"^.*\S {2,}\S", text, re.MULTILINE)) > 1

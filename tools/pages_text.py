"""Text as the site shows it: Markdown, formulas, code and pictures as HTML, Chinese marked."""

import base64
import html
import re
from urllib.parse import quote

from markupsafe import Markup
from math_core import LatexError, LatexToMathML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from engine.errors import InputError

LIVE = "translator/index.html#"
LATEX = LatexToMathML(fancy_error=False)
# No line may end between a formula and its bracket or comma; between Chinese words it may anywhere.
BESIDE = r"[^\s<>\u2e80-\uffff]*"
TOGETHER = rf"([（“]?{BESIDE}<math>.*?</math>{BESIDE}[，。；：、）”？！]*)"
# Runs that a browser and a screen reader must know to be Chinese: signs, their marks, wide forms.
CHINESE = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+"
# What is no text of the page, whole elements, then single tags; and what is Chinese.
MARKUP_OR_CHINESE = re.compile(rf"(?s)<(title|math|script)\b.*?</\1>|<[^>]*>|{CHINESE}")


def to_mathml(latex, block):
    """LaTeX to MathML."""
    try:
        mathml = LATEX.convert_with_local_state(latex, displaystyle=block)
    except LatexError as error:
        wrong = " ".join(str(error).split())
        raise InputError(f"the formula {latex.strip()} cannot be converted: {wrong}") from error
    # \overline comes as a combining character, which browsers draw beside its letters; this one is
    # drawn above
    return re.sub("<mo[^>]*>\u0332</mo></mover>", "<mo>\u203e</mo></mover>", mathml)


class Renderer(IPythonRenderer):
    """Markdown and cells of a page as HTML.

    Formulas become MathML, links between sources links between pages. Tables scroll in a box, and a
    tap enlarges a picture. Headings link to themselves.
    """

    def __init__(self, page, edition):
        """Of a page in an edition, which notes its headings and pictures."""
        super().__init__(escape=False)
        self.page = page
        self.edition = edition
        self.figures = 0

    def markdown(self, text):
        """A whole text."""
        page = MarkdownWithMath(renderer=self).render(text)
        return Markup(re.sub(TOGETHER, r'<span class="unbroken">\1</span>', page))

    def code(self, source):
        """The code of a cell."""
        return Markup(self.block_code(source, "ipython3"))

    def printed(self, text):
        """What a cell printed; lines are not wrapped where two or more have a gap inside."""
        text = re.sub(r"\x1b\[[\d;]*m", "", text)  # a terminal's colours
        columns = len(re.findall(r"^.*\S {2,}\S", text, re.MULTILINE)) > 1
        look = "output aligned" if columns else "output"
        return Markup(f'<pre class="{look}">{html.escape(text.rstrip(), quote=False)}</pre>')

    def picture(self, name, content, alt, size=""):
        """The bytes of an image, which a tap enlarges; `size` are its HTML attributes, if known."""
        self.edition.images[name] = content
        image = f'<img src="images/{name}" alt="{html.escape(alt)}"{size} loading="lazy">'
        return f'<a class="picture" href="images/{name}">{image}</a>'

    def figure(self, output):
        """The picture that a cell shows, as large as its metadata say, and its number."""
        self.figures += 1
        number = f"{int(self.page.source.stem[:2])}.{self.figures}"
        about = output.metadata.get("image/png", {})
        size = "".join(f' {one}="{about[one]}"' for one in ("width", "height") if one in about)
        content = base64.b64decode(output.data["image/png"])
        name = f"{self.page.source.stem}.{self.figures}.png"
        shown = self.picture(name, content, about.get("alt", ""), size)
        if "viewer" in about:  # what the attention viewer shows in its place
            maps = about["viewer"].replace("<", r"\u003c")
            shown += f'<script type="application/json">{maps}</script>'
        figure = self.edition.word("Figure")
        caption = f"<figcaption>{figure} {number}</figcaption>"
        return Markup(f'<figure id="figure-{number}">{shown}{caption}</figure>')

    def inline_math(self, body):
        return to_mathml(body, False)

    def block_math(self, body):
        return f'<span class="formula">{to_mathml(body, True)}</span>'

    def heading(self, text, level, **attributes):
        words = Markup(text).striptags()
        anchor = "-".join(words.split())  # as Jupyter names it
        if self.page.source.suffix == ".md":  # as GitHub does
            anchor = re.sub(r"[^\w-]", "", anchor.lower())
        noted = self.edition.headings[self.page.file]
        if self.edition.language:  # anchors are the same in all languages
            anchor = self.edition.other.headings[self.page.file][len(noted)][1]
        noted.append((level, anchor, words))
        there = html.escape(anchor)
        label = self.edition.word("Link to this section")
        link = f'<a class="anchor" href="#{there}" aria-label="{label}">#</a>'
        return f'<h{level} id="{there}">{text} {link if level > 1 else ""}</h{level}>\n'

    def link(self, text, url, title=None):
        name, mark, anchor = url.partition("#")
        if name and not re.match(r"[a-z]+:", name):
            page = self.edition.files.get((self.page.source.parent / name).resolve())
            if page is None:  # a file of the repository, which the site does not have
                return text
            url = page + mark + anchor
        return super().link(text, url, title)

    def codespan(self, text):
        """Code; the address of a part of the page that translates is a link that opens it."""
        if not text.startswith(LIVE):
            return super().codespan(text)
        part = quote(html.unescape(text.removeprefix(LIVE)), safe="/")
        address = f"{self.edition.translator}#{part}"
        return f'<a class="live" href="{address}">{self.edition.word("try it here")}</a>'

    def image(self, text, url, title=None):
        path = self.page.source.parent / url
        return self.picture(path.name, path.read_bytes(), text)

    def table(self, text):
        return f'<div class="table"><table>\n{text}</table></div>\n'


def with_chinese_marked(page):
    """An HTML page with lang="zh" around Chinese text, but in its title, its formulas and data."""

    def marked(match):
        return match[0] if match[0][0] == "<" else f'<span lang="zh">{match[0]}</span>'

    return MARKUP_OR_CHINESE.sub(marked, page)

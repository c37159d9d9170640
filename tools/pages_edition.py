"""The site in one language: its words, its texts with their pictures, and its fonts."""

import string
from collections import defaultdict
from pathlib import Path

from catalogue import in_language, translations
from translated_copy import cells_of

from engine.fonts import CHINESE, font_file, subset_font

# as `make chinese EXECUTE=1` leaves it
EXECUTED = Path(__file__).resolve().parent.parent / "chinese"
FONTS = {
    "cjk": CHINESE,
    "mono": font_file("matplotlib", "mpl-data/fonts/ttf/DejaVuSansMono.ttf"),
    "math": font_file("ziamath", "fonts/STIXTwoMath-Regular.ttf"),
}
# A browser draws these although the page does not say them: in formulas bars, roots, and italic
# letters for single ones; signs of the style sheet and of the list of what a search found.
DRAWN = "√‾ℎ▸▾›" + "".join(map(chr, [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)]))


class Edition:
    """The site in a language: English, or one that has a folder in `translations`."""

    def __init__(self, lang, name, below="", language=None):
        """`lang` is its tag for browsers, `below` its folder in the site."""
        self.lang = lang
        self.name = name
        self.below = below
        self.language = language
        self.up = "../" * below.count("/")
        self.translator = f"{self.up}translator/index.html{'?lang=zh' if language else ''}"
        self.words = translations(language, "site") if language else {}
        self.files = {}  # of the course: the pages that show them
        self.images = {}  # file name: bytes
        self.headings = defaultdict(list)  # of each page: level, anchor, text

    def word(self, text):
        """A text of the site's own."""
        return self.words.get(text, text)

    def text(self, name, text):
        """The text of a file of the course; with its own pictures where a copy was executed."""
        if not self.language:
            return text
        text = in_language(self.language, name, text)
        executed = EXECUTED / name
        if name.endswith(".ipynb") and executed.exists():
            copy = executed.read_text(encoding="utf-8")
            return copy if cells_of(copy) == cells_of(text) else text
        return text


def write_fonts(folder, lang, text):
    """Writes the fonts of the pages in a language, each with those of their characters it has."""
    characters = {*string.printable, *DRAWN, *text}
    chinese = {sign for sign in characters if sign >= "\u2e80"}
    if lang == "zh-CN":  # its quotes, dashes and dots too, which Latin text has its own of
        chinese.update("“”‘’—…·")
    folder.mkdir()
    for name, path in FONTS.items():
        font = subset_font(path, "".join(sorted(chinese if name == "cjk" else characters)))
        (folder / f"{name}.woff").write_bytes(font)

"""The fonts that ship with the site: each holds just the characters of its pages."""

import re
import string

from engine.fonts import CHINESE, font_file, subset_font

# Which fonts the site ships, and of which characters: all that stand on the pages, as far as a
# pattern allows. That of cjk leaves Latin text its own quotes.
FONTS = {
    "cjk": (CHINESE, r"[\u2e80-\U0003ffff]"),
    "mono": (font_file("matplotlib", "mpl-data/fonts/ttf/DejaVuSansMono.ttf"), r"."),
    "math": (font_file("ziamath", "fonts/STIXTwoMath-Regular.ttf"), r"."),
}
# A browser draws these although the page does not say them: in formulas bars, roots, and italic
# letters for single ones; signs of the style sheet and of the list of what a search found.
DRAWN = "√‾ℎ▸▾›" + "".join(map(chr, [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)]))


def write_fonts(folder, lang, text):
    """Writes the fonts of the pages in a language, each with those of their characters it has."""
    characters = "".join(sorted({*string.printable, *DRAWN, *text}))
    # where Chinese is the language of the page, its quotes, dashes and dots too
    names, more = (FONTS, "") if lang == "en" else (["cjk"], "“”‘’—…·")
    folder.mkdir()
    for name in names:
        path, pattern = FONTS[name]
        font = subset_font(path, "".join(re.findall(pattern, characters)) + more)
        (folder / f"{name}.woff").write_bytes(font)

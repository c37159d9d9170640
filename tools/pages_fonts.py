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


def write_fonts(folder, lang, text):
    """Writes the fonts of the pages in a language, each with those of their characters it has."""
    characters = "".join(sorted({*string.printable, *DRAWN, *text}))
    # where Chinese is the language of the page, its quotes, dashes and dots too
    names, more = (FONTS, "") if lang == "en" else (["cjk"], "“”‘’—…·")
    folder.mkdir()
    for name in names:
        path, pattern = FONTS[name]
        finish = {"finish": narrow_roots} if name == "math" else {}
        font = subset_font(path, "".join(re.findall(pattern, characters)) + more, **finish)
        (folder / f"{name}.woff").write_bytes(font)

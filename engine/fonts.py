"""Chinese for browsers on machines without a Chinese font: a font of just the characters needed."""

import importlib.util
import io
from pathlib import Path

from fontTools import subset


def font_file(package, name):
    """The path of a font that an installed package ships."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0]) / name


CHINESE = font_file("mplfonts", "fonts/NotoSansCJKsc-Regular.otf")


def subset_font(path, text, **options):
    """The bytes of a WOFF font: of a font file those characters of `text` that it has.

    Its names stay: they hold the licence.
    """
    options = subset.Options(flavor="woff", name_IDs=["*"], hinting=False, **options)
    options.drop_tables.append("FFTM")
    font = subset.load_font(path, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=text)
    subsetter.subset(font)
    written = io.BytesIO()
    subset.save_font(font, written, options)
    return written.getvalue()


def chinese_font(text):
    """A WOFF font of the Chinese characters of `text`, without its rules for other ways to set."""
    return subset_font(CHINESE, text, layout_features=[])

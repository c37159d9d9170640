"""A font that can show Chinese, for figures and for browsers whose system has none."""

import base64
import functools
from pathlib import Path

from matplotlib import font_manager

from engine.fonts import CHINESE, chinese_font
from utils import ROOT

CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB",
    "Microsoft YaHei", "SimHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Noto Sans CJK JP",
    "Arial Unicode MS",
)  # fmt: skip


def installed_font():
    """The name of a font of the system's that can show Chinese, or None."""
    fonts = font_manager.fontManager.ttflist
    names = {font.name for font in fonts if Path(font.fname) != CHINESE}
    return next((name for name in CJK_FONTS if name in names), None)


def cjk_font():
    """The name of the font for Chinese in figures, the same everywhere: mplfonts ships it."""
    font_manager.fontManager.addfont(CHINESE)
    return font_manager.FontProperties(fname=CHINESE).get_name()


@functools.cache
def chinese_css():
    """Style that lends a browser the characters of the box where the system has no Chinese font.

    It is half a megabyte, for the viewer, what widgets write and what cells print; else nothing.
    """
    if installed_font():
        return ""
    known = ROOT / "data_small" / "model" / "vocabulary.tgt.json"
    font = base64.b64encode(chinese_font(known.read_text(encoding="utf-8"))).decode()
    return f"""
        @font-face {{ font-family: Lent; src: url(data:font/woff;base64,{font}); }}
        .attention-viewer, .jupyter-widgets, .widget-label {{
            font-family: var(--jp-ui-font-family, sans-serif), Lent !important;
        }}
        .jp-OutputArea-output pre {{ font-family: var(--jp-code-font-family), Lent !important; }}
    """

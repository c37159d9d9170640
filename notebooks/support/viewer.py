"""The attention viewer of notebooks, whose script the translating page shares."""

import base64
import functools
import json
from pathlib import Path

import anywidget
import ipywidgets
import matplotlib.pyplot as plt
import torch
import traitlets
from matplotlib import font_manager

from engine.attention_maps import translation_attention
from engine.fonts import CHINESE, chinese_font
from notebooks.support.pictures import COLOURS, attention_heatmap, picture
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


class AttentionViewer(anywidget.AnyWidget):
    """What attends to what: point at a word of either side, choose kind, layer and head.

    `maps` is {kind: (weights (layers, H, Tq, Tk), Tq query words, Tk key words)}; `kind`, `layer`
    (from 1) and `head` (from 1; 0: the mean of all) say what is shown. Where nothing runs, as in a
    saved notebook, a heatmap stands for it.
    """

    _esm = ROOT / "engine" / "export" / "page" / "attention_viewer.js"
    _css = property(lambda self: chinese_css())
    maps = traitlets.Dict().tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    layer = traitlets.Int(1).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)

    def __init__(self, maps, **chosen):
        super().__init__(maps=self.prepared(maps), **{"kind": next(iter(maps)), **chosen})

    @staticmethod
    def prepared(maps):
        """The maps as the browser wants them: lists, rounded, and the colour of the kind."""
        return {
            kind: {
                "weights": torch.as_tensor(weights).cpu().double().round(decimals=3).tolist(),
                "queries": list(queries),
                "keys": list(keys),
                "colour": COLOURS[kind],
            }
            for kind, (weights, queries, keys) in maps.items()
        }

    def title(self):
        """Which weights are shown."""
        shown_head = f"head {self.head}" if self.head else "mean of the heads"
        return f"{self.kind}, layer {self.layer}, {shown_head}"

    def __repr__(self):
        return f"AttentionViewer: {self.title()}"

    def _repr_mimebundle_(self, **options):
        """The widget, and the picture that front ends show when no kernel runs."""
        shown, title = self.maps[self.kind], self.title()
        heads = torch.tensor(shown["weights"][self.layer - 1])
        weights = heads[self.head - 1] if self.head else heads.mean(dim=0)
        axis = attention_heatmap(weights, shown["queries"], shown["keys"], title)
        widget, metadata = super()._repr_mimebundle_(**options)
        data, described = picture(axis.figure)
        plt.close(axis.figure)
        # for a page, where the viewer needs no kernel; in metadata no two runs are compared
        state = {"maps": self.maps, "kind": self.kind, "layer": self.layer, "head": self.head}
        described["image/png"]["viewer"] = json.dumps(state, ensure_ascii=False)
        data["text/plain"] = repr(self)
        return {**widget, **data}, {**metadata, **described}


def look_inside(translator, sentence):
    """A sentence's translation, and the maps of all kinds of attention, as the viewer takes them.

    A row of cross-attention belongs to the token that is written next.
    """
    (translation,) = translator.translate([sentence])
    parts = translator.model, translator.source, translator.target
    source, target, maps = translation_attention(*parts, translator.clean(sentence), translation)
    written = [*target[1:], "<eos>"]
    words = {"encoder": (source, source), "decoder": (target, target), "cross": (written, source)}
    return translation, {kind: (maps[kind], *words[kind]) for kind in words}


def typed_viewer(translator, sentence):
    """A box to type a sentence into, its translation, and the viewer of its attention maps."""
    typed = ipywidgets.Text(
        sentence, description="English", continuous_update=False, layout={"width": "95%"}
    )
    translation, maps = look_inside(translator, sentence)
    answer = ipywidgets.Label(translation, style={"font_size": "20px"})
    viewer = AttentionViewer(maps, kind="cross", layer=3)

    def look(change):
        """What happens at Enter."""
        answer.value, maps = look_inside(translator, change.new)
        viewer.maps = viewer.prepared(maps)

    typed.observe(look, "value")
    return typed, answer, viewer

"""The figures that notebooks share."""

import base64
import io
import itertools
import json
import re
import struct

import pytest
import torch
from conftest import ROOT
from fontTools.ttLib import TTFont
from matplotlib.colors import to_rgb

from notebooks.support import pictures

LINES = [name for name in pictures.COLOURS if name not in ("lit", "right")]  # right is decoder's
SEEN_AS = {  # linear RGB as who lacks a kind of cone sees it (Machado et al. 2009, severity 1)
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
}


def linear(colour):
    """A colour's linear RGB, from sRGB."""
    values = torch.tensor(to_rgb(colour))
    return torch.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB from linear RGB, in which distances are about as large as they look."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    white = torch.tensor([0.9505, 1.0, 1.089])
    x, y, z = ((torch.tensor(to_xyz) @ rgb) / white).clamp(min=0.0089).pow(1 / 3)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("name", LINES)
def test_lines_are_seen_on_white(name):
    luminance = torch.tensor([0.2126, 0.7152, 0.0722]) @ linear(pictures.COLOURS[name])
    assert 1.05 / (luminance + 0.05) >= 3  # WCAG 2.1, 1.4.11


@pytest.mark.parametrize("eyes", SEEN_AS)
def test_colour_blind_readers_can_tell_lines_apart(eyes):
    seen = {name: torch.tensor(SEEN_AS[eyes]) @ linear(pictures.COLOURS[name]) for name in LINES}
    near = [
        (one, other)
        for one, other in itertools.combinations(LINES, 2)
        if (lab(seen[one]) - lab(seen[other])).norm() < 12
    ]
    assert near == []


def test_the_map_has_every_notebook_and_lights_the_one_asked_for(monkeypatch):
    shown = []
    monkeypatch.setattr(pictures, "show", lambda alt, figure: shown.append((alt, figure)))
    for notebook in range(17):
        pictures.series_map(notebook)
        alt, figure = shown.pop()
        pictures.plt.close(figure)
        lit = to_rgb(pictures.COLOURS["lit"])
        assert lit in {patch.get_facecolor()[:3] for patch in figure.axes[0].patches}
        assert f"Lit here: {notebook:02}" in alt
    assert {number for number, *_ in pictures.MAP} == set(range(17))


def test_a_browser_without_chinese_is_lent_the_characters_of_the_box(monkeypatch):
    pictures.chinese_css.cache_clear()
    monkeypatch.setattr(pictures, "installed_font", lambda: "Noto Sans CJK SC")
    assert pictures.chinese_css() == ""
    pictures.chinese_css.cache_clear()
    monkeypatch.setattr(pictures, "installed_font", lambda: None)
    viewer = pictures.AttentionViewer({"cross": (torch.ones(1, 1, 1, 1), ["电"], ["phone"])})
    font = re.search(r"base64,(.*?)\)", viewer._css)[1]
    glyphs = TTFont(io.BytesIO(base64.b64decode(font))).getBestCmap()
    signs = json.loads((ROOT / "data_small/model/vocabulary.tgt.json").read_text(encoding="utf-8"))
    assert [sign for sign in signs["tokens"] if sign > "\u2e80" and ord(sign) not in glyphs] == []
    pictures.chinese_css.cache_clear()


def test_the_attention_viewer_hands_the_browser_lists_and_the_page_a_picture():
    weights = torch.tensor([[[[0.25, 0.75]], [[1.0, 0.0]]]])  # layers, heads, queries, keys
    viewer = pictures.AttentionViewer({"cross": (weights, ["电"], ["The", "phone"])})
    cross = viewer.maps["cross"]
    assert viewer.kind == "cross"
    assert cross["weights"] == weights.tolist()
    assert cross["keys"] == ["The", "phone"]
    assert cross["colour"].startswith("#")
    data, metadata = viewer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["image/png"].startswith("iVBOR")
    assert "mean of the heads" in data["text/plain"]
    about = metadata["image/png"]
    assert "cross" in about["alt"]
    assert json.loads(about["viewer"])["maps"] == viewer.maps
    width = struct.unpack(">I", base64.b64decode(data["image/png"])[16:20])[0]
    assert about["width"] == round(width / pictures.DENSITY)
    viewer.head = 2
    assert "head 2" in viewer._repr_mimebundle_()[0]["text/plain"]
    script = (ROOT / "notebooks" / "support" / "attention_viewer.js").read_text(encoding="utf-8")
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")


def test_the_panels_of_a_run_stand_on_one_scale_of_steps():
    """BLEU is measured later than the loss, and must not look as if it began together with it."""
    step = {"loss": 4.0, "learning_rate": 1e-3, "grad_norm": 1.0}
    evaluation = {**step, "dev_loss": 4.0, "train_loss": 3.5, "dev_bleu": 9.0}
    rows = [{"step": 50, **step}, {"step": 200, **evaluation}, {"step": 400, **evaluation}]
    axes = pictures.training_curves(rows)
    assert {axis.get_xlim() for axis in axes} == {(0, 420)}
    pictures.plt.close(axes[0].figure)


def test_long_words_under_a_map_do_not_meet():
    """Words of a sentence are slanted below a heat map; what upright labels need, a mask has."""
    words = "The telephone rang just as I was leaving .".split()
    axis = pictures.plt.subplots(figsize=(4, 4))[1]
    pictures.attention_heatmap(torch.rand(2, 9), ["电", "话"], words, "title", axis)
    assert {label.get_rotation() for label in axis.get_xticklabels()} == {60}
    marks = ["<bos>", *"这些葡萄甜吗？", "<pad>"]
    other = pictures.plt.subplots(figsize=(8, 5))[1]
    pictures.mask_figure(torch.ones(9, 9), marks, marks, "title", other)
    other.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in other.get_xticklabels()]
    assert [(a.x1, b.x0) for a, b in itertools.pairwise(boxes) if a.x1 >= b.x0] == []
    for each in (axis, other):
        pictures.plt.close(each.figure)

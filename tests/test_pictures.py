"""The figures that notebooks share."""

import base64
import io
import json
import re
import struct

import torch
from conftest import ROOT
from fontTools.ttLib import TTFont
from matplotlib.colors import to_rgb

import train
from notebooks.support import course_map, pictures, viewer
from notebooks.support import words as copys_words


def test_the_map_lights_the_notebook_asked_for(monkeypatch):
    assert {number for number, *_ in course_map.MAP} == set(range(17))
    shown = []
    monkeypatch.setattr(course_map, "show", lambda: shown.append(course_map.plt.gcf()))
    for number in (4, 16):
        course_map.series_map(number)
    lit = to_rgb(course_map.COLOURS["lit"])
    assert len(shown) == 2
    for figure in shown:
        course_map.plt.close(figure)
        assert lit in {patch.get_facecolor()[:3] for patch in figure.axes[0].patches}


def test_a_browser_without_chinese_is_lent_the_characters_of_the_box(monkeypatch):
    viewer.chinese_css.cache_clear()
    monkeypatch.setattr(viewer, "installed_font", lambda: "Noto Sans CJK SC")
    assert viewer.chinese_css() == ""
    viewer.chinese_css.cache_clear()
    monkeypatch.setattr(viewer, "installed_font", lambda: None)
    shown = viewer.AttentionViewer({"cross": (torch.ones(1, 1, 1, 1), ["电"], ["phone"])})
    font = re.search(r"base64,(.*?)\)", shown._css)[1]
    glyphs = TTFont(io.BytesIO(base64.b64decode(font))).getBestCmap()
    signs = json.loads((ROOT / "data_small/model/vocabulary.tgt.json").read_text(encoding="utf-8"))
    assert [sign for sign in signs["tokens"] if sign > "\u2e80" and ord(sign) not in glyphs] == []
    viewer.chinese_css.cache_clear()


def test_the_attention_viewer_hands_the_browser_lists_and_the_page_a_picture():
    weights = torch.tensor([[[[0.25, 0.75]], [[1.0, 0.0]]]])  # layers, heads, queries, keys
    shown = viewer.AttentionViewer({"cross": (weights, ["电"], ["The", "phone"])})
    assert shown.maps["cross"]["weights"] == weights.tolist()
    assert shown.maps["cross"]["keys"] == ["The", "phone"]
    data, metadata = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "mean of the heads" in data["text/plain"]
    about = metadata["image/png"]
    assert json.loads(about["viewer"])["maps"] == shown.maps
    width = struct.unpack(">I", base64.b64decode(data["image/png"])[16:20])[0]
    assert about["width"] == round(width / pictures.DENSITY)
    shown.head = 2
    assert "head 2" in shown._repr_mimebundle_()[0]["text/plain"]


def test_a_figure_speaks_the_language_of_its_copy(monkeypatch):
    patterns = {
        "layer {}, head {}": "第 {0} 层第 {1} 头",
        "step": "步",
        "before": "之前",
        "after": "之后",
    }
    monkeypatch.setattr(copys_words, "words", lambda: patterns)
    monkeypatch.setattr(pictures, "words", lambda: patterns)
    axis = pictures.plt.subplots()[1]
    axis.plot([0, 1], label="before")
    axis.plot([1, 0], label="play")
    axis.legend()
    axis.set(title="layer 3, head 12", xlabel="step")
    axis.set_yticks([0, 1], ["after", "piano"])
    _, metadata = pictures.picture(axis.figure)
    about = metadata["image/png"]
    assert set(about["texts"]) == {"play", "piano"}
    shown = [label.get_text() for label in axis.get_yticklabels()]
    assert (axis.get_title(), axis.get_xlabel()) == ("第 3 层第 12 头", "步")
    assert shown == ["之后", "piano"]
    assert axis.get_legend().get_texts()[0].get_text() == "之前"
    # beside a map, words are those of its sentence
    rows = pictures.plt.subplots()[1]
    rows.imshow([[0, 1], [1, 0]])
    rows.set_yticks([0, 1], ["layer 1, head 2", "after"])
    pictures.picture(rows.figure)
    assert [label.get_text() for label in rows.get_yticklabels()] == ["第 1 层第 2 头", "after"]
    pictures.plt.close(rows.figure)
    pictures.plt.close(axis.figure)
    weights = torch.tensor([[0.5, 0.5]])
    axis = pictures.attention_heatmap(weights, ["after"], ["after", "dinner"], "step")
    pictures.picture(axis.figure)
    assert [label.get_text() for label in axis.get_xticklabels()] == ["after", "dinner"]
    assert axis.get_title() == "步"
    pictures.plt.close(axis.figure)


def test_the_log_as_a_picture(finished_run, tmp_path):
    options = ["--config", "tiny", "--run", str(finished_run), "--plot"]
    assert train.main([*options, str(tmp_path / "log.png")]) == 0
    assert (tmp_path / "log.png").read_bytes().startswith(b"\x89PNG")
    assert train.main([*options, str(tmp_path / "log.words")]) == 2

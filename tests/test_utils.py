"""The helpers of utils.py that are not figures of a notebook: their outputs are what nbval compares."""

import pytest
import torch
from matplotlib.colors import to_rgb

import utils
from utils import ROOT


def printed(capsys, asserts):
    utils.check("Exercise 1")(asserts)
    return capsys.readouterr().out


def test_check_tells_a_hole_from_a_gap_in_pytorch(capsys):
    def hole():
        raise NotImplementedError

    def gap():
        raise NotImplementedError("not on this device")

    assert printed(capsys, hole) == "Exercise 1: not filled yet\n"
    assert "stopped with NotImplementedError: not on this device" in printed(capsys, gap)


def test_check_says_what_is_wrong_and_what_is_right(capsys):
    def wrong():
        raise AssertionError("shape (2, 3) instead of (3, 2)")

    assert printed(capsys, wrong) == "Exercise 1: not yet. shape (2, 3) instead of (3, 2)\n"
    assert printed(capsys, lambda: None) == "Exercise 1: right\n"


def test_the_map_has_every_notebook_and_lights_the_one_asked_for(monkeypatch):
    shown = []
    monkeypatch.setattr(utils, "show", lambda alt, figure: shown.append((alt, figure)))
    for notebook in range(17):
        utils.series_map(notebook)
        alt, figure = shown.pop()
        utils.plt.close(figure)
        lit = to_rgb(utils.COLOURS["lit"])
        boxes = [patch for patch in figure.axes[0].patches if patch.get_facecolor()[:3] == lit]
        assert boxes and f"Lit here: {notebook:02}" in alt
    assert {number for number, *_ in utils.MAP} == set(range(17))


def test_device_prefers_cuda_and_several_processes_do_not_share_mps(monkeypatch):
    monkeypatch.setattr(utils.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(utils.torch.backends.mps, "is_available", lambda: True)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert utils.device().type == "mps"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert utils.device().type == "cpu"
    monkeypatch.setattr(utils.torch.cuda, "is_available", lambda: True)
    assert utils.device().type == "cuda"


def test_json_is_written_whole_or_not_at_all(monkeypatch, tmp_path):
    path = tmp_path / "state.json"
    utils.write_json(path, {"name": "旧"})
    monkeypatch.setattr(utils.os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        utils.write_json(path, {"name": "新"})
    assert utils.json.loads(path.read_text(encoding="utf-8")) == {"name": "旧"}


def test_the_attention_viewer_hands_the_browser_lists_and_the_page_a_picture():
    weights = torch.tensor(
        [[[[0.25, 0.75]], [[1.0, 0.0]]]]
    )  # one layer, two heads, one query, two keys
    viewer = utils.AttentionViewer({"cross": (weights, ["电"], ["The", "phone"])})
    assert viewer.kind == "cross" and viewer.maps["cross"]["weights"] == [
        [[[0.25, 0.75]], [[1.0, 0.0]]]
    ]
    assert viewer.maps["cross"]["keys"] == ["The", "phone"] and viewer.maps["cross"][
        "colour"
    ].startswith("#")
    data, metadata = viewer._repr_mimebundle_()
    assert (
        data["image/png"].startswith("iVBOR") and "application/vnd.jupyter.widget-view+json" in data
    )
    assert "mean of the heads" in data["text/plain"] and "cross" in metadata["image/png"]["alt"]
    viewer.head = 2
    assert "head 2" in viewer._repr_mimebundle_()[0]["text/plain"]
    assert "http" not in (ROOT / "notebooks" / "attention_viewer.js").read_text(
        encoding="utf-8"
    ).replace("http://www.w3.org/2000/svg", "")

"""Edited lessons: seen by their hash, used everywhere, and told in a line."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, TINY, random_model, run_python

import export
from engine import lessons, translator
from engine.lessons import code_hash, edited_among, lesson_hashes, listed
from engine.run import run_training
from engine.translator import check_cache
from notebooks.data_preparation import EOS
from notebooks.multi_head_attention import MultiHeadAttention
from notebooks.positional_encoding import PositionalEncoding
from notebooks.setup import replace
from notebooks.support.box import load_pretrained
from studies.variants import Rotating, rotary

CODE = '''#| export
def scale(x):
    """Doubles."""
    # a comment
    return 2 * x  # twice
'''


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of what translating needs."""
    folder = tmp_path_factory.mktemp("lessons") / "course"
    for name in ("notebooks", "engine", "data_small"):
        ignored = shutil.ignore_patterns("__pycache__", "prepared")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("utils.py", "translate.py"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def edit(course):
    """A function that edits a lesson of the copy for one test."""
    before = {}

    def change(name, old, new):
        path = course / "notebooks" / f"{name}.ipynb"
        text = before.setdefault(path, path.read_text(encoding="utf-8"))
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")

    yield change
    for path, text in before.items():
        path.write_text(text, encoding="utf-8")


def ask(course, code):
    """What a program in the copy prints, and its errors."""
    done = run_python("-c", code, cwd=course, PYTHONPATH=str(course))
    return done.stdout.splitlines(), done.stderr


def test_the_shipped_hashes_are_those_of_the_lessons():
    """After an edit of the course itself: `make notebooks`."""
    assert json.loads(lessons.SHIPPED.read_text()) == lesson_hashes()
    assert lessons.edited() == []


@pytest.mark.parametrize(
    "old, new, same",
    [
        ('"""Doubles."""', '"""Gibt das Doppelte\n    zurück."""', True),
        ("# a comment", "# ein Kommentar", True), ("  # twice", "", True),
        ("2 * x", "3 * x", False), ("    return", "    if x:\n        return", False),
        ('return 2 * x', 'return "#" * x', False), ("scale", "double", False),
    ],
)  # fmt: skip
def test_the_hash_is_of_the_code_without_comments_and_docstrings(old, new, same):
    assert CODE.count(old) == 1
    assert (code_hash([(0, CODE)]) == code_hash([(0, CODE.replace(old, new))])) == same


def test_lessons_in_a_sentence(monkeypatch):
    monkeypatch.setattr(lessons, "edited", lambda: ["00", "04", "12", "16"])
    assert edited_among(1, 13) == ["04", "12"] and edited_among(1, 11, 16) == ["04", "16"]
    assert listed(["04"]) == "lesson 04" and listed(["04", "05"]) == "lessons 04 and 05"


def test_an_edited_lesson_is_used_and_told(course, edit):
    edit("06_feed_forward", "self.inner(x).relu()", "0 * self.inner(x).relu()")
    ball = "We play football every day."
    program = "from notebooks.support.box import load_pretrained as box\n"
    printed, errors = ask(course, program + f"print(box().translate([{ball!r}])[0])")
    assert printed[0] == "the model in the box: your lesson 06 is used", errors
    assert printed[1:] != load_pretrained().translate([ball]) and len(printed) == 2
    done = run_python("translate.py", ball, cwd=course, PYTHONPATH=str(course))
    assert done.returncode == 0 and "your lesson 06 is used\n" in done.stderr


def test_weights_that_no_longer_fit_are_told_by_pytorch(course, edit):
    edit("06_feed_forward", "nn.Linear(d_model, d_ff)", "nn.Linear(d_model, d_ff + 1)")
    printed, errors = ask(course, "from notebooks.support.box import *\nload_pretrained()")
    assert printed == ["the model in the box: your lesson 06 is used"]
    assert "size mismatch for encoder.layers.0.feed_forward.inner.weight" in errors


def test_an_export_of_edited_lessons_is_refused_by_number(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(lessons, "edited_among", lambda *_: ["04", "16"])
    for form in ("ctranslate2", "page"):
        argv = ["--form", form, "--run", "data_small/model", "--out", str(tmp_path / "out")]
        assert export.main(argv) == 2
        assert "lessons 04 and 16" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class FromZero(Rotating):
    """Rotates queries from position 0 in each call: right in training, wrong with a cache."""

    def attend(self, query, key, value, mask):
        return MultiHeadAttention.attend(self, rotary(query), rotary(key), value, mask)


@pytest.mark.parametrize(("kind", "told"), [(Rotating, 0), (FromZero, 1), (None, 1)])
def test_an_edit_that_forgets_the_cache_is_told_once(monkeypatch, capsys, kind, told):
    """RoPE with and without the cache's offset; and positions that forget where a call begins."""
    monkeypatch.setattr(translator, "edited_among", lambda *_: ["04"])
    monkeypatch.setattr(translator, "CHECKED", set())
    translator.say_once.cache_clear()
    model = random_model(0, torch.float32)
    for layer in (*model.encoder.layers, *model.decoder.layers) if kind else ():
        layer.self_attention.__class__ = kind
    if kind is None:
        forward = PositionalEncoding.forward
        monkeypatch.setattr(
            PositionalEncoding, "forward", lambda self, x, start=0: forward(self, x)
        )
    for _ in range(2):
        check_cache(model, torch.tensor([[5, 6, 7, EOS]]), [4, 5, 6, 7, EOS])
    assert capsys.readouterr().err.count("with a cache the model computes something else") == told


def test_a_run_does_not_depend_on_what_is_saved_into_lessons_meanwhile(course, small_data):
    """A half-typed line, which JupyterLab saves while a training runs."""
    code = """if True:
        import sys
        from pathlib import Path
        from engine.run import run_training
        from engine.run_config import RunConfig
        def break_lesson(records):
            path, = Path("notebooks").glob("16_*.ipynb")
            path.write_text(path.read_text("utf-8")[:999], "utf-8")
        data, run = map(Path, sys.argv[1:])
        run_training(data, RunConfig.preset("tiny"), run, on_log=break_lesson)
    """
    (lesson,) = (course / "notebooks").glob("16_*.ipynb")
    text = lesson.read_text(encoding="utf-8")
    command = [sys.executable, "-c", code, small_data, course / "run"]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    lesson.write_text(text, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    made = json.loads((course / "run" / "made.json").read_text())
    assert made["lessons"] == lesson_hashes()


def test_a_failing_edit_of_lesson_14_leaves_the_old_run(finished_run, small_data, tmp_path,
                                                        monkeypatch):  # fmt: skip
    """Its schedule wants a measure at each step, which the loop does not give."""

    def make_optimizer(model, config):
        optimizer = torch.optim.Adam(model.parameters())
        return optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)

    run = shutil.copytree(finished_run, tmp_path / "run")
    monkeypatch.setattr("engine.run.make_optimizer", make_optimizer)
    with pytest.raises(TypeError):
        run_training(small_data, replace(TINY, seed=3), run, restart=True)
    names = ("model.safetensors", "checkpoint.pt", "log.jsonl", "config.json")
    assert all((run / name).read_bytes() == (finished_run / name).read_bytes() for name in names)

"""Edited lessons: seen by their hash, used everywhere, and told in a line."""

import json
import shutil

import pytest
import torch
from conftest import ROOT, TINY, random_model, run_python

import export
import translate
from engine import lessons, translator
from engine.lessons import code_hash, lesson_hashes
from engine.run import run_training
from engine.run_config import RunConfig
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


def test_an_edited_lesson_is_used_and_told(course, edit):
    edit("06_feed_forward", "self.inner(x).relu()", "0 * self.inner(x).relu()")
    ball = "We play football every day."
    program = "from notebooks.support.box import load_pretrained as box\n"
    printed, errors = ask(course, program + f"print(box().translate([{ball!r}])[0])")
    assert printed[0] == "the model in the box: your lesson 06 is used", errors
    assert printed[1:] != load_pretrained().translate([ball]) and len(printed) == 2
    done = run_python("translate.py", ball, cwd=course, PYTHONPATH=str(course))
    assert done.returncode == 0 and "your lesson 06 is used\n" in done.stderr


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


def test_going_on_or_translating_with_other_lessons_is_one_line(
    small_data, finished_run, tmp_path, capsys
):
    run = shutil.copytree(finished_run, tmp_path / "run")
    made = json.loads((run / "made.json").read_text())
    (run / "made.json").write_text(json.dumps(made | {"lessons": made["lessons"] | {"05": "x"}}))
    assert translate.main(["--run", str(run), "--beam-size", "1", "One."]) == 0
    assert "05" in capsys.readouterr().err
    run_training(small_data, replace(RunConfig.preset("tiny"), dtype="float32"), run)
    assert "05" in capsys.readouterr().out
    assert json.loads((run / "made.json").read_text()) == made

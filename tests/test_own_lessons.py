"""A reader's own settings, edits and files: followed, said, or refused, and nothing is lost."""

import dataclasses
import functools
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from conftest import DATA, ROOT, TINY

import export
import prepare as prepare_program
import train
import translate
from engine import (
    attention_maps,
    definitions,
    options,
    pretrained,
    run_config,
    training_run,
    translator,
    wrapped_loss,
)
from engine.corpus import prepare as large
from engine.corpus import tokenizers
from engine.errors import InputError, Stopped
from engine.files import read_json, write_json
from engine.model_files import check_size, check_storable, weights_digest
from engine.options import parse_command
from engine.pretrained import BOX
from engine.run_config import OURS, RunConfig
from engine.run_folder import RunFolder
from engine.startup import print_error
from engine.training_run import run_training, take_weights
from notebooks import data_preparation
from notebooks.data_preparation import EOS, Batch, WordSegmenter
from notebooks.multi_head_attention import MultiHeadAttention
from notebooks.setup import replace
from notebooks.support.box import load_pretrained
from notebooks.support.viewer import look_inside
from notebooks.training import train_step


@dataclasses.dataclass(frozen=True)
class OwnConfig(RunConfig):
    """With settings that a reader has added to lesson 00."""

    reverse: bool = False
    window: "int" = 3


def test_the_settings_of_the_course_are_known_by_name():
    assert {field.name for field in dataclasses.fields(RunConfig)} == OURS


def test_prepared_data_depend_on_settings_of_ones_own():
    plain, own, turned = RunConfig(), OwnConfig(), OwnConfig(reverse=True)
    names = [large.fingerprint(DATA, config) for config in (plain, own, turned)]
    assert len(set(names)) == 3


def test_a_number_of_ones_own_may_be_anything_and_a_tuple_is_refused():
    assert (OwnConfig(window=0).window, OwnConfig(window=-2).window) == (0, -2)

    @dataclasses.dataclass(frozen=True)
    class WithTuple(RunConfig):
        betas: tuple[float, float] = (0.9, 0.98)

    with pytest.raises(InputError, match="betas is .*: a run stores numbers, texts, yes or no"):
        WithTuple()


def test_a_setting_of_ones_own_is_stored_and_has_a_name_of_its_own(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class WithPath(RunConfig):
        dictionary: Path = Path("words")

    with pytest.raises(InputError, match="dictionary is .*: a run stores numbers"):
        WithPath()

    @dataclasses.dataclass(frozen=True)
    class WithOption(RunConfig):
        device: str = "cpu"

    monkeypatch.setattr(options, "RunConfig", WithOption)
    with pytest.raises(InputError, match="notebook 00 has a setting device"):
        parse_command(train.TrainCommand, [], "train.py", preset="small")

    @dataclasses.dataclass(frozen=True)
    class Config(run_config.Config):
        eval_steps: int = 10

    monkeypatch.setattr(run_config, "Config", Config)
    with pytest.raises(InputError, match="eval_steps is a setting of engine/run_config.py"):
        RunConfig()


def test_weights_made_with_another_setting_of_ones_own_are_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("engine.training_run.load_weights", lambda *_: None)
    monkeypatch.setattr("engine.run_folder.RunFolder.read_config", lambda _: OwnConfig())
    monkeypatch.setattr("engine.training_run.made_for", lambda *_: None)
    take_weights(None, tmp_path / "base", tmp_path / "new", OwnConfig(window=5), None, None)
    assert "window, a setting of your own, is 3, not 5" in capsys.readouterr().out


def test_exports_and_trainings_that_go_on_say_that_lessons_were_edited(
    monkeypatch, finished_run, small_data, tmp_path, capsys
):
    monkeypatch.setattr(pretrained, "edited_names", lambda: ["sinusoids"])
    monkeypatch.setattr(export, "export", lambda *_: None)
    assert export.main(["--run", str(BOX), "--form", "onnx", "--out", str(tmp_path / "x")]) == 0
    assert "your version of sinusoids is used" in capsys.readouterr().err
    monkeypatch.setattr(pretrained, "lessons_changed", lambda *_: True)
    config = replace(TINY, steps=2, eval_steps=2, warmup_steps=1, batch_tokens=200)
    run_training(small_data, config, tmp_path / "run", start=finished_run)
    assert "the lessons have changed since it was trained" in capsys.readouterr().err


def test_one_vocabulary_of_subwords_is_cut_by_lesson_01s_make_segmenter(monkeypatch):
    asked = []

    def make_segmenter(kind, *rest):
        asked.append(kind)
        return WordSegmenter("en")

    monkeypatch.setattr(tokenizers, "make_segmenter", make_segmenter)
    monkeypatch.setattr(tokenizers, "make_vocabulary", lambda *_: None)
    config = replace(RunConfig.preset("subwords"), max_vocab_size=400)
    source, target = tokenizers.make_tokenizers([("a", "b")], config)
    assert asked == ["subwords"] and source is target


@pytest.mark.parametrize("more", [["--schedule", "noam", "--learning-rate", "2"],
                                  ["--steps", "40", "--warmup-steps", "30"]])  # fmt: skip
def test_an_edited_schedule_may_use_what_the_courses_does_not(monkeypatch, more):
    argv = ["--config", "tiny", "--data", str(DATA), *more]
    with pytest.raises(InputError, match="has no effect"):
        parse_command(train.TrainCommand, argv, "train.py", preset="small")
    monkeypatch.setattr(options, "are_ours", lambda *_, **__: False)
    parse_command(train.TrainCommand, argv, "train.py", preset="small")


def test_an_attention_that_keeps_no_weights_is_refused_in_one_line(monkeypatch):
    box = load_pretrained()
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(MultiHeadAttention, "attend", lambda self, *tensors: fused(*tensors))
    text = "I like to play."
    with pytest.raises(InputError, match="`attend` has to"):
        attention_maps.translation_attention(box.model, box.source, box.target, text, text)


def test_notebooks_beside_the_lessons_are_none(monkeypatch, tmp_path):
    ours = [path.name for path in definitions.lessons()]
    assert ours == sorted(path.name for path in ROOT.glob("notebooks/[0-9][0-9]_*.ipynb"))
    for name in (*ours, "01_data_preparation_old.ipynb", "17_scratch.ipynb"):
        (tmp_path / name).touch()
    monkeypatch.setattr(definitions, "FOLDER", tmp_path)
    assert [path.name for path in definitions.lessons()] == ours


def test_a_run_with_the_target_first_is_scored_on_sides_with_names(
    finished_run, small_data, tmp_path, capsys
):
    run, data = shutil.copytree(finished_run, tmp_path / "run"), tmp_path / "data"
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    (run / "config.json").write_text(json.dumps(config | {"target_first": True}), encoding="utf-8")
    data.mkdir()
    for split in ("train", "dev", "test"):
        lines = (small_data / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        rows = (dict(zip(("en", "zh"), line.split("\t"))) for line in lines)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (data / f"{split}.jsonl").write_text(text, encoding="utf-8")
    assert translate.main(["--run", str(run), "--score", str(data), "--beam-size", "1"]) == 0
    (data / "train.tsv.bak").touch()
    argv = ["--config", "tiny", "--target-first", "--data", str(data), "--run", str(tmp_path / "n")]
    assert train.main(argv) == 2
    assert "--target-first has no effect" in capsys.readouterr().err


def test_a_restart_that_cannot_begin_leaves_the_old_run(monkeypatch, finished_run, small_data,
                                                        tmp_path):  # fmt: skip
    run = shutil.copytree(finished_run, tmp_path / "run")
    before = weights_digest(run / "model.safetensors")

    def make_segmenter(kind, language, *_):
        segmenter = WordSegmenter(language)
        segmenter.halves = True
        return segmenter

    monkeypatch.setattr(data_preparation, "make_segmenter", make_segmenter)
    with pytest.raises(InputError, match="a run stores of a tokenizer its tokens"):
        run_training(small_data, replace(TINY, steps=2), run, restart=True)
    assert weights_digest(run / "model.safetensors") == before


@pytest.mark.parametrize("target, word", [("pages SOLUTIONS=", "--solutions"),
                                          ("chinese EXECUTE=", "--execute")])  # fmt: skip
def test_a_no_to_make_is_no(target, word):
    for value, expected in (("no", False), ("0", False), ("", False), ("1", True), ("yes", True)):
        command = ["make", "-n", *f"{target}{value}".split()]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
        assert (word in printed) == expected
    done = subprocess.run(["make", "-n", *f"{target}maybe".split()], cwd=ROOT, capture_output=True)
    assert done.returncode == 2 and b"give 1, or leave it out" in done.stderr


def test_make_run_takes_no_data():
    done = subprocess.run(["make", "-n", "run", "DATA=mine"], cwd=ROOT, capture_output=True)
    assert done.returncode == 2 and b"takes neither DATA nor RUN" in done.stderr


def test_a_translation_reads_the_marks_of_lesson_01(monkeypatch):
    box = load_pretrained()
    (bitten,) = box.translate(["The dog bit the man."], beam_size=1)
    plain = box.encode("The dog bit the man.")
    monkeypatch.setattr(translator, "add_marks", lambda src, tgt: ([*src[::-1], EOS], tgt))
    assert box.encode("The dog bit the man.") == [*plain[-2::-1], EOS] != plain
    assert box.translate(["The dog bit the man.", ""], beam_size=1)[0] != bitten
    assert "add_marks" in definitions.REPLACED


def test_a_tokenizer_of_which_not_all_is_stored_is_refused():
    tokenizer = load_pretrained().source
    check_storable(tokenizer)
    for part in (tokenizer, tokenizer.vocabulary):
        object.__setattr__(part, "reverse", True)
        try:
            with pytest.raises(InputError, match=f"not all of your {type(part).__name__}"):
                check_storable(tokenizer)
        finally:
            del part.reverse


def stopped_run(small_data, run):
    """A run that a signal has stopped at step 4 of 40, after its first checkpoint."""

    def stop(records):
        raise Stopped("as by a signal")

    config = replace(TINY, eval_steps=4)
    with pytest.raises(Stopped):
        run_training(small_data, config, run, on_log=lambda records: len(records) > 1 and stop(0))
    return config


def test_made_json_says_which_lessons_trained_last(small_data, tmp_path):
    config = stopped_run(small_data, tmp_path)
    made = read_json(tmp_path / "made.json")
    write_json(tmp_path / "made.json", {**made, "lessons": "others"})
    run_training(small_data, config, tmp_path)
    assert read_json(tmp_path / "made.json") == made
    write_json(tmp_path / "made.json", {**made, "lessons": "others"})
    run_training(small_data, config, tmp_path)  # finished: it trains nothing
    assert read_json(tmp_path / "made.json")["lessons"] == "others"


def test_a_loop_that_does_not_evaluate_ends_with_its_steps(small_data, tmp_path, monkeypatch):
    steps = []

    def train(run, batch_loss, optimizer, scheduler, config):
        for step, batch in run.batches():
            loss, count, norm = train_step(batch_loss, batch, optimizer, 1.0)
            run.add(loss, count, norm, 0.1)
            steps.append(step)
            assert step < 9

    monkeypatch.setattr(training_run, "train", train)
    run_training(small_data, replace(TINY, steps=5, warmup_steps=2), tmp_path)
    assert steps == [1, 2, 3, 4, 5]
    assert RunFolder(tmp_path).is_finished() and (tmp_path / "model.safetensors").exists()


def test_a_batch_whose_rows_share_a_mask_is_split():
    items = [([5, 3], [2, 5, 3])] * 4
    batch = Batch.collate(items)
    shared = batch._replace(tgt_mask=batch.tgt_mask[:1])
    assert [len(part.src) for part in wrapped_loss.split_rows(shared, 3)] == [2, 2]
    assert [len(part.tgt_mask) for part in wrapped_loss.split_rows(shared, 3)] == [1, 1]


def test_a_name_that_is_defined_twice_is_an_edit(course):
    """Whichever comes last: a class that was put before the course's own has no effect."""
    (one, _), twice = (
        definitions.definitions(course(f"{before}\nALPHA = 0.6", {})).values()
        for before in ("OTHER = 1", "ALPHA = 0.1")
    )
    assert one not in twice


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A function that writes a lesson with this code, and a reader's own files, into a course."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    lesson = tmp_path / "notebooks" / "01_data_preparation.ipynb"
    monkeypatch.setattr(definitions, "ROOT", tmp_path)
    monkeypatch.setattr(definitions, "FOLDER", lesson.parent)

    def write(code, files):
        cell = {"cell_type": "code", "source": f"#| export\n{code}", "metadata": {}, "outputs": []}
        lesson.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
        (lesson.parent / "00_setup.ipynb").write_text('{"cells": []}', encoding="utf-8")
        for name, text in files.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if name.startswith("notebooks/17_"):
                cell["source"] = f"#| export\n{text}"
                notebook = json.dumps({"cells": [cell]})
                path.rename(path.with_suffix(".ipynb")).write_text(notebook, encoding="utf-8")
        return lesson

    return write


@pytest.mark.parametrize(
    ("code", "file"),
    [
        ("import torch\nfrom mine import cut", "mine"),
        ("from between import cut", "mine"),  # which imports it
        ("from package import cut", "package/__init__"),
        ("from package import words", "package/words"),
        ("import package.words", "package/words"),
        ("from .near import cut", "notebooks/near"),
        ("import notebooks.near", "notebooks/near"),
        ("from notebooks.more import cut", "notebooks/17_more"),
        ("def cut():\n    from between import cut", "mine"),
        ("import importlib\ncut = importlib.import_module('between').cut", "mine"),
        ("cut = __import__('package.words').words.cut", "package/words"),
        ("from utils import cut", "utils"),  # which no lesson of the course imports
        ("from engine.more import cut", "engine/more"),
    ],
)
def test_a_module_of_ones_own_that_a_lesson_imports_counts(course, code, file):
    package = {"package/words": "", "package/__init__": "", "engine/__init__": ""}
    lesson = course(code, {"between": "from mine import cut", **package})
    digests = {definitions.code_digest(lesson)}
    for text in ("cut = str.split", "cut = list", "cut = list  # by signs"):
        course(code, {file: text})
        digests.add(definitions.code_digest(lesson))
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from mine import *", ["other code of lesson 01"]),
        ("import mine", ["other code of lesson 01"]),
        ("import package", ["other code of lesson 01"]),
        ("import notebooks.near", ["other code of lesson 01"]),
        ("import notebooks.more", ["other code of lesson 01"]),
        ("longer = (cut := str.split)", ["other code of lesson 01"]),
        ("from .near import cut", ["other code of lesson 01"]),
        ("from mine import cut", ["other code of lesson 01"]),
        ("from notebooks.loss import cut", ["cut, imported by lesson 01"]),
        ("from operator import cut", []),
        ("cut = tokenize = str.split", ["cut", "tokenize"]),
        ("cut, tokenize = str.split, list", ["other code of lesson 01"]),
    ],
)
def test_however_a_definition_is_replaced_it_is_seen(course, code, names):
    patch = "import notebooks.loss\nnotebooks.loss.bleu = len"
    files = {"mine": '"""Ours."""\ncut = list', "package/__init__": "", "notebooks/near": patch}
    files["notebooks/17_more"] = patch
    lesson = course(code, files)
    assert sorted(definitions.definitions(lesson)) == sorted(names)


def test_a_patch_is_seen_however_it_came(monkeypatch):
    assert not any(definitions.patches(path) for path in definitions.lessons())
    before = definitions.code_digest(*definitions.lessons())
    plain = MultiHeadAttention.forward

    @functools.wraps(plain)
    def wrapped(self, *tensors, **more):
        return plain(self, *tensors, **more)

    monkeypatch.setattr(MultiHeadAttention, "forward", wrapped)
    monkeypatch.setattr("notebooks.transformer.greedy_search", wrapped)
    names = ["MultiHeadAttention", "greedy_search"]
    assert definitions.edited_names() == names and not definitions.are_ours(names[0])
    assert definitions.replaced_names() == names[1:]
    assert definitions.code_digest(*definitions.lessons()) != before


def test_preparing_what_is_read_as_it_is_says_so(small_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(large, "PREPARED", tmp_path)
    assert prepare_program.main(["--data", str(small_data)]) == 0
    assert "train.py reads .tsv files of this size as they are" in capsys.readouterr().err


def test_the_viewer_reads_the_quotes_that_the_translation_read():
    _, maps = look_inside(load_pretrained(), "He said “yes.”")
    assert maps["encoder"][1].count('"') == 2 and "<unk>" not in maps["encoder"][1]


@pytest.mark.parametrize("parameters", ["ids, beam_size=4", "*ids, **more", "beam_size, alpha"])
def test_a_beam_search_without_the_defaults_of_options_is_named(monkeypatch, capsys, parameters):
    monkeypatch.setattr(translator, "beam_search", eval(f"lambda {parameters}: None"))
    with pytest.raises(InputError) as error:
        translator.default_of("alpha")
    print_error(error.type, error.value, None)
    message = "error: notebook 16: beam_search has no alpha with a number as default."
    assert capsys.readouterr().err.startswith(message)


def test_a_model_whose_layers_are_one_is_as_small_as_its_file(monkeypatch, finished_run):
    weights = finished_run / "model.safetensors"
    config = replace(RunConfig.preset("tiny"), num_layers=1000)
    with pytest.raises(InputError, match="smaller than"):
        check_size(weights, config, 20)
    monkeypatch.setattr("engine.model_files.edited_names", lambda: ["Encoder"])
    check_size(weights, config, 20)

"""Every option of every program changes what is done, or is refused: none is silently nothing."""

import dataclasses
import io
import json
import re
import shutil

import pytest
from conftest import read_records, without_times

import export
import prepare
import train
import translate
from engine.options import parse_command
from engine.run_config import RunConfig

# of train.py: another value than the one that BASE trains with. A text: it is refused with it
BASE = "--config tiny --steps 8 --eval-steps 2 --batch-tokens 300 --warmup-steps 2 --dtype float32"
SETTINGS = {
    "src": "fr", "tgt": "'de' have no letter of it", "src_segmentation": "words", "keep": "average",
    "tgt_segmentation": "words", "min_freq": "3", "max_vocab_size": "200", "max_length": "8",
    "num_layers": "1", "d_model": "16", "d_ff": "32", "num_heads": "1", "dropout": "0.3",
    "norm": "post", "tie_embeddings": "none", "label_smoothing": "0.2", "batch_tokens": "200",
    "steps": "9", "schedule": "noam", "warmup_steps": "3", "learning_rate": "0.01",
    "max_grad_norm": "0.1", "seed": "1", "target_first": "should be en have no letter",
    "grad_accum_steps": "2", "eval_steps": "4", "bleu_sentences": "3", "patience": "1",
    "average_last": "2", "dtype": "bfloat16",
}  # fmt: skip
VALUES = {"tgt": "de", "target_first": None}
EXTRA = {
    "patience": "--learning-rate 9".split(),  # so that the dev loss does become worse
    "average_last": "--keep average".split(),
}


def results(run):
    """What a training leaves behind: its log, its weights, which files."""
    files = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    tokens = [json.loads((run / f"vocabulary.{side}.json").read_text()) for side in ("src", "tgt")]
    records = without_times(read_records(run))
    return files, tokens, records, (run / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def trained(small_data, tmp_path_factory):
    """`train(*options)`: the results of a short training with them, or what was printed."""
    folder = tmp_path_factory.mktemp("options")

    def run_train(*options, capsys=None):
        run = folder / str(len(list(folder.iterdir())))
        argv = [*BASE.split(), "--data", str(small_data), "--run", str(run), *options]
        return results(run) if train.main(argv) == 0 else capsys.readouterr().err

    return run_train


def test_every_setting_changes_a_training_or_is_refused(trained, capsys):
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(RunConfig)}
    base = {(): trained()}
    assert trained() == base[()]  # nothing else makes a difference
    for name, value in SETTINGS.items():
        extra = tuple(EXTRA.get(name, ()))
        if extra not in base:
            base[extra] = trained(*extra)
        value = VALUES.get(name, value)
        option = [f"--{name.replace('_', '-')}", *([value] if value else [])]
        changed = trained(*extra, *option, capsys=capsys)
        if " " in SETTINGS[name]:
            assert SETTINGS[name].split("'")[-1] in changed, name
        else:
            assert changed != base[extra] and isinstance(changed, tuple), name


def test_what_stands_behind_two_dashes_is_text():
    texts = "--start=", "--clip", "--", "--name="
    argv = ["--beam-size", "1", "--", *texts]
    command = parse_command(translate.TranslateCommand, argv, "translate.py")
    assert command.text == texts and command.beam_size == 1


def test_every_option_of_the_other_programs_does_something(finished_run, small_data, tmp_path,
                                                           capsys, monkeypatch):  # fmt: skip
    (tmp_path / "in.txt").write_text("Two.\n")
    score = f"--score {small_data}"
    cases = {
        translate: {
            "text": ("", "Hello."), "run": ("Hello.", f"--run {tmp_path}"),
            "input": ("", f"--input {tmp_path / 'in.txt'}"), "score": ("", score),
            "beam_size": (score, "--beam-size 2"), "split": (score, "--split dev"),
            "alpha": (score, "--alpha auto"), "device": ("Hello.", "--device mps"),
            "serve": ("Hello.", "--serve"), "host": ("--serve", "--host ::1"),
            "port": ("--serve", "--port 80"), "origin": ("--serve", "--origin *"),
        },
        prepare: {
            "settings": ("", "--max-length 9"), "data": ("", f"--data {tmp_path}"),
            "out": ("", f"--out {tmp_path / 'other'}"),
            "config": ("", "--config subwords"), "start": ("", f"--start {finished_run}"),
        },
        export: {
            "out": ("", f"--out {tmp_path}"), "run": ("", f"--run {tmp_path}"),
            "form": ("", "--form page"), "int8": ("--form page", "--int8"),
        },
    }  # fmt: skip
    defaults = {
        translate: f"--run {finished_run}",
        prepare: f"--data {small_data} --out {tmp_path / 'out'}",
        export: f"--run {finished_run} --out {tmp_path / 'model'}",
    }  # fmt: skip
    monkeypatch.setattr(export, "export", lambda *options: print(*options))
    monkeypatch.setattr(export, "export_page", lambda *options: print(*options))
    monkeypatch.setattr(translate, "serve", lambda *options: print(*options[1:]))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for program, options in cases.items():
        (form,) = (
            value for value in vars(program).values()
            if dataclasses.is_dataclass(value) and value.__module__ == program.__name__
        )  # fmt: skip
        assert options.keys() == {field.name for field in dataclasses.fields(form)}
        for name, (before, option) in options.items():
            done = []
            for argv in (before, f"{before} {option}"):
                status = program.main(f"{defaults[program]} {argv}".split())
                printed = capsys.readouterr()
                text = re.sub(r"[\d.]+ sentences/s", "", printed.out)
                files = {path.name for path in tmp_path.rglob("*")}
                written = [path.read_bytes() for path in tmp_path.rglob("settings.json")]
                shutil.rmtree(tmp_path / "out", ignore_errors=True)
                scores = finished_run / "scores.json"  # tiny models write nothing, at any beam
                searches = re.findall("beam .*alpha", scores.read_text()) if scores.exists() else ()
                scores.unlink(missing_ok=True)
                done.append((status, text, printed.err if status else "", files, written, searches))
            assert done[0] != done[1], (program.__name__, name)

"""Both programs as a user meets them."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace

import pytest
from conftest import ROOT, run_python

import train
import translate
from engine import scoring
from engine.corpus.formats import read_split
from engine.options import parse_command
from engine.run import FILES
from engine.run_config import RunConfig
from engine.translator import Translator
from notebooks import translation
from notebooks.setup import replace


def test_train_translate_and_score(small_data, tmp_path, capsys):
    run, data = tmp_path / "run", ["--data", str(small_data)]
    options = "--config tiny --steps 4 --eval-steps 2 --batch-tokens 200 --seed 3".split()
    assert train.main([*data, *options, "--run", str(run)]) == 0
    captured = capsys.readouterr()
    assert "300 pairs to train on, 0 longer ones left out; 40 for dev" in captured.out
    last = r"finished at step 4; best dev loss \d\.\d+ nats a token at step 4"
    assert re.search(last, captured.out)
    assert re.search(r"4/4 \[.*(step/s|s/step), loss \d\.\d+, [\d,]+ tokens/s\]", captured.err)
    assert json.loads((run / "config.json").read_text())["seed"] == 3
    assert not (run / "scores.json").exists()
    score = ["--run", str(run), "--score", str(small_data), "--split"]
    assert translate.main([*score, "test"]) == 0
    output = capsys.readouterr().out
    assert len(re.findall(r"^  reference  ", output, re.M)) == 10
    (scores,) = json.loads((run / "scores.json").read_text()).values()
    assert (scores["data"], scores["split"], scores["pairs"]) == (small_data.name, "test", 20)
    names = "bleu chrf bleu_signature chrf_signature sentences_per_second"
    assert scores["beam 4, alpha 1.4"].keys() == set(names.split())
    bleu, chrf, signature, _, speed = (scores["greedy"][name] for name in names.split())
    printed = output.splitlines()
    assert f"greedy  BLEU {bleu:5.2f}  chrF {chrf:5.2f}  {speed} sentences/s" in printed
    assert f"BLEU {signature}" in printed
    other = tmp_path / "other" / small_data.name
    other.mkdir(parents=True)
    (other / "test.tsv").write_bytes((small_data / "dev.tsv").read_bytes())
    options = ["--beam-size", "2", "--alpha", "0"]
    assert translate.main([*score, "dev", *options]) == 0
    assert translate.main([*score, "test", *options]) == 0
    assert translate.main(["--run", str(run), "--score", str(other), *options]) == 0
    entries = json.loads((run / "scores.json").read_text())
    assert [key.split()[0].split("/")[1] for key in entries] == ["test", "dev", "test"]
    searches = {"greedy", "beam 4, alpha 1.4", "beam 2, alpha 0.0"}
    assert searches <= next(iter(entries.values())).keys()
    if sys.platform == "linux":  # a name out of an archive from Windows is not UTF-8
        odd = other.rename(tmp_path / "d\udcc4")
        assert translate.main(["--run", str(run), "--score", str(odd), *options]) == 0
        assert any(key.startswith(r"d\xc4/test ") for key in scoring.read_scores(run))


def test_the_length_penalty_that_dev_likes_best_is_kept(
    finished_run, small_data, tmp_path, capsys, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    before, dev = Translator.load(run), read_split(small_data, "dev", RunConfig())
    assert before.alpha == translation.ALPHA
    # a tiny model's BLEU is 0: take the number of characters, which differs, in its place
    monkeypatch.setattr(scoring, "ALPHAS", (0.0, 1.0, 3.0))
    monkeypatch.setattr(scoring, "bleu", lambda texts, *_: (sum(map(len, texts)), ""))
    sources = [english for english, _ in dev]
    written = {alpha: before.translate(sources, alpha=alpha) for alpha in scoring.ALPHAS}
    lengths = {alpha: sum(map(len, texts)) for alpha, texts in written.items()}
    best = max(lengths, key=lengths.get)
    assert best != scoring.ALPHAS[0], lengths
    argv = ["--run", str(run), "--score", str(small_data), "--alpha", "auto"]
    assert translate.main([*argv, "--beam-size", "1"]) == 2  # greedy search has no penalty
    assert "give --score, no --beam-size 1" in capsys.readouterr().err
    assert not (run / "search.json").exists()
    assert translate.main(argv) == 0
    assert f"alpha {best}: chosen on dev" in capsys.readouterr().out
    assert json.loads((run / "search.json").read_text())["alpha"] == best
    assert Translator.load(run).translate(sources) == written[best]
    assert "search.json" in FILES  # so --restart clears it


def test_argument_file_and_pipe_give_the_same_lines(
    finished_run, small_data, tmp_path, capsys, monkeypatch
):
    texts = [english for english, _ in read_split(small_data, "dev", RunConfig())][:5]
    texts[2:2] = ["", "😀"]
    (tmp_path / "input.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    options = ["--run", str(finished_run), "--beam-size", "2"]
    assert translate.main([*options, *texts]) == 0
    argument = capsys.readouterr().out
    assert translate.main([*options, "--input", str(tmp_path / "input.txt")]) == 0
    file = capsys.readouterr().out
    number = os.open(tmp_path / "input.txt", os.O_RDONLY)
    stdin = SimpleNamespace(fileno=lambda: number, isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert translate.main(options) == 0
    assert argument == file == capsys.readouterr().out
    assert argument.count("\n") == len(texts)


def test_unknown_words_are_named_once_with_their_count(finished_run, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("The zxqv saw \x1b[31ma bold zxqv.\nA zxqv.\n")
    for texts in (
        ["The zxqv saw \x1b[31ma bold zxqv.", "A zxqv."],
        ["--input", tmp_path / "in.txt"],
    ):
        assert translate.main(["--run", str(finished_run), *map(str, texts)]) == 0
        (line,) = [row for row in capsys.readouterr().err.splitlines() if "unknown" in row]
        assert line.startswith("unknown words: zxqv (3 times), ")
        assert "bold" in line and "\x1b" not in line
    many = " ".join(f"zx{number}" for number in range(50))
    assert translate.main(["--run", str(finished_run), many]) == 0
    assert "zx19 and 30 more" in capsys.readouterr().err
    assert translate.main(["--run", str(finished_run), "The."]) == 0
    assert "unknown" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--config", "tiny"], ["--config=tiny"], ["--", "--config", "tiny"]]
)
def test_options_change_a_preset(argv, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # torchrun hands its -- on
    argv = [*argv, "--d-model", "64", "--keep", "last", "--target-first"]
    arguments = parse_command(train.TrainCommand, argv, "train.py", "small")
    assert arguments.settings == replace(
        RunConfig.preset("tiny"), d_model=64, keep="last", target_first=True
    )


@pytest.mark.parametrize("option", ["--config", "--keep red", "--steps 1e9", "--wings 2"])
def test_a_wrong_option_is_named_and_ends_with_status_2(option, capsys):
    assert train.main(option.split()) == 2
    assert option.split()[0] in capsys.readouterr().err


def test_help_has_every_setting_and_loads_nothing_that_draws():
    program = """
import runpy, sys
sys.argv = ["train.py", "--help"]
try:
    runpy.run_path("train.py", run_name="__main__")
except SystemExit as end:
    print(end.code, {"matplotlib", "IPython", "anywidget"} & sys.modules.keys())
"""
    done = run_python("-c", program)
    assert done.stdout.splitlines()[-1] == "0 set()", done.stderr
    options = ["--" + field.name.replace("_", "-") for field in fields(RunConfig)]
    assert [option for option in options if option not in done.stdout] == []
    assert "what a source token is" in done.stdout  # the comments beside the fields


@pytest.mark.skipif(not shutil.which("make"), reason="no make on this machine")
@pytest.mark.parametrize("target", ["translate", "train-large", "student"])
@pytest.mark.parametrize("text", ["I like `touch made`.", '"It\'s $5."', "$(shell touch made) #"])
def test_make_hands_what_it_is_given_on_as_it_is(target, text, tmp_path):
    for program in ("python", "torchrun"):
        (tmp_path / program).write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
        (tmp_path / program).chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    given = [f"{name}={text}" for name in ("TEXT", "DATA", "RUN", "OUT", "LANGUAGE")]
    command = [
        "make",
        "-s",
        "-o",
        ".venv/ready",
        "-o",
        ".venv/dev",
        f"BIN={tmp_path}",
        *given,
        target,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    arguments = done.stdout.split("\0")
    if target == "translate":
        assert arguments[-2] == text and arguments[arguments.index("--run") + 1] == text
    elif target == "student":
        assert arguments[1:-1] == ["--language", text, "--", text]
    else:
        assert arguments.count(text) == 2 and arguments[-2] == text, done.stderr
        assert arguments.count(f"{text}/prepared") == 2
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(not shutil.which("make"), reason="no make on this machine")
@pytest.mark.parametrize(
    "restart, expected", [("1", True), ("", False), ("0", False), ("maybe", None)]
)
def test_make_run_begins_anew_where_it_is_asked_to(restart, expected):
    command = ["make", "-n", "-o", ".venv/ready", f"RESTART={restart}", "run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode != 0) == (expected is None)
    if expected is None:
        assert "RESTART: give 1, or leave it out" in done.stderr
    else:
        assert ("train.py" in done.stdout, "--restart" in done.stdout) == (True, expected)

"""Both programs as a user meets them."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, run_python
from notebooks.data_preparation import read_pairs
from notebooks.setup import Config, replace

import train
import translate
from notebooks import translation
from notebooks.support import scoring
from notebooks.support.options import parse_command
from notebooks.support.run_folder import FILES


def test_train_translate_and_score(small_data, tmp_path):
    run = tmp_path / "run"
    options = ["--data", small_data, "--config", "tiny", "--run", run, "--seed", "3"]
    done = run_python(ROOT / "train.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "300 pairs to train on, 0 longer ones left out; 40 for dev" in done.stdout
    last = r"finished at step 40; best dev loss \d\.\d+ nats a token at step 40"
    assert re.search(last, done.stdout)
    assert re.search(r"40/40 \[.*step/s, loss \d\.\d+, [\d,]+ tokens/s\]", done.stderr)
    assert json.loads((run / "config.json").read_text())["seed"] == 3
    assert not (run / "scores.json").exists()
    options = ["--run", run, "--score", small_data, "--split", "test"]
    done = run_python(ROOT / "translate.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^  reference  ", done.stdout, re.M)) == 10
    greedy = r"^greedy +BLEU +[\d.]+ +chrF +[\d.]+ +[\d.]+ sentences/s$"
    assert re.search(greedy, done.stdout, re.M) and "|tok:zh|" in done.stdout
    scores = json.loads((run / "scores.json").read_text())["test"]
    names = "bleu chrf bleu_signature chrf_signature sentences_per_second"
    assert scores["beam"].keys() == set(names.split())
    scoring.score(run, small_data, "dev")
    assert json.loads((run / "scores.json").read_text()).keys() == {"test", "dev"}


def test_the_length_penalty_that_dev_likes_best_is_kept(
    finished_run, small_data, tmp_path, capsys, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    before, dev = translation.Translator.load(run), read_pairs(small_data, "dev", Config())
    assert before.alpha == translation.ALPHA
    # a tiny model's BLEU is 0: take the number of characters, which differs, in its place
    monkeypatch.setattr(scoring, "ALPHAS", (0.0, 1.0, 3.0))
    monkeypatch.setattr(scoring, "bleu", lambda texts, *_: (sum(map(len, texts)), ""))
    sources = [english for english, _ in dev]
    written = {alpha: before.translate(sources, alpha=alpha) for alpha in scoring.ALPHAS}
    lengths = {alpha: sum(map(len, texts)) for alpha, texts in written.items()}
    best = max(lengths, key=lengths.get)
    assert len(set(lengths.values())) > 1 and best != scoring.ALPHAS[0]
    argv = ["--run", str(run), "--score", str(small_data), "--alpha", "auto"]
    assert translate.main([*argv, "--beam-size", "1"]) == 2  # greedy search has no penalty
    assert "give --score, no --beam-size 1" in capsys.readouterr().err
    assert not (run / "search.json").exists()
    assert translate.main(argv) == 0
    assert f"alpha {best}: chosen on dev" in capsys.readouterr().out
    assert json.loads((run / "search.json").read_text()) == {"alpha": best}
    assert translation.Translator.load(run).translate(sources) == written[best]
    assert "search.json" in FILES  # so --restart clears it


def test_argument_file_and_pipe_give_the_same_lines(finished_run, small_data, tmp_path, capsys):
    texts = [english for english, _ in read_pairs(small_data, "dev", Config())][:5]
    texts[2:2] = ["", "😀"]
    (tmp_path / "input.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    options = ["--run", str(finished_run), "--beam-size", "2"]
    assert translate.main([*options, *texts]) == 0
    argument = capsys.readouterr().out
    assert translate.main([*options, "--input", str(tmp_path / "input.txt")]) == 0
    file = capsys.readouterr().out
    pipe = run_python(ROOT / "translate.py", *options, stdin="\n".join(texts) + "\n")
    assert pipe.returncode == 0 and argument == file == pipe.stdout, pipe.stderr
    assert argument.count("\n") == len(texts)


def test_every_setting_is_an_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        train.main(["--help"])
    text = capsys.readouterr().out
    assert stopped.value.code == 0
    assert all(f"--{name.replace('_', '-')}" in text for name in Config.__dataclass_fields__)
    assert "what a source token is" in text  # the comments beside the fields


@pytest.mark.parametrize(
    "argv", [["--config", "tiny"], ["--config=tiny"], ["--", "--config", "tiny"]]
)
def test_options_change_a_preset(argv):
    argv = [*argv, "--d-model", "64", "--keep", "last", "--swap"]
    arguments = parse_command(train.TrainCommand, argv, "train.py", "small")
    assert arguments.settings == replace(Config.preset("tiny"), d_model=64, keep="last", swap=True)


def test_the_default_is_the_small_preset_on_the_projects_corpus():
    arguments = parse_command(train.TrainCommand, [], "train.py", "small")
    assert arguments.settings == Config.preset("small")
    assert arguments.data == ROOT / "data_small" and arguments.run is None


@pytest.mark.parametrize("command", [train.main, translate.main])
@pytest.mark.parametrize(
    "argv, told",
    [
        (["--wings", "2"], "--wings"),
        (["--run"], "Missing value for argument '--run'"),
        (["--run", "a\0b"], "NUL"),
    ],
)
def test_a_wrong_option_is_one_line_and_status_2(command, argv, told, capsys):
    assert command(argv) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and told in line
    assert told == "NUL" or line.endswith(". --help tells more")


@pytest.mark.parametrize(
    "argv, told",
    [
        (["--steps", "1e9"], "Error parsing --steps: invalid literal for int() with base 10"),
        (["--config"], "argument --config: expected one argument"),
        (["--keep", "red"], "invalid choice 'red' for argument '--keep'"),
    ],
)
def test_what_is_wrong_with_a_value_is_told(argv, told, capsys):
    assert train.main(argv) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line and "│" not in line and line.endswith(". --help tells more")


def test_help_loads_nothing_that_draws():
    program = "import runpy, sys\nsys.argv = ['train.py', '--help']\ntry:\n"
    program += "    runpy.run_path('train.py', run_name='__main__')\n"
    program += "except SystemExit:\n    pass\n"
    program += (
        "print([name for name in ('matplotlib', 'IPython', 'anywidget') if name in sys.modules])"
    )
    done = run_python("-c", program)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stderr
    assert "--d-model" in done.stdout


ENDS = "import sys; from notebooks.support.errors import run_command; sys.exit(run_command(%s, []))"


@pytest.mark.parametrize(
    "stdout, command, status, told",
    [
        ("/dev/full", "lambda _: print('kept back')", 2, "No space left"),
        ("/dev/full", "lambda _: print(flush=True)", 2, "No space left"),
        ("closed pipe", "lambda _: print('kept back')", 141, ""),
        ("/dev/null", "lambda _: print('kept back')", 0, ""),
    ],
)
def test_output_that_cannot_be_written_is_told_once(stdout, command, status, told):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    if stdout == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(stdout, os.O_WRONLY)
    program = [sys.executable, "-c", ENDS % command]
    kept_back = {**os.environ, "PYTHONUNBUFFERED": ""}  # until the end
    options = dict(cwd=ROOT, env=kept_back, stderr=subprocess.PIPE, text=True)
    done = subprocess.run(program, stdout=writing, **options)
    os.close(writing)
    assert (done.returncode, told in done.stderr) == (status, True)
    assert done.stderr.count("\n") == bool(told)


def test_without_a_standard_error_nothing_is_said_elsewhere():
    program = "import sys; sys.stderr = None; from notebooks.support.errors import run_command\n"
    program += "from notebooks.support.errors import InputError\n"
    program += "def refuse(_): raise InputError('wrong')\nsys.exit(run_command(refuse, []))"
    done = run_python("-c", program)
    assert (done.returncode, done.stdout) == (2, "")

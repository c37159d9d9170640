"""What a user can get wrong: one clear line on stderr, exit status 2, never a traceback."""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import pytest
import torch
from conftest import ROOT, TUNE, run_python, start_with_ctrl_c

import export
import train
import translate
from engine.corpus.formats import read_split
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError, run_command
from engine.files import write_json, write_whole
from engine.model_files import load_tokenizer, save_tokenizer
from engine.options import parse_command
from engine.run import run_training
from engine.run_config import RunConfig
from engine.run_folder import BOX
from engine.translator import Translator
from notebooks.data_preparation import (
    EOS,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    load_jieba,
)
from notebooks.setup import replace

SHORT = replace(RunConfig.preset("tiny"), steps=4, eval_steps=2)


@pytest.fixture
def refused(capsys):
    """A function: the command gives status 2 and one line that holds all the words."""

    def check(command, argv, *words):
        assert command([str(part) for part in argv]) == 2
        errors = capsys.readouterr().err
        assert errors.startswith("error: ") and errors.count("\n") == 1, errors
        assert all(str(word) in errors for word in words), errors

    return check


@pytest.fixture
def run(finished_run, tmp_path):
    """A finished run that a test may damage."""
    return shutil.copytree(finished_run, tmp_path / "run")


def train_again(data, run):
    return ["--data", data, "--config", "tiny", "--run", run]


def rewrite(path, **changes):
    """Changes entries of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@contextmanager
def full_disk(limit):
    """A write beyond this many bytes of a file fails."""
    resource = pytest.importorskip("resource", reason="Windows has no limit on file sizes")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# options and data


COMMANDS = {
    "--config huge": "tiny, small", "--num-heads 3": "num_heads", "--dropout 1.5": "dropout",
    "--seed -1": "seed", "--src zh-CN": "src is", "--tgt ../x": "tgt is",
    "--tie-embeddings three-way --src-segmentation subwords": "three-way",
    "--min-freq 1000000": "vocabularies of 4 and 4 tokens",
    "--data nowhere": "no such folder", "--max-length 1": "every pair of train",
    "--schedule noam --learning-rate 0.1": "--learning-rate has no effect",
    "--start ": "--start: its value is empty",
    "--config None": "--config: its value is None. Is a", "--start=None": "--start: its value is",
    "--data $HOME/x": "Write the whole path", "--data=~no-such-user/x": "Write the whole path",
}  # fmt: skip


@pytest.mark.parametrize("options, word", COMMANDS.items())
def test_impossible_commands(refused, tmp_path, small_data, options, word):
    refused(train.main, [*train_again(small_data, tmp_path / "run"), *options.split(" ")], word)
    assert not (tmp_path / "run").exists()


def test_the_home_folder_is_meant_by_its_sign(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    command = parse_command(train.TrainCommand, ["--run=~/x"], "train.py", preset="tiny")
    assert command.run == tmp_path / "x"


BAD_DATA = [
    ("dev.tsv", None, "holds no dev.tsv"), ("train.tsv", b"", "empty"),
    ("train.tsv", b"no tab here\n", "no line"), ("train.jsonl", b"{}", "as .tsv and as .jsonl"),
    ("dev.tsv", b"One.\t\xff\n", "dev.tsv, line 1, byte 6"),
]  # fmt: skip


@pytest.mark.parametrize("name, content, word", BAD_DATA)
def test_bad_data(refused, tmp_path, small_data, name, content, word):
    data = shutil.copytree(small_data, tmp_path / "data")
    (data / name).unlink(missing_ok=True)
    if content is not None:
        (data / name).write_bytes(content)
    refused(train.main, train_again(data, tmp_path / "run"), name.split(".")[0], word)


TRANSLATIONS = {
    "--run none Hello.": "python train.py", "--run utf16 Hello.": "is a file",
    "--run a\nb\x1b[31m Hello.": "a b [31m",
    "--input none.txt": "No such file or directory. Is the path right, and",
    "--input utf16": "utf16, line 1, byte 1: not UTF-8",
    "--beam-size 0 Hello.": "--beam-size is 0", "--beam-size 101 Hello.": "from 1 to 100",
    "--alpha nan Hello.": "--alpha is nan: give", "--alpha 11 Hello.": "alpha",
    "--alpha auto Hello.": "--score",
    "--input a --input=b": "--input is given twice", "--input file Hello.": "give one",
    "--score .": "holds no test.tsv",
    "--score . --split **": "split is", "--score . --split ": "--split: its value is empty",
    "--beam-size 1 --alpha 1 Hello.": "--alpha has no effect",
    "--score . --split dev --alpha auto": "on dev: a",
}  # fmt: skip


@pytest.mark.parametrize("options, word", TRANSLATIONS.items())
def test_impossible_translations(refused, tmp_path, finished_run, monkeypatch, options, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "utf16").write_bytes("Hello.\n".encode("utf-16"))
    run = [] if "--run" in options else ["--run", finished_run]
    refused(translate.main, [*run, *options.split(" ")], word)


# files of a run that are damaged


@pytest.mark.parametrize(
    "name, content, word",
    [
        ("config.json", None, "missing"), ("config.json", b"{", "not JSON"),
        ("config.json", b'{"num_heads": 5}', "num_heads"), ("vocabulary.src.json", b"{}", "vocab"),
        ("model.safetensors", None, "missing"), ("model.safetensors", b"1234", "cut short"),
    ],
)  # fmt: skip
def test_a_damaged_file_of_a_run(refused, run, name, content, word):
    (run / name).unlink()
    if content:
        (run / name).write_bytes(content)
    refused(translate.main, ["--run", run, "Hello."], name, word)


def test_a_full_disk_keeps_the_last_checkpoint(refused, small_data, tmp_path):
    run_training(small_data, replace(SHORT, steps=3), tmp_path / "whole")
    with full_disk(200_000):
        argv = "--config tiny --steps 4 --eval-steps 2 --dtype float32".split()
        command = ["--data", small_data, *argv, "--run", tmp_path / "cut"]
        assert train.main([*map(str, command)]) == 2
    assert not (tmp_path / "cut" / "checkpoint.pt").exists()
    assert train.main([*map(str, command)]) == 0


def test_a_search_that_meets_no_numbers_ends(finished_run):
    translator = Translator.load(finished_run)
    with torch.no_grad():
        translator.model.src_embedding.lookup.weight[EOS + 1 :] = math.nan
    translator.source.vocabulary.ids["hello"] = EOS + 1
    with pytest.raises(InputError, match="gives no probabilities"):
        translator.translate(["Hello"])


def test_scores_are_read_before_anything_is_translated(refused, small_data, run, monkeypatch):
    (run / "scores.json").write_text("[]")
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: 1 / 0)
    refused(translate.main, ["--run", run, "--score", small_data], run / "scores.json")
    (run / "scores.json").write_text('{"data/test 1": null}')
    refused(translate.main, ["--run", run, "--score", small_data], "data/test 1", "no scores")


def test_subwords_are_read_as_they_were_written(tmp_path):
    segmenter = SubwordSegmenter.learn(["hello there", "good day to you"] * 9, 280)
    ids = segmenter.model.get_vocab()
    path = tmp_path / "vocabulary.src.json"
    save_tokenizer(Tokenizer(segmenter, Vocabulary(sorted(ids, key=ids.get))), path)
    assert load_tokenizer(path).segmenter.model.to_str() == segmenter.model.to_str()
    rewrite(path, subwords="{}")
    with pytest.raises(InputError, match="not a vocabulary"):
        load_tokenizer(path)


# only what we wrote is overwritten or deleted


@pytest.mark.parametrize("form", ["page", "ctranslate2"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [(".", "is the current folder"), ("link", "is a link to no"), ("d\udcc4", "is not UTF-8")],
)
def test_no_folder_is_made_where_none_can_be(refused, tmp_path, monkeypatch, form, name, reason):
    monkeypatch.chdir(tmp_path)
    os.symlink("gone", "link")
    refused(export.main, ["--run", str(BOX), "--form", form, "--out", name], reason)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_full_disk_is_told_with_the_file_and_what_to_do(tmp_path, monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert run_command(lambda argv: write_whole(tmp_path / "x", "text"), []) == 2
    assert f"{tmp_path / 'x'}: No space left on device. Make room" in capsys.readouterr().err
    assert run_command(full, []) == 2  # as a line that is printed to it
    assert "error: No space left on device. Make room" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_have_the_mode_that_the_umask_gives(tmp_path, mask):
    before = os.umask(mask)
    write_json(tmp_path / "config.json", {})
    os.umask(before)
    assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o666 & ~mask


# a full disk


def test_a_picture_on_a_full_disk_keeps_the_one_that_was_there(refused, tmp_path, finished_run):
    picture = tmp_path / "log.png"
    options = ["--config", "tiny", "--run", finished_run, "--plot", picture]
    assert train.main([*map(str, options)]) == 0
    before = picture.read_bytes()
    with full_disk(1000):
        refused(train.main, options, picture)
    assert picture.read_bytes() == before


def test_an_export_on_a_full_disk_says_where_and_what_to_do(refused, tmp_path, finished_run):
    with full_disk(10_000):
        argv = ["--run", finished_run, "--out", tmp_path / "out"]
        refused(export.main, argv, f"{tmp_path}/out: could not be written", "Make room")
    assert list(tmp_path.iterdir()) == []


# one rule for text


def test_as_many_lines_out_as_in_whatever_was_learned(capsys, finished_run, monkeypatch):
    def answer(_, texts, **options):
        return ["a\nb\x1b[31m\u2028c\r"] * len(texts)

    monkeypatch.setattr(Translator, "translate", answer)
    assert translate.main(["--run", str(finished_run), "one", "two"]) == 0
    assert capsys.readouterr().out == "a b [31m c\n" * 2


def test_white_space_in_json_lines_is_one_space(tmp_path):
    row = {"en": "One\ntwo.", "zh": "一\n二\t\u2028三。"}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n" + "[" * 60_000 + "\n")
    assert read_split(tmp_path, "dev", RunConfig()) == [("One two.", "一 二 三。")]


SPACES = [" ", "\t", "  ", "\u00a0", "\u3000", "\u2028", "\x85", "\x1b", "\r", "\x0b\n"]


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_white_space_changes_no_ids(small_data, kind):
    """The ids that a search gets are those of the clean text, which training has seen."""
    config = replace(RunConfig.preset("tiny"), src_segmentation=kind, max_vocab_size=400)
    pairs = read_split(small_data, "train", config)
    tokenizers = make_tokenizers(pairs, config)
    clean = [source for source, _ in pairs[:50]]
    rows = []
    translator = Translator(config, *tokenizers, torch.nn.Linear(1, 1))

    def search(src, *_):
        rows.extend(row.tolist() for row in src)
        return [[EOS + 1]] * len(src)

    translator.search = search

    for space in ("", *SPACES):
        texts = [space + text.replace(" ", space or " ") + space for text in clean]
        translator.translate(texts, batch_size=1)
    assert [rows[start : start + 50] for start in range(0, len(rows), 50)] == [rows[:50]] * 11


def test_a_file_is_not_read_and_written_at_once(refused, tmp_path, finished_run, monkeypatch):
    path = tmp_path / "text"
    path.write_text("Hello.\n")
    with path.open("a") as output, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        refused(translate.main, ["--run", finished_run, "--input", path], "at once")
    assert path.read_text() == "Hello.\n"


# processes


@pytest.mark.skipif(os.name == "nt", reason="Windows has another Ctrl-C")
def test_ctrl_c_while_it_imports():
    program = TUNE + "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()"
    options = dict(stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    process = start_with_ctrl_c([sys.executable, "-c", program], **options)
    assert process.communicate(timeout=60)[1] == "stopped\n" and process.returncode != 0


def test_jieba_writes_no_cache_that_a_stranger_could_have_written(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    load_jieba.cache_clear()
    assert "".join(load_jieba().lcut("电话响了")) == "电话响了"
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_does_not_wait_on_a_machine_without_utf8():
    """Of a pipe with O_NONBLOCK, nothing to read yet is not the end. All output is UTF-8."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    command = [sys.executable, ROOT / "translate.py", "--run", BOX, "--beam-size", "1"]
    old = dict(PYTHONIOENCODING="latin-1", PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0")
    options = dict(env={**os.environ, **old}, stdout=subprocess.PIPE, encoding="utf-8")
    with subprocess.Popen(command, stdin=reading, **options) as process:
        os.close(reading)
        lines = []
        for _ in range(2):
            os.write(writing, b"Hello.\n")
            lines.append(process.stdout.readline())
            time.sleep(0.2)
        os.close(writing)
        assert process.stdout.read() == ""
    assert all(line.endswith("\n") and not line.isascii() for line in lines), lines
    assert process.returncode == 0


def test_no_code_of_a_strangers_folder_runs(tmp_path):
    for name in ("tqdm", "torch", "numpy", "translate"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    for program in (["-m", "notebooks.translation"], [ROOT / "translate.py"]):
        # whoever sets it to "." asks for that folder himself
        done = run_python(*program, "--run", ".", "Hello.", cwd=tmp_path, PYTHONPATH="")
        assert done.returncode == 2 and "planted" not in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1

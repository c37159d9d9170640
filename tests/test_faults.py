"""What a user can get wrong: one clear line on stderr, exit status 2, never a traceback."""

import json
import shutil
from contextlib import contextmanager

import pytest
import torch

import train
import translate
from engine.corpus.formats import read_split
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError
from engine.model_files import load_tokenizer, save_tokenizer
from engine.run import run_training
from engine.run_config import RunConfig
from engine.translator import Translator
from notebooks.data_preparation import (
    EOS,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
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
    "--config huge": "small", "--num-heads 3": "num_heads", "--dropout 1.5": "dropout",
    "--seed -1": "seed", "--src zh-CN": "src", "--tgt ../x": "tgt", "--data nowhere": "nowhere",
    "--tie-embeddings three-way --src-segmentation subwords": "three-way",
    "--min-freq 1000000": "vocabularies", "--max-length 1": "train",
    "--schedule noam --learning-rate 0.1": "--learning-rate", "--start ": "--start",
}  # fmt: skip


@pytest.mark.parametrize("options, word", COMMANDS.items())
def test_impossible_commands(refused, tmp_path, small_data, options, word):
    refused(train.main, [*train_again(small_data, tmp_path / "run"), *options.split(" ")], word)
    assert not (tmp_path / "run").exists()


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
    "--run none Hello.": "train.py", "--run utf16 Hello.": "file", "--input none.txt": "No such",
    "--input utf16": "line 1", "--beam-size 0 Hello.": "--beam-size", "--alpha nan Hello.": "nan",
    "--alpha auto Hello.": "--score", "--input file Hello.": "give one", "--score .": "test.tsv",
    "--beam-size 1 --alpha 1 Hello.": "--alpha", "--score . --split dev --alpha auto": "dev",
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


# a full disk


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


# processes

"""What a user can get wrong: one clear line on stderr, exit status 2, never a traceback."""

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import ROOT, run_python
from filelock import FileLock, Timeout

import export
import train
import translate
from data_large.prepare import read_split
from notebooks import translation
from notebooks.data_preparation import (
    EOS,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    make_tokenizers,
)
from notebooks.setup import Config, replace
from notebooks.support import scoring, training_run
from notebooks.support.checkpoints import step_of
from notebooks.support.errors import InputError
from notebooks.support.files import write_json
from notebooks.support.model_files import (
    load_tokenizer,
    read_tensors,
    save_tokenizer,
    write_tensors,
)
from notebooks.support.run_folder import RunFolder
from notebooks.support.session import TrainingSession
from notebooks.support.training_run import run_training
from notebooks.support.translating import translate_texts


def assert_refused(capsys, command, argv, *words):
    """The command gives status 2 and one line that holds all the words."""
    assert command([str(part) for part in argv]) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), captured.err
    assert all(word in lines[0] for word in words), captured.err


@pytest.mark.parametrize(
    "options, words",
    [
        (["--config", "huge"], ["unknown preset 'huge'", "tiny, small, subwords, reference, base"]),
        (["--num-heads", "3"], ["num_heads 3 does not divide d_model 256"]),
        (["--dropout", "1.5"], ["dropout is 1.5"]),
        (["--data", "nowhere"], ["nowhere", "no such folder"]),
        (
            ["--config", "tiny", "--sharing", "three-way", "--src-segmentation", "subwords"],
            ["three-way sharing needs subwords on both"],
        ),
        (["--config", "tiny", "--max-length", "1"], ["every pair of train", "max_length 1"]),
    ],
)
def test_impossible_commands(capsys, tmp_path, small_data, options, words):
    assert_refused(
        capsys, train.main, ["--data", small_data, "--run", tmp_path / "run", *options], *words
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("train.tsv", None, ["holds no train.tsv"]),
        ("dev.tsv", None, ["holds no dev.tsv"]),
        ("train.tsv", b"", ["train.tsv", "the file is empty"]),
        ("train.tsv", b"no tab here\n", ["train.tsv", "no line holds a pair"]),
        ("dev.tsv", b"One.\t\xff\n", ["dev.tsv, line 1, byte 6", "not UTF-8"]),
        ("train.jsonl", b"{}", ["train is there as .tsv and as .jsonl"]),
    ],
)
def test_bad_data(capsys, tmp_path, small_data, name, content, words):
    shutil.copytree(small_data, tmp_path / "data")
    (tmp_path / "data" / name).unlink(missing_ok=True)
    if content is not None:
        (tmp_path / "data" / name).write_bytes(content)
    assert_refused(
        capsys,
        train.main,
        ["--data", tmp_path / "data", "--config", "tiny", "--run", tmp_path / "run"],
        *words,
    )


@pytest.mark.parametrize(
    "name", ["config.json", "vocabulary.src.json", "vocabulary.tgt.json", "model.safetensors"]
)
@pytest.mark.parametrize("damage", ["missing", "cut short", "empty"])
def test_a_damaged_run_folder(capsys, tmp_path, finished_run, name, damage):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    content = (run / name).read_bytes()
    (run / name).unlink()
    if damage != "missing":
        (run / name).write_bytes(content[: len(content) // 2] if damage == "cut short" else b"")
    assert_refused(
        capsys,
        translate.main,
        ["--run", run, "Hello."],
        str(run / name),
        "missing" if damage == "missing" else "cut short",
    )


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(d_model=64), ["model.safetensors: does not match config.json", "(64,", "(32,"]),
        (dict(num_layers=3), ["does not match config.json", "missing in the file"]),
        (dict(num_heads=5), ["num_heads 5 does not divide d_model 32"]),
        (dict(colour="red"), ["config.json", "colour"]),
        (dict(norm="both"), ["norm is 'both'"]),
    ],
)
def test_a_run_that_does_not_match_its_config(capsys, tmp_path, finished_run, change, words):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, **change}))
    assert_refused(capsys, translate.main, ["--run", run, "Hello."], *words)


@pytest.mark.parametrize("part", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_checkpoint(capsys, tmp_path, small_data, finished_run, part):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    path = run / "checkpoints" / "step-40" / part
    path.write_bytes(path.read_bytes()[:20])
    assert_refused(
        capsys,
        train.main,
        ["--data", small_data, "--config", "tiny", "--run", run],
        str(path),
        "cut short",
    )


def test_translating_from_nowhere(capsys, tmp_path, finished_run):
    assert_refused(
        capsys,
        translate.main,
        ["--run", tmp_path / "none", "Hello."],
        "no such run folder",
        "python train.py",
    )
    assert_refused(
        capsys,
        translate.main,
        ["--run", finished_run, "--input", tmp_path / "none.txt"],
        "none.txt",
    )
    (tmp_path / "bad.txt").write_bytes(b"good\nbad \xff\n")
    assert_refused(
        capsys,
        translate.main,
        ["--run", finished_run, "--input", tmp_path / "bad.txt"],
        "bad.txt, line 2, byte 5",
        "not UTF-8",
    )
    assert_refused(
        capsys, translate.main, ["--run", finished_run, "--beam-size", "0", "Hello."], "beam_size"
    )


def test_a_split_that_is_not_there(capsys, finished_run, small_data, tmp_path):
    shutil.copy(small_data / "train.tsv", tmp_path)
    assert_refused(
        capsys, translate.main, ["--run", finished_run, "--score", tmp_path], "holds no test.tsv"
    )


def test_no_traceback_from_a_fresh_process(tmp_path):
    for module in ("train", "translate"):
        given = ["--data", tmp_path / "no"] if module == "train" else ["x"]
        done = run_python(ROOT / f"{module}.py", "--run", tmp_path / "none", *given)
        assert (
            done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
        ), done.stderr


FULL_DISK = """
import resource, signal, sys
from train import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
# a write beyond this many bytes fails, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.exit(main({argv!r}))
"""


def test_a_full_disk_keeps_the_last_good_checkpoint(small_data, tmp_path):
    resource = pytest.importorskip(
        "resource", reason="needs a limit on file sizes, which Windows has not"
    )
    assert resource.RLIMIT_FSIZE
    run = tmp_path / "run"

    class PowerCut(Exception):
        pass

    def cut_power(records):
        if records[-1]["step"] == 40:
            raise PowerCut

    with pytest.raises(PowerCut):
        run_training(small_data, Config.preset("tiny"), run, on_log=cut_power)
    good = read_tensors(run / "checkpoints" / "step-20" / "model.safetensors")
    argv = ["--data", str(small_data), "--config", "tiny", "--run", str(run)]
    done = run_python("-c", FULL_DISK.format(limit=100_000, argv=argv))
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert (
        done.returncode == 2
        and len(errors) == 1
        and "could not be written" in errors[0]
        and "Traceback" not in done.stderr
    ), done.stderr
    assert [path.name for path in RunFolder(run).checkpoints()] == ["step-20"]
    again = read_tensors(run / "checkpoints" / "step-20" / "model.safetensors")
    assert all(torch.equal(good[name], again[name]) for name in good)
    assert translate.main(["--run", str(run), "Hello."]) == 0
    assert train.main(argv) == 0 and RunFolder(run).checkpoints()[-1].name == "step-40"


# rows of a list of 380 bad inputs that once gave a traceback, hung, or did harm


def copied(finished_run, tmp_path):
    """A finished run that a test may damage."""
    return shutil.copytree(finished_run, tmp_path / "run")


def rewrite(path, **changes):
    """Changes entries of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def train_again(small_data, run):
    return ["--data", small_data, "--config", "tiny", "--run", run]


def write_lines(folder, lines, split="train"):
    (folder / f"{split}.tsv").write_bytes(b"".join(line + b"\n" for line in lines))


class Echo(translation.Translator):
    """Answers with what a model may have learned: white space and orders to a terminal."""

    def __init__(self):
        pass

    def translate(self, sentences, *_, **__):
        return ["a\nb\x1b[31m\u2028c\r"] * len(sentences)


def test_as_many_lines_out_as_in_whatever_was_learned(capsys, finished_run, monkeypatch):
    monkeypatch.setattr(translation.Translator, "load", lambda run: Echo())
    assert translate.main(["--run", str(finished_run), "one", "two"]) == 0
    assert capsys.readouterr().out == "a b [31m c\n" * 2


def test_white_space_in_json_lines_is_one_space(tmp_path):
    row = {"en": "One\ntwo.", "zh": "一\n二\t\u2028三。"}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n" + "[" * 60_000 + "\n")
    assert read_split(tmp_path, "dev", Config()) == [("One two.", "一 二 三。")]


def test_standard_output_is_utf8_everywhere(finished_run):
    old = dict(PYTHONIOENCODING="latin-1", PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0")
    options = ["--run", finished_run, "--input", ROOT / "data_small" / "README.md"]
    done = run_python(ROOT / "translate.py", *options, "--beam-size", "1", **old)
    assert done.returncode == 0 and not done.stdout.isascii(), done.stderr


@pytest.mark.parametrize("damage", ["nan", "inf", "1e30", "int8", "bool", "complex"])
def test_weights_that_are_no_numbers(capsys, tmp_path, finished_run, damage):
    run = copied(finished_run, tmp_path)
    path = run / "model.safetensors"
    tensors = read_tensors(path)
    kinds = {"int8": torch.int8, "bool": torch.bool, "complex": torch.complex64}
    for name, tensor in tensors.items():
        tensors[name] = (
            tensor.to(kinds[damage]) if damage in kinds else torch.full_like(tensor, float(damage))
        )
    write_tensors(path, tensors)
    told = "gives no numbers" if damage == "1e30" else "NaN, infinity or integers"
    for beam in ("1", "4"):
        arguments = ["--run", run, "--beam-size", beam, "Hello."]
        assert_refused(capsys, translate.main, arguments, "model.safetensors", told)


def test_a_search_that_meets_no_numbers_ends(finished_run):
    translator = translation.Translator.load(finished_run)
    with torch.no_grad():
        translator.model.src_embedding.lookup.weight[EOS + 1 :] = math.nan
    translator.source.vocabulary.ids["Hello"] = EOS + 1
    with pytest.raises(InputError, match="gives no probabilities"):
        translator.translate(["Hello"])


def test_a_second_training_in_the_same_folder(capsys, tmp_path, small_data, finished_run):
    run = copied(finished_run, tmp_path)
    before = (run / "log.jsonl").read_bytes()
    with FileLock(run / "lock"):  # as the first training holds it
        for more in ([], ["--restart"]):
            argv = [*train_again(small_data, run), *more]
            assert_refused(capsys, train.main, argv, str(run), "is in use")
    assert (run / "log.jsonl").read_bytes() == before
    seen = []

    def look(records):
        done = run_python(ROOT / "train.py", *train_again(small_data, tmp_path / "new"))
        seen.append((done.returncode, done.stderr.count("\n"), "is in use" in done.stderr))

    config = replace(Config.preset("tiny"), eval_steps=40)
    argv = [small_data, replace(config, eval_steps=20), tmp_path / "new"]
    run_training(*argv, on_log=lambda records: seen or look(records))
    assert seen == [(2, 1, True)]
    run_training(*argv)  # and free again


def test_an_export_deletes_nothing_that_it_did_not_make(finished_run, tmp_path):
    (tmp_path / "exp.tmp").mkdir()
    (tmp_path / "exp.tmp" / "mine.txt").write_text("mine")
    out = ["--run", str(finished_run), "--out", str(tmp_path / "exp")]
    assert export.main(out) == 0
    assert (tmp_path / "exp.tmp" / "mine.txt").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"exp", "exp.tmp"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_files_have_the_mode_that_the_umask_gives(tmp_path):
    for mask in (0o022, 0o077):
        before = os.umask(mask)
        try:
            write_tensors(tmp_path / "model.safetensors", {"one": torch.ones(2)})
            write_json(tmp_path / "config.json", {})
        finally:
            os.umask(before)
        for path in tmp_path.iterdir():
            assert path.stat().st_mode & 0o777 == 0o666 & ~mask, path


def test_a_file_that_may_not_be_read_is_told_so(capsys, tmp_path, finished_run):
    run = copied(finished_run, tmp_path)
    (run / "model.safetensors").chmod(0)
    if os.access(run / "model.safetensors", os.R_OK):
        pytest.skip("this user may read everything")
    words = ("model.safetensors", "ermission")
    assert_refused(capsys, translate.main, ["--run", run, "Hello."], *words)


@pytest.mark.skipif(os.name == "nt", reason="making links needs a right there")
def test_a_planted_link_is_not_written_through(tmp_path, small_data):
    run, precious = tmp_path / "run", tmp_path / "precious.txt"
    precious.write_text("mine")
    run.mkdir()
    names = ["log.jsonl", "scores.json", "config.json", "model.safetensors", "vocabulary.src.json"]
    for name in names:
        (run / f"{name}.tmp").symlink_to(precious)
    run_training(small_data, replace(Config.preset("tiny"), steps=2, eval_steps=2), run)
    scoring.keep_scores(run, "test", {})
    assert precious.read_text() == "mine"


def test_seeds_out_of_range(capsys, tmp_path, small_data):
    for seed in ("-1", str(2**64)):
        argv = [*train_again(small_data, tmp_path / "run"), "--seed", seed]
        assert_refused(capsys, train.main, argv, "seed is")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["config.json", "vocabulary.src.json", "state.json"])
@pytest.mark.parametrize("content", ["[" * 60_000, "null", "[]", "7"])
def test_json_of_another_form(capsys, tmp_path, small_data, finished_run, name, content):
    run = copied(finished_run, tmp_path)
    path = run / name if name != "state.json" else run / "checkpoints" / "step-40" / name
    path.write_text(content)
    assert_refused(capsys, train.main, train_again(small_data, run), str(path))


@pytest.mark.parametrize("options", [[], ["--restart"]])
def test_the_current_folder_is_no_run(capsys, tmp_path, small_data, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("mine")
    for run in ("", ".", str(tmp_path)):
        argv = [*train_again(small_data, run), *options]
        assert_refused(capsys, train.main, argv, "current folder")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_restart_leaves_what_is_not_ours_among_the_checkpoints(tmp_path, small_data):
    mine = tmp_path / "run" / "checkpoints" / "step-20 (copy)" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    argv = [small_data, replace(Config.preset("tiny"), steps=2, eval_steps=2), tmp_path / "run"]
    run_training(*argv)
    assert [folder.name for folder in RunFolder(argv[2]).checkpoints()] == ["step-2"]
    run_training(*argv, restart=True)
    assert mine.read_text() == "mine"


def test_standard_input_closed(finished_run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert_refused(capsys, translate.main, ["--run", finished_run], "nothing to translate")


@pytest.mark.parametrize(
    "options, words",
    [
        (["--alpha", "nan"], ["alpha"]),
        (["--alpha", "1e300"], ["alpha"]),
        (["--alpha", "40"], ["alpha from 0 to 10"]),  # more than float32 holds
        (["--alpha", "-1"], ["alpha"]),
        (["--beam-size", str(2**62)], ["beam_size"]),
        (["--alpha", "auto"], ["--alpha auto", "--score"]),
        (["--input", "file"], ["--input", "give one"]),
        (["--score", "data"], ["--score", "give one"]),
    ],
)
def test_options_of_a_translation(capsys, finished_run, options, words):
    assert_refused(capsys, translate.main, ["--run", finished_run, "Hello.", *options], *words)


@pytest.mark.parametrize("split", ["/etc/x", "**", "*", "../x", ""])
def test_a_split_is_a_plain_name(capsys, finished_run, small_data, split):
    argv = ["--run", finished_run, "--score", small_data, "--split", split]
    assert_refused(capsys, translate.main, argv, "split is", "letters")


@pytest.mark.parametrize("option", ["--src", "--tgt"])
@pytest.mark.parametrize("name", ["**", "../x", "", "zh-CN", "ZH", "chinese"])
def test_a_language_is_an_iso_code(capsys, tmp_path, small_data, option, name):
    argv = [*train_again(small_data, tmp_path / "run"), option, name]
    assert_refused(capsys, train.main, argv, f"{option[2:]} is", "the code of the language alone")


SIZES = ["--d-model", "--d-ff", "--accumulate", "--max-size", "--num-layers", "--num-heads"]


@pytest.mark.parametrize("option", SIZES)
def test_sizes_have_bounds(capsys, tmp_path, small_data, option):
    for number in (10**9 + 1, 10**30):
        argv = [*train_again(small_data, tmp_path / "run"), option, str(number)]
        assert_refused(capsys, train.main, argv, option[2:].replace("-", "_"))


@pytest.mark.parametrize(
    "change",
    [
        dict(num_layers=2.5), dict(num_heads=True), dict(learning_rate=10**400), dict(steps="40"),
        dict(num_layers=10**6), dict(dropout=1e300), dict(clip=None), dict(keep=["best"]),
        dict(norm={}), dict(seed=-1), dict(smoothing=math.nan), dict(src="../x"), dict(swap=1),
    ],
)  # fmt: skip
def test_settings_of_a_file_are_checked(capsys, tmp_path, finished_run, change):
    run = copied(finished_run, tmp_path)
    rewrite(run / "config.json", **change)
    words = ("config.json", next(iter(change)))
    assert_refused(capsys, translate.main, ["--run", run, "Hello."], *words)


@pytest.mark.parametrize(
    "change",
    [
        dict(step="40"), dict(step=-1), dict(step=39), dict(step=None), dict(epoch=1.5),
        dict(batch=-3), dict(best_loss=math.nan), dict(best_loss="low"), dict(stale=True),
        dict(finished=1), dict(data=5), dict(loss=math.inf), dict(tokens=-1), dict(colour="red"),
    ],
)  # fmt: skip
def test_the_state_of_a_checkpoint_is_checked(capsys, tmp_path, small_data, finished_run, change):
    run = copied(finished_run, tmp_path)
    path = run / "checkpoints" / "step-40" / "state.json"
    rewrite(path, **change)
    assert_refused(capsys, train.main, train_again(small_data, run), str(path), *change)


def test_an_empty_state(capsys, tmp_path, small_data, finished_run):
    run = copied(finished_run, tmp_path)
    path = run / "checkpoints" / "step-40" / "state.json"
    path.write_text("{}")
    assert_refused(capsys, train.main, train_again(small_data, run), str(path), "missing")


@pytest.mark.parametrize("damage", ["lacks", "int8", "shape", "nan"])
def test_moments_are_checked(capsys, tmp_path, small_data, finished_run, damage):
    run = copied(finished_run, tmp_path)
    path = run / "checkpoints" / "step-40" / "optimizer.safetensors"
    moments = read_tensors(path)
    name = "encoder.norm.weight.exp_avg"
    old = moments.pop(name)
    if damage != "lacks":
        new = {"int8": old.to(torch.int8), "shape": old[:1], "nan": old * math.nan}
        moments[name] = new[damage]
    write_tensors(path, moments)
    assert_refused(capsys, train.main, train_again(small_data, run), str(path), name)


def test_finished_but_the_weights_are_gone(capsys, tmp_path, small_data, finished_run):
    run = copied(finished_run, tmp_path)
    (run / "model.safetensors").unlink()
    words = ("model.safetensors: missing", "--restart")
    assert_refused(capsys, train.main, train_again(small_data, run), *words)


LOG = [b'garbage}', b'\xff\xfe{"step": 1}', b'{"loss": 1.0}', b'{"step": "1"}', b"[" * 60_000,
       b'[1]', b'null', b'{"step": 20, "loss": "low"}']  # fmt: skip


def test_lines_of_the_log_that_are_no_records(tmp_path, finished_run, small_data, capsys):
    run = copied(finished_run, tmp_path)
    path = run / "log.jsonl"
    records = RunFolder(run).read_log()
    path.write_bytes(b"\n".join([*LOG, path.read_bytes()]))
    assert RunFolder(run).read_log() == records and len(records) == 2
    assert train.main([*map(str, train_again(small_data, run)), "--plot", f"{run}.png"]) == 0
    assert train.main([*map(str, train_again(small_data, run))]) == 0
    path.write_bytes(b"\n".join(LOG))
    argv = [*train_again(small_data, run), "--plot", tmp_path / "log.png"]
    capsys.readouterr()
    assert_refused(capsys, train.main, argv, "holds no log yet")


@pytest.mark.parametrize("name", ["", "log", "log.pgf", "log.words", "/dev/full"])
def test_a_picture_has_the_ending_of_one(capsys, tmp_path, small_data, finished_run, name):
    argv = [*train_again(small_data, finished_run), "--plot", tmp_path / name]
    assert_refused(capsys, train.main, argv, str(tmp_path / name), "ends in .png")
    assert list(tmp_path.iterdir()) == [] and not tmp_path.with_suffix(".png").exists()


def test_scores_are_read_before_anything_is_translated(
    capsys, tmp_path, small_data, finished_run, monkeypatch
):
    run = copied(finished_run, tmp_path)
    (run / "scores.json").write_text("[]")
    monkeypatch.setattr(translation.Translator, "translate", lambda *_, **__: 1 / 0)
    argv = ["--run", run, "--score", small_data]
    assert_refused(capsys, translate.main, argv, str(run / "scores.json"))


@pytest.mark.parametrize("content", ['{"alpha": "x"}', '{"alpha": -1}', "{}", "[1]", "{"])
def test_a_chosen_length_penalty_is_checked(capsys, tmp_path, finished_run, content):
    run = copied(finished_run, tmp_path)
    (run / "search.json").write_text(content)
    assert_refused(capsys, translate.main, ["--run", run, "Hello"], str(run / "search.json"))


BROKEN = [
    dict(tokens=[1, 2]), dict(tokens=None), dict(tokens={}), dict(tokens=["a", None]),
    dict(tokens=["\ud800"]), dict(tokens="abc"), dict(tokens=["a", "a"]), dict(segmenter="Magic"),
    dict(segmenter=[]), dict(language=None), dict(language=5), dict(segmenter="SubwordSegmenter"),
]  # fmt: skip


@pytest.mark.parametrize("change", BROKEN)
def test_what_is_no_vocabulary(capsys, tmp_path, finished_run, change):
    run = copied(finished_run, tmp_path)
    path = run / "vocabulary.src.json"
    rewrite(path, **change)
    told = f"{path}: not a vocabulary, or cut short. Train again with --restart"
    assert_refused(capsys, translate.main, ["--run", run, "Hello."], told)


STRANGE = [
    dict(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}),
    dict(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated",
                        "invert": False}),
    dict(decoder={"type": "Replace", "pattern": {"String": ""}, "content": "x" * 1000}),
    dict(added_tokens=[{"id": 0, "content": "a", "single_word": False, "lstrip": False,
                        "rstrip": False, "normalized": False, "special": True}]),
    dict(post_processor={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                         "use_regex": True}),
    dict(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}),
    dict(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}),
]  # fmt: skip


@pytest.mark.parametrize("change", STRANGE)
def test_subwords_are_read_in_the_form_that_is_written_only(tmp_path, change):
    segmenter = SubwordSegmenter.learn(["hello there", "good day to you"] * 9, 280)
    ids = segmenter.model.get_vocab()
    path = tmp_path / "vocabulary.src.json"
    save_tokenizer(Tokenizer(segmenter, Vocabulary(sorted(ids, key=ids.get))), path)
    assert load_tokenizer(path).segmenter.model.to_str() == segmenter.model.to_str()
    saved = json.loads(path.read_text(encoding="utf-8"))
    rewrite(path, subwords=json.dumps({**json.loads(saved["subwords"]), **change}))
    with pytest.raises(InputError, match="not a vocabulary"):
        load_tokenizer(path)


FIFOS = ["train.tsv", "train.tsv.gz", "model.safetensors", "config.json", "vocabulary.src.json",
         "log.jsonl", "--input"]  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
@pytest.mark.parametrize("name", FIFOS)
def test_a_pipe_in_the_place_of_a_file(tmp_path, small_data, finished_run, name):
    """In a process of its own: before, it would have waited for ever."""
    run, data = copied(finished_run, tmp_path), shutil.copytree(small_data, tmp_path / "data")
    where = data if name.startswith("train") else run
    if name.startswith("train"):
        (data / "train.tsv").unlink()
    (where / name).unlink(missing_ok=True)
    os.mkfifo(where / name)
    program, argv = "train.py", train_again(data, run)
    if name in ("model.safetensors", "--input"):
        text = ["--input", where / name] if name == "--input" else ["Hello."]
        program, argv = "translate.py", ["--run", run, *text]
    done = run_python(ROOT / program, *argv)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert name in done.stderr and "no regular file" in done.stderr


def test_a_device_in_the_place_of_a_file(tmp_path, small_data, capsys):
    if not Path("/dev/zero").exists():
        pytest.skip("no such device")
    data = shutil.copytree(small_data, tmp_path / "data")
    (data / "train.tsv").unlink()
    (data / "train.tsv").symlink_to("/dev/zero")
    argv = train_again(data, tmp_path / "run")
    assert_refused(capsys, train.main, argv, "train.tsv", "no regular file")


def test_all_of_train_is_also_in_dev(tmp_path, capsys):
    lines = [f'{{"en": "Sentence {n}.", "zh": "第{n}个句子。"}}\n' for n in range(5)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    words = ("also in dev or test: 5", "not in dev")
    argv = ["--data", tmp_path, "--config", "tiny", "--run", tmp_path / "run"]
    assert_refused(capsys, train.main, argv, *words)


def test_an_error_with_line_ends_and_orders_to_a_terminal_is_one_line(capsys, tmp_path):
    argv = ["--run", tmp_path / "a\nb\x1b[31m", "Hello."]
    assert_refused(capsys, translate.main, argv, "a b [31m")


@pytest.mark.skipif(os.name == "nt", reason="Windows has another Ctrl-C")
def test_ctrl_c_while_it_imports():
    program = "import notebooks, os, signal; os.kill(os.getpid(), signal.SIGINT); input()"
    done = run_python("-c", program)
    assert done.stderr == "stopped\n" and done.returncode != 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_the_cache_of_jieba_is_private(tmp_path):
    program = "from notebooks.support.chinese_words import jieba_words; jieba_words('电话响了')"
    done = run_python("-c", program, HOME=str(tmp_path), TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    [cache] = tmp_path.rglob("jieba.cache")
    assert cache.parent != tmp_path and cache.parent.stat().st_mode & 0o777 == 0o700


# what weights belong to


def test_weights_know_their_settings_and_vocabularies(capsys, tmp_path, small_data, finished_run):
    run, told = copied(finished_run, tmp_path), "was made for other settings or vocabularies"
    for change in (dict(num_heads=4), dict(src="de"), dict(tgt_segmentation="words")):
        rewrite(run / "config.json", **change)
        assert_refused(capsys, translate.main, ["--run", run, "Hello."], told)
        shutil.copy(finished_run / "config.json", run)
    path = run / "vocabulary.tgt.json"
    tokens = json.loads(path.read_text(encoding="utf-8"))["tokens"]
    rewrite(path, tokens=[tokens[1], tokens[0], *tokens[2:]])  # as many, in another order
    assert_refused(capsys, translate.main, ["--run", run, "Hello."], told)
    shutil.copy(finished_run / path.name, run)
    weights = run / "checkpoints" / "step-40" / "model.safetensors"
    write_tensors(weights, read_tensors(weights), made_for="another run")
    assert_refused(capsys, train.main, train_again(small_data, run), str(weights), told)


def test_weights_of_an_older_version_still_open(capsys, tmp_path, finished_run):
    run = copied(finished_run, tmp_path)
    write_tensors(run / "model.safetensors", read_tensors(run / "model.safetensors"))
    assert translate.main(["--run", str(run), "Hello."]) == 0
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "model.safetensors: an older version wrote it" in errors


# only what we wrote is overwritten or deleted


@pytest.mark.parametrize("options", [[], ["--restart"]])
@pytest.mark.parametrize("names", [["log.jsonl", "model.safetensors"], ["config.json"]])
def test_files_of_others_are_left_alone(capsys, tmp_path, small_data, names, options):
    for name in names:
        (tmp_path / name).write_text("mine")
    argv = [*train_again(small_data, tmp_path), *options]
    assert_refused(capsys, train.main, argv, names[0], "no made.json of a run of ours")
    assert [(tmp_path / name).read_text() for name in names] == ["mine"] * len(names)


def test_checkpoints_without_settings(capsys, tmp_path, small_data, finished_run):
    run = copied(finished_run, tmp_path)
    (run / "config.json").unlink()
    argv = [*train_again(small_data, run), "--num-heads", "4"]
    words = ("holds weights, and its config.json is missing", "--restart")
    assert_refused(capsys, train.main, argv, *words)
    assert not (run / "config.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="making links needs a right there")
@pytest.mark.parametrize("options", [[], ["--restart"]])
@pytest.mark.parametrize("name", ["checkpoints", "transformer", "lock", "log.jsonl"])
def test_no_link_is_followed(capsys, tmp_path, small_data, finished_run, name, options):
    run, other = copied(finished_run, tmp_path), tmp_path / "other"
    shutil.copytree(finished_run / "checkpoints", other)
    if name in ("lock", "log.jsonl"):
        (run / name).unlink()
    elif (run / name).exists():
        shutil.rmtree(run / name)
    (run / name).symlink_to(other)
    argv = [*train_again(small_data, run), *options]
    assert_refused(capsys, train.main, argv, str(run / name), "is a link")
    assert sorted(path.name for path in other.iterdir()) == ["step-20", "step-40"]


def test_a_new_run_is_built_before_the_old_one_goes(
    capsys, tmp_path, small_data, finished_run, monkeypatch
):
    def too_large(*_):
        raise MemoryError("no room")

    run = copied(finished_run, tmp_path)
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    monkeypatch.setattr(training_run, "make_model", too_large)
    argv = [*train_again(small_data, run), "--restart", "--d-model", "64"]
    assert_refused(capsys, train.main, argv, "out of memory")
    assert sorted(path.relative_to(run) for path in run.rglob("*")) == before


def test_a_run_is_held_from_opening_to_the_end(tmp_path, small_data, monkeypatch):
    found = []

    def resume(run, *arguments, resume=TrainingSession.resume):
        with pytest.raises(Timeout):
            FileLock(run.folder.path / "lock").acquire(timeout=0)
        found.append("held")
        return resume(run, *arguments)

    monkeypatch.setattr(TrainingSession, "resume", resume)
    run_training(small_data, replace(Config.preset("tiny"), steps=2), tmp_path / "run")
    with FileLock(tmp_path / "run" / "lock").acquire(timeout=0):
        found.append("free again")
    assert found == ["held", "free again"]


def test_scores_are_printed_before_they_are_kept_beside_the_others(
    capsys, tmp_path, small_data, finished_run, monkeypatch
):
    run, print_scores = copied(finished_run, tmp_path), translate.print_scores

    def meanwhile(*arguments):
        print_scores(*arguments)
        write_json(run / "scores.json", {"dev": {"by": "another process"}})

    argv = ["--run", str(run), "--score", str(small_data), "--beam-size", "1"]
    monkeypatch.setattr(translate, "print_scores", meanwhile)
    assert translate.main(argv) == 0
    assert set(json.loads((run / "scores.json").read_text())) == {"dev", "test"}

    def refuse(*_):
        raise PermissionError(13, "Permission denied", str(run / "scores.json"))

    capsys.readouterr()
    monkeypatch.setattr(scoring, "write_json", refuse)
    assert translate.main(argv) == 2
    captured = capsys.readouterr()
    assert "\nbeam    BLEU" in captured.out
    assert "Permission denied" in captured.err.splitlines()[-1]


# one rule for text


SPACES = [" ", "\t", "  ", "\u00a0", "\u3000", "\u2028", "\x85", "\x1b", "\r", "\x0b\n"]


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_white_space_changes_no_ids(small_data, kind):
    """The ids that a search gets are those of the clean text, which training has seen."""
    config = replace(Config.preset("tiny"), src_segmentation=kind, max_size=400)
    pairs = read_split(small_data, "train", config)
    tokenizers = make_tokenizers(pairs, config)
    clean = [source for source, _ in pairs[:50]]
    read = []

    def search(src):
        read.extend(row.tolist() for row in src)
        return [[EOS + 1]] * len(src)

    for texts in (clean, *([spoil(text, space) for text in clean] for space in SPACES)):
        translate_texts(torch.nn.Linear(1, 1), search, tokenizers, texts, config, batch_size=1)
    first = read[: len(clean)]
    assert [read[start : start + 50] for start in range(0, len(read), 50)] == [first] * 11


def spoil(text, space):
    """A text with this white space around it, and in the place of each of its spaces."""
    return space + text.replace(" ", space) + space


def test_utf16_without_its_mark_is_no_text(capsys, tmp_path, finished_run):
    path = tmp_path / "text"
    path.write_bytes("Good morning.\nHello.\n".encode("utf-16-le"))
    argv = ["--run", finished_run, "--input", path]
    assert_refused(capsys, translate.main, argv, "text, line 1, byte 2: not UTF-8")


# ends and signals


def test_a_pipe_that_does_not_wait(finished_run):
    """Nothing to read yet is not the end: of a pipe with O_NONBLOCK all lines are translated."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    command = [sys.executable, ROOT / "translate.py", "--run", finished_run, "--beam-size", "1"]
    with subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE, text=True) as process:
        os.close(reading)
        for _ in range(3):
            os.write(writing, b"Hello.\n")
            assert process.stdout.readline().endswith("\n")
            time.sleep(0.2)
        os.close(writing)
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_a_file_is_not_read_and_written_at_once(tmp_path, finished_run):
    path = tmp_path / "text"
    path.write_text("Hello.\n")
    command = [sys.executable, ROOT / "translate.py", "--run", finished_run, "--input", path]
    with path.open("a") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "read and written at once" in done.stderr and path.read_text() == "Hello.\n"


@pytest.mark.skipif(os.name == "nt", reason="needs signals and /dev/full")
@pytest.mark.parametrize("how", ["SIGHUP", "2>/dev/full", "| head -3"])
def test_a_run_whose_output_ends_is_saved(tmp_path, small_data, how):
    """It ends before its last step, with a checkpoint, and goes on as if nothing had been."""
    run = tmp_path / "run"
    program = f"{sys.executable} -u {ROOT}/train.py --data {small_data} --config tiny --run {run}"
    program += " --steps 3000 --eval-steps 20 --warmup-steps 10 --dtype float32"
    command = f"exec {program}" if how == "SIGHUP" else f"{program} {how}"
    process = subprocess.Popen(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.time() + 120
    while how == "SIGHUP" and not RunFolder(run).checkpoints() and time.time() < deadline:
        time.sleep(0.01)
    if how == "SIGHUP":
        process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    saved = [step_of(folder) for folder in RunFolder(run).checkpoints()]
    assert saved and saved[-1] < 3000, saved


def test_who_waits_for_another_process_says_so(tmp_path, small_data):
    variables = dict(WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        variables["MASTER_PORT"] = str(free.getsockname()[1])
    command = [sys.executable, ROOT / "train.py", *train_again(small_data, tmp_path / "run")]
    process = subprocess.Popen(
        list(map(str, command)), env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True
    )
    while "Warning" in (line := process.stderr.readline()) or line.startswith(" "):
        pass  # of Accelerate
    process.kill()
    process.communicate()
    assert (
        line == f"waiting at 127.0.0.1:{variables['MASTER_PORT']} until all 2 processes are here\n"
    )


def test_a_number_of_processes_that_is_none(tmp_path, small_data):
    argv = train_again(small_data, tmp_path / "run")
    done = run_python(ROOT / "train.py", *argv, WORLD_SIZE="abc")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "WORLD_SIZE is 'abc'" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="making links needs a right there")
@pytest.mark.parametrize("program", ["train.py", "translate.py", "export.py"])
def test_a_run_that_is_a_link_to_itself(tmp_path, program):
    (tmp_path / "run").symlink_to("run")
    more = {"translate.py": ["Hello."], "export.py": ["--out", tmp_path / "out"]}
    options = ["--config", "tiny", "--data", tmp_path] if program == "train.py" else more[program]
    done = run_python(ROOT / program, "--run", tmp_path / "run", *options)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_help_with_nowhere_to_go():
    command = f"{sys.executable} {ROOT}/train.py --help >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr


def test_no_code_of_a_strangers_folder_runs(tmp_path):
    for name in ("tqdm", "torch", "numpy", "translate"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    for program in (["-m", "notebooks.translation"], [ROOT / "translate.py"]):
        # whoever sets it to "." asks for that folder himself
        done = run_python(*program, "--run", ".", "Hello.", cwd=tmp_path, PYTHONPATH="")
        assert done.returncode == 2 and "planted" not in done.stderr, done.stderr


FULL_EXPORT = FULL_DISK.replace("from train", "from export")


def test_an_export_on_a_full_disk_says_where_and_what_to_do(tmp_path, finished_run):
    pytest.importorskip("resource", reason="needs a limit on file sizes, which Windows has not")
    argv = ["--run", str(finished_run), "--out", str(tmp_path / "out")]
    done = run_python("-c", FULL_EXPORT.format(limit=10_000, argv=argv))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"{tmp_path}/out: could not be written" in done.stderr
    assert "Make room" in done.stderr and list(tmp_path.iterdir()) == []

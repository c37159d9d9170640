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
from conftest import ROOT, TUNE, change_tensors, read_records, run_python, start_with_ctrl_c
from filelock import FileLock, Timeout

import export
import train
import translate
from engine import training_run
from engine.corpus.formats import read_split
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError, Stopped, run_command
from engine.files import write_json, write_whole
from engine.model_files import (
    load_tokenizer,
    read_tensors,
    save_tokenizer,
    write_tensors,
)
from engine.options import parse_command
from engine.run_config import RunConfig
from engine.run_folder import BOX, RunFolder
from engine.scoring import made_with
from engine.session import TrainingSession
from engine.training_run import run_training
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
STEP = "checkpoints/step-40"


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


@pytest.fixture
def refused_run(refused, run, small_data):
    """A function: training in the run, or else translating with it, is refused with the words."""

    def check(*words, trains=False, data=small_data):
        argv = train_again(data, run) if trains else ["--run", run, "Hello."]
        refused(train.main if trains else translate.main, argv, *words)

    return check


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
    f"--d-model {2**16 + 2}": "d_model", f"--grad-accum-steps {10**30}": "grad_accum_steps",
    "--seed -1": "seed", f"--seed {2**64}": "seed", "--src zh-CN": "src is", "--tgt ../x": "tgt is",
    "--tie-embeddings three-way --src-segmentation subwords": "three-way",
    "--min-freq 1000000": "vocabularies of 4 and 4 tokens",
    "--data nowhere": "no such folder", "--max-length 1": "every pair of train",
    "--schedule noam --learning-rate 0.1": "--learning-rate has no effect",
    "--warmup-steps 30": "--warmup-steps has no effect", "--start ": "--start: its value is empty",
    "--config None": "--config: its value is None. Is a", "--start=None": "--start: its value is",
    "--src-segmentation subwords --tgt-segmentation subwords --min-freq 3": "--min-freq has no",
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


def test_all_of_train_is_also_in_dev(refused, tmp_path):
    lines = [f'{{"en": "Sentence {n}.", "zh": "第{n}个句子。"}}\n' for n in range(5)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    refused(train.main, train_again(tmp_path, tmp_path / "run"), "also in dev or test: 5")


TRANSLATIONS = {
    "--run none Hello.": "python train.py", "--run utf16 Hello.": "is a file",
    "--run exported Hello.": "is an exported model, and no run. Translate with: python exported",
    "--run a\nb\x1b[31m Hello.": "a b [31m",
    "--input none.txt": "No such file or directory. Is the path right, and",
    "--input utf16": "utf16, line 1, byte 1: not UTF-8",
    "--beam-size 0 Hello.": "--beam-size is 0", "--beam-size 101 Hello.": "from 1 to 100",
    "--alpha nan Hello.": "--alpha is nan: give", "--alpha 11 Hello.": "alpha",
    "--alpha auto Hello.": "--score",
    "--input a --input=b": "--input is given twice", "--input file Hello.": "give one",
    "--score .": "holds no test.tsv",
    "--score . --split **": "split is", "--score . --split ": "--split: its value is empty",
    "--beam-size 1 --alpha 1 Hello.": "--alpha has no effect", "--split dev Hello.": "--split has",
    "--port 99 Hello.": "no effect without --serve", "--host ::1 Hello.": "without --serve",
    "--serve --port 99999": "from 0 to 65535", "--score . --split dev --alpha auto": "on dev: a",
}  # fmt: skip


@pytest.mark.parametrize("options, word", TRANSLATIONS.items())
def test_impossible_translations(refused, tmp_path, finished_run, monkeypatch, options, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "utf16").write_bytes("Hello.\n".encode("utf-16"))
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "run.py").touch()
    run = [] if "--run" in options else ["--run", finished_run]
    refused(translate.main, [*run, *options.split(" ")], word)


def test_a_file_is_no_run_folder(refused, tmp_path, small_data):
    (tmp_path / "file").touch()
    for run in (tmp_path / "file", tmp_path / "file" / "run"):
        refused(train.main, train_again(small_data, run), run)


# files of a run that are damaged


DAMAGES = [
    ("config.json", None, "missing"), ("config.json", b"[" * 60_000, "not JSON"),
    ("config.json", b"null", "no JSON object"), ("vocabulary.src.json", b"", "cut short"),
    ("model.safetensors", None, "missing"), ("model.safetensors", "half", "cut short"),
    ("search.json", b'{"alpha": -1, "search": ""}', "alpha"), ("search.json", b"{}", "missing"),
    (f"{STEP}/model.safetensors", "half", "cut short"), (f"{STEP}/state.json", b"{}", "missing"),
    (f"{STEP}/optimizer.safetensors", "half", "cut short"),
    (f"{STEP}/state.json", "half", "cut short"),
]  # fmt: skip


@pytest.mark.parametrize("name, content, word", DAMAGES)
def test_a_damaged_file_of_a_run(refused_run, run, name, content, word):
    path = run / name
    if content is None:
        path.unlink()
        refused_run(path.name, "--restart", trains=True)
        assert not path.exists()
    else:
        whole = path.read_bytes() if content == "half" else b""
        path.write_bytes(whole[: len(whole) // 2] or content)
    refused_run(path.name, word, trains=STEP in name)


CHANGES = {
    "config.json": [
        dict(num_heads=5), dict(colour="red"), dict(num_layers=2.5), dict(num_layers=10**6),
        dict(num_heads=True), dict(learning_rate=10**400), dict(label_smoothing=math.nan),
        dict(norm={}),
    ],
    f"{STEP}/state.json": [
        dict(step="40"), dict(step=39), dict(batch=-3), dict(best_loss=math.nan),
        dict(stale=True), dict(loss=math.inf), dict(colour="red"),
    ],
    "vocabulary.src.json": [
        dict(tokens=None), dict(tokens=["a", None]), dict(tokens=["\ud800"]), dict(tokens="abc"),
        dict(tokens=["a", "a"]), dict(segmenter="Magic"), dict(segmenter=[]), dict(language=5),
        dict(segmenter="SubwordSegmenter"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "name, change", [(name, change) for name, changes in CHANGES.items() for change in changes]
)
def test_an_impossible_value_in_a_file_of_a_run(refused_run, run, name, change):
    rewrite(run / name, **change)
    words = ["not a vocabulary"] if "vocabulary" in name else change
    refused_run(run / name, *words, trains="state" in name)


OTHERS = [
    (dict(d_model=64), "(64,"), (dict(num_layers=3), "missing in the file"),
    (dict(num_heads=4), "other settings"), (dict(tgt_segmentation="words"), "other settings"),
    (dict(src="de"), "other settings"), (dict(src_segmentation="characters"), "other settings"),
    (dict(norm="post"), "model.safetensors"), (dict(tie_embeddings="three-way"), "three-way"),
]  # fmt: skip


@pytest.mark.parametrize("change, word", OTHERS)
def test_weights_know_their_settings(refused_run, run, change, word):
    rewrite(run / "config.json", **change)
    refused_run(word)


def test_weights_know_their_vocabularies(refused_run, run):
    path, word = run / "vocabulary.tgt.json", "other settings or vocabularies"
    tokens = json.loads(path.read_text(encoding="utf-8"))["tokens"]
    rewrite(path, tokens=[tokens[1], tokens[0], *tokens[2:]])  # as many, in another order
    refused_run(word)
    rewrite(path, tokens=tokens)
    weights = run / STEP / "model.safetensors"
    write_tensors(weights, read_tensors(weights), made_for="another run")
    refused_run(weights, word, trains=True)


TENSORS = [
    ("model.safetensors", lambda tensor: tensor * math.nan, "NaN, infinity or integers"),
    ("model.safetensors", lambda tensor: tensor.to(torch.int8), "NaN, infinity or integers"),
    ("model.safetensors", lambda tensor: torch.full_like(tensor, 1e30), "gives no numbers"),
    (f"{STEP}/optimizer.safetensors", lambda tensor: tensor * math.nan, "holds NaN"),
]


@pytest.mark.parametrize("name, damage, word", TENSORS)
def test_tensors_that_are_no_numbers_or_of_another_shape(refused_run, run, name, damage, word):
    change_tensors(run, damage, name)
    refused_run(run / name, word, trains="optimizer" in name)


def test_a_search_that_meets_no_numbers_ends(finished_run):
    translator = Translator.load(finished_run)
    with torch.no_grad():
        translator.model.src_embedding.lookup.weight[EOS + 1 :] = math.nan
    translator.source.vocabulary.ids["hello"] = EOS + 1
    with pytest.raises(InputError, match="gives no probabilities"):
        translator.translate(["Hello"])


def test_lines_of_the_log_that_are_no_records(run):
    records, path = read_records(run), run / "log.jsonl"
    noise = [b"garbage}", b'\xff\xfe{"step": 1}', b'{"loss": 1.0}', b"[" * 60_000, b"[1]", b"null"]
    changes = [dict(step="1"), dict(loss="low"), dict(loss=math.inf)]
    changes += [dict(samples=samples) for samples in (None, [1], [["a"]], "abc", [[1, 2]])]
    for change in changes:
        noise.append(json.dumps({**records[0], **change}).encode())
    path.write_bytes(b"\n".join([*noise, path.read_bytes()]))
    assert RunFolder(run).read_log() == records


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


@pytest.mark.parametrize("options", [[], ["--restart"]])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_folders_of_others_are_left_alone(
    refused, tmp_path, small_data, monkeypatch, name, options
):
    (tmp_path / name).write_text("mine")
    for run, word in ((tmp_path, "no made.json of a run of ours"), (".", "current folder")):
        refused(train.main, [*train_again(small_data, run), *options], word)
        monkeypatch.chdir(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.skipif(os.name == "nt", reason="making links needs a right there")
@pytest.mark.parametrize("name", ["checkpoints", "lock", "log.jsonl"])
def test_no_link_is_followed(refused, tmp_path, small_data, run, name):
    other = shutil.copytree(run / "checkpoints", tmp_path / "other")
    shutil.rmtree(run / name) if name == "checkpoints" else (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(other)
    refused(train.main, [*train_again(small_data, run), "--restart"], run / name, "is a link")
    assert sorted(path.name for path in other.iterdir()) == ["step-20", "step-40"]


def test_a_new_run_is_built_before_the_old_one_goes(refused, small_data, run, monkeypatch):
    def too_large(*_):
        raise MemoryError("no room")

    before = sorted(run.rglob("*"))
    monkeypatch.setattr(training_run, "make_model", too_large)
    argv = [*train_again(small_data, run), "--restart", "--d-model", "64"]
    refused(train.main, argv, "out of memory")
    assert sorted(run.rglob("*")) == before


def test_a_run_at_a_link_to_nowhere_is_refused(refused, small_data, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    refused(train.main, train_again(small_data, link), "is a link to no folder. Remove it")


@pytest.mark.parametrize("form", ["page", "onnx"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [(".", "is the current folder"), ("link", "is a link to no"), ("d\udcc4", "is not UTF-8")],
)
def test_no_folder_is_made_where_none_can_be(refused, tmp_path, monkeypatch, form, name, reason):
    monkeypatch.chdir(tmp_path)
    os.symlink("gone", "link")
    refused(export.main, ["--run", str(BOX), "--form", form, "--out", name], reason)
    refused(train.main, ["--run", name], reason)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_an_export_is_no_run_to_train(refused, tmp_path, small_data):
    (tmp_path / "run.py").touch()
    refused(train.main, train_again(small_data, tmp_path), "an exported model, and no run")
    assert [path.name for path in tmp_path.iterdir()] == ["run.py"]


def test_a_full_disk_is_told_with_the_file_and_what_to_do(tmp_path, monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert run_command(lambda argv: write_whole(tmp_path / "x", "text"), []) == 2
    assert f"{tmp_path / 'x'}: No space left on device. Make room" in capsys.readouterr().err
    assert run_command(full, []) == 2  # as a line that is printed to it
    assert "error: No space left on device. Make room" in capsys.readouterr().err


def test_a_run_is_held_from_opening_to_the_end(refused, run, small_data, monkeypatch):
    with FileLock(run / "lock"):  # as another training holds it
        refused(train.main, [*train_again(small_data, run), "--restart"], run, "is in use")
    assert (run / "log.jsonl").exists()

    def resume(session, *arguments, resume=TrainingSession.resume):
        with pytest.raises(Timeout):
            FileLock(run / "lock").acquire(timeout=0)
        return resume(session, *arguments)

    monkeypatch.setattr(TrainingSession, "resume", resume)
    run_training(small_data, RunConfig.preset("tiny"), run)
    with FileLock(run / "lock").acquire(timeout=0):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_have_the_mode_that_the_umask_gives(tmp_path, mask):
    before = os.umask(mask)
    write_json(tmp_path / "config.json", {})
    os.umask(before)
    assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o666 & ~mask


def test_scores_are_printed_and_then_kept_beside_the_others(capsys, small_data, run, monkeypatch):
    print_scores = translate.print_scores

    def print_meanwhile(*arguments):
        print_scores(*arguments)
        write_json(run / "scores.json", {"dev": {"by": "another process"}})
        settings = json.loads((run / "config.json").read_text())  # of another training
        write_json(run / "config.json", {**settings, "bleu_sentences": 7})

    before = made_with(run)
    argv = ["--run", str(run), "--score", str(small_data), "--beam-size", "1"]
    monkeypatch.setattr(translate, "print_scores", print_meanwhile)
    assert translate.main(argv) == 0
    scores = json.loads((run / "scores.json").read_text())
    first, second = scores
    assert scores[second]["made_with"] == before != made_with(run)
    assert (first, second.split()[0]) == ("dev", f"{small_data.name}/test")
    output = capsys.readouterr().out
    assert "\ngreedy  BLEU" in output and "\nbeam" not in output
    monkeypatch.setattr(translate, "print_scores", lambda *_: (run / "scores.json").write_text("["))
    assert translate.main(argv) == 2  # they are kept after they are printed


# a full disk


def test_a_full_disk_keeps_the_last_good_checkpoint(small_data, tmp_path):
    run_training(small_data, SHORT, tmp_path)
    shutil.rmtree(tmp_path / "checkpoints" / "step-4")
    good = read_tensors(tmp_path / "checkpoints" / "step-2" / "model.safetensors")
    with full_disk(100_000), pytest.raises(OSError, match="could not be written"):
        run_training(small_data, SHORT, tmp_path)
    [checkpoint] = RunFolder(tmp_path).checkpoints()
    weights = read_tensors(checkpoint / "model.safetensors")
    assert all(torch.equal(good[name], weights[name]) for name in good)
    assert translate.main(["--run", str(tmp_path), "Hello."]) == 0


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


def test_a_run_whose_output_ends_is_saved(tmp_path, small_data):
    """As by `| head -3`."""

    def fail(*_):
        raise OSError("nobody reads it")

    with pytest.raises(Stopped, match="step 2, saved"):
        run_training(small_data, SHORT, tmp_path, on_log=fail)
    assert len(RunFolder(tmp_path).checkpoints()) == 1


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


def test_a_config_that_asks_for_more_weights_than_there_are_allocates_none(refused_run, run):
    rewrite(run / "config.json", d_model=4096, num_layers=60, d_ff=16384)
    refused_run("model.safetensors", "smaller than the")

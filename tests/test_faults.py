"""What a user can get wrong: one clear line on stderr, exit status 2, never a traceback."""

import json
import shutil

import pytest
import torch
from conftest import run_python
from notebooks.make_model import read_tensors
from notebooks.setup import Config
from notebooks.training import run_training

from notebooks import training, translation
from notebooks.run_folder import RunFolder


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
        (["--config", "huge"], ["unknown preset 'huge'", "tiny, small, reference, base"]),
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
        capsys, training.main, ["--data", small_data, "--run", tmp_path / "run", *options], *words
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
        training.main,
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
        translation.main,
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
    assert_refused(capsys, translation.main, ["--run", run, "Hello."], *words)


@pytest.mark.parametrize("part", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_checkpoint(capsys, tmp_path, small_data, finished_run, part):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    path = run / "checkpoints" / "step-40" / part
    path.write_bytes(path.read_bytes()[:20])
    assert_refused(
        capsys,
        training.main,
        ["--data", small_data, "--config", "tiny", "--run", run],
        str(path),
        "cut short",
    )


def test_translating_from_nowhere(capsys, tmp_path, finished_run):
    assert_refused(
        capsys,
        translation.main,
        ["--run", tmp_path / "none", "Hello."],
        "no such run folder",
        "notebooks.training",
    )
    assert_refused(
        capsys,
        translation.main,
        ["--run", finished_run, "--input", tmp_path / "none.txt"],
        "none.txt",
    )
    (tmp_path / "bad.txt").write_bytes(b"good\nbad \xff\n")
    assert_refused(
        capsys,
        translation.main,
        ["--run", finished_run, "--input", tmp_path / "bad.txt"],
        "bad.txt, line 2, byte 5",
        "not UTF-8",
    )
    assert_refused(
        capsys, translation.main, ["--run", finished_run, "--beam-size", "0", "Hello."], "beam_size"
    )


def test_a_split_that_is_not_there(capsys, finished_run, small_data, tmp_path):
    shutil.copy(small_data / "train.tsv", tmp_path)
    assert_refused(
        capsys, translation.main, ["--run", finished_run, "--score", tmp_path], "holds no test.tsv"
    )


def test_no_traceback_from_a_fresh_process(tmp_path):
    for module in ("training", "translation"):
        done = run_python(
            "-m",
            f"notebooks.{module}",
            "--run",
            tmp_path / "none",
            *(["--data", tmp_path / "no"] if module == "training" else ["x"]),
        )
        assert (
            done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
        ), done.stderr


FULL_DISK = """
import resource, signal, sys
from notebooks.training import main
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
    assert translation.main(["--run", str(run), "Hello."]) == 0
    assert training.main(argv) == 0 and RunFolder(run).checkpoints()[-1].name == "step-40"

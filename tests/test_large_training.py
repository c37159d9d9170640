"""Training and translating with data of every format, on one process and on two."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, read_records, run_python
from notebooks.setup import Config, replace
from test_large_prepare import KINDS, pairs, small_pieces, write_data  # noqa: F401 (fixtures)

import train
import translate
from data_large import formats
from data_large import prepare as large
from notebooks.support.training_run import run_training


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_trains_and_translates(kind, pairs, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(large, "PREPARED", tmp_path / "prepared")
    # starting processes is tested elsewhere
    monkeypatch.setattr(large, "default_workers", lambda: 1)
    data, run = tmp_path / "data", str(tmp_path / "run")
    data.mkdir()
    write_data(data, pairs, kind)
    options = "--config tiny --steps 20 --eval-steps 10 --run".split()
    assert train.main(["--data", str(data), *options, run]) == 0
    assert formats.needs_preparing(data, Config()) == (kind not in PLAIN)
    assert (tmp_path / "prepared").exists() == (kind not in PLAIN)
    printed = capsys.readouterr()
    assert "140 pairs to train on" in printed.out and printed.err.count("step/s") > 0
    assert translate.main(["--run", run, "--beam-size", "2", "He went home.", ""]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert translate.main(["--run", run, "--score", str(data)]) == 0
    assert "20 sentences of test" in capsys.readouterr().out


PLAIN = {"tsv", "several"}  # what notebook 01 reads by itself


def test_prepared_data_give_the_run_of_plain_data(pairs, tmp_path, monkeypatch):  # noqa: F811
    """The same pairs from disk and from memory: the same batches, so losses equal bit for bit."""
    monkeypatch.setattr(large, "PREPARED", tmp_path / "prepared")
    monkeypatch.setattr(large, "default_workers", lambda: 1)
    logs = []
    for kind in ("tsv", "tsv.gz"):
        (tmp_path / kind).mkdir()
        write_data(tmp_path / kind, pairs, kind)
        config = replace(Config.preset("tiny"), dtype="float32", steps=10, eval_steps=5)
        run = tmp_path / f"run-{kind}"
        records = run_training(tmp_path / kind, config, run, load=large.load_data)
        logs.append(
            [(record["loss"], record["dev_loss"], record["dev_bleu"]) for record in records]
        )
    assert logs[0] == logs[1]


def test_two_processes_prepare_once_and_take_the_steps_of_one(pairs, tmp_path):  # noqa: F811
    write_data(tmp_path, pairs, "tsv.gz")
    settings = "--config tiny --dtype float32 --dropout 0 --steps 6 --eval-steps 3 --run"
    options = ["--data", tmp_path, *settings.split()]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", 2]
    try:
        two = run_python(*launch, ROOT / "train.py", "--", *options, tmp_path / "two")
        assert two.returncode == 0, two.stderr
        assert two.stdout.count("exact duplicates") == 1  # the report of the one that prepared
        one = run_python(ROOT / "train.py", *options, tmp_path / "one")
        assert one.returncode == 0 and "exact duplicates" not in one.stdout, one.stderr
    finally:
        folder = large.PREPARED / large.fingerprint(tmp_path, Config.preset("tiny"))
        shutil.rmtree(folder, ignore_errors=True)
        Path(f"{folder}.lock").unlink(missing_ok=True)
    records = (read_records(tmp_path / name) for name in ("one", "two"))
    for left, right in zip(*records, strict=True):
        assert math.isclose(left["loss"], right["loss"], rel_tol=1e-5)
        assert math.isclose(left["dev_loss"], right["dev_loss"], rel_tol=1e-5)


def test_accelerate_launches_it_too(small_data, tmp_path):
    launch = [Path(sys.executable).with_name("accelerate"), "launch"]
    launch += "--cpu --num_processes 1 --num_machines 1".split()
    launch += "--mixed_precision no --dynamo_backend no train.py".split()
    options = "--config tiny --steps 4 --eval-steps 2".split()
    done = run_python(*launch, "--data", small_data, *options, "--run", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["step"] == 4

"""Training and translating with data of every format, on one process and on two."""

import math
import os
import shutil
from pathlib import Path

import pytest
from conftest import DATA, ROOT, read_records, run_python
from test_large_prepare import pairs, small_blocks, write_data  # noqa: F401 (fixtures)

import train
import translate
from engine.corpus import prepare as large
from engine.run_config import RunConfig
from engine.training_run import run_training
from notebooks.setup import replace


@pytest.fixture
def one_worker(tmp_path, monkeypatch):
    """Prepares in this process, and below `tmp_path`."""
    monkeypatch.setattr(large, "PREPARED", tmp_path / "prepared")
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.mark.parametrize("kind", ["several", "parquet"])
def test_data_train_and_translates(kind, pairs, one_worker, tmp_path, capsys):  # noqa: F811
    data, run = tmp_path / "data", str(tmp_path / "run")
    data.mkdir()
    write_data(data, pairs, kind)
    options = "--config tiny --steps 4 --eval-steps 2 --run".split()
    assert train.main(["--data", str(data), *options, run]) == 0
    assert (tmp_path / "prepared").exists() == (kind != "several")
    printed = capsys.readouterr()
    assert "140 pairs to train on" in printed.out
    assert "step/s" in printed.err
    assert translate.main(["--run", run, "--beam-size", "2", "He went home.", ""]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert translate.main(["--run", run, "--score", str(data)]) == 0
    assert "20 sentences of test" in capsys.readouterr().out


def test_columns_the_wrong_way_round_are_refused(tmp_path, capsys):
    argv = ["--data", str(DATA), "--config", "tiny", "--run", str(tmp_path / "run")]
    assert train.main([*argv, "--src", "zh", "--tgt", "en"]) == 2
    message = "31907 of 31907 texts that should be zh have no letter of it"
    printed = capsys.readouterr().err
    assert printed.startswith(
        f"error: {DATA / 'train.tsv'}: {message}. It is read as source, tab, "
    )
    assert "--target-first" in printed and printed.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_prepared_data_give_the_run_of_plain_data(pairs, one_worker, tmp_path):  # noqa: F811
    """The same pairs from disk and from memory: the same batches, so losses equal bit for bit."""
    logs = []
    for kind in ("tsv", "tsv.gz"):
        (tmp_path / kind).mkdir()
        write_data(tmp_path / kind, pairs, kind)
        config = replace(RunConfig.preset("tiny"), dtype="float32", steps=4, eval_steps=2)
        run = tmp_path / f"run-{kind}"
        records = run_training(tmp_path / kind, config, run)
        logs.append(
            [[record[name] for name in ("loss", "dev_loss", "dev_bleu")] for record in records]
        )
    assert logs[0] == logs[1]


def test_two_processes_prepare_once_and_take_the_steps_of_one(pairs, tmp_path, capsys):  # noqa: F811
    write_data(tmp_path, pairs, "tsv.gz")
    settings = "--config tiny --dtype float32 --dropout 0 --steps 4 --eval-steps 2 --run"
    options = ["--data", str(tmp_path), *settings.split()]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", 2]
    try:
        two = run_python(*launch, ROOT / "train.py", "--", *options, tmp_path / "two")
        assert two.returncode == 0, two.stderr
        assert two.stdout.count("exact duplicates") == 1  # the report of the one that prepared
        assert train.main([*options, str(tmp_path / "one")]) == 0
        assert "exact duplicates" not in capsys.readouterr().out
    finally:
        folder = large.PREPARED / large.fingerprint(tmp_path, RunConfig.preset("tiny"))
        shutil.rmtree(folder, ignore_errors=True)
        Path(f"{folder}.lock").unlink(missing_ok=True)
    records = (read_records(tmp_path / name) for name in ("one", "two"))
    for left, right in zip(*records, strict=True):
        assert math.isclose(left["loss"], right["loss"], rel_tol=1e-5)
        assert math.isclose(left["dev_loss"], right["dev_loss"], rel_tol=1e-5)

"""Going on with other data: `--start RUN`."""

import shutil

import pytest
from conftest import DATA, TINY, assert_same_run, read_records

import prepare
import train
from engine.corpus.formats import read_split
from engine.corpus.pairs import load_data
from engine.errors import InputError
from engine.options import parse_command
from engine.run import mean_loss, run_training, unknown_share
from engine.run_folder import RunFolder
from notebooks.setup import replace
from train import TrainCommand


@pytest.fixture(scope="module")
def other_data(tmp_path_factory):
    """Sentences of the corpus that `small_data` has not."""
    folder = tmp_path_factory.mktemp("other")
    lines = (DATA / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    for split, start, count in (("train", 900, 200), ("dev", 1200, 40)):
        text = "".join(lines[start : start + count])
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


CONFIG = replace(TINY, steps=8, eval_steps=4, warmup_steps=2, batch_tokens=200)


def vocabularies(run):
    """The bytes of a run's two vocabularies."""
    return [(run / f"vocabulary.{side}.json").read_bytes() for side in ("src", "tgt")]


def test_vocabularies_and_weights_are_those_of_the_other_run(
    finished_run, other_data, tmp_path, capsys
):
    before = {path: path.read_bytes() for path in finished_run.rglob("*") if path.is_file()}
    run_training(other_data, CONFIG, tmp_path / "new", start=finished_run)
    output = capsys.readouterr().out
    config, source, target, model = RunFolder(finished_run).load()
    dev_set = load_data(other_data, CONFIG, (source, target))[3]
    expected = mean_loss(model, dev_set, config)
    assert f"dev loss before the first step {expected:.3f}\n" in output
    rows = source.encode_batch([text for text, _ in read_split(other_data, "train", CONFIG)])
    share = sum(row.count(1) for row in rows) / sum(map(len, rows))
    assert share > 0.05 and f"unknown to it are {share:.1%} of the source tokens" in output
    assert unknown_share([[1, 3], [2, 1, 5, 5, 3]]) == 0.5
    assert vocabularies(tmp_path / "new") == vocabularies(finished_run)
    assert {path: path.read_bytes() for path in finished_run.rglob("*") if path.is_file()} == before
    assert read_records(tmp_path / "new")[-1]["dev_loss"] < expected


def test_a_run_that_was_stopped_goes_on(finished_run, other_data, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_training(other_data, CONFIG, whole, start=finished_run)

    def stop(records):
        if records[-1]["step"] == 4:
            raise KeyboardInterrupt

    start = shutil.copytree(finished_run, tmp_path / "start")
    with pytest.raises(KeyboardInterrupt):
        run_training(other_data, CONFIG, cut, on_log=stop, start=start)
    shutil.rmtree(start)  # moved away meanwhile
    command = ["--start", str(start), "--data", str(other_data), "--run", str(cut)]
    settings = parse_command(TrainCommand, command, "train.py", "small").settings
    run_training(other_data, settings, cut, start=start)
    assert_same_run(whole, cut)


def test_settings_come_from_the_other_run(finished_run):
    start = ["--start", str(finished_run)]
    command = parse_command(TrainCommand, [*start, "--steps", "7"], "train.py", "small")
    expected = replace(RunFolder(finished_run).read_config(), steps=7, dtype="auto")
    assert command.settings == expected
    with pytest.raises(InputError, match="leave --config out"):
        parse_command(TrainCommand, [*start, "--config", "tiny"], "train.py", "small")


def test_data_are_prepared_with_the_words_of_the_run_and_trained_on(
    finished_run, other_data, tmp_path, capsys
):
    start, out = ["--start", str(finished_run)], str(tmp_path / "out")
    assert prepare.main([*start, "--data", str(other_data), "--out", out]) == 0
    assert vocabularies(tmp_path / "out") == vocabularies(finished_run)
    run = tmp_path / "new"
    assert train.main([*start, "--data", out, "--steps", "1", "--run", str(run)]) == 0
    assert f"begun with {finished_run}: unknown to it are" in capsys.readouterr().out
    assert vocabularies(run) == vocabularies(finished_run)

"""Going on with other data: `--start RUN`."""

import shutil

import pytest
from conftest import DATA, TINY, assert_same_run, change_tensors, read_records

import prepare
import train
from engine.corpus import prepare as large
from engine.corpus.dataset import load_prepared
from engine.corpus.formats import read_split
from engine.corpus.pairs import load_data
from engine.errors import InputError
from engine.options import parse_command
from engine.run_folder import RunFolder
from engine.training_run import mean_loss, run_training, unknown_share
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

    with pytest.raises(KeyboardInterrupt):
        run_training(other_data, CONFIG, cut, on_log=stop, start=finished_run)
    run_training(other_data, CONFIG, cut, start=finished_run)
    assert_same_run(whole, cut)


@pytest.mark.parametrize("name, value", [("d_model", 64), ("norm", "post")])
def test_settings_that_change_weights_are_refused(finished_run, other_data, tmp_path, name, value):
    config = replace(CONFIG, **{name: value})
    with pytest.raises(InputError, match=f"Leave --{name.replace('_', '-')} out"):
        run_training(other_data, config, tmp_path / "new", start=finished_run)
    assert not (tmp_path / "new").exists()


def test_data_for_a_start_are_prepared_in_its_languages_only(finished_run, other_data, capsys):
    command = ["--start", str(finished_run), "--data", str(other_data), "--src", "de"]
    assert prepare.main(command) == 2
    assert "its src is en, not de. Leave --src out" in capsys.readouterr().err


def test_a_start_that_was_trained_again_is_told_so(finished_run, other_data, tmp_path):
    start, run = shutil.copytree(finished_run, tmp_path / "start"), tmp_path / "run"
    run_training(other_data, CONFIG, run, start=start)
    change_tensors(start, lambda tensor: tensor + 1)
    with pytest.raises(InputError, match="the weights .*, not .* as they are now"):
        run_training(other_data, CONFIG, run, start=start)


def test_a_run_does_not_start_with_itself(finished_run, other_data):
    with pytest.raises(InputError, match="--start is this run itself"):
        run_training(other_data, CONFIG, finished_run, start=finished_run)


def test_settings_come_from_the_other_run(finished_run):
    start = ["--start", str(finished_run)]
    command = parse_command(TrainCommand, [*start, "--steps", "7"], "train.py", "small")
    expected = replace(RunFolder(finished_run).read_config(), steps=7, dtype="auto")
    assert command.settings == expected
    with pytest.raises(InputError, match="leave --config out"):
        parse_command(TrainCommand, [*start, "--config", "tiny"], "train.py", "small")


def test_the_large_path_prepares_with_the_tokenizers_of_the_run(finished_run, other_data, tmp_path):
    tokenizers = RunFolder(finished_run).tokenizers()
    folder = large.prepare(other_data, CONFIG, tmp_path / "out", tokenizers)
    own = large.prepare(other_data, CONFIG, tmp_path / "out")
    assert vocabularies(folder) == vocabularies(finished_run) != vocabularies(own)
    source, target, train_set, _ = load_prepared(folder)
    plain = load_data(other_data, CONFIG, tokenizers)[2]
    assert [train_set[row] for row in range(len(train_set))] == [
        tuple(item) for item in plain.items
    ]


def test_a_command_starts_prepares_and_trains(
    finished_run, other_data, tmp_path, monkeypatch, capsys
):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev"):
        rows = read_split(other_data, split, CONFIG)
        for side, texts in zip(("en", "zh"), zip(*rows)):
            (data / f"{split}.{side}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    monkeypatch.setattr(large, "PREPARED", tmp_path / "prepared")
    options = ["--start", str(finished_run), "--data", str(data)]
    assert prepare.main(options) == 0
    capsys.readouterr()
    assert train.main([*options, "--steps", "1", "--run", str(tmp_path / "new")]) == 0
    assert f"begun with {finished_run}: unknown to it are" in capsys.readouterr().out
    assert len(list((tmp_path / "prepared").glob("*.lock"))) == 1  # what was prepared is trained on
    assert vocabularies(tmp_path / "new") == vocabularies(finished_run)


def test_a_run_begun_with_other_weights_is_another_run(finished_run, other_data, tmp_path):
    """It would go on, or be finished already, and say that it began with these."""
    run = tmp_path / "run"
    other = shutil.copytree(finished_run, tmp_path / "other")
    change_tensors(other, lambda tensor: tensor + 1)
    run_training(other_data, CONFIG, run, start=finished_run)
    run_training(other_data, CONFIG, run, start=shutil.copytree(finished_run, tmp_path / "same"))
    with pytest.raises(InputError, match="none: no such run folder"):
        run_training(other_data, CONFIG, tmp_path / "new", start=tmp_path / "none")
    for start in (other, None):
        with pytest.raises(InputError, match="was begun with the weights .*, not (/|random)"):
            run_training(other_data, CONFIG, run, start=start)
    assert train.main(["--data", str(other_data), "--start", str(finished_run)]) == 2  # no --run

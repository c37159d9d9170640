"""A training: it goes on to the bit where it was stopped, and loses nothing."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from conftest import (
    ROOT,
    TINY,
    assert_same_run,
    read_checkpoint,
    read_records,
    run_python,
)
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

import train
from engine import run as engine_run
from engine.errors import InputError, Stopped
from engine.model_files import read_weights
from engine.run import run_training
from engine.run_config import RunConfig
from engine.run_folder import RunFolder
from notebooks import training
from notebooks.layer_norm import LayerNorm
from notebooks.setup import replace

CONFIG = replace(TINY, steps=8, eval_steps=2, warmup_steps=2, batch_tokens=200)


@pytest.fixture(scope="module")
def straight(small_data, tmp_path_factory):
    """A run that nothing disturbs."""
    run = tmp_path_factory.mktemp("straight") / "run"
    run_training(small_data, CONFIG, run)
    return run


def signal_at(monkeypatch, number, step):
    """Sends this process a signal in a step."""
    train_step, calls = training.train_step, itertools.count(1)

    def signal_and_step(*arguments):
        if next(calls) == step:
            signal.raise_signal(number)
        return train_step(*arguments)

    monkeypatch.setattr(training, "train_step", signal_and_step)


def contents(run):
    """All files of a run but its lock."""
    files = [path for path in run.rglob("*") if path.is_file() and path.name != "lock"]
    return {path.relative_to(run): path.read_bytes() for path in files}


# stopped, and gone on


@pytest.mark.parametrize("stop", [4, 8])
def test_an_error_at_an_evaluation(small_data, straight, tmp_path, stop):
    def cut_power(records):
        assert records[-1]["step"] < stop, "power cut"

    with pytest.raises(AssertionError, match="power cut"):
        run_training(small_data, CONFIG, tmp_path, on_log=cut_power)
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", [3, 4])
def test_a_signal_saves_after_its_step(small_data, straight, tmp_path, monkeypatch, number, step):
    before = signal.getsignal(number)
    with monkeypatch.context() as patch, pytest.raises(Stopped, match=f"step {step}, saved"):
        signal_at(patch, number, step)
        run_training(small_data, CONFIG, tmp_path)
    assert signal.getsignal(number) is before
    assert read_checkpoint(tmp_path)["step"] == step
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


def assert_same_when_cut(data, config, folder, monkeypatch):
    """A run in `cut` that is stopped in its fifth step ends as the one in `straight`."""
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        signal_at(patch, signal.SIGTERM, 5)
        run_training(data, config, folder / "cut")
    run_training(data, config, folder / "cut")
    assert_same_run(folder / "straight", folder / "cut")


def warmed_up(optimizer):
    """The rate in the optimizer and its factor in the schedule, as many programs have it."""
    return LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))


@pytest.mark.parametrize(
    "optimizer, scheduler",
    [
        (partial(torch.optim.Adam, lr=2e-3, amsgrad=True), warmed_up),
        (torch.optim.Adam, partial(OneCycleLR, max_lr=0.01, total_steps=9)),  # moves betas, too
    ],
)
def test_another_optimizer_and_schedule_go_on(
    small_data, tmp_path, monkeypatch, optimizer, scheduler
):
    """As whoever edits notebook 14 has them."""

    def make(model, config):
        made = optimizer(model.parameters())
        return made, scheduler(made)

    monkeypatch.setattr(engine_run, "make_optimizer", make)
    run_training(small_data, CONFIG, tmp_path / "straight")
    assert_same_when_cut(small_data, CONFIG, tmp_path, monkeypatch)


def test_what_an_edited_class_keeps_in_a_buffer_is_saved(small_data, tmp_path, monkeypatch):
    """As a batch norm does: running means, which are no parameters."""
    forward, init = LayerNorm.forward, LayerNorm.__init__

    def with_mean(self, x):
        if self.training:
            self.mean.lerp_(x.detach().mean(), 0.2)
        return forward(self, x) - self.mean

    def with_buffer(self, *given, **options):
        init(self, *given, **options)
        self.register_buffer("mean", torch.zeros(()))

    monkeypatch.setattr(LayerNorm, "__init__", with_buffer)
    monkeypatch.setattr(LayerNorm, "forward", with_mean)
    run_training(small_data, CONFIG, tmp_path / "straight")
    assert_same_when_cut(small_data, CONFIG, tmp_path, monkeypatch)
    assert RunFolder(tmp_path / "cut").load()[3].encoder.norm.mean != 0


def test_workers_prepare_batches_ahead_and_change_nothing(
    small_data, straight, tmp_path, monkeypatch
):
    """As where there is a GPU."""
    options = {"num_workers": 2, "worker_init_fn": engine_run.leave_signals}
    monkeypatch.setattr(engine_run, "loading", lambda: options)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        signal_at(patch, signal.SIGTERM, 4)
        run_training(small_data, CONFIG, tmp_path)
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


def test_killed_and_gone_on_by_the_same_command(small_data, tmp_path):
    """SIGKILL at two moments of one run; then the same command again until it ends."""
    (tmp_path / "program.py").write_text(
        "import sys, train\nfor run in sys.argv[2:]: train.main([*sys.argv[1].split(), run])"
    )
    options = f"--data {small_data} --config tiny --steps 24 --eval-steps 4 --d-model 64"
    options += " --batch-tokens 100 --dtype float32 --run"
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command, codes = [sys.executable, str(tmp_path / "program.py"), options], []
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for last in (4, 12):  # killed as soon as this or a later record is written
        process = subprocess.Popen(
            [*command, str(broken)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )  # fmt: skip
        deadline = time.time() + 120
        while process.poll() is None and time.time() < deadline:
            records = RunFolder(broken).read_log()
            if records and records[-1]["step"] >= last:
                break
            time.sleep(0.001)
        process.kill()
        codes.append(process.wait())
    assert any(codes)  # it was hit
    done = run_python(*command[1:], broken, whole, **environment)
    assert done.returncode == 0, done.stderr
    assert_same_run(whole, broken)


# what is kept


def measured(losses):
    """`mean_loss` that gives these, each twice: on dev and then on train."""
    each = (loss for loss in losses for _ in range(2))
    return lambda *_: next(each)


@pytest.mark.parametrize("keep, expected", [("best", 4), ("last", 12)])
def test_best_or_last_weights_are_kept(small_data, tmp_path, monkeypatch, keep, expected):
    losses = itertools.cycle([5.0, 4.0, 4.5, 4.2, 4.1, 4.3])
    monkeypatch.setattr(engine_run, "mean_loss", measured(losses))
    weights = {}

    def look(records):
        state = read_weights(tmp_path / "model.safetensors")
        weights[records[-1]["step"]] = state["encoder.norm.weight"]

    run_training(small_data, replace(CONFIG, steps=12, keep=keep), tmp_path, on_log=look)
    assert torch.equal(weights[expected], weights[12])
    assert not torch.equal(weights[2], weights[12])
    assert not RunFolder(tmp_path).load()[3].training


@pytest.mark.parametrize("evaluated", [(4, 6, 8), (4, 6, 7)])
def test_the_average_of_the_last_evaluations_also_when_stopped(
    small_data, tmp_path, monkeypatch, evaluated
):
    config = replace(CONFIG, steps=evaluated[-1], keep="average", average_last=3)
    states, save = {}, training.save

    def note_and_save(parts, state, folder):
        states[state["step"]] = {k: v.clone() for k, v in parts["model"].state_dict().items()}
        save(parts, state, folder)

    monkeypatch.setattr(training, "save", note_and_save)
    run_training(small_data, config, tmp_path / "straight")
    weights = read_weights(tmp_path / "straight" / "model.safetensors")
    for name, tensor in weights.items():
        mean = torch.stack([states[step][name] for step in evaluated]).mean(dim=0)
        torch.testing.assert_close(tensor, mean, atol=1e-6, rtol=1e-5)
    assert_same_when_cut(small_data, config, tmp_path, monkeypatch)


def test_early_stopping_ends_a_run_for_good(small_data, tmp_path, monkeypatch):
    losses = itertools.chain([5.0, 4.0], itertools.repeat(4.5))
    monkeypatch.setattr(engine_run, "mean_loss", measured(losses))
    config = replace(CONFIG, steps=40, patience=3)
    records = run_training(small_data, config, tmp_path)
    assert records[-1]["step"] == 10 and RunFolder(tmp_path).is_finished()
    assert run_training(small_data, config, tmp_path) == read_records(tmp_path)


def test_the_folder_is_complete_and_tied_weights_are_there_once(finished_run):
    files = "config.json made.json vocabulary.src.json vocabulary.tgt.json log.jsonl lock"
    names = {path.name for path in finished_run.iterdir()}
    assert names == {*files.split(), "model.safetensors", "checkpoint.pt"}
    names = {"tgt_embedding.lookup.weight", "generator.projection.weight"}
    assert len(names & read_weights(finished_run / "model.safetensors").keys()) == 1
    model = RunFolder(finished_run).load()[3]
    assert model.generator.projection.weight is model.tgt_embedding.lookup.weight
    records = read_records(finished_run)
    assert [record["step"] for record in records if "dev_loss" in record] == [20, 40]
    assert records[-1]["dev_loss"] < records[0]["dev_loss"]


# the folder of another run


def test_a_finished_run_is_left_as_it_is(small_data, finished_run, capsys):
    before = {
        path: path.stat().st_mtime_ns for path in finished_run.iterdir() if path.name != "lock"
    }
    options = ["--data", str(small_data), "--config", "tiny", "--run", str(finished_run)]
    assert train.main(options) == 0
    assert "--start" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_other_settings_are_named(small_data, finished_run):
    with pytest.raises(InputError, match="d_model 32, not 64; steps 40, not 50"):
        config = replace(RunConfig.preset("tiny"), d_model=64, steps=50)
        run_training(small_data, config, finished_run)


def test_other_data_are_told(small_data, finished_run, tmp_path):
    rows = (small_data / "dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    shutil.copytree(small_data, tmp_path / "fewer")
    (tmp_path / "fewer" / "dev.tsv").write_text("".join(rows[1:]), encoding="utf-8")
    with pytest.raises(InputError, match="other pairs"):
        run_training(tmp_path / "fewer", RunConfig.preset("tiny"), finished_run)
    (tmp_path / "fewer" / "train.tsv").write_text("".join(rows), encoding="utf-8")
    with pytest.raises(InputError, match="vocabulary"):
        run_training(tmp_path / "fewer", RunConfig.preset("tiny"), finished_run)


def test_who_is_refused_leaves_the_folder_of_a_training_that_is_still_reading(tmp_path):
    run = tmp_path / "run"
    with engine_run.only_here(run):
        for _ in range(2):
            with pytest.raises(InputError, match="is in use"), engine_run.only_here(run):
                pass
        assert (run / "lock").exists()
    assert not run.exists()  # no run has begun


def test_a_run_takes_the_weights_that_it_was_begun_with(small_data, straight, tmp_path):
    """Also if it was killed before its first checkpoint."""
    run, other = tmp_path / "run", shutil.copytree(straight, tmp_path / "other")
    run_training(small_data, replace(CONFIG, steps=2), run, start=straight)
    expected = read_weights(run / "model.safetensors")
    for name in ("checkpoint.pt", "model.safetensors", "log.jsonl"):
        (run / name).unlink()
    with pytest.raises(InputError, match="was begun with --start .*straight.*, not .*other"):
        run_training(small_data, replace(CONFIG, steps=2), run, start=other)
    run_training(small_data, replace(CONFIG, steps=2), run)
    found = read_weights(run / "model.safetensors")
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    (other / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has no weights yet"):
        run_training(small_data, CONFIG, tmp_path / "new", start=other)
    assert not (tmp_path / "new").exists()


# beginning anew


@pytest.mark.parametrize("when", ["model", "first step", "Ctrl-C"])
def test_the_old_run_is_there_until_the_new_one_was_evaluated(
    small_data, straight, tmp_path, monkeypatch, when
):
    run = shutil.copytree(straight, tmp_path / "run")
    (run / "notes.txt").write_text("mine")
    before = contents(run)

    def fail(*arguments):
        raise RuntimeError("an edited lesson")

    with monkeypatch.context() as patch, pytest.raises((RuntimeError, Stopped)):
        if when == "model":
            patch.setattr(engine_run, "make_model", fail)
        elif when == "Ctrl-C":
            signal_at(patch, signal.SIGINT, 1)
        else:
            patch.setattr(training, "train_step", fail)
        run_training(small_data, replace(CONFIG, seed=5), run, restart=True)
    assert contents(run) == before


@pytest.mark.parametrize("kept", (1, 4))
@pytest.mark.parametrize("there, here", [("", "replacing"), ("returning", "")])
def test_a_restart_that_was_killed_while_it_moved_files_loses_none(
    straight, tmp_path, there, here, kept
):
    run, before = shutil.copytree(straight, tmp_path / "run"), contents(straight)
    files = sorted(path.name for path in run.iterdir() if path.name != "lock")
    if there:
        (run / there).mkdir()
        for name in files:
            (run / name).rename(run / there / name)
    (run / here).mkdir(exist_ok=True)
    for name in files[:kept]:
        (run / there / name).rename(run / here / name)
    with engine_run.replacing(run, restart=False):
        pass
    assert contents(run) == before


def test_a_new_run_takes_the_place_of_the_old_one_at_its_first_evaluation(
    small_data, straight, tmp_path, monkeypatch
):
    run = shutil.copytree(straight, tmp_path / "run")
    (run / "notes.txt").write_text("mine")
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        signal_at(patch, signal.SIGTERM, 3)
        run_training(small_data, replace(CONFIG, seed=5), run, restart=True)
    records = run_training(small_data, replace(CONFIG, seed=5), run)
    assert [record["step"] for record in records] == [2, 4, 6, 8]
    assert records[0]["loss"] != read_records(straight)[0]["loss"]
    assert (run / "notes.txt").read_text() == "mine" and not (run / "replaced").exists()


# what is no number


@pytest.mark.parametrize("steps", [1, 12])
def test_weights_that_are_no_numbers_are_not_saved(small_data, tmp_path, monkeypatch, steps):
    """In the first step, as with masks of -inf; and later, at a signal."""
    wild = dict(learning_rate=1e38, max_grad_norm=1e38, warmup_steps=3, steps=30, eval_steps=30)
    if steps == 1:
        nan = lambda self, x: x * torch.nan  # noqa: E731
        monkeypatch.setattr(LayerNorm, "forward", nan)
        monkeypatch.setattr(engine_run, "edited", lambda: ["05"])
    else:
        signal_at(monkeypatch, signal.SIGTERM, steps)
    word = "lesson 05" if steps == 1 else "learning_rate"
    with pytest.raises(InputError, match=f"step {steps} is no number.*{word}"):
        run_training(small_data, replace(CONFIG, **wild), tmp_path)
    assert not list(tmp_path.glob("*.pt")) + list(tmp_path.glob("*.safetensors"))

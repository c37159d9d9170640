"""A run on the disk: resumed, kept, stopped, and never half written."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from functools import partial

import pytest
import torch
from conftest import ROOT, TINY, assert_same_run, read_records, run_python
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, MultiStepLR, OneCycleLR

import train
import translate
from engine import loading, training_run
from engine.checkpoints import Progress, save_checkpoint
from engine.definitions import lesson_digests
from engine.errors import InputError, Stopped
from engine.files import file_digest
from engine.loading import seed_step
from engine.model_files import read_tensors
from engine.run_config import RunConfig
from engine.run_folder import RunFolder
from engine.training_run import run_training
from notebooks import training
from notebooks.layer_norm import LayerNorm
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace

CONFIG = replace(TINY, steps=8, eval_steps=2, warmup_steps=2, batch_tokens=200)


@pytest.fixture(scope="module")
def straight(small_data, tmp_path_factory):
    """A run that nothing disturbs."""
    run = tmp_path_factory.mktemp("straight") / "run"
    run_training(small_data, CONFIG, run)
    return run


def step_names(run):
    """The names of a run's complete checkpoints, oldest first."""
    return [folder.name for folder in RunFolder(run).checkpoints()]


def stop_at(number, step):
    """A function for `on_log`, which sends this process a signal at a step."""
    return lambda records: records[-1]["step"] == step and signal.raise_signal(number)


def signal_before(monkeypatch, number, step):
    """Sends this process a signal while it trains, before the step after so many."""

    def seed_and_send(seed, done):
        if done == step:
            signal.raise_signal(number)
        seed_step(seed, done)

    monkeypatch.setattr(training_run, "seed_step", seed_and_send)


def test_another_seed_gives_another_run(small_data, straight, tmp_path):
    records = run_training(small_data, replace(CONFIG, seed=1), tmp_path)
    assert records[0]["loss"] != read_records(straight)[0]["loss"]


@pytest.mark.parametrize("stop", [4, 8])
def test_stopped_and_resumed(small_data, straight, tmp_path, stop):
    """An error at an evaluation, before its checkpoint is written."""

    def cut_power(records):
        assert records[-1]["step"] < stop, "power cut"

    with pytest.raises(AssertionError, match="power cut"):
        run_training(small_data, CONFIG, tmp_path, on_log=cut_power)
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


def warmed_up(optimizer):
    """The rate in the optimizer and its factor in the schedule, as many programs have it."""
    return LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))


@pytest.mark.parametrize(
    "optimizer, scheduler",
    [
        (partial(torch.optim.Adam, lr=2e-3), warmed_up),
        (partial(torch.optim.Adam, lr=2e-3, amsgrad=True), warmed_up),
        (partial(torch.optim.SGD, lr=0.1), warmed_up),
        (partial(torch.optim.SGD, lr=0.1, momentum=0.9), partial(CosineAnnealingLR, T_max=8)),
        (torch.optim.Adam, partial(OneCycleLR, max_lr=0.01, total_steps=9)),  # moves betas, too
        (partial(torch.optim.Adafactor, lr=0.1), warmed_up),  # a row and a column for a matrix
        # counts its milestones by numbers, which JSON knows as texts only
        (partial(torch.optim.SGD, lr=0.1), partial(MultiStepLR, milestones=[5, 7])),
    ],
)
def test_another_optimizer_and_schedule_are_resumed(
    small_data, tmp_path, monkeypatch, optimizer, scheduler
):
    """As whoever edits notebook 14 has them."""

    def make(model, config):
        made = optimizer(model.parameters())
        return made, scheduler(made)

    monkeypatch.setattr(training_run, "make_optimizer", make)
    run_training(small_data, CONFIG, tmp_path / "straight")
    with pytest.raises(Stopped):
        run_training(small_data, CONFIG, tmp_path / "cut", on_log=stop_at(signal.SIGTERM, 4))
    run_training(small_data, CONFIG, tmp_path / "cut")
    assert_same_run(tmp_path / "straight", tmp_path / "cut")


def test_a_learning_rate_in_a_tensor_is_refused(small_data, tmp_path, monkeypatch):
    def make(model, config):
        optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(2e-3))
        return optimizer, warmed_up(optimizer)

    monkeypatch.setattr(training_run, "make_optimizer", make)
    with pytest.raises(InputError, match="cannot store the optimizer and the schedule .*Tensor"):
        run_training(small_data, CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_go_on_with_another_optimizer(small_data, straight, tmp_path, monkeypatch):
    def make(model, config):
        made = torch.optim.SGD(model.parameters(), lr=0.1)
        return made, warmed_up(made)

    shutil.copytree(straight, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-8")
    monkeypatch.setattr("notebooks.optimizer_schedule.make_optimizer", make)
    monkeypatch.setattr(training_run, "make_optimizer", make)
    with pytest.raises(InputError, match="notebook 14 has changed since the run was begun"):
        run_training(small_data, CONFIG, tmp_path / "run")


def test_what_an_edited_class_keeps_in_a_buffer_is_saved(small_data, tmp_path, monkeypatch):
    """As a batch norm does: running means, which are no parameters."""
    forward = LayerNorm.forward

    def with_mean(self, x):
        if self.training:
            self.mean.lerp_(x.detach().mean(), 0.2)
            self.steps += 1
        return forward(self, x) - self.mean

    init = LayerNorm.__init__

    def with_buffers(self, *given, **options):
        init(self, *given, **options)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("steps", torch.tensor(0))

    monkeypatch.setattr(LayerNorm, "__init__", with_buffers)
    monkeypatch.setattr(LayerNorm, "forward", with_mean)
    config = replace(CONFIG, keep="average")
    run_training(small_data, config, tmp_path / "straight")
    with pytest.raises(Stopped):
        run_training(small_data, config, tmp_path / "cut", on_log=stop_at(signal.SIGTERM, 4))
    run_training(small_data, config, tmp_path / "cut")
    assert_same_run(tmp_path / "straight", tmp_path / "cut")
    newest = read_tensors(RunFolder(tmp_path / "cut").checkpoints()[-1] / "model.safetensors")
    assert newest["encoder.norm.steps"] == 8 and newest["encoder.norm.mean"] != 0
    model = RunFolder(tmp_path / "cut").load()[3]
    assert model.encoder.norm.steps == 8  # a count is not averaged


def test_a_run_whose_checkpoints_are_gone_is_not_trained_again(small_data, straight, tmp_path):
    shutil.copytree(straight, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(InputError, match="has weights and no checkpoint to go on from"):
        run_training(small_data, CONFIG, tmp_path / "run")
    assert read_records(tmp_path / "run") == read_records(straight)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")  # there is no GPU to read it
def test_workers_prepare_batches_ahead_and_change_nothing(
    small_data, straight, tmp_path, monkeypatch
):
    """As where there is a GPU. They are ahead of the step at which the run is cut."""
    monkeypatch.setattr(loading, "workers", lambda: 2)
    with pytest.raises(Stopped):
        run_training(small_data, CONFIG, tmp_path, on_log=stop_at(signal.SIGTERM, 4))
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGHUP")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_a_signal_between_evaluations(small_data, straight, tmp_path, monkeypatch, number):
    """It saves first; the next record is of one step."""
    number = getattr(signal, number)
    before = signal.signal(number, signal.SIG_DFL)  # under nohup these tests inherit another
    try:
        with monkeypatch.context() as patch, pytest.raises(Stopped, match="step 3, saved"):
            signal_before(patch, number, 2)
            run_training(small_data, CONFIG, tmp_path)
    finally:
        signal.signal(number, before)
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
def test_a_signal_ends_a_first_step_that_compiles(small_data, tmp_path, monkeypatch):
    """It ends the processes that compile, too: who waits for them would wait for ever."""
    monkeypatch.setattr(training_run, "use_fast_forms", lambda *_: True)
    for number, end in ((0, KeyboardInterrupt), (1, Stopped)):
        with monkeypatch.context() as patch, pytest.raises(end):
            signal_before(patch, signal.SIGTERM, number)
            run_training(small_data, CONFIG, tmp_path)
    assert step_names(tmp_path) == ["step-2"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGHUP")
def test_under_nohup_a_closed_terminal_stops_nothing(small_data, straight, tmp_path, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signal_before(monkeypatch, signal.SIGHUP, 2)
        run_training(small_data, CONFIG, tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_same_run(straight, tmp_path)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")  # its steps are not taken
def test_a_records_time_holds_the_wait_for_a_gpu(small_data, tmp_path, monkeypatch):
    class Queued(float):
        """A loss that a GPU has not computed yet."""

        def __add__(self, other):
            return self

        __radd__ = __truediv__ = __add__

        def __float__(self):
            time.sleep(0.2)
            return 1.0

    monkeypatch.setattr(training, "train_step", lambda *_: (Queued(1), 1, 1.0))
    run_training(small_data, replace(CONFIG, steps=51, eval_steps=100), tmp_path)
    assert read_records(tmp_path)[0]["seconds"] >= 0.2


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
def test_a_sigterm_to_all_processes_of_a_run_with_workers(small_data, tmp_path):
    """A cluster sends it to the workers too, and training still needs them for its last step."""
    program = """
import train
from engine import loading
loading.workers = lambda: 2
raise SystemExit(train.main())
"""
    (tmp_path / "program.py").write_text(program)
    options = "--config tiny --steps 100000 --eval-steps 5 --batch-tokens 200 --run".split()
    process = subprocess.Popen(
        [sys.executable, tmp_path / "program.py", "--data", small_data, *options, tmp_path / "run"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    deadline, folder = time.time() + 120, RunFolder(tmp_path / "run")
    while not folder.checkpoints() and time.time() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 143, errors
    assert f"asked to stop at {step_names(folder.path)[-1].replace('-', ' ')}, saved" in errors
    assert "worker" not in errors


def test_killed_and_resumed_by_the_same_command(small_data, tmp_path):
    """SIGKILL at two moments of one run; then the same command again until it ends."""
    (tmp_path / "program.py").write_text(
        "import sys, train\nfor run in sys.argv[2:]: train.main([*sys.argv[1].split(), run])"
    )
    options = f"--data {small_data} --config tiny --steps 24 --eval-steps 4 --d-model 64"
    options += " --batch-tokens 100 --dtype float32 --run"
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command, codes = [sys.executable, str(tmp_path / "program.py"), options], []
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for last in (4, 12):  # killed as soon as this or a later checkpoint begins to be written
        process = subprocess.Popen(
            [*command, str(broken)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )  # fmt: skip
        deadline = time.time() + 120
        while process.poll() is None and time.time() < deadline:
            names = [path.name for path in (broken / "checkpoints").glob("step-*")]
            if any(int(re.search("[0-9]+", name)[0]) >= last for name in names):
                break
            time.sleep(0.001)
        process.kill()
        codes.append(process.wait())
    assert any(codes)  # it was hit
    done = run_python(*command[1:], broken, whole, **environment)
    assert done.returncode == 0, done.stderr
    assert_same_run(whole, broken)


def twice(losses):
    """Each twice: an evaluation measures on dev and then on train."""
    return (loss for loss in losses for _ in range(2))


@pytest.mark.parametrize("keep, expected", [("best", 4), ("last", 12)])
def test_best_or_last_weights_are_kept(small_data, tmp_path, monkeypatch, keep, expected):
    losses = twice(itertools.cycle([5.0, 4.0, 4.5, 4.2, 4.1, 4.3]))
    monkeypatch.setattr(training_run, "mean_loss", lambda *_: next(losses))
    seen, model = [], tmp_path / "model.safetensors"

    def look(_):
        return seen.append(model.exists())  # a run that is stopped after days can translate

    config = replace(CONFIG, steps=12, keep=keep, checkpoints=9)
    run_training(small_data, config, tmp_path, on_log=look)
    assert seen == [False] + 5 * [True]  # the record is written before the weights
    weights = read_tensors(tmp_path / "model.safetensors")
    expected_weights = read_tensors(
        tmp_path / "checkpoints" / f"step-{expected}" / "model.safetensors"
    )
    assert all(torch.equal(weights[name], expected_weights[name]) for name in expected_weights)


def test_the_average_of_the_kept_checkpoints(small_data, tmp_path):
    run_training(small_data, replace(CONFIG, keep="average", checkpoints=3), tmp_path)
    folders = RunFolder(tmp_path).checkpoints()
    assert [folder.name for folder in folders] == ["step-4", "step-6", "step-8"]
    parts = [read_tensors(folder / "model.safetensors") for folder in folders]
    weights = read_tensors(tmp_path / "model.safetensors")
    for name, tensor in weights.items():
        mean = torch.stack([part[name] for part in parts]).mean(dim=0)
        torch.testing.assert_close(tensor, mean, atol=1e-6, rtol=1e-5)
    assert not torch.equal(weights["encoder.norm.weight"], parts[-1]["encoder.norm.weight"])


def test_early_stopping(small_data, tmp_path, monkeypatch):
    losses = twice(itertools.chain([5.0, 4.0], itertools.repeat(4.5)))
    monkeypatch.setattr(training_run, "mean_loss", lambda *_: next(losses))
    config = replace(CONFIG, steps=40, patience=3, checkpoints=4)
    records = run_training(small_data, config, tmp_path)
    assert records[-1]["step"] == 10 and (tmp_path / "model.safetensors").exists()
    assert step_names(tmp_path) == ["step-4", "step-6", "step-8", "step-10"]
    assert run_training(small_data, config, tmp_path) == records


def test_only_the_newest_checkpoints_stay_and_half_written_ones_do_not_count(
    small_data, straight, tmp_path
):
    assert {path.name for path in (straight / "checkpoints").iterdir()} == {"step-6", "step-8"}
    run_training(small_data, replace(CONFIG, steps=5), tmp_path)
    (tmp_path / "checkpoints" / "step-99.tmp").mkdir()
    assert step_names(tmp_path) == ["step-4", "step-5"]  # the last step is no multiple of 2


def test_the_run_folder_is_complete_and_the_data_type_is_settled(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    files = "config.json made.json vocabulary.src.json vocabulary.tgt.json model.safetensors"
    assert names == {*files.split(), "log.jsonl", "checkpoints", "lock"}
    config = json.loads((finished_run / "config.json").read_text())
    assert config["dtype"] in ("float32", "bfloat16")  # whichever was faster
    assert RunConfig(**config) == replace(RunConfig.preset("tiny"), dtype=config["dtype"])
    records = read_records(finished_run)
    assert [record["step"] for record in records if "dev_loss" in record] == [20, 40]
    assert records[-1]["dev_loss"] < records[0]["dev_loss"]
    keys = "step epoch loss learning_rate grad_norm tokens_per_second seconds time"
    assert set(keys.split()) <= records[0].keys()


def test_tied_weights_are_saved_once(finished_run):
    tensors = read_tensors(finished_run / "model.safetensors")
    assert "tgt_embedding.lookup.weight" in tensors and "generator.projection.weight" not in tensors
    model = RunFolder(finished_run).load()[3]
    assert model.generator.projection.weight is model.tgt_embedding.lookup.weight
    assert not model.training


def test_a_finished_run_is_left_as_it_is(small_data, finished_run, capsys):
    def times():
        return {p: p.stat().st_mtime_ns for p in finished_run.rglob("*.safetensors")}

    before = times()
    arguments = ["--data", str(small_data), "--config", "tiny", "--run", str(finished_run)]
    assert train.main(arguments) == 0
    assert "is finished already; --restart begins anew" in capsys.readouterr().out
    assert times() == before


def test_without_checkpoints_the_log_says_whether_a_run_is_finished(finished_run, tmp_path):
    run = shutil.copytree(finished_run, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    assert RunFolder(run).is_finished()
    *before, last = (run / "log.jsonl").read_text().splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(before))
    assert not RunFolder(run).is_finished()
    (run / "log.jsonl").write_text("".join([*before, last]))
    (run / "model.safetensors").unlink()
    assert not RunFolder(run).is_finished()


@pytest.mark.parametrize("setting", [{"schedule": "cosine"}, {"gate": 2.0}])
def test_a_setting_that_lesson_00_had_at_the_training_is_told(finished_run, tmp_path, setting):
    config = json.loads((finished_run / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | setting))
    with pytest.raises(InputError, match=r"[a-z]\. Was lesson 00 another one when it was trained"):
        RunFolder(tmp_path).read_config()


def test_another_command_on_the_same_folder_is_refused(small_data, finished_run, tmp_path):
    with pytest.raises(InputError, match="d_model 32, not 64; steps 40, not 50. Use --restart"):
        run_training(
            small_data, replace(RunConfig.preset("tiny"), d_model=64, steps=50), finished_run
        )
    shutil.copytree(small_data, tmp_path / "fewer")
    rows = (small_data / "dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "fewer" / "dev.tsv").write_text("".join(rows[1:]), encoding="utf-8")
    with pytest.raises(InputError, match="was made on other pairs"):
        run_training(tmp_path / "fewer", RunConfig.preset("tiny"), finished_run)
    for split in ("train", "dev"):
        words = " ".join(f"word{number}" for number in range(30))
        text = 2 * f"{words}\t{''.join(map(chr, range(0x4E00, 0x4E1E)))}\n"
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="other training text"):
        run_training(tmp_path, RunConfig.preset("tiny"), finished_run)


def test_restart_forgets_the_run_and_nothing_else(small_data, straight, tmp_path):
    run = shutil.copytree(straight, tmp_path / "run")
    mine = [run / "notes.txt", run / "checkpoints" / "step-6 (copy)" / "notes.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    records = run_training(small_data, replace(CONFIG, steps=2), run, restart=True)
    assert [record["step"] for record in records] == [2] and step_names(run) == ["step-2"]
    assert [path.read_text() for path in mine] == ["mine", "mine"]


def test_a_loss_that_is_no_number_stops_with_the_last_checkpoint_kept(small_data, tmp_path):
    wild = dict(learning_rate=1e38, max_grad_norm=1e38, warmup_steps=15)
    with pytest.raises(InputError, match="the loss is no number at step .*lower learning_rate"):
        run_training(small_data, replace(CONFIG, **wild, steps=60, eval_steps=2), tmp_path)
    for folder in RunFolder(tmp_path).checkpoints():
        tensors = read_tensors(folder / "model.safetensors")
        assert all(tensor.isfinite().all() for tensor in tensors.values())


def test_sigterm_during_an_evaluation(small_data, straight, tmp_path):
    """The checkpoint of that evaluation is the one that counts; it is not written a second time."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match="asked to stop at step 4, saved"):
        run_training(small_data, CONFIG, tmp_path, on_log=stop_at(signal.SIGTERM, 4))
    assert signal.getsignal(signal.SIGTERM) is before
    assert step_names(tmp_path) == ["step-2", "step-4"]
    run_training(small_data, CONFIG, tmp_path)
    assert_same_run(straight, tmp_path)


def test_of_a_checkpoint_that_is_there_only_the_progress_is_written_again(straight, tmp_path):
    folder, model = (
        shutil.copytree(straight / "checkpoints", tmp_path / "steps"),
        make_model(TINY, 9, 9),
    )
    optimizer, scheduler = make_optimizer(model, TINY)
    before = {path.name: file_digest(path) for path in (folder / "step-8").iterdir()}
    (folder / "step-3.tmp").mkdir()
    save_checkpoint(folder, model, optimizer, scheduler, Progress(step=8, stale=5), "", {})
    after = {path.name: file_digest(path) for path in (folder / "step-8").iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"state.json"}
    save_checkpoint(folder, model, optimizer, scheduler, Progress(step=20), "", {})
    assert {path.name for path in folder.iterdir()} == {"step-6", "step-8", "step-20"}


def test_weights_that_are_no_numbers_are_not_saved_on_sigterm(small_data, tmp_path, monkeypatch):
    config = replace(
        CONFIG, learning_rate=1e38, max_grad_norm=1e38, warmup_steps=3, steps=30, eval_steps=30
    )
    signal_before(monkeypatch, signal.SIGTERM, 12)
    with pytest.raises(InputError, match="no number at step 13"):
        run_training(small_data, config, tmp_path)
    assert step_names(tmp_path) == []


def test_the_log_as_a_picture(finished_run, tmp_path, capsys):
    options = ["--config", "tiny", "--run", str(finished_run), "--plot"]
    assert train.main([*options, str(tmp_path / "log.png")]) == 0
    assert (tmp_path / "log.png").read_bytes().startswith(b"\x89PNG")
    assert train.main([*options, str(tmp_path / "log.words")]) == 2
    assert train.main([*options, str(tmp_path / "log.png"), "--restart"]) == 2
    assert train.main([*options, str(tmp_path / "log.png"), "--steps", "7"]) == 2
    assert train.main(["--run", str(tmp_path), "--plot", str(tmp_path / "log.png")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4 and all(line.startswith("error: ") for line in errors)


OTHER = {"lessons": "of last week"}


def test_a_finished_run_of_other_lessons_says_so(small_data, finished_run, tmp_path, capsys):
    run = shutil.copytree(finished_run, tmp_path / "run")
    for path in (run / "made.json", run / "checkpoints" / "step-40" / "schedule.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | OTHER))
    assert translate.main(["--run", str(run), "--beam-size", "1", "One."]) == 0
    assert "lessons have changed since it was trained" in capsys.readouterr().err
    run_training(small_data, RunConfig.preset("tiny"), run)
    assert "changed since step 40. Train again with --restart" in capsys.readouterr().out


def test_a_run_that_goes_on_with_other_lessons_looks_for_its_best_anew(
    small_data, tmp_path, monkeypatch, capsys
):
    """Its weights, and what it says of them, are those of the new lessons, even if worse."""
    run = tmp_path / "run"
    options = ["--data", str(small_data), "--config", "tiny", "--run", str(run)]
    with monkeypatch.context() as old:
        old.setattr("engine.session.lesson_digests", lambda: lesson_digests() | OTHER)
        old.setattr(training_run, "mean_loss", lambda *_: 0.5)
        signal_before(old, signal.SIGTERM, 30)
        assert train.main(options) == 128 + signal.SIGTERM
    made = run / "made.json"
    assert json.loads(made.read_text())["lessons"] == OTHER["lessons"]
    weights = (run / "model.safetensors").read_bytes()
    with monkeypatch.context() as between:  # stopped before it has weights of its own
        signal_before(between, signal.SIGTERM, 35)
        assert train.main(options) == 128 + signal.SIGTERM
    assert json.loads(made.read_text())["lessons"] == OTHER["lessons"]
    capsys.readouterr()
    assert train.main(options) == 0
    printed = capsys.readouterr().out
    last = read_records(run)[-1]["dev_loss"]
    assert last > 0.5 and f"best dev loss {last:.3f} nats a token at step 40" in printed
    assert json.loads(made.read_text())["lessons"] == lesson_digests()["lessons"]
    assert (run / "model.safetensors").read_bytes() != weights


def test_a_run_says_what_made_it(finished_run):
    made = json.loads((finished_run / "made.json").read_text())
    assert made["torch"] == torch.__version__ and made["command"] == sys.argv
    assert made["device"] == "cpu" and made["processes"] == 1
    assert made["commit"] is None or re.fullmatch("[0-9a-f]{40}", made["commit"])
    times = [datetime.fromisoformat(made["time"])]
    times += [datetime.fromisoformat(record["time"]) for record in read_records(finished_run)]
    assert times == sorted(times) and times[0].tzinfo is not None
    sizes = [record["memory_mib"] for record in read_records(finished_run)]
    assert sizes == sorted(sizes) and 100 < sizes[0] < 100_000

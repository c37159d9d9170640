import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from conftest import ROOT, random_batch, random_model, run_python
from notebooks.data_preparation import BOS, EOS, PAD, UNK, Batch, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import compute_loss
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import Config, InputError, replace
from notebooks.training import (
    evaluate,
    greedy_search,
    load_run,
    prepare,
    read_tensors,
    run_training,
    train_step,
)

from notebooks import training
from utils import device

TINY = replace(Config.preset("tiny"), dtype="float32", bleu_sentences=0)
TIMES = {"seconds", "tokens_per_second"}


def without_times(records):
    return [{key: value for key, value in record.items() if key not in TIMES} for record in records]


def read_records(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def assert_same_run(one, other):
    """Equal weights, moments, positions and logs but for times."""
    names = sorted(path.name for path in (one / "checkpoints").iterdir())
    assert names == sorted(path.name for path in (other / "checkpoints").iterdir())
    for file in [
        "model.safetensors",
        *(
            f"checkpoints/{name}/{part}.safetensors"
            for name in names
            for part in ("model", "optimizer")
        ),
    ]:
        left, right = read_tensors(one / file), read_tensors(other / file)
        assert left.keys() == right.keys() and all(
            torch.equal(left[name], right[name]) for name in left
        ), file
    for name in names:
        assert (one / "checkpoints" / name / "state.json").read_text() == (
            other / "checkpoints" / name / "state.json"
        ).read_text()
    assert without_times(read_records(one)) == without_times(read_records(other))


@pytest.fixture(scope="module")
def straight(small_data, tmp_path_factory):
    """A run that nothing disturbs."""
    run = tmp_path_factory.mktemp("straight") / "run"
    run_training(small_data, replace(TINY, eval_steps=10), run)
    return run


def test_the_same_seed_gives_the_same_run(small_data, straight, tmp_path):
    run_training(small_data, replace(TINY, eval_steps=10), tmp_path / "again")
    assert_same_run(straight, tmp_path / "again")
    run_training(small_data, replace(TINY, eval_steps=10, seed=1), tmp_path / "other")
    assert without_times(read_records(straight)) != without_times(read_records(tmp_path / "other"))


@pytest.mark.parametrize("stop", [10, 20, 30, 40])
def test_stopped_and_resumed(small_data, straight, tmp_path, stop):
    """An error at an evaluation, before its checkpoint is written."""

    class PowerCut(Exception):
        pass

    def cut_power(records):
        if records[-1]["step"] == stop:
            raise PowerCut

    config = replace(TINY, eval_steps=10)
    with pytest.raises(PowerCut):
        run_training(small_data, config, tmp_path / "run", on_log=cut_power)
    run_training(small_data, config, tmp_path / "run")
    assert_same_run(straight, tmp_path / "run")


def test_killed_and_resumed_by_the_same_command(small_data, tmp_path):
    """SIGKILL at several moments of one run; then the same command again until it ends."""
    options = [
        "--data",
        small_data,
        *"--config tiny --dtype float32 --steps 120 --eval-steps 10 --d-model 64".split(),
    ]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    environment = {"OMP_NUM_THREADS": "1"}
    assert (
        run_python("-m", "notebooks.training", *options, "--run", whole, **environment).returncode
        == 0
    )
    for last in (
        10,
        30,
        70,
    ):  # kill as soon as this checkpoint, or a later one, begins to be written
        process = subprocess.Popen(
            [sys.executable, "-m", "notebooks.training", *map(str, options), "--run", str(broken)],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment},
        )  # fmt: skip
        folder, deadline = broken / "checkpoints", time.time() + 120
        while process.poll() is None and time.time() < deadline:
            if any(
                int(path.name.split("-")[1].split(".")[0]) >= last for path in folder.glob("step-*")
            ):
                break
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
        process.wait()
    done = run_python("-m", "notebooks.training", *options, "--run", broken, **environment)
    assert done.returncode == 0, done.stderr
    assert_same_run(whole, broken)


def test_two_processes_take_the_steps_of_one(small_data, tmp_path):
    options = [
        "--data",
        small_data,
        *"--config tiny --dtype float32 --dropout 0 --steps 12 --eval-steps 3".split(),
    ]
    options += ["--batch-tokens", "100"]  # some batches have a single row
    one, two = tmp_path / "one", tmp_path / "two"
    assert run_python("-m", "notebooks.training", *options, "--run", one).returncode == 0
    done = run_python(
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        2,
        "-m",
        "notebooks.training",
        "--",
        *options,
        "--run",
        two,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pairs to train on") == 1  # one process speaks for both
    for left, right in zip(read_records(one), read_records(two), strict=True):
        assert all(
            math.isclose(left[key], right[key], rel_tol=1e-4)
            for key in ("loss", "dev_loss", "grad_norm")
        ), (
            left,
            right,
        )


def test_gradients_of_two_shares_add_up_to_the_gradient_of_the_whole():
    model, items = (
        random_model(0),
        [([5, 3], [2, 6, 7, 3]), ([5, 8, 3], [2, 3]), ([9, 3], [2, 9, 9, 9, 3])],
    )
    whole = torch.autograd.grad(
        compute_loss(model, Batch.collate(items), LabelSmoothing(0.1))[0], list(model.parameters())
    )
    shares = [
        compute_loss(model, Batch.collate(items[rank::2]), LabelSmoothing(0.1))[0]
        for rank in range(2)
    ]
    parts = [torch.autograd.grad(share, list(model.parameters())) for share in shares]
    torch.testing.assert_close(
        [sum(pair) for pair in zip(*parts)], list(whole), atol=1e-5, rtol=1e-5
    )


def test_a_step_is_adam_on_the_clipped_gradient_per_token():
    batch, config = random_batch(0, [5, 2], [4, 7]), replace(TINY, clip=0.5, dropout=0.0)
    torch.manual_seed(0)
    ours, plain = make_model(config, 12, 12), make_model(config, 12, 12)
    plain.load_state_dict(ours.state_dict())
    optimizer, _ = make_optimizer(ours, config, 10)
    loss, count, norm = train_step(ours, batch, LabelSmoothing(0.1), optimizer, config)
    mean = compute_loss(plain, batch, LabelSmoothing(0.1))[0] / count
    mean.backward()
    assert math.isclose(loss / count, mean.item(), rel_tol=1e-5) and count == 13
    assert (
        math.isclose(norm, torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5), rel_tol=1e-4)
        and norm > 0.5
    )
    torch.testing.assert_close(
        [p.grad for p in ours.parameters()],
        [p.grad for p in plain.parameters()],
        atol=1e-5,
        rtol=1e-3,
    )


def test_evaluate_is_the_mean_over_tokens_and_leaves_no_trace(small_data):
    source, target, _, dev, _ = prepare(small_data, TINY)
    model = make_model(replace(TINY, dropout=0.5), len(source), len(target)).to(device())
    losses = [evaluate(model, dev, replace(TINY, batch_tokens=size)) for size in (100, 1000, 1000)]
    assert losses[1] == losses[2] and math.isclose(losses[0], losses[1], rel_tol=1e-5)
    assert model.training and all(parameter.grad is None for parameter in model.parameters())
    total, count = 0, 0
    for batch in make_dataloader(dev, TokenBatchSampler(dev.lengths, 200)):
        loss, tokens = compute_loss(model.eval(), batch.to(device()), LabelSmoothing(0))
        total, count = total + loss.item(), count + tokens.item()
    assert math.isclose(total / count, losses[0], rel_tol=1e-5) and count == dev.lengths[:, 1].sum()


def test_backward_through_an_evaluation_is_an_error(small_data, monkeypatch):
    source, target, _, dev, _ = prepare(small_data, TINY)
    model = make_model(TINY, len(source), len(target)).to(device())

    def leaking_loss(*arguments):
        loss, count = compute_loss(*arguments)
        loss.backward()
        return loss, count

    monkeypatch.setattr(training, "compute_loss", leaking_loss)
    with pytest.raises(RuntimeError):
        evaluate(model, dev, TINY)


@pytest.mark.parametrize("keep, expected", [("best", 20), ("last", 60)])
def test_best_or_last_weights_are_kept(small_data, tmp_path, monkeypatch, keep, expected):
    losses = itertools.cycle([5.0, 4.0, 4.5, 4.2, 4.1, 4.3])
    monkeypatch.setattr(training, "evaluate", lambda *_: next(losses))
    run_training(
        small_data, replace(TINY, steps=60, eval_steps=10, keep=keep, checkpoints=9), tmp_path
    )
    kept, wanted = (
        read_tensors(path / "model.safetensors")
        for path in (tmp_path, tmp_path / "checkpoints" / f"step-{expected}")
    )
    assert all(torch.equal(kept[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("count", [1, 3])
def test_the_average_of_the_kept_checkpoints(small_data, tmp_path, count):
    config = replace(TINY, steps=40, eval_steps=10, keep="average", checkpoints=count)
    run_training(small_data, config, tmp_path)
    folders = training.checkpoints(tmp_path)
    assert [folder.name for folder in folders] == ["step-20", "step-30", "step-40"][-count:]
    parts, kept = (
        [read_tensors(folder / "model.safetensors") for folder in folders],
        read_tensors(tmp_path / "model.safetensors"),
    )
    for name, tensor in kept.items():
        mean = torch.stack([part[name] for part in parts]).mean(dim=0)
        torch.testing.assert_close(tensor, mean, atol=1e-6, rtol=1e-5)
    assert count == 1 or not torch.equal(
        kept["encoder.norm.weight"], parts[-1]["encoder.norm.weight"]
    )


@pytest.mark.parametrize("keep", ["best", "last"])
def test_early_stopping(small_data, tmp_path, monkeypatch, keep):
    losses = itertools.chain([5.0, 4.0], itertools.repeat(4.5))
    monkeypatch.setattr(training, "evaluate", lambda *_: next(losses))
    records = run_training(small_data, replace(TINY, eval_steps=5, patience=3, keep=keep), tmp_path)
    assert records[-1]["step"] == 25 and (tmp_path / "model.safetensors").exists()
    assert (
        run_training(small_data, replace(TINY, eval_steps=5, patience=3, keep=keep), tmp_path)
        == records
    )


def test_only_the_newest_checkpoints_stay_and_half_written_ones_do_not_count(
    small_data, straight, tmp_path
):
    assert sorted(path.name for path in (straight / "checkpoints").iterdir()) == [
        "step-30",
        "step-40",
    ]
    (tmp_path / "checkpoints" / "step-99.tmp").mkdir(parents=True)
    assert training.checkpoints(tmp_path) == []


def test_the_run_folder_is_complete_and_the_data_type_is_settled(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert names == {
        "config.json",
        "vocabulary.src.json",
        "vocabulary.tgt.json",
        "model.safetensors",
        "log.jsonl",
        "checkpoints",
    }
    config = json.loads((finished_run / "config.json").read_text())
    assert config["dtype"] == training.native_dtype() and Config(**config) == replace(
        Config.preset("tiny"), dtype=config["dtype"]
    )
    records = read_records(finished_run)
    assert [record["step"] for record in records if "dev_loss" in record] == [20, 40] and records[
        -1
    ]["dev_loss"] < records[0]["dev_loss"]
    assert {
        "step",
        "epoch",
        "loss",
        "learning_rate",
        "grad_norm",
        "tokens_per_second",
        "seconds",
    } <= records[0].keys()


def test_tied_weights_are_saved_once(finished_run):
    tensors = read_tensors(finished_run / "model.safetensors")
    assert "tgt_embedding.lookup.weight" in tensors and "generator.projection.weight" not in tensors
    model = load_run(finished_run)[3]
    assert (
        model.generator.projection.weight is model.tgt_embedding.lookup.weight
        and not model.training
    )


def test_a_finished_run_is_left_as_it_is(small_data, finished_run, capsys):
    before = {
        path: path.stat().st_mtime_ns
        for path in finished_run.rglob("*")
        if path.suffix == ".safetensors"
    }
    arguments = ["--data", str(small_data), "--config", "tiny", "--run", str(finished_run)]
    assert training.main(arguments) == 0
    assert "is finished already" in capsys.readouterr().out
    assert before == {
        path: path.stat().st_mtime_ns
        for path in finished_run.rglob("*")
        if path.suffix == ".safetensors"
    }


def test_another_command_on_the_same_folder_is_refused(small_data, finished_run, tmp_path):
    with pytest.raises(
        InputError, match="was begun with d_model 32, not 64; steps 40, not 50. Use --restart"
    ):
        run_training(small_data, replace(Config.preset("tiny"), d_model=64, steps=50), finished_run)
    shutil.copytree(small_data, tmp_path / "fewer")
    rows = (small_data / "dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "fewer" / "dev.tsv").write_text("".join(rows[1:]), encoding="utf-8")
    with pytest.raises(InputError, match="was made on other pairs"):
        run_training(tmp_path / "fewer", Config.preset("tiny"), finished_run)
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text(
            "other text\t别的\nother text\t别的\n", encoding="utf-8"
        )
    with pytest.raises(InputError, match="other training text"):
        run_training(tmp_path, Config.preset("tiny"), finished_run)


def test_restart_forgets_the_run_and_nothing_else(small_data, tmp_path):
    run_training(small_data, replace(TINY, steps=10, eval_steps=5), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    records = run_training(small_data, replace(TINY, steps=5, eval_steps=5), tmp_path, restart=True)
    assert [record["step"] for record in records] == [5] and (
        tmp_path / "notes.txt"
    ).read_text() == "mine"
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-5"]


def test_a_loss_that_is_no_number_stops_with_the_last_checkpoint_kept(small_data, tmp_path):
    with pytest.raises(InputError, match="the loss is no number at step .*lower learning_rate"):
        run_training(
            small_data,
            replace(TINY, learning_rate=1e38, clip=1e38, warmup_steps=15, steps=60, eval_steps=2),
            tmp_path,
        )
    assert all(
        tensor.isfinite().all()
        for folder in training.checkpoints(tmp_path)
        for tensor in read_tensors(folder / "model.safetensors").values()
    )


def test_a_batch_in_parts_has_the_gradient_of_the_whole():
    batch, config = (
        random_batch(0, [5, 2, 3, 4, 1], [4, 7, 2, 3, 6]),
        replace(TINY, dropout=0.0, clip=1e9),
    )
    found = {}
    for parts in (1, 2, 3, 99):
        model = random_model(1, dtype=torch.float32)
        optimizer, _ = make_optimizer(model, config, 10)
        figures = train_step(
            model, batch, LabelSmoothing(0.1), optimizer, replace(config, accumulate=parts)
        )
        found[parts] = [*figures, *(parameter.grad for parameter in model.parameters())]
    for parts in (2, 3, 99):
        torch.testing.assert_close(found[parts], found[1], atol=1e-5, rtol=1e-4)


def short_of_memory(monkeypatch, rows):
    """From now on a batch with more than this many rows does not fit into memory."""

    def loss_or_error(model, batch, criterion):
        if len(batch.src) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute_loss(model, batch, criterion)

    monkeypatch.setattr(training, "compute_loss", loss_or_error)


def test_out_of_memory_halves_the_parts_with_a_warning(monkeypatch, capsys):
    batch, config, progress = (
        random_batch(0, [5] * 8, [4] * 8),
        replace(TINY, dropout=0.0),
        training.Progress(),
    )
    plain, model = random_model(1, dtype=torch.float32), random_model(1, dtype=torch.float32)
    for each in (plain, model):
        optimizer, _ = make_optimizer(each, config, 10)
        if each is model:
            short_of_memory(monkeypatch, 2)
        figures = train_step(each, batch, LabelSmoothing(0.1), optimizer, config, progress)
    torch.testing.assert_close(
        [p.grad for p in model.parameters()],
        [p.grad for p in plain.parameters()],
        atol=1e-5,
        rtol=1e-3,
    )
    assert progress.parts == 4 and figures[1] == 40
    assert [line.split()[:3] for line in capsys.readouterr().err.splitlines()] == [
        ["out", "of", "memory:"]
    ] * 2
    short_of_memory(monkeypatch, 0)
    with pytest.raises(InputError, match="out of memory with one sentence at a time"):
        train_step(model, batch, LabelSmoothing(0.1), optimizer, config, progress)


def test_one_process_short_of_memory_makes_all_work_in_parts(small_data, tmp_path):
    """Two processes, of which the second has room for four rows only: they go on together, and take the steps of one."""
    program = """
import sys, torch
from notebooks import training
from notebooks.training import compute_loss, processes

def loss_or_error(model, batch, criterion):
    if torch.is_grad_enabled() and processes().process_index == 1 and len(batch.src) > 4:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return compute_loss(model, batch, criterion)

if sys.argv.pop(1) == "short":
    training.compute_loss = loss_or_error
raise SystemExit(training.main())
"""
    (tmp_path / "short.py").write_text(program)
    options = [
        "--data",
        small_data,
        *"--config tiny --dtype float32 --dropout 0 --steps 6 --eval-steps 3".split(),
    ]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", 2, tmp_path / "short.py"]
    for name in ("short", "plain"):
        done = run_python(
            *launch, "--", name, *options, "--run", tmp_path / name, PYTHONPATH=str(ROOT)
        )
        assert done.returncode == 0, done.stderr
        assert ("out of memory: a batch is worked through" in done.stderr) == (name == "short")
    for left, right in zip(
        read_records(tmp_path / "short"), read_records(tmp_path / "plain"), strict=True
    ):
        assert math.isclose(left["loss"], right["loss"], rel_tol=1e-4)
        assert math.isclose(left["dev_loss"], right["dev_loss"], rel_tol=1e-4)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_saves_first_and_the_run_goes_on_to_the_same_end(small_data, tmp_path, processes):
    options = [
        "--data",
        small_data,
        *"--config tiny --dtype float32 --steps 160 --eval-steps 160".split(),
    ]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", 2] if processes == 2 else []
    command = [*launch, "-m", "notebooks.training", *["--"][: len(launch)], *options, "--run"]
    process = subprocess.Popen(
        [sys.executable, *map(str, command), str(tmp_path / "cut")], cwd=ROOT, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.time() + 120
    log = tmp_path / "cut" / "log.jsonl"  # its first line comes after 50 steps
    while not (log.exists() and log.stat().st_size) and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    [saved] = training.checkpoints(tmp_path / "cut")
    step = int(saved.name.split("-")[1])
    assert step < 160 and f"asked to stop at step {step}, saved" in errors
    assert process.returncode == 143 or processes == 2  # torchrun has a status of its own
    for name in ("cut", "straight"):
        done = run_python(*command, tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "cut", tmp_path / "straight")


def test_sigterm_during_an_evaluation(small_data, straight, tmp_path):
    """The checkpoint of that evaluation is the one that counts; it is not written a second time."""

    def ask_to_stop(records):
        if records[-1]["step"] == 20:
            signal.raise_signal(signal.SIGTERM)

    config, before = replace(TINY, eval_steps=10), signal.getsignal(signal.SIGTERM)
    with pytest.raises(training.Stopped, match="asked to stop at step 20, saved"):
        run_training(small_data, config, tmp_path, on_log=ask_to_stop)
    assert signal.getsignal(signal.SIGTERM) is before
    assert [folder.name for folder in training.checkpoints(tmp_path)] == ["step-10", "step-20"]
    run_training(small_data, config, tmp_path)
    assert_same_run(straight, tmp_path)


def test_a_checkpoint_that_is_there_is_never_touched(small_data, tmp_path):
    run_training(small_data, replace(TINY, steps=10, eval_steps=5), tmp_path)
    newest, model = training.checkpoints(tmp_path)[-1], make_model(TINY, 9, 9)
    written = (newest / "state.json").stat().st_mtime_ns
    (tmp_path / "checkpoints" / "step-3.tmp").mkdir()
    optimizer, _ = make_optimizer(model, TINY, 10)
    training.save_checkpoint(tmp_path, model, optimizer, training.Progress(step=10), TINY)
    assert (newest / "state.json").stat().st_mtime_ns == written
    training.save_checkpoint(tmp_path, model, optimizer, training.Progress(step=20), TINY)
    assert not (tmp_path / "checkpoints" / "step-3.tmp").exists()


def test_weights_that_are_no_numbers_are_not_saved_on_sigterm(small_data, tmp_path):
    config = replace(TINY, learning_rate=1e38, clip=1e38, warmup_steps=3, steps=30, eval_steps=30)

    def train_step_and_ask(*arguments, step=train_step):
        if arguments[-1].step == 12:
            signal.raise_signal(signal.SIGTERM)
        return step(*arguments)

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(InputError, match="no number at step 13"),
    ):
        patch.setattr(training, "train_step", train_step_and_ask)
        run_training(small_data, config, tmp_path)
    assert training.checkpoints(tmp_path) == []


def test_bleu_of_a_real_search_is_logged(small_data, tmp_path):
    config = replace(TINY, steps=20, eval_steps=10, bleu_sentences=7, keep="last")
    records = run_training(small_data, config, tmp_path)
    assert (
        ["dev_bleu" in record for record in records]
        == ["dev_loss" in record for record in records]
        == [True, True]
    )
    config, source, target, model = load_run(tmp_path)
    sentences, references = zip(*prepare(small_data, config)[4][:7])
    written = training.translate_greedily(model, source, target, sentences, config)
    assert (
        round(training.bleu_metric("zh").corpus_score(written, [references]).score, 2)
        == records[-1]["dev_bleu"]
    )
    silent = run_training(
        small_data, replace(TINY, steps=10, bleu_sentences=0), tmp_path / "silent"
    )
    assert "dev_loss" in silent[-1] and "dev_bleu" not in silent[-1]


def test_the_log_as_a_picture(finished_run, tmp_path, capsys):
    options = ["--config", "tiny", "--run", str(finished_run), "--plot"]
    assert training.main([*options, str(tmp_path / "log.png")]) == 0
    assert (tmp_path / "log.png").read_bytes().startswith(b"\x89PNG")
    assert training.main([*options, str(tmp_path / "log.words")]) == 2
    assert training.main(["--run", str(tmp_path), "--plot", str(tmp_path / "log.png")]) == 2
    assert [line.startswith("error: ") for line in capsys.readouterr().err.splitlines()] == [
        True,
        True,
    ]


# greedy search


def copy_rows(count, seed, shortest=3):
    random = np.random.default_rng(seed)
    rows = [random.integers(4, 12, random.integers(shortest, 7)).tolist() for _ in range(count)]
    return [(row + [EOS], [BOS, *row, EOS]) for row in rows]


def test_the_copy_task_is_learned():
    torch.manual_seed(0)
    config = replace(TINY, dropout=0.0, learning_rate=0.005, warmup_steps=50)
    model = make_model(config, 12, 12).to(device())
    optimizer, scheduler = make_optimizer(model, config, 300)
    seen = [copy_rows(64, step + 1) for step in range(300)]
    for rows in seen:
        train_step(model, Batch.collate(rows).to(device()), LabelSmoothing(0.1), optimizer, config)
        scheduler.step()
    unseen = [row for row in copy_rows(220, 0, shortest=6) if row not in itertools.chain(*seen)][
        :200
    ]
    assert len(unseen) == 200
    written = greedy_search(model.eval(), Batch.collate(unseen).src.to(device()), 20).tolist()
    assert sum(row[: len(tgt) - 1] == tgt[1:] for row, (_, tgt) in zip(written, unseen)) > 190


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_token_and_ends_in_time(seed):
    model, batch = random_model(seed), random_batch(seed, [1, 4, 6], [1, 1, 1])
    written = greedy_search(model, batch.src, max_length=9).tolist()
    for row, length in zip(range(3), (1, 4, 6)):
        ids = written[row][: written[row].index(EOS) + 1] if EOS in written[row] else []
        limit = min(2 * (length + 1) + 10, 10)
        assert (
            0 < len(ids) <= limit
            and set(written[row][len(ids) :]) <= {PAD}
            and not {PAD, UNK, BOS} & set(ids)
        )
        so_far = [BOS]
        for place, token in enumerate(ids, start=1):
            one = Batch.collate([(batch.src[row, : length + 1].tolist(), [*so_far, EOS])])
            logits = model(one.src, one.tgt_in, one.src_mask, one.tgt_mask)[0, -1]
            logits[[PAD, UNK, BOS]] = -math.inf
            assert token == (EOS if place == limit else logits.argmax())
            so_far.append(token)
        assert greedy_search(model, batch.src[row : row + 1, : length + 1], 9)[0].tolist() == ids

"""Several processes on this machine: they take the steps of one, and end together."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import (
    ROOT,
    TINY,
    free_port,
    random_batch,
    random_model,
    read_checkpoint,
    read_records,
)
from safetensors.torch import load_file, save_file
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from engine.corpus.pairs import load_data
from engine.errors import Stopped
from engine.run import join_processes, leave_processes, run_training
from notebooks import training
from notebooks.data_preparation import TokenBatchSampler
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.setup import replace
from notebooks.training import train_step

CONFIG = replace(TINY, dropout=0.0, steps=15, eval_steps=5, batch_tokens=61)
OPTIONS = "--config tiny --dtype float32 --dropout 0 --bleu-sentences 0 --steps 15 --eval-steps 5"
OPTIONS += " --batch-tokens 61"
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])


def run_together(*command, count=2, machines=1):
    """The same Python program as so many processes: exit status, stdout and stderr of each."""
    shared = dict(WORLD_SIZE=count, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    running = []
    for rank in range(count):
        here = dict(RANK=rank, LOCAL_RANK=rank // machines, LOCAL_WORLD_SIZE=count // machines)
        variables = {name: str(value) for name, value in (shared | here).items()}
        running.append(start(*command, **variables))
    try:
        texts = [process.communicate(timeout=300) for process in running]
        return [(process.returncode, *text) for process, text in zip(running, texts)]
    finally:
        for process in running:
            process.kill()


def start(*arguments, **variables):
    """A Python process of which stdout and stderr are read."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PATHS, **variables}
    options = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    return subprocess.Popen([sys.executable, *map(str, arguments)], cwd=ROOT, **options)


def write_program(program, data, folder):
    """A command line of a program that trains in the folder's `run`."""
    (folder / "program.py").write_text(program)
    return [folder / "program.py", "--data", data, *OPTIONS.split(), "--run", folder / "run"]


def assert_close_runs(one, other):
    """Losses and norms within 1e-4, over all records."""
    for left, right in zip(read_records(one), read_records(other), strict=True):
        for key in ("step", "loss", "dev_loss", "grad_norm"):
            assert left[key] == pytest.approx(right[key], rel=1e-4), (left, right)


@pytest.fixture(scope="module")
def alone(small_data, tmp_path_factory):
    """A run of CONFIG with one process."""
    run = tmp_path_factory.mktemp("alone") / "run"
    run_training(small_data, CONFIG, run)
    return run


@pytest.fixture(scope="module")
def by_two(small_data, tmp_path_factory):
    """The same by two processes, as two machines have them."""
    run = tmp_path_factory.mktemp("two") / "run"
    argv = ["--data", small_data, *OPTIONS.split(), "--run", run]
    results = run_together(ROOT / "train.py", *argv, machines=2)
    assert [code for code, *_ in results] == [0, 0], results
    assert "Warning" not in results[0][2]
    return run


# the same steps


def take_steps():
    """Sums, norms and gradients of four steps, each batch whole and in three pieces.

    The second batch has fewer rows than there are processes. The third has a sentence that is
    longer than the table of positions, which grows in one process only.
    """
    several = distributed.is_initialized()
    place = (distributed.get_rank(), distributed.get_world_size()) if several else (0, 1)
    found = {}
    for pieces in (1, 3):
        config = replace(CONFIG, grad_accum_steps=pieces, max_grad_norm=1e9)
        model = random_model(place[0], dtype=torch.float32)  # DDP gives all the first one's weights
        wrapped = DistributedDataParallel(model, broadcast_buffers=False) if several else model
        batch_loss = BatchLoss(wrapped, LabelSmoothing(0.1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, lengths in enumerate([(5, 2, 3, 4, 1), (6,), (515, 3), (4, 2)]):
            batch = random_batch(step, lengths, [4, 7, 2, 3, 6])
            sums, norm = train_step(batch_loss, batch, optimizer, config, *place)
            if several:
                distributed.all_reduce(sums)
            found |= {f"{pieces}.{step}.sums": sums, f"{pieces}.{step}.norm": norm}
            for name, parameter in model.named_parameters():
                found[f"{pieces}.{step}.{name}"] = parameter.grad.clone()
    return found


def test_two_processes_have_the_losses_and_gradients_of_one(tmp_path):
    results = run_together(Path(__file__), tmp_path)
    assert [code for code, *_ in results] == [0, 0], results
    one = take_steps()
    first, second = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(2))
    torch.testing.assert_close(second, first, atol=0, rtol=0)
    torch.testing.assert_close(first, one, atol=1e-5, rtol=1e-4)
    for name in [name for name in one if name.startswith("1.")]:  # and pieces those of the whole
        torch.testing.assert_close(one["3" + name[1:]], one[name], atol=1e-4, rtol=1e-3)


def test_two_machines_take_the_steps_of_one(alone, by_two):
    assert_close_runs(alone, by_two)


def test_a_run_goes_on_with_three_processes_and_then_with_one(
    small_data, alone, tmp_path, monkeypatch
):
    """Stopped at step 5 with one process, at step 10 with three, ended with one."""
    batches = TokenBatchSampler(load_data(small_data, CONFIG)[2].lengths, CONFIG.batch_tokens)
    assert min(map(len, batches.batches()[5:10])) == 2  # an empty share for the third
    with monkeypatch.context() as patch, pytest.raises(Stopped, match="at step 5"):
        step_and_signal = lambda *a: (training_step(*a), signal.raise_signal(signal.SIGTERM))[0]  # noqa: E731
        training_step, calls = training.train_step, iter(range(1, 99))
        patch.setattr(
            training, "train_step",
            lambda *a: step_and_signal(*a) if next(calls) == 5 else training_step(*a),
        )  # fmt: skip
        run_training(small_data, CONFIG, tmp_path / "run")
    program = """
import os, signal
import train
from notebooks import training

def step_and_signal(*arguments, step=training.train_step, calls=[]):
    calls.append(0)
    if len(calls) == 5 and os.environ["RANK"] == "1":  # one is asked, and all stop
        signal.raise_signal(signal.SIGTERM)
    return step(*arguments)

training.train_step = step_and_signal
raise SystemExit(train.main())
"""
    command = write_program(program, small_data, tmp_path)
    codes, outputs, errors = zip(*run_together(*command, count=3))
    assert codes == (143, 143, 143), errors
    assert "asked to stop at step 10, saved" in errors[0]
    assert "".join(outputs).count("pairs to train on") == 0  # it was told at the beginning
    run_training(small_data, CONFIG, tmp_path / "run")
    assert_close_runs(alone, tmp_path / "run")


# ends


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
def test_a_sigterm_to_torchrun_saves_first_and_the_run_goes_on(small_data, by_two, tmp_path):
    program = """
import time, train
train.print_samples = lambda records: time.sleep(2)
raise SystemExit(train.main())
"""
    file, *argv = write_program(program, small_data, tmp_path)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    process = start(*torchrun, file, "--", *argv)
    deadline, run = time.time() + 120, tmp_path / "run"
    while not ((log := run / "log.jsonl").exists() and log.stat().st_size):
        assert process.poll() is None and time.time() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    step = read_checkpoint(run)["step"]
    assert step < 15 and f"asked to stop at step {step}, saved" in errors
    assert process.returncode != 0
    results = run_together(ROOT / "train.py", *argv)
    assert [code for code, *_ in results] == [0, 0], results
    weights = [load_file(one / "model.safetensors") for one in (run, by_two)]
    torch.testing.assert_close(*weights, atol=0, rtol=0)
    assert_close_runs(run, by_two)


if __name__ == "__main__":  # as torchrun starts it
    join_processes()
    rank = distributed.get_rank()
    save_file(take_steps(), Path(sys.argv[1]) / f"{rank}.safetensors")
    leave_processes()

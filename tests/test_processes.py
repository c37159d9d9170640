"""Two processes on this machine: they take the steps of one, and end together."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, assert_same_run, read_records, run_python

from notebooks.run_folder import RunFolder


def test_two_processes_take_the_steps_of_one(small_data, tmp_path):
    options = ["--data", small_data]
    options += "--config tiny --dtype float32 --dropout 0 --steps 12 --eval-steps 3".split()
    options += ["--batch-tokens", "100"]  # some batches have a single row
    one, two = tmp_path / "one", tmp_path / "two"
    assert run_python("-m", "notebooks.training", *options, "--run", one).returncode == 0
    launch = "-m torch.distributed.run --nproc-per-node 2 -m notebooks.training --".split()
    done = run_python(*launch, *options, "--run", two)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pairs to train on") == 1  # one process speaks for both
    for left, right in zip(read_records(one), read_records(two), strict=True):
        for key in ("loss", "dev_loss", "grad_norm"):
            assert math.isclose(left[key], right[key], rel_tol=1e-4), (left, right)


def test_one_process_out_of_memory_ends_all_with_one_line(small_data, tmp_path):
    """Two processes, of which the second has no memory: none waits for the other."""
    program = """
import sys, torch
from notebooks import training
from notebooks.loss import compute_loss
from notebooks.processes import processes

def loss_or_error(model, batch, criterion):
    if torch.is_grad_enabled() and processes().process_index == 1:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return compute_loss(model, batch, criterion)

training.compute_loss = loss_or_error
raise SystemExit(training.main())
"""
    (tmp_path / "short.py").write_text(program)
    options = ["--data", small_data, "--config", "tiny", "--run", tmp_path / "run"]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", 2, tmp_path / "short.py"]
    began = time.time()
    done = run_python(*launch, "--", *options, PYTHONPATH=str(ROOT))
    assert done.returncode != 0 and time.time() - began < 120
    assert done.stderr.count("error: out of memory (CUDA out of memory). Raise accumulate") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_saves_first_and_the_run_goes_on_to_the_same_end(small_data, tmp_path, processes):
    options = ["--data", small_data]
    options += "--config tiny --dtype float32 --steps 160 --eval-steps 160".split()
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", 2] if processes == 2 else []
    command = [*launch, "-m", "notebooks.training", *["--"][: len(launch)], *options, "--run"]
    process = subprocess.Popen(
        [sys.executable, *map(str, command), str(tmp_path / "cut")], cwd=ROOT, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.time() + 120
    log = tmp_path / "cut" / "log.jsonl"  # its first line comes after 50 steps
    while not (log.exists() and log.stat().st_size) and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    [saved] = RunFolder(tmp_path / "cut").checkpoints()
    step = int(saved.name.split("-")[1])
    assert step < 160 and f"asked to stop at step {step}, saved" in errors
    assert process.returncode == 143 or processes == 2  # torchrun has a status of its own
    for name in ("cut", "straight"):
        done = run_python(*command, tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "cut", tmp_path / "straight")

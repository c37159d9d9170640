"""Several processes on this machine: they take the steps of one, and end together."""

import os
import shutil
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
    assert_same_run,
    free_port,
    random_items,
    random_model,
    read_records,
    run_python,
)

import train
from notebooks.data_preparation import Batch, TokenBatchSampler, load_data
from notebooks.label_smoothing import LabelSmoothing
from notebooks.setup import replace
from notebooks.support import processes
from notebooks.support.errors import InputError, Stopped
from notebooks.support.model_files import read_tensors, write_tensors
from notebooks.support.processes import synchronised
from notebooks.support.run_folder import RunFolder
from notebooks.support.training_run import run_training
from notebooks.support.wrapped_loss import WrappedLoss
from notebooks.training import train_step

CONFIG = replace(TINY, dropout=0.0, steps=15, eval_steps=5, batch_tokens=61)
OPTIONS = "--config tiny --dtype float32 --dropout 0 --bleu-sentences 0 --steps 15 --eval-steps 5"
OPTIONS += " --batch-tokens 61"
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])


def launch(*machines, count=2):
    """The options of Python for torchrun: `count` processes here, as one of several machines."""
    where = machines or ["--standalone"]
    return ["-m", "torch.distributed.run", *where, "--nproc-per-node", count]


def start(*arguments, cwd=ROOT):
    """A Python process of which standard error is read."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PATHS}
    options = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    return subprocess.Popen([sys.executable, *map(str, arguments)], cwd=cwd, **options)


def run_program(program, data, folder, count=2):
    """Some processes of this program, which trains in the folder's `run`."""
    (folder / "program.py").write_text(program)
    options = ["--data", data, *OPTIONS.split(), "--run", folder / "run"]
    return run_python(*launch(count=count), folder / "program.py", "--", *options, PYTHONPATH=PATHS)


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


# the same steps


def take_steps():
    """Losses and gradients of this process in four steps, whole and in three parts.

    The second batch has fewer rows than there are processes. The third has a sentence that is
    longer than the table of positions, which grows in one process only.
    """
    here, found = processes.processes(), {}
    rank, count = here.process_index, here.num_processes
    for accumulate in (1, 3):
        config = replace(CONFIG, accumulate=accumulate, clip=1e9)
        model = random_model(rank, dtype=torch.float32)  # DDP gives all the first one's weights
        batch_loss = synchronised(WrappedLoss(model, LabelSmoothing(0.1), config))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, lengths in enumerate([(5, 2, 3, 4, 1), (6,), (515, 3), (4, 2)]):
            rows = random_items(step, lengths, [4, 7, 2, 3, 6])
            share = Batch.collate(rows[rank::count])
            figures = train_step(batch_loss, share, optimizer, config.clip)
            for name, tensor in zip(("loss", "tokens", "norm"), figures):
                found[f"{accumulate}.{step}.{name}"] = tensor.float()
            for name, parameter in model.named_parameters():
                found[f"{accumulate}.{step}.{name}"] = parameter.grad.clone()
    return found


@pytest.mark.parametrize("count", [2, 3])
def test_some_processes_have_the_losses_and_gradients_of_one(tmp_path, count):
    done = run_python(*launch(count=count), Path(__file__), tmp_path, PYTHONPATH=PATHS)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    one = take_steps()
    ranks = (0, count - 1)
    first, last = (read_tensors(tmp_path / f"{rank}.safetensors") for rank in ranks)
    torch.testing.assert_close(last, first, atol=0, rtol=0)
    torch.testing.assert_close(first, one, atol=1e-5, rtol=1e-4)


def test_a_run_goes_on_with_three_processes_and_then_with_one(small_data, alone, tmp_path):
    """Stopped at step 5 with one process, at step 10 with three, ended with one."""
    batches = TokenBatchSampler(load_data(small_data, CONFIG)[2].lengths, CONFIG.batch_tokens)
    assert min(map(len, batches.batches()[5:10])) == 2  # an empty share for the third

    def stop(records):
        if records[-1]["step"] in (5, 10):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped, match="at step 5"):
        run_training(small_data, CONFIG, tmp_path / "run", on_log=stop)
    program = """
import signal
import train
train.print_samples = lambda records: signal.raise_signal(signal.SIGTERM)
raise SystemExit(train.main())
"""
    done = run_program(program, small_data, tmp_path, count=3)
    assert "asked to stop at step 10, saved" in done.stderr
    assert done.stdout.count("pairs to train on") == 1  # one process speaks for both
    run_training(small_data, CONFIG, tmp_path / "run")
    assert_close_runs(alone, tmp_path / "run")


# several machines


def two_machines(data, run, folders):
    """Trains as two machines with a process each; what they wrote to standard error."""
    where = ["--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", free_port()]
    program = [ROOT / "train.py", "--", "--data", data, *OPTIONS.split(), "--run", run]
    machines = [
        start(*launch(*where, "--node-rank", node, count=1), *program, cwd=folder)
        for node, folder in enumerate(folders)
    ]
    try:
        errors = [machine.communicate(timeout=120)[1] for machine in machines]
        return [machine.returncode for machine in machines], errors
    finally:
        for machine in machines:
            machine.kill()


def test_two_machines_take_the_steps_of_one(small_data, alone, tmp_path):
    codes, errors = two_machines(small_data, tmp_path / "run", [ROOT, ROOT])
    assert codes == [0, 0], errors
    assert_close_runs(alone, tmp_path / "run")


def test_machines_without_a_shared_disk_are_told_in_one_line(small_data, tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    codes, errors = two_machines(small_data, "run", [tmp_path / "a", tmp_path / "b"])
    told = "error: run/config.json: is not here, though the first process has it. Several machines"
    assert 0 not in codes
    assert errors[1].count(told) == 1
    assert errors[0].count("error: another process of this training has ended") == 1


def test_a_checkpoint_that_only_the_first_process_has_is_told_too(alone, small_data, monkeypatch):
    monkeypatch.setattr("notebooks.support.session.highest", lambda step: step + 1)
    with pytest.raises(InputError, match="step-16: is not here, .*one shared disk"):
        run_training(small_data, CONFIG, alone)


@pytest.mark.skipif(not shutil.which("make"), reason="no make on this machine")
def test_make_starts_one_machine_or_one_of_several():
    def told(*options):
        command = ["make", "-n", "train-large", "PROCESSES=8", *options]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout

    assert "torchrun --standalone --nproc-per-node 8 train.py" in told()
    wanted = "--nnodes 2 --node-rank 1 --master-addr first --master-port 29500 --nproc-per-node 8"
    assert f"torchrun {wanted} train.py" in told("NODES=2", "NODE=1", "MASTER=first")


# ends


def run_faulty(data, folder, fault):
    """Two processes, of which the second has this fault in its third step."""
    program = f"""
import os, signal, time, torch
from pathlib import Path
import train
from notebooks import training
from notebooks.support.processes import processes

def step_or_fault(*arguments, step=training.train_step, calls=[]):
    calls.append(0)
    if len(calls) == 3 and processes().process_index == 1:
        Path("{folder}/time").write_text(str(time.time()))
        {fault}
    return step(*arguments)

training.train_step = step_or_fault
raise SystemExit(train.main())
"""
    done = run_program(program, data, folder)
    seconds = time.time() - float((folder / "time").read_text())
    assert done.returncode != 0
    assert seconds < 20, done.stderr
    return done.stderr


def test_one_process_out_of_memory_ends_all_with_one_line(small_data, tmp_path):
    fault = "raise torch.OutOfMemoryError('CUDA out of memory')"
    errors = run_faulty(small_data, tmp_path, fault)
    assert errors.count("error: out of memory (CUDA out of memory). Raise accumulate") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_process_ends_the_others_with_a_message(small_data, tmp_path):
    errors = run_faulty(small_data, tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert errors.count("error: another process of this training has ended") == 1


def test_what_is_left_at_the_end_cannot_abort(small_data, tmp_path):
    """As threads of a library sometimes do when Python takes them down."""
    program = """
import os
import train

class Left:
    def __del__(self):
        os.abort()

train.left = Left()
raise SystemExit(train.main())
"""
    done = run_program(program, small_data, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "finished at step" in done.stdout


def test_other_errors_are_not_taken_for_a_lost_process():
    with pytest.raises(RuntimeError, match="shapes"), processes.connected():
        raise RuntimeError("shapes do not fit")


def test_after_an_error_no_process_waits_for_the_connection_to_close(monkeypatch):
    """NCCL would wait for those that are gone; `run_command` ends the process."""
    closed = []
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: closed.append(1))
    with pytest.raises(OSError), processes.connected():
        raise OSError("no space")
    assert not closed
    with processes.connected():
        pass
    assert closed == [1]


def test_who_is_missing_at_the_start_is_told(monkeypatch):
    def alone(_):
        raise torch.distributed.DistNetworkError("gone")

    monkeypatch.setattr(processes, "highest", alone)
    with pytest.raises(InputError, match="another process of this training has ended"):
        with processes.connected():
            pytest.fail("it began to work")


def test_more_processes_than_gpus_is_one_line(small_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(processes, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    processes.processes.cache_clear()
    assert train.main(["--data", str(small_data), "--run", str(tmp_path / "run")]) == 2
    told = "error: 3 processes on a machine with 2 GPUs. Start torchrun with --nproc-per-node 2\n"
    assert capsys.readouterr().err == told
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
@pytest.mark.parametrize("count", [1, 2])
def test_sigterm_saves_first_and_the_run_goes_on_to_the_same_end(small_data, tmp_path, count):
    options = "--config tiny --dtype float32 --steps 160 --eval-steps 160 --run".split()
    command = [*launch(), ROOT / "train.py", "--"] if count == 2 else [ROOT / "train.py"]
    command += ["--data", small_data, *options]
    process = start(*command, tmp_path / "cut")
    deadline = time.time() + 120
    log = tmp_path / "cut" / "log.jsonl"  # its first line comes after 50 steps
    while not (log.exists() and log.stat().st_size) and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    [saved] = RunFolder(tmp_path / "cut").checkpoints()
    step = int(saved.name.split("-")[1])
    assert step < 160
    assert f"asked to stop at step {step}, saved" in errors
    assert process.returncode == 143 or count == 2  # torchrun has a status of its own
    for name in ("cut", "straight"):
        done = run_python(*command, tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "cut", tmp_path / "straight")


if __name__ == "__main__":  # as torchrun starts it
    with processes.connected():
        rank = processes.processes().process_index
        write_tensors(Path(sys.argv[1]) / f"{rank}.safetensors", take_steps())

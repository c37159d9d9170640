"""Several processes on this machine: they take the steps of one, and end together."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

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
from engine import processes, session
from engine.corpus.pairs import load_data
from engine.errors import InputError, Stopped
from engine.model_files import read_tensors, write_tensors
from engine.processes import wrap_ddp
from engine.run_folder import RunFolder
from engine.training_run import run_training
from engine.wrapped_loss import WrappedLoss
from notebooks.data_preparation import Batch, TokenBatchSampler
from notebooks.label_smoothing import LabelSmoothing
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
    return run


# the same steps


def take_steps():
    """Losses and gradients of this process in four steps, whole and in three parts.

    The second batch has fewer rows than there are processes. The third has a sentence that is
    longer than the table of positions, which grows in one process only.
    """
    here, figures_of = processes.processes(), {}
    rank, count = here.process_index, here.num_processes
    for accumulate in (1, 3):
        config = replace(CONFIG, grad_accum_steps=accumulate, max_grad_norm=1e9)
        model = random_model(rank, dtype=torch.float32)  # DDP gives all the first one's weights
        batch_loss = wrap_ddp(WrappedLoss(model, LabelSmoothing(0.1), config))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, lengths in enumerate([(5, 2, 3, 4, 1), (6,), (515, 3), (4, 2)]):
            rows = random_items(step, lengths, [4, 7, 2, 3, 6])
            share = Batch.collate(rows[rank::count])
            figures = train_step(batch_loss, share, optimizer, config.max_grad_norm)
            for name, tensor in zip(("loss", "tokens", "norm"), figures):
                figures_of[f"{accumulate}.{step}.{name}"] = tensor.float()
            for name, parameter in model.named_parameters():
                figures_of[f"{accumulate}.{step}.{name}"] = parameter.grad.clone()
    return figures_of


def test_two_processes_have_the_losses_and_gradients_of_one(tmp_path):
    results = run_together(Path(__file__), tmp_path)
    assert [code for code, *_ in results] == [0, 0], results
    assert "Warning" not in results[0][2]
    one = take_steps()
    first, second = (read_tensors(tmp_path / f"{rank}.safetensors") for rank in range(2))
    torch.testing.assert_close(second, first, atol=0, rtol=0)
    torch.testing.assert_close(first, one, atol=1e-5, rtol=1e-4)


def test_two_machines_take_the_steps_of_one(alone, by_two):
    assert_close_runs(alone, by_two)


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
import os, signal
import train

class Left:
    def __del__(self):  # as threads of a library sometimes do when Python takes them down
        os.abort()

train.left = Left()
train.print_samples = lambda records: signal.raise_signal(signal.SIGTERM)
raise SystemExit(train.main())
"""
    command = write_program(program, small_data, tmp_path)
    codes, outputs, errors = zip(*run_together(*command, count=3))
    assert codes == (143, 143, 143), errors
    assert "asked to stop at step 10, saved" in errors[0]
    assert "".join(outputs).count("pairs to train on") == 1  # one process speaks for all
    run_training(small_data, CONFIG, tmp_path / "run")
    assert_close_runs(alone, tmp_path / "run")


# several machines


def test_two_processes_train_an_edited_class_with_a_parameter_that_is_not_used(
    small_data, tmp_path
):
    program = """
import torch
import train
from engine import processes
from notebooks.feed_forward import PositionwiseFeedForward

def init(self, *sizes, before=PositionwiseFeedForward.__init__):
    before(self, *sizes)
    self.gate = torch.nn.Parameter(torch.zeros(1))

PositionwiseFeedForward.__init__ = init
processes.edited_names = lambda: ["PositionwiseFeedForward"]
raise SystemExit(train.main())
"""
    results = run_together(*write_program(program, small_data, tmp_path))
    assert [code for code, *_ in results] == [0, 0], results


def test_machines_without_a_shared_disk_are_told(alone, small_data, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(InputError, match="step-16: is not here"):
        patch.setattr(session, "all_reduce_max", lambda step: step + 1)
        run_training(small_data, CONFIG, alone)
    another = SimpleNamespace(is_main_process=False)
    monkeypatch.setattr(session, "processes", lambda: another)
    with pytest.raises(InputError, match="config.json: is not here, .*one shared disk"):
        run_training(small_data, CONFIG, tmp_path / "run")


@pytest.mark.skipif(not shutil.which("make"), reason="no make on this machine")
def test_make_starts_one_machine_or_one_of_several():
    def dry_run(*options):
        command = ["make", "-n", "train-large", "PROCESSES=8", *options]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout

    assert "torchrun --standalone --nproc-per-node 8 train.py" in dry_run()
    wanted = "--nnodes 2 --node-rank 1 --master-addr first --master-port 29500 --nproc-per-node 8"
    assert f"torchrun {wanted} train.py" in dry_run("NODES=2", "NODE=1", "MASTER=first")


# ends


def run_faulty(data, folder, fault):
    """Two processes, of which the second has this fault in its third step."""
    program = f"""
import os, signal, time, torch
from pathlib import Path
import train
from notebooks import training
from engine.processes import processes

def step_or_fault(*arguments, step=training.train_step, calls=[]):
    calls.append(0)
    if len(calls) == 3 and processes().process_index == 1:
        Path("{folder}/time").write_text(str(time.time()))
        {fault}
    return step(*arguments)

training.train_step = step_or_fault
raise SystemExit(train.main())
"""
    results = run_together(*write_program(program, data, folder))
    seconds = time.time() - float((folder / "time").read_text())
    assert seconds < 60 and all(code != 0 for code, *_ in results), results
    return [errors for *_, errors in results]


def test_one_process_out_of_memory_ends_all(small_data, tmp_path):
    fault = "raise torch.OutOfMemoryError('CUDA out of memory')"
    errors = run_faulty(small_data, tmp_path, fault)
    assert errors[1].count("error: out of memory (CUDA out of memory). Raise grad_accum_steps") == 1
    assert "Traceback" not in "".join(errors)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_process_ends_the_others_with_a_message(small_data, tmp_path):
    errors = run_faulty(small_data, tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert errors[0].count("error: another process of this training has ended") == 1


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

    monkeypatch.setattr(processes, "all_reduce_max", alone)
    with pytest.raises(InputError, match="another process of this training has ended"):
        with processes.connected():
            pytest.fail("it began to work")


def test_more_processes_than_gpus_is_one_line(small_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(processes, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    processes.processes.cache_clear()
    assert train.main(["--data", str(small_data), "--run", str(tmp_path / "run")]) == 2
    assert "Start torchrun with --nproc-per-node 2\n" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("variable", ["WORLD_SIZE=", "LOCAL_WORLD_SIZE=x", "WORLD_SIZE=2"])
def test_incomplete_variables_of_processes_are_one_line(variable):
    """As a job script sets them, or `mpirun`."""
    program = """
from engine.errors import run_command
from engine.processes import processes
raise SystemExit(run_command(lambda argv: processes() and 0, []))
"""
    name, _, value = variable.partition("=")
    done = run_python("-c", program, **{name: value})
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "for one process unset WORLD_SIZE" in done.stderr


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
    [saved] = RunFolder(run).checkpoints()
    assert f"asked to stop at step {saved.name.split('-')[1]}, saved" in errors
    assert process.returncode != 0
    results = run_together(ROOT / "train.py", *argv)
    assert [code for code, *_ in results] == [0, 0], results
    assert_same_run(run, by_two)


if __name__ == "__main__":  # as torchrun starts it
    with processes.connected():
        rank = processes.processes().process_index
        write_tensors(Path(sys.argv[1]) / f"{rank}.safetensors", take_steps())

"""On real GPUs, where there are some: what the simulated accelerator cannot show."""

import math

import pytest
from conftest import ROOT, read_records, run_python

from engine.run_folder import RunFolder

OPTIONS = "--config tiny --dtype float32 --dropout 0 --steps 12 --eval-steps 6".split()


def trained(small_data, run, gpus):
    """The log's records of a short run on so many GPUs, one process for each; 0: on the CPU."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", gpus]
    program = [*launch, ROOT / "train.py", "--"] if gpus > 1 else [ROOT / "train.py"]
    seen = ",".join(map(str, range(gpus)))
    options = ["--data", small_data, "--run", run, *OPTIONS]
    done = run_python(*program, *options, CUDA_VISIBLE_DEVICES=seen)
    assert done.returncode == 0, done.stderr
    assert f"float32 on {'cuda' if gpus else 'cpu'}" in done.stdout
    return read_records(run)


def assert_same_steps(*runs):
    """Two logs with the same numbers, but for rounding."""
    for one, other in zip(*runs, strict=True):
        for name in ("loss", "dev_loss", "grad_norm"):
            assert one[name] == pytest.approx(other[name], rel=1e-3), (one, other)


@pytest.mark.gpu(1)
def test_a_gpu_takes_the_steps_of_the_cpu_and_translates(small_data, tmp_path):
    assert_same_steps(*(trained(small_data, tmp_path / str(gpus), gpus) for gpus in (0, 1)))
    command = [ROOT / "translate.py", "--run", tmp_path / "1", "Good morning."]
    for size in (1, 4):
        done = run_python(*command, "--beam-size", size, CUDA_VISIBLE_DEVICES="0")
        assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr


@pytest.mark.gpu(1)
def test_a_gpu_trains_in_the_type_that_it_has_and_says_so(small_data, tmp_path):
    options = ["--data", small_data, "--config", "tiny", "--run", tmp_path]
    done = run_python(ROOT / "train.py", *options, CUDA_VISIBLE_DEVICES="0")
    assert f"parameters, {RunFolder(tmp_path).read_config().dtype} on cuda" in done.stdout
    losses = [record["loss"] for record in read_records(tmp_path)]
    assert [loss for loss in losses if not math.isfinite(loss)] == []


@pytest.mark.gpu(1)
def test_a_compiled_training_takes_the_steps_of_the_cpu(small_data, tmp_path):
    records = [trained(small_data, tmp_path / "cpu", 0)]
    program = """
import train
from engine import fast_forms
fast_forms.WORTH_COMPILING = 1
raise SystemExit(train.main())
"""
    options = ["--data", small_data, "--run", tmp_path / "gpu", *OPTIONS]
    done = run_python("-c", program, *options, CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    assert "compiling the model" in done.stdout
    assert_same_steps(*records, read_records(tmp_path / "gpu"))


@pytest.mark.gpu(2)
def test_two_gpus_take_the_steps_of_one(small_data, tmp_path):
    assert_same_steps(*(trained(small_data, tmp_path / str(gpus), gpus) for gpus in (1, 2)))

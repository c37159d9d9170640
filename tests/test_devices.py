"""Where to compute: what is asked for, and whether Apple's GPU computes right."""

import pytest
import torch
from conftest import found_device, run_python

import train
from engine import devices
from engine.errors import InputError


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    """No variable of the user's, and an empty cache."""
    monkeypatch.setenv("TRANSFORMER_DEVICE", "auto")
    monkeypatch.setattr(devices, "private_folder", lambda: tmp_path)


@pytest.mark.parametrize("name", ["cpu", "cuda", "mps"])
def test_the_variable_decides(monkeypatch, name):
    monkeypatch.setenv("TRANSFORMER_DEVICE", name)
    assert found_device() == torch.device(name)


def test_a_variable_that_names_no_device(monkeypatch):
    monkeypatch.setenv("TRANSFORMER_DEVICE", "gpu")
    with pytest.raises(ValueError, match="TRANSFORMER_DEVICE is 'gpu': give one of auto, cpu"):
        found_device()
    with pytest.raises(InputError, match="TRANSFORMER_DEVICE is 'gpu': give one of auto, cpu"):
        devices.choose_device()


def test_a_device_that_is_not_here_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train.main(["--device", "cuda"]) == 2
    told = "error: there is no cuda device here for PyTorch. Try: --device auto\n"
    assert capsys.readouterr().err == told


def test_the_option_is_what_is_computed_on(monkeypatch, small_data, tmp_path):
    # where there is a GPU too
    command = ["--config", "tiny", "--data", small_data, "--steps", "1", "--run", tmp_path / "run"]
    done = run_python("train.py", *command, "--device", "cpu", TRANSFORMER_DEVICE="cuda")
    assert done.returncode == 0, done.stderr
    assert " on cpu" in done.stdout


def test_two_trainings_on_one_device_are_equal():
    assert devices.compare("cpu") == 0
    losses = devices.ten_losses("cpu")
    assert losses[-1] < losses[0] - 0.5


def simulate(monkeypatch, change):
    """A device "mps" on which the softmax of `x` is that of `change(x)`; counts its trainings."""
    real, softmax, trained = devices.ten_losses, torch.Tensor.softmax, []

    def ten_losses(place):
        with monkeypatch.context() as patched:
            if place == "mps":
                trained.append(place)
                patched.setattr(torch.Tensor, "softmax", lambda x, dim: softmax(change(x), dim))
            return real("cpu")

    monkeypatch.setattr(devices, "ten_losses", ten_losses)
    return trained


@pytest.mark.parametrize("change", [lambda x: 1.3 * x, lambda x: x / 0])
def test_a_device_that_computes_wrongly_is_not_used(monkeypatch, capsys, change):
    trained = simulate(monkeypatch, change)
    for _ in range(2):  # the second time the cache says it
        assert devices.main() == 1
        assert "Apple's GPU is not used: ten training steps were" in capsys.readouterr().out
    assert len(trained) == 1


def test_a_device_that_computes_right_is_used_and_nobody_has_tested_it(monkeypatch, capsys):
    trained = simulate(monkeypatch, lambda x: x + 1)  # the same but for rounding
    for _ in range(2):
        assert devices.main() == 0
        assert "computing on Apple's GPU (nobody has run" in capsys.readouterr().out
    assert len(trained) == 1


def test_a_comparison_that_fails_means_the_cpu():
    # PyTorch says that there is an MPS, and there is none
    code = (
        "import utils; utils.torch.backends.mps.is_available = lambda: True; print(utils.device())"
    )
    done = run_python("-c", code, CUDA_VISIBLE_DEVICES="", TRANSFORMER_DEVICE="auto")
    assert done.stdout == "cpu\n"
    assert done.stderr == "Apple's GPU is not used: comparing it with the CPU failed\n"

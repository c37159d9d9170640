"""Where to compute: what is asked for."""

import pytest
import torch
from conftest import found_device, run_python

import train
from engine import devices
from engine.errors import InputError


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """No variable of the user's."""
    monkeypatch.setenv("TRANSFORMER_DEVICE", "auto")


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
    message = "error: there is no cuda device here for PyTorch. Try: --device auto\n"
    assert capsys.readouterr().err == message


def test_the_option_is_what_is_computed_on(monkeypatch, small_data, tmp_path):
    # where there is a GPU too
    command = ["--config", "tiny", "--data", small_data, "--steps", "1", "--run", tmp_path / "run"]
    done = run_python("train.py", *command, "--device", "cpu", TRANSFORMER_DEVICE="cuda")
    assert done.returncode == 0, done.stderr
    assert " on cpu" in done.stdout

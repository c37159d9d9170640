"""Where to compute: what is asked for."""

import pytest
import torch
from conftest import found_device

import train


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """No variable of the user's."""
    monkeypatch.setenv("TRANSFORMER_DEVICE", "auto")


@pytest.mark.parametrize("name", ["cpu", "cuda", "mps"])
def test_the_variable_decides(monkeypatch, name):
    monkeypatch.setenv("TRANSFORMER_DEVICE", name)
    assert found_device() == torch.device(name)


def test_a_device_that_is_not_here_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train.main(["--device", "cuda"]) == 2
    message = "error: there is no cuda device here for PyTorch. Try: --device auto\n"
    assert capsys.readouterr().err == message

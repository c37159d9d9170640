"""The helpers of utils.py, whose printing nbval compares; data types; files."""

from contextlib import nullcontext

import pytest
import torch
from conftest import found_device, run_python

import utils
from engine import files, precision


@pytest.mark.parametrize(
    "error, told",
    [
        (None, "right"),
        (AssertionError("shape (2, 3), not (3, 2)"), "not yet. shape (2, 3), not (3, 2)"),
        (NotImplementedError, "not filled yet"),
        # a gap in PyTorch, not the hole
        (NotImplementedError("no such"), "not yet. It stopped with NotImplementedError: no such"),
    ],
)
def test_check_says_what_is_wrong_and_what_is_right(capsys, error, told):
    def asserts():
        if error:
            raise error

    utils.check("Exercise 1")(asserts)
    assert capsys.readouterr().out == f"Exercise 1: {told}\n"


def test_no_check_passes_where_asserts_are_switched_off():
    check = "from utils import check\n@check('Exercise 1')\ndef _():\n    assert False"
    assert "not yet. It stopped with RuntimeError: PYTHON" in run_python("-O", "-c", check).stdout


def test_device_prefers_cuda_and_takes_mps_only_where_asked(monkeypatch):
    monkeypatch.setattr(utils.torch.backends.mps, "is_available", lambda: True)
    for there, kind in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(utils.torch.cuda, "is_available", lambda there=there: there)
        assert found_device().type == kind


@pytest.mark.parametrize("native", [True, False])
def test_a_gpu_without_bfloat16_computes_in_float32(monkeypatch, native):
    monkeypatch.setattr(precision, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    assert precision.native_dtype() == ("bfloat16" if native else "float32")


@pytest.mark.parametrize("fast", ["float32", "bfloat16"])
def test_a_processor_computes_in_the_type_that_it_multiplies_faster(monkeypatch, fast):
    """With AVX-512's bfloat16 alone, as where AMX is hidden, float32 was 1.4 times as fast."""
    monkeypatch.setattr(precision, "device", lambda: torch.device("cpu"))
    can = {"avx512_bf16": True, "amx_bf16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: can, raising=False)
    monkeypatch.setattr(precision, "seconds_of_product", lambda dtype: 1 if dtype == fast else 2)
    assert precision.native_dtype() == fast


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_only_on_cuda_a_search_computes_with_less_precision(monkeypatch, place):
    """On a CPU a batch has to return what each of its sentences returns alone."""
    monkeypatch.setattr(precision, "device", lambda: torch.device(place))
    asked, matmul = [], torch.backends.cuda.matmul

    def note(dtype):
        asked.append(dtype)
        return nullcontext()

    monkeypatch.setattr(precision, "precision", note)
    before = matmul.allow_tf32
    with precision.search_precision("bfloat16"):
        assert matmul.allow_tf32 == (place == "cuda")
    assert matmul.allow_tf32 == before
    assert asked == ["bfloat16" if place == "cuda" else "float32"]


def test_json_is_written_whole_or_not_at_all(monkeypatch, tmp_path):
    path = tmp_path / "state.json"
    files.write_json(path, {"name": "旧"})
    monkeypatch.setattr(files.os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        files.write_json(path, {"name": "新"})
    assert files.json.loads(path.read_text(encoding="utf-8")) == {"name": "旧"}
    assert list(tmp_path.iterdir()) == [path]

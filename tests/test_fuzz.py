"""Damaged files end a program in one line: 20 random examples (`make fuzz` tries 10,000)."""

import sys
import time

import fuzz
import pytest
from conftest import ROOT, run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and limits memory")


def test_20_damaged_folders():
    done = run_python(ROOT / "tests" / "fuzz.py", "--examples", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 examples, nothing found" in done.stdout
    drawn = [name for name in fuzz.commands(ROOT) if f"{name:10} exit status" in done.stdout]
    assert len(drawn) > 3, done.stdout
    assert done.stdout.count("exit status 2") > 1, done.stdout


def fails(argv):
    raise KeyError("my slip")


def prints_two_errors(argv):
    print("error: one\nerror: two", file=sys.stderr)
    return 2


@pytest.mark.parametrize(
    "program, status",
    [
        (fails, 99),
        (prints_two_errors, 2),
        (lambda argv: time.sleep(9), "hangs: over 2 seconds"),
    ],
)
def test_a_fault_would_be_found(tmp_path, monkeypatch, program, status):
    monkeypatch.setattr(fuzz, "SECONDS", 2)
    output = tmp_path / "output"
    output.touch()
    assert fuzz.run_child(program, [], tmp_path, output) == status
    with pytest.raises(AssertionError, match="what was done"):
        fuzz.judge(status, output.read_text(), "what was done")


def test_a_change_elsewhere_would_be_found(tmp_path):
    before = fuzz.state(tmp_path)
    (tmp_path / "new").touch()
    assert fuzz.state(tmp_path) != before

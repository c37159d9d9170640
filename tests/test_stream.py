"""Lines are translated as they come, in order, and memory does not grow with their number."""

import itertools
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from conftest import ROOT

import translate
from engine.errors import InputError
from engine.plain_text import rounds
from engine.stream import translate_lines


def test_a_line_is_answered_before_the_next_is_there():
    coming = queue.Queue()
    pieces = rounds(iter(coming.get, None))
    for text in ("one", "two", "three"):
        coming.put(text)
        assert next(pieces) == [text]
    coming.put(None)
    assert list(pieces) == []


def test_many_lines_come_in_large_pieces_in_their_order():
    assert list(itertools.chain(*rounds(iter(range(10_000)), size=100))) == list(range(10_000))


def test_reading_stays_a_round_ahead_at_most():
    taken = itertools.count()
    pieces = rounds(taken, size=50)
    for _ in range(10):
        assert 1 <= len(next(pieces)) <= 50
    assert next(taken) <= 10 * 50 + 50 + 2


def test_an_error_comes_after_the_lines_before_it():
    def lines():
        yield from "ab"
        raise InputError("line 3: bad")

    read = []
    with pytest.raises(InputError, match="line 3: bad"):
        for piece in rounds(lines()):
            read += piece
    assert read == ["a", "b"]


def program(run, **options):
    """The translation program, with pipes to and from it."""
    command = [sys.executable, ROOT / "translate.py", "--run", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes, **options)


def read_line(file, seconds=60):
    """The next line of a pipe. Raises queue.Empty when it does not come."""
    lines = queue.Queue()
    threading.Thread(target=lambda: lines.put(file.readline()), daemon=True).start()
    return lines.get(timeout=seconds)


def send(running, line):
    running.stdin.write(line)
    running.stdin.flush()


def test_a_pipe_that_stays_open_is_answered_line_by_line_until_bytes_are_no_text(finished_run):
    with program(finished_run) as running:
        for line in (b"Good morning.\n", b"\n", b"Yes.\n"):
            send(running, line)
            assert read_line(running.stdout).endswith(b"\n")
        out, message = running.communicate(b"No.\n\xff\nYes.\n")
    assert (running.returncode, out.count(b"\n")) == (2, 1)
    assert b"standard input, line 5, byte 1: not UTF-8" in message


def test_who_stops_reading_ends_it_quietly(finished_run):
    with program(finished_run) as running:
        send(running, b"Good morning.\n")
        assert read_line(running.stdout)
        running.stdout.close()
        running.stdin.write(b"Yes.\n")
        running.stdin.close()
        assert (running.stderr.read(), running.wait()) == (b"", 141)


def test_bytes_of_a_file_that_are_no_text(finished_run, tmp_path, capsys):
    (tmp_path / "bad.txt").write_bytes(b"Yes.\n\xff\n")
    options = ["--run", str(finished_run), "--input", str(tmp_path / "bad.txt")]
    assert translate.main(options) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "bad.txt, line 2, byte 1: not UTF-8" in captured.err


def test_an_argument_that_is_not_utf8_is_told_before_any_work():
    with pytest.raises(InputError, match="text 2: not UTF-8"):
        translate_lines(pytest.fail, ("Yes.", "caf\udce9"))


def test_standard_input_that_is_written_to_is_refused(finished_run, tmp_path):
    """It would be answered without end."""
    path = tmp_path / "texts"
    path.write_text("Two.\n")
    with open(path) as source, open(path, "a") as target:
        command = [sys.executable, ROOT / "translate.py", "--run", finished_run]
        options = dict(stdin=source, stdout=target, stderr=subprocess.PIPE, text=True)
        done = subprocess.run(command, timeout=120, **options)
    assert done.returncode == 2 and "read and written at once" in done.stderr
    assert path.read_text() == "Two.\n"


def test_numbers_of_lines_go_on_over_the_rounds(capsys, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{number}\n" for number in range(1, 4501)))

    def translate_typed(lines, first):
        assert [int(line) for line in lines] == [*range(first, first + len(lines))]
        return lines

    translator = SimpleNamespace(translate_typed=translate_typed, unknown_words=lambda _: Counter())
    translate_lines(lambda: translator, path=path)
    assert capsys.readouterr().out == path.read_text()

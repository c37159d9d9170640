"""Lines are translated as they come, in order, and memory does not grow with their number."""

import itertools
import os
import queue
import subprocess
import sys
import threading

from conftest import ROOT

from engine.plain_text import rounds


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

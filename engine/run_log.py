"""The log of a run, log.jsonl: written as it trains, read, and drawn."""

import json
import math
import sys
import time
from datetime import UTC, datetime

import torch

from engine.errors import InputError
from engine.files import write_whole
from utils import device

RECORD = {"step", "epoch", "loss", "learning_rate", "grad_norm", "tokens_per_second", "seconds"}


def read_log(path, last_step=math.inf):
    """The records of a log up to a step. Lines that are no record are left out."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    records = [record for record in map(parse_record, lines) if record]
    return [record for record in records if record["step"] <= last_step]


def parse_record(line):
    """A line of the log as a dict, with all of RECORD and numbers only but for samples; or None."""
    try:
        record = json.loads(line.decode())
        numbers = [record[name] for name in record.keys() - {"samples", "time", "memory_mib"}]
        whole = record.keys() >= RECORD and type(record["step"]) is int
        for sentence, translation in record.get("samples", ()):
            whole = whole and type(sentence) is type(translation) is str
        return record if whole and all(map(math.isfinite, numbers)) else None
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return None


def as_line(record):
    """A record as a line of the log."""
    return json.dumps(record, ensure_ascii=False) + "\n"


class Log:
    """All records of a run, and what has happened since the last one."""

    def __init__(self, path):
        self.path = path
        self.records = []
        self.learning_rate = 0
        self.size = 0  # bytes of the file
        self.start_over()

    def go_on(self, progress, write):
        """Reads the records up to the run's progress; the later ones will be written again."""
        self.records = read_log(self.path, progress.step) if write else []
        if write:
            write_whole(self.path, "".join(map(as_line, self.records)))
        self.size = self.on_disk()
        self.start_over()
        self.loss = progress.loss
        self.tokens = progress.tokens
        self.before = int(self.tokens)

    def start_over(self):
        """The next record begins here."""
        self.loss = 0
        self.tokens = 0
        self.norm = 0
        self.before = 0  # tokens from before a stop: left out of the speed
        self.began = self.until = time.perf_counter()

    def pause(self):
        """What was done since the last step is no training."""
        self.began = time.perf_counter()

    def add(self, loss, tokens, norm, learning_rate):
        """A step is done. A GPU need not wait here."""
        self.loss = self.loss + loss
        self.tokens = self.tokens + tokens
        self.norm = norm
        self.learning_rate = learning_rate
        self.until = time.perf_counter()

    def check_numbers(self, step, *values):
        """Raises InputError when one is no number any more: such weights must not be saved."""
        if not math.isfinite(sum(map(float, (self.norm, *values)))):
            hint = "begin anew with a lower learning_rate (--restart, or another --run)"
            where = f"the loss is no number at step {step}"
            raise InputError(f"{where}: {hint}; the last good checkpoint is kept")

    def record(self, progress, write, **more):
        """One record over the steps since the last, with further entries from an evaluation."""
        tokens = int(self.tokens)
        if tokens:
            loss = float(self.loss / self.tokens)
        elif more:  # an edited loop evaluates twice, or before the first step
            loss = self.records[-1]["loss"] if self.records else more["dev_loss"]
        else:
            return
        if not more:  # the steps end where a GPU has done what `loss` waited for
            self.until = time.perf_counter()
        seconds = self.until - self.began or 1e-9  # no step, no time
        self.check_numbers(progress.step, loss, more.get("dev_loss", 0))
        record = {
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": loss,
            "learning_rate": self.learning_rate,
            "grad_norm": float(self.norm),
            **more,
            "tokens_per_second": (tokens - self.before) / seconds,
            "seconds": seconds,
            "time": now(),
            "memory_mib": memory(),
        }
        self.records.append(record)
        if write:
            if self.on_disk() < self.size:  # emptied by somebody, or removed
                write_whole(self.path, "".join(map(as_line, self.records)))
            else:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(as_line(record))
            self.size = self.on_disk()

    def on_disk(self):
        """How many bytes the file has."""
        return self.path.stat().st_size if self.path.exists() else 0


def now():
    """The time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def memory():
    """The most MiB that this process has held so far: of a GPU if it uses one, else of the machine.

    None where the system does not report it.
    """
    if device().type == "cuda":
        return torch.cuda.max_memory_allocated() >> 20
    try:
        import resource  # Linux and macOS have it
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # in which they count
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit >> 20

"""A run while it trains: begun or found again, held against others, saved, stopped."""

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from engine import checkpoints
from engine.checkpoints import Progress, step_of
from engine.definitions import lesson_digests, lessons_changed
from engine.errors import InputError, Stopped
from engine.files import check_folder, read_json, write_json
from engine.model_files import (
    check_storable,
    made_for,
    save_tokenizer,
    weights_digest,
    weights_of,
    write_tensors,
)
from engine.precision import native_dtype
from engine.processes import all_reduce_max, processes, wait_for_all
from engine.run_folder import RunFolder, is_the_box
from engine.run_log import Log, now
from utils import ROOT, device

FILES = [
    "search.json",
    "scores.json",
    "log.jsonl",
    "model.safetensors",
    "vocabulary.src.json",
    "vocabulary.tgt.json",
    "config.json",
    "made.json",  # the last one that is deleted: it says that the others are ours
]
SIGNALS = ("SIGTERM", "SIGHUP")  # what a cluster sends, and a terminal that is closed


class TrainingSession:
    """Everything that training writes into a run folder, which nobody else may write to meanwhile.

    `with TrainingSession(...) as session` begins the run, its data type settled, or finds that it
    was begun with these settings and vocabularies; `session.config` holds its settings. Then
    `resume` goes on from the newest checkpoint, `add` and `log` note what training does, `keep` and
    `save` write weights. With several processes all call the same methods; the first one writes.
    `on_log` is called with all records whenever there is a new one; `start` is the path of the
    weights that the run begins with, if it does. Raises InputError when it is another run, when
    another process trains there, or when the folder holds files of others.
    """

    def __init__(self, path, config, source, target, restart=False, on_log=None, start=None):
        self.folder = RunFolder(path)
        self.config = config
        self.on_log = on_log
        self.start = {
            "start": str(start) if start else None,
            "start_sha256": weights_digest(start) if start else None,
        }
        self.tokenizers, self.restart = (source, target), restart
        self.checkpoints = self.folder.path / "checkpoints"
        self.log_file = Log(self.folder.path / "log.jsonl")
        self.progress = Progress()
        self.position = (0, 0)
        self.saved = None  # the step of the newest checkpoint
        self.writes = processes().is_main_process
        self.made_for = made_for(config, source, target)
        self.digests = lesson_digests()
        self.held = ExitStack()
        self.asked = []
        self.bar = tqdm(disable=True)

    @property
    def records(self):
        """All records of the log."""
        return self.log_file.records

    # beginning, and beginning anew

    def __enter__(self):
        path = self.folder.path
        check_place(path)
        with ExitStack() as held:
            if self.writes:
                path.mkdir(parents=True, exist_ok=True)
                check_ours(path)
                held.enter_context(only_here(path))
                if self.restart:
                    for tokenizer in self.tokenizers:  # before an old run goes
                        check_storable(tokenizer)
                    clear(path)
                if (path / "config.json").exists():
                    self.compare()
                else:
                    self.begin()
            wait_for_all()  # for the first one, until it is there
            self.shared(path / "config.json")
            self.config = self.folder.read_config()
            self.held = held.pop_all()
        return self

    def __exit__(self, *_):
        self.held.close()

    def shared(self, path):
        """The path. Raises InputError when this machine does not see what the first one sees."""
        if not path.exists():
            hint = "Several machines need one shared disk: give a --run on it"
            raise InputError(f"{path}: is not here, though the first process has it. {hint}")
        return path

    def begin(self):
        """Writes what makes the run, vocabularies and settings; with config.json it is begun."""
        path = self.folder.path
        config = self.config
        if (path / "model.safetensors").exists() or self.folder.checkpoints():
            hint = "Put it back, or begin anew with --restart"
            raise InputError(f"{path}: holds weights, and its config.json is missing. {hint}")
        write_json(path / "made.json", what_makes_it() | self.digests | self.start)
        for side, tokenizer in zip(("src", "tgt"), self.tokenizers):
            save_tokenizer(tokenizer, path / f"vocabulary.{side}.json")
        settled = replace(config, dtype=native_dtype()) if config.dtype == "auto" else config
        write_json(path / "config.json", asdict(settled))

    def compare(self):
        """Raises InputError when the folder holds a run with other settings or vocabularies."""
        old = asdict(self.folder.read_config())
        new = asdict(self.config)
        if self.config.dtype == "auto":
            new["dtype"] = old["dtype"]
        changed = [f"{name} {old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
        made = read_json(self.folder.path / "made.json")
        if made.get("start_sha256") != self.start["start_sha256"]:
            weights = [one.get("start") or "random ones" for one in (made, self.start)]
            changed.append(f"the weights {weights[0]}, not {weights[1]} as they are now")
        for stored, given, side in zip(self.folder.tokenizers(), self.tokenizers, ("src", "tgt")):
            if stored.vocabulary.tokens != given.vocabulary.tokens:
                changed.append(f"another {side} vocabulary, so other training text")
        if changed:
            hint = "Use --restart to begin anew, or another --run"
            raise InputError(f"{self.folder.path}: was begun with {'; '.join(changed)}. {hint}")

    def resume(self, model, optimizer, scheduler, train_set, dev_set, measure):
        """Fills model, optimizer and scheduler from the newest checkpoint, if there is one.

        Keeps all that it is given. Raises InputError when the checkpoint was made on other data:
        its position in the data would mean nothing.
        """
        self.model = model
        self.parts = model, optimizer, scheduler
        self.train_set = train_set
        self.dev_set = dev_set
        self.measure = measure
        path = self.folder.path
        weights = path / "model.safetensors"
        here = self.folder.checkpoints() if self.writes else []
        if step := all_reduce_max(step_of(here[-1]) if here else 0):
            newest = self.shared(self.checkpoints / f"step-{step}")
            more = self.made_for, self.digests
            self.progress, changed = checkpoints.load_checkpoint(newest, *self.parts, *more)
            self.saved = step
            if all_reduce_max(changed):
                self.go_on_with_other_lessons()
        elif self.writes and weights.exists() and not self.checkpoints.exists():
            lost = "has weights and no checkpoint to go on from"
            raise InputError(f"{path}: {lost}. --restart begins anew")
        both = fingerprint(train_set) + fingerprint(dev_set)
        data = hashlib.sha256(both.encode()).hexdigest()
        if self.progress.data not in ("", data):
            hint = "Use --restart to begin anew, or another --run"
            wrong = "its checkpoint was made on other pairs, or on these in files of another form"
            raise InputError(f"{path}: {wrong}. {hint}")
        self.progress.data = data
        if self.progress.finished and not weights.exists():
            hint = "Put it back, or train again with --restart"
            raise InputError(f"{weights}: missing, though the run is finished. {hint}")
        if self.progress.finished and self.writes:
            print(f"{path}: is finished already; --restart begins anew")
        self.log_file.go_on(self.progress, self.writes)

    def go_on_with_other_lessons(self):
        """Says so. A run that is not finished looks for its best weights anew."""
        hint = "Train again with --restart, make run with RESTART=1"
        if not self.progress.finished:
            self.progress.forget_best()
            hint = "It goes on with them, its best weights are sought anew; --restart begins anew"
        if self.writes:
            since = f"the lessons have changed since step {self.progress.step}"
            print(f"{self.folder.path}: {since}. {hint}")

    # while it trains

    @contextmanager
    def going(self, compiled=False):
        """While it trains: a progress bar, and signals are noticed for `stop_if_asked`.

        A compiled model's first step ends at once: the signal may have ended the processes that
        compile, for which it would wait for ever, and there is nothing yet to save.
        """
        numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
        begun = self.progress.step

        def ask(*_):
            self.asked.append(True)
            if compiled and self.progress.step == begun:
                raise KeyboardInterrupt

        # nohup lets SIGHUP be ignored
        heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, ask) for number in heard}
        pause = 0.1 if sys.stderr.isatty() else 5  # seconds between two pictures of the bar
        bar = tqdm(
            total=self.config.steps,
            initial=self.progress.step,
            unit="step",
            mininterval=pause,
            disable=not self.writes,
        )
        try:
            with bar as self.bar:
                yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def add(self, loss, tokens, norm, learning_rate):
        """A step is done with the batch at `position`. A GPU need not wait here."""
        self.progress.step += 1
        self.progress.epoch, self.progress.batch = self.position
        self.log_file.add(loss, tokens, norm, learning_rate)
        self.bar.update()

    def log(self, **more):
        """One record over the steps since the last, with further entries from an evaluation."""
        self.log_file.record(self.progress, self.writes, **more)
        if not self.records:
            return
        record = self.records[-1]
        status = f"loss {record['loss']:.3f}, {record['tokens_per_second']:,.0f} tokens/s"
        self.bar.set_postfix_str(status)
        if self.writes and self.on_log:
            try:
                self.on_log(self.records)
            except OSError:  # nobody reads what is printed any more: the run saves itself
                self.asked.append(True)
        self.log_file.start_over()

    def keep(self, better):
        """After an evaluation, the weights to translate with, by `Config.keep`."""
        if self.writes and (better or self.config.keep != "best"):
            weights = weights_of(self.model)
            if self.config.keep == "average":
                evaluated = self.evaluated()
                weights = checkpoints.average(self.checkpoints, self.config, weights, evaluated)
            path = self.folder.path / "model.safetensors"
            write_tensors(path, weights, dtype=self.config.dtype, made_for=self.made_for)
            made = read_json(self.folder.path / "made.json")
            if lessons_changed(made, self.digests):  # the code that these weights belong to
                write_json(self.folder.path / "made.json", made | self.digests)
            # a length penalty that was chosen for other weights
            (self.folder.path / "search.json").unlink(missing_ok=True)

    def evaluated(self):
        """The steps after which the model was evaluated."""
        return {record["step"] for record in self.records if "dev_loss" in record}

    def save(self):
        """A checkpoint of this step; the oldest of more than `Config.checkpoints` is dropped."""
        progress = self.progress
        log = self.log_file
        log.check_numbers(progress.step, log.loss)
        progress.loss = float(log.loss)
        progress.tokens = float(log.tokens)
        if self.writes:
            more = progress, self.made_for, self.digests
            checkpoints.save_checkpoint(self.checkpoints, *self.parts, *more)
            checkpoints.drop_old(self.checkpoints, self.config, self.evaluated())
        wait_for_all()  # for the first one, until it is written
        self.saved = progress.step
        log.pause()

    def stop_if_asked(self):
        """After a signal to any process: saves, and raises Stopped in all of them."""
        if all_reduce_max(len(self.asked)) and not self.progress.finished:
            self.save()
            where = f"asked to stop at step {self.progress.step}, saved"
            raise Stopped(f"{self.folder.path}: {where}; the same command goes on from there")


def check_place(path):
    """Raises InputError for a folder that no run may be written to."""
    check_folder(path, "--run")
    if is_the_box(path):
        raise InputError(f"--run {path} is the model in the box. Give a folder of its own")
    if (path / "run.py").exists():
        raise InputError(f"--run {path} is an exported model, and no run. Give another folder")


def check_ours(path):
    """Raises InputError for a folder with a link, or with files that no run of ours has written."""
    names = [*FILES, "checkpoints", "lock"]
    if links := [name for name in names if (path / name).is_symlink()]:
        raise InputError(f"{path / links[0]}: is a link. Give the run a folder of its own")
    there = [name for name in FILES if (path / name).exists()]
    there += [folder.name for folder in checkpoints.step_folders(path / "checkpoints")]
    made = path / "made.json"
    if there and not (made.exists() and {"command", "torch"} <= read_json(made).keys()):
        hint = "Give another --run"
        raise InputError(f"{path}: holds {there[0]}, and no made.json of a run of ours. {hint}")


@contextmanager
def only_here(path):
    """While this process writes into a run folder: InputError in any other that wants to."""
    try:
        with FileLock(path / "lock", timeout=0):
            yield
    except Timeout:
        hint = "Wait for the other training to end, or give another --run"
        raise InputError(f"{path}: is in use. {hint}") from None


def clear(path):
    """Deletes what a run has written into its folder, and nothing else."""
    folder = path / "checkpoints"
    folders = [*checkpoints.step_folders(folder), *checkpoints.step_folders(folder, ".tmp")]
    for checkpoint in folders:
        shutil.rmtree(checkpoint)
    for name in FILES:
        (path / name).unlink(missing_ok=True)


def fingerprint(data_set):
    """SHA-256 of all ids of a data set; one that was prepared on the disk brings its own."""
    if hasattr(data_set, "fingerprint"):
        return data_set.fingerprint
    return hashlib.sha256(repr(data_set.items).encode()).hexdigest()


def what_makes_it():
    """Command, versions, device, the course's commit if Git knows one, and the time."""
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):  # no Git here
        commit = ""
    gpu = torch.cuda.get_device_name() if device().type == "cuda" else ""
    words = [os.fsencode(word).decode(errors="backslashreplace") for word in sys.argv]
    return {
        "command": words,
        "time": now(),
        "commit": commit or None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "device": f"{device()} {gpu}".strip(),
        "threads": torch.get_num_threads(),
        "processes": processes().num_processes,
    }

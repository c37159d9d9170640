"""A run on the disk, found again after a kill: `RunFolder`, used by notebooks 15 and 16.

A run folder holds config.json, vocabulary.src.json, vocabulary.tgt.json, made.json (what began the
run: command, versions, device, commit), model.safetensors (the weights to translate with),
log.jsonl, scores.json, search.json (a length penalty that was chosen), and checkpoints/step-N/ with
weights, Adam's moments and state.json. Every file but the log is written under a temporary name and
then renamed, so it is old or new and never half; the log is appended to, and what is no record in
it is skipped. The file `lock` is held by the process that trains in the folder.
"""

import hashlib
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from notebooks.data_preparation import BOS, EOS, padding_mask
from notebooks.make_model import make_model
from notebooks.setup import Config
from notebooks.support.checks import check_fields
from notebooks.support.errors import InputError, Stopped
from notebooks.support.files import read_form, regular, write_json, write_whole
from notebooks.support.model_files import (
    load_tokenizer,
    load_weights,
    read_like,
    read_tensors,
    save_tokenizer,
    write_tensors,
)
from notebooks.support.precision import native_dtype
from notebooks.support.processes import highest, processes, wait_for_all
from notebooks.support.trackers import PROJECT
from utils import ROOT, device

# a trained model that comes along; only `make model` writes there
BOX = ROOT / "data_small" / "model"
FILES = [
    "search.json",
    "scores.json",
    "log.jsonl",
    "model.safetensors",
    "made.json",
    "vocabulary.src.json",
    "vocabulary.tgt.json",
    "config.json",
]
RECORD = {"step", "epoch", "loss", "learning_rate", "grad_norm", "tokens_per_second", "seconds"}
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # PyTorch's names for Adam's counter, m and v


@dataclass
class Progress:
    """Where a run stands: all that its next step depends on besides weights and moments."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of the epoch already used
    best_loss: float = math.inf  # the lowest dev loss so far
    stale: int = 0  # evaluations since then
    finished: bool = False
    data: str = ""  # fingerprint of what it is trained and evaluated on
    loss: float = 0.0  # summed since the last record of the log
    tokens: float = 0.0  # likewise

    def __post_init__(self):
        check_fields(self)

    def judge(self, dev_loss, config):
        """Notes an evaluation: whether it is the best so far, and whether the run ends with it."""
        better = dev_loss < self.best_loss
        self.best_loss = min(dev_loss, self.best_loss)
        self.stale = 0 if better else self.stale + 1
        self.finished = self.step >= config.steps or 0 < config.patience <= self.stale
        return better


@dataclass
class Search:
    """How a run is translated with, chosen on dev: search.json."""

    alpha: float  # length penalty

    def __post_init__(self):
        check_fields(self)


class RunFolder:
    """One run: what its folder holds, and what training writes into it.

    `open` begins it or finds it again, `resume` goes on from its newest checkpoint, `add` and `log`
    note what training does, `keep` and `save` write weights, `load` gives the trained model back.
    With several processes all call the same methods; the first one writes. `on_log` is called with
    all records of the log whenever there is a new one.
    """

    def __init__(self, path, on_log=None):
        self.path, self.on_log = Path(path), on_log
        self.records, self.progress, self.position = [], Progress(), (0, 0)

    # what the folder holds

    def read_config(self):
        """Its Config. Raises InputError when there is none, or when a setting is impossible."""
        if not self.path.is_dir():
            hint = f"Train one with: python train.py --run {self.path}"
            raise InputError(f"{self.path}: no such run folder. {hint}")
        return read_form(self.path / "config.json", Config, whole=False)

    def tokenizers(self):
        """Its source and its target tokenizer."""
        return [load_tokenizer(self.path / f"vocabulary.{side}.json") for side in ("src", "tgt")]

    def is_finished(self):
        """Whether it was trained to its end: by its newest checkpoint, or else by its log."""
        if not (self.path / "model.safetensors").exists():
            return False
        if newest := self.checkpoints()[-1:]:
            return read_form(newest[0] / "state.json", Progress, whole=True).finished
        last = self.read_config().steps
        return any(record["step"] == last for record in self.read_log())

    def load(self, place=None):
        """Config, source tokenizer, target tokenizer and model, in eval mode.

        On `device()`, or on the device `place`. Raises InputError for a file that is missing or
        damaged, and for weights so large that the model cannot compute with them.
        """
        config, (source, target) = self.read_config(), self.tokenizers()
        model = make_model(config, len(source), len(target))
        load_weights(model, self.path / "model.safetensors")
        place = place or device()
        model = model.to(place).eval()
        src, tgt = (torch.tensor([[number]], device=place) for number in (EOS, BOS))
        with torch.inference_mode():
            logits = model(src, tgt, padding_mask(src), padding_mask(tgt))
        if not logits.isfinite().all():
            hint = "Take a whole copy of it, or train again"
            raise InputError(f"{self.path}/model.safetensors: gives no numbers. {hint}")
        return config, source, target, model

    def alpha(self, otherwise):
        """The length penalty that was chosen for this run, else the one given."""
        path = self.path / "search.json"
        return read_form(path, Search, whole=True).alpha if path.exists() else otherwise

    def checkpoints(self):
        """The complete checkpoints, oldest first."""
        return sorted(step_folders(self.path / "checkpoints", ""), key=step_of)

    def read_log(self, last_step=math.inf):
        """The records of log.jsonl up to a step. Lines that are no record are left out."""
        path = self.path / "log.jsonl"
        lines = regular(path).read_bytes().split(b"\n") if path.exists() else []
        records = [record for record in map(parse_record, lines) if record]
        return [record for record in records if record["step"] <= last_step]

    def plot(self, picture):
        """Draws the log, while it trains or later, into a picture file."""
        from notebooks.support.pictures import training_curves  # only who draws loads matplotlib

        if Path(picture).is_dir():
            raise InputError(f"{picture}: is a folder. Give a picture file, such as log.png")
        records = self.read_log()
        if not records:
            raise InputError(
                f"{self.path}: holds no log yet. Is it the folder of a run that has begun?"
            )
        try:
            clip = self.read_config().clip
            training_curves(records, clip=clip)[0].figure.savefig(picture)
        except ValueError as error:  # an ending that names no picture format
            raise InputError(f"{picture}: {error}") from None

    # beginning, and beginning anew

    def open(self, config, source, target, restart=False):
        """Begins the run, its data type settled, or finds that it was begun with these settings.

        Afterwards `config` holds its settings. Raises InputError when it is another run, or when
        another process trains in the folder.
        """
        if self.path.resolve() == Path.cwd():
            raise InputError("--run is the current folder. Give the run a folder of its own")
        if self.path.resolve() == BOX:
            raise InputError(f"--run {self.path} is the model in the box. Give a folder of its own")
        if processes().is_main_process:
            self.path.mkdir(parents=True, exist_ok=True)
            with self.only_here():
                if restart:
                    self.clear()
                if (self.path / "config.json").exists():
                    self.compare(config, source, target)
                else:
                    self.begin(config, source, target)
        wait_for_all()  # for the first one, until it is there
        self.shared(self.path / "config.json")
        self.config = self.read_config()
        return self

    def shared(self, path):
        """The path. Raises InputError when this machine does not see what the first one sees."""
        if not path.exists():
            hint = "Several machines need one shared disk: give a --run on it"
            raise InputError(f"{path}: is not here, though the first process has it. {hint}")
        return path

    def clear(self):
        """Deletes what a run has written into its folder, and nothing else."""
        folder = self.path / "checkpoints"
        for checkpoint in [*step_folders(folder, ""), *step_folders(folder, ".tmp")]:
            shutil.rmtree(checkpoint)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        for path in [*map(self.path.joinpath, FILES), *self.path.glob(f"{PROJECT}/events.out.*")]:
            path.unlink(missing_ok=True)
        self.clear_temporary()

    def clear_temporary(self):
        """Deletes files that a process was writing when it was killed."""
        for name in FILES:
            for left in self.path.glob(f"{name}.{'[0-9a-f]' * 16}.tmp"):  # as `fresh_name` has it
                left.unlink()

    @contextmanager
    def only_here(self):
        """While this process writes into the folder: InputError in any other that wants to."""
        lock = FileLock(self.path / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            hint = "Wait for the other training to end, or give another --run"
            raise InputError(f"{self.path}: is in use. {hint}") from None
        try:
            yield
        finally:
            lock.release()

    def begin(self, config, source, target):
        """Writes vocabularies and settings: a folder with config.json holds a run."""
        save_tokenizer(source, self.path / "vocabulary.src.json")
        save_tokenizer(target, self.path / "vocabulary.tgt.json")
        write_json(self.path / "made.json", what_makes_it())
        settled = replace(config, dtype=native_dtype()) if config.dtype == "auto" else config
        write_json(self.path / "config.json", asdict(settled))

    def compare(self, config, source, target):
        """Raises InputError when the folder holds a run with other settings or vocabularies."""
        old, new = asdict(self.read_config()), asdict(config)
        if config.dtype == "auto":
            new["dtype"] = old["dtype"]
        changed = [f"{name} {old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
        for kept, given, side in zip(self.tokenizers(), (source, target), ("src", "tgt")):
            if kept.vocabulary.tokens != given.vocabulary.tokens:
                changed.append(f"another {side} vocabulary, so other training text")
        if changed:
            hint = "Use --restart to begin anew, or another --run"
            raise InputError(f"{self.path}: was begun with {'; '.join(changed)}. {hint}")

    # while it trains

    def resume(self, model, optimizer, scheduler, *data_sets):
        """Fills model, optimizer and scheduler from the newest checkpoint, if there is one.

        Returns the run's `Progress`, which `add` moves on. From here until `going` has ended no
        other process may train in the folder. Raises InputError when one does, or when the
        checkpoint was made on other data: its position in the data would mean nothing.
        """
        with ExitStack() as held:
            if processes().is_main_process:
                held.enter_context(self.only_here())
                self.clear_temporary()
            self.find_progress(model, optimizer, scheduler, data_sets)
            self.held = held.pop_all()
        self.start_over()
        self.loss, self.tokens = self.progress.loss, self.progress.tokens
        self.before = int(self.tokens)  # from before a stop: left out of the speed
        return self.progress

    def find_progress(self, model, optimizer, scheduler, data_sets):
        """Reads the first process's newest checkpoint, if there is one, and the log up to it."""
        here = self.checkpoints() if processes().is_main_process else []
        if step := highest(step_of(here[-1]) if here else 0):
            newest = self.shared(self.path / "checkpoints" / f"step-{step}")
            self.progress = load_checkpoint(newest, model, optimizer, scheduler)
        both = "".join(map(fingerprint, data_sets))
        data = hashlib.sha256(both.encode()).hexdigest()
        if self.progress.data not in ("", data):
            hint = "Use --restart to begin anew, or another --run"
            raise InputError(f"{self.path}: its checkpoint was made on other pairs. {hint}")
        self.progress.data = data
        weights = self.path / "model.safetensors"
        if self.progress.finished and not weights.exists():
            hint = "Put it back, or train again with --restart"
            raise InputError(f"{weights}: missing, though the run is finished. {hint}")
        if processes().is_main_process:
            if self.progress.finished:
                print(f"{self.path}: is finished already; --restart begins anew")
            self.records = self.read_log(self.progress.step)  # the later ones will come again
            self.write_log()

    @contextmanager
    def going(self):
        """While it trains: a progress bar, and SIGTERM is noticed for `stop_if_asked`.

        A cluster sends that signal before it takes a machine away.
        """
        self.asked = []
        before = signal.signal(signal.SIGTERM, lambda *_: self.asked.append(True))
        pause = 0.1 if sys.stderr.isatty() else 5  # seconds between two pictures of the bar
        options = dict(unit="step", mininterval=pause, disable=not processes().is_main_process)
        total, initial = self.config.steps, self.progress.step
        try:
            with tqdm(total=total, initial=initial, **options) as self.bar:
                yield self
        finally:
            signal.signal(signal.SIGTERM, before)
            self.held.close()

    def add(self, loss, tokens, norm, learning_rate):
        """A step is done with the batch at `position`. A GPU need not wait here."""
        self.progress.step += 1
        self.progress.epoch, self.progress.batch = self.position
        self.loss, self.tokens = self.loss + loss, self.tokens + tokens
        self.norm, self.learning_rate = norm, learning_rate
        self.until = time.perf_counter()
        self.bar.update()

    def start_over(self):
        """The next record of the log begins here."""
        self.loss, self.tokens, self.norm, self.before = 0, 0, 0, 0
        self.began = self.until = time.perf_counter()

    def log(self, **more):
        """One record over the steps since the last, with further entries from an evaluation."""
        loss, tokens = float(self.loss / self.tokens), int(self.tokens)
        if not more:  # the steps end where a GPU has done what `loss` waited for
            self.until = time.perf_counter()
        seconds = self.until - self.began
        speed = (tokens - self.before) / seconds
        self.check_numbers(loss, self.norm, more.get("dev_loss", 0))
        record = {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "loss": loss,
            "learning_rate": self.learning_rate,
            "grad_norm": float(self.norm),
            **more,
            "tokens_per_second": speed,
            "seconds": seconds,
            "time": now(),
            "memory_mib": memory(),
        }
        self.records.append(record)
        self.bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s")
        if processes().is_main_process:
            with (self.path / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            if self.on_log:
                self.on_log(self.records)
        self.start_over()

    def write_log(self):
        """Writes log.jsonl anew, all or nothing."""
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in self.records]
        write_whole(self.path / "log.jsonl", "".join(lines))

    def check_numbers(self, *values):
        """Raises InputError when one is no number any more: such weights must not be saved."""
        if not math.isfinite(sum(map(float, values))):
            hint = "begin anew with a lower learning_rate (--restart, or another --run)"
            where = f"the loss is no number at step {self.progress.step}"
            raise InputError(f"{where}: {hint}; the last good checkpoint is kept")

    def keep(self, model, better):
        """After an evaluation, the weights to translate with, as `Config.keep` says."""
        if processes().is_main_process and (better or self.config.keep != "best"):
            weights = dict(model.named_parameters())
            if self.config.keep == "average":
                weights = self.average(weights)
            path = self.path / "model.safetensors"
            write_tensors(path, weights, dtype=self.config.dtype)

    def average(self, weights):
        """Their mean with those of the other checkpoints that are kept (the paper, section 6.1)."""
        means = {name: tensor.detach().cpu().double() for name, tensor in weights.items()}
        others = self.at_evaluations()[::-1][: self.config.checkpoints - 1]
        for folder in others:
            for name, tensor in read_tensors(folder / "model.safetensors").items():
                means[name] += tensor
        return {name: (total / (1 + len(others))).float() for name, total in means.items()}

    def at_evaluations(self):
        """The checkpoints made at evaluations: not those of a run that was stopped in between."""
        every, last = self.config.eval_steps, self.config.steps
        steps = [(folder, step_of(folder)) for folder in self.checkpoints()]
        return [folder for folder, step in steps if step % every == 0 or step == last]

    def save(self, model, optimizer):
        """A checkpoint of this step; the oldest of more than `Config.checkpoints` is dropped."""
        self.check_numbers(self.loss, self.norm)
        self.progress.loss, self.progress.tokens = float(self.loss), float(self.tokens)
        folder = self.path / "checkpoints" / f"step-{self.progress.step}"
        if processes().is_main_process and not folder.exists():
            write_checkpoint(folder, model, optimizer, self.progress)
            kept = self.at_evaluations()[-self.config.checkpoints :]
            for old in self.checkpoints()[:-1]:
                if old not in kept:  # renamed first: half a folder must not count as a checkpoint
                    shutil.rmtree(old.rename(old.with_name(old.name + ".tmp")))
        wait_for_all()  # for the first one, until it is written
        self.began = time.perf_counter()  # what was done here is not training

    def stop_if_asked(self, model, optimizer):
        """After SIGTERM in any process: saves, and raises Stopped in all of them."""
        if highest(len(self.asked)) and not self.progress.finished:
            self.save(model, optimizer)
            where = f"asked to stop at step {self.progress.step}, saved"
            raise Stopped(f"{self.path}: {where}; the same command goes on from there")


def fingerprint(data_set):
    """SHA-256 of all ids of a data set; one that was prepared on the disk brings its own."""
    if hasattr(data_set, "fingerprint"):
        return data_set.fingerprint
    return hashlib.sha256(repr(data_set.items).encode()).hexdigest()


def now():
    """The time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def memory():
    """The most MiB that this process has held so far: of a GPU if it uses one, else of the machine.

    None where the system does not tell.
    """
    if device().type == "cuda":
        return torch.cuda.max_memory_allocated() >> 20
    try:
        import resource  # Linux and macOS have it
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # in which they count
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit >> 20


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


def step_folders(folder, ending):
    """The folders in it that are called step-NUMBER and this ending."""
    name = re.compile(f"step-[0-9]+{re.escape(ending)}")
    return [path for path in folder.glob("step-*") if name.fullmatch(path.name) and path.is_dir()]


def step_of(folder):
    """The number in the name of a checkpoint's folder."""
    return int(folder.name.removeprefix("step-"))


def parse_record(line):
    """A line of the log as a dict, with all of RECORD and numbers only but for samples; or None."""
    try:
        record = json.loads(line.decode())
        numbers = [record[name] for name in record.keys() - {"samples", "time", "memory_mib"}]
        whole = record.keys() >= RECORD and type(record["step"]) is int
        return record if whole and all(map(math.isfinite, numbers)) else None
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return None


def write_checkpoint(folder, model, optimizer, progress):
    """Weights, Adam's moments and `Progress`, under a temporary name that is renamed at the end."""
    for left in step_folders(folder.parent, ".tmp"):  # by a process that was killed
        shutil.rmtree(left)
    temporary = folder.with_name(folder.name + ".tmp")
    temporary.mkdir(parents=True)
    names = {parameter: name for name, parameter in model.named_parameters()}
    states = [(names[parameter], state) for parameter, state in optimizer.state.items()]
    moments = {f"{name}.{key}": state[key] for name, state in states for key in state}
    write_tensors(temporary / "model.safetensors", dict(model.named_parameters()))
    write_tensors(temporary / "optimizer.safetensors", moments)
    write_json(temporary / "state.json", asdict(progress))
    temporary.rename(folder)


def load_checkpoint(folder, model, optimizer, scheduler):
    """Fills model, optimizer and scheduler from a checkpoint. Returns its Progress.

    The learning rate needs no file, since it is a function of the step.
    """
    load_weights(model, folder / "model.safetensors")
    wanted = {}
    for name, parameter in model.named_parameters():
        shapes = (torch.zeros(()), parameter, parameter)
        wanted |= {f"{name}.{key}": shape for key, shape in zip(MOMENTS, shapes)}
    moments = read_like(folder / "optimizer.safetensors", wanted)
    for name, parameter in model.named_parameters():
        state = {key: moments[f"{name}.{key}"].to(parameter.device) for key in MOMENTS}
        optimizer.state[parameter] = state
    progress = read_form(folder / "state.json", Progress, whole=True)
    if progress.step != step_of(folder):
        raise InputError(f"{folder}/state.json: is of step {progress.step}. Delete {folder}")
    scheduler.last_epoch = progress.step  # it counts steps, whatever its name
    for group, rate in zip(optimizer.param_groups, scheduler.lr_lambdas):
        group["lr"] = rate(progress.step)
    return progress

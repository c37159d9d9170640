"""A run on the disk: settings, vocabularies, weights, checkpoints and the log; found again after a kill."""

import hashlib
import json
import math
import shutil
import signal
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from notebooks.data_preparation import Tokenizer
from notebooks.make_model import load_weights, make_model, read_tensors, write_tensors
from notebooks.processes import processes
from notebooks.setup import Config, InputError, Stopped, read_json
from utils import device, native_dtype, put_in_place, write_json

LOG_STEPS = 50
RUN_FILES = "scores.json log.jsonl model.safetensors vocabulary.src.json vocabulary.tgt.json config.json".split()


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
    parts: int = 1  # in how many parts a batch is worked through
    loss: float = 0.0  # summed since the last record of the log
    tokens: float = 0.0  # likewise


def save_checkpoint(run, model, optimizer, progress, config):
    """Writes `checkpoints/step-N/` under a temporary name, renames it, and drops the old ones."""
    final = run / "checkpoints" / f"step-{progress.step}"
    if final.exists():  # saved at this step's evaluation already
        return
    for left in final.parent.glob("step-*.tmp"):  # by a process that was killed
        shutil.rmtree(left)
    temporary = final.with_name(final.name + ".tmp")
    temporary.mkdir(parents=True)
    names = {parameter: name for name, parameter in model.named_parameters()}
    moments = {
        f"{names[p]}.{key}": value
        for p, state in optimizer.state.items()
        for key, value in state.items()
    }
    write_tensors(temporary / "model.safetensors", dict(model.named_parameters()))
    write_tensors(temporary / "optimizer.safetensors", moments)
    write_json(temporary / "state.json", asdict(progress))
    temporary.rename(final)
    kept = at_evaluations(run, config)[-config.checkpoints :]
    for old in checkpoints(run)[:-1]:
        if old not in kept:  # renamed first: half a folder must not count as a checkpoint
            shutil.rmtree(old.rename(old.with_name(old.name + ".tmp")))


def checkpoints(run):
    """The complete checkpoints of a run folder, oldest first."""
    folders = [folder for folder in (run / "checkpoints").glob("step-*") if folder.suffix != ".tmp"]
    return sorted(folders, key=step_of)


def step_of(folder):
    """The number in the name of a checkpoint's folder."""
    return int(folder.name.removeprefix("step-"))


def at_evaluations(run, config):
    """The checkpoints made at multiples of eval_steps: not those of a run that was asked to stop in between."""
    return [folder for folder in checkpoints(run) if step_of(folder) % config.eval_steps == 0]


def average_weights(run, model, config):
    """The model's tensors by name, each the mean over itself and the other checkpoints to be kept (section 6.1)."""
    means = {
        name: parameter.detach().double().cpu() for name, parameter in model.named_parameters()
    }
    folders = at_evaluations(run, config)[::-1][: config.checkpoints - 1]
    for folder in folders:
        for name, tensor in read_tensors(folder / "model.safetensors").items():
            means[name] += tensor
    return {name: (total / (1 + len(folders))).float() for name, total in means.items()}


def load_checkpoint(run, model, optimizer, scheduler):
    """Fills model, optimizer and scheduler from the newest complete checkpoint. Returns its Progress, or None without one."""
    if not checkpoints(run):
        return None
    folder = checkpoints(run)[-1]
    load_weights(model, folder / "model.safetensors")
    moments = read_tensors(folder / "optimizer.safetensors")
    for name, parameter in model.named_parameters():
        keys = ("step", "exp_avg", "exp_avg_sq")
        optimizer.state[parameter] = {
            key: moments[f"{name}.{key}"].to(parameter.device) for key in keys
        }
    progress = Progress(**read_json(folder / "state.json"))
    scheduler.last_epoch = progress.step  # it counts steps, whatever its name
    for group, rate in zip(optimizer.param_groups, scheduler.lr_lambdas):
        group["lr"] = rate(progress.step)
    return progress


def read_log(run, last_step=math.inf):
    """The records of a run's log.jsonl up to a step. A last line that is only half written is left out."""
    path = run / "log.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return [record for record in records if record["step"] <= last_step]


def write_log(run, records):
    """Writes a run's log.jsonl anew, all or nothing."""
    temporary = run / "log.jsonl.tmp"
    temporary.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    put_in_place(temporary, run / "log.jsonl")


def check_numbers(step, *values):
    """Raises InputError when one of the values is no number any more: such weights must not be saved."""
    if not math.isfinite(sum(map(float, values))):
        raise InputError(
            f"the loss is no number at step {step}: begin anew with a lower learning_rate (--restart, or another "
            f"--run); the last good checkpoint is kept"
        )


class Log:
    """The records of a run: in `records`, in the file log.jsonl, and the newest on the progress bar."""

    def __init__(self, run, progress, bar, on_log):
        self.path, self.bar, self.on_log, self.records = run / "log.jsonl", bar, on_log, []
        if processes().is_main_process:
            self.records = read_log(run, progress.step)  # the later ones will come again
            write_log(run, self.records)
        self.start_over()
        self.loss, self.tokens = progress.loss, progress.tokens
        self.before = int(
            progress.tokens
        )  # from before a stop: left out of the speed, as their seconds are unknown

    def start_over(self):
        self.loss, self.tokens, self.norm, self.before = 0, 0, 0, 0
        self.began, self.seconds = time.perf_counter(), None

    def stop_clock(self):
        """Ends the time that the next record reports: what follows is not training."""
        self.seconds = time.perf_counter() - self.began

    def add(self, loss, tokens, norm):
        """What `train_step` returned. Nothing is read from the device here, so a GPU need not wait."""
        self.loss, self.tokens, self.norm = self.loss + loss, self.tokens + tokens, norm

    def save(self, progress):
        """Notes down what has been added since the last record."""
        check_numbers(progress.step, self.loss, self.norm)
        progress.loss, progress.tokens = float(self.loss), float(self.tokens)

    def write(self, progress, learning_rate, **more):
        """One record over the steps since the last."""
        loss, tokens = float(self.loss / self.tokens), int(self.tokens)
        seconds = self.seconds or time.perf_counter() - self.began
        speed = (tokens - self.before) / seconds
        check_numbers(progress.step, loss, self.norm, more.get("dev_loss", 0))
        record = {"step": progress.step, "epoch": progress.epoch, "loss": loss, "learning_rate": learning_rate,
                  "grad_norm": float(self.norm), **more, "tokens_per_second": speed, "seconds": seconds}  # fmt: skip
        self.records.append(record)
        self.bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s")
        if processes().is_main_process:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            if self.on_log:
                self.on_log(self.records)
        self.start_over()
        self.save(progress)


def check_data(run, progress, train_set, dev_set):
    """Raises InputError when a checkpoint was made on other data: its position in the data would mean nothing."""
    found = hashlib.sha256(
        "".join(part.fingerprint for part in (train_set, dev_set)).encode()
    ).hexdigest()
    if progress.data not in ("", found):
        raise InputError(
            f"{run}: its checkpoint was made on other pairs. Use --restart to begin anew, or another --run"
        )
    progress.data = found


@contextmanager
def noticing_sigterm():
    """Gives a list that fills when the system asks this process to end (SIGTERM), as a cluster does before it takes a machine."""
    asked = []
    before = signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def save_and_stop(run, model, optimizer, progress, config):
    """Writes a checkpoint, then raises Stopped, in all processes."""
    if processes().is_main_process:
        save_checkpoint(run, model, optimizer, progress, config)
    processes().wait_for_everyone()
    raise Stopped(
        f"{run}: asked to stop at step {progress.step}, saved; the same command goes on from there"
    )


def close_round(run, model, optimizer, progress, dev_loss, config):
    """After an evaluation: keep the weights if they are to be kept, see whether to stop, write a checkpoint."""
    better = dev_loss < progress.best_loss
    progress.best_loss, progress.stale = (
        min(dev_loss, progress.best_loss),
        0 if better else progress.stale + 1,
    )
    progress.finished = progress.step >= config.steps or 0 < config.patience <= progress.stale
    if processes().is_main_process:
        keep_now = better if config.keep == "best" else progress.finished
        if keep_now:
            weights = (
                average_weights(run, model, config)
                if config.keep == "average"
                else dict(model.named_parameters())
            )
            write_tensors(run / "model.safetensors", weights, dtype=config.dtype)
        save_checkpoint(run, model, optimizer, progress, config)
    processes().wait_for_everyone()


def load_run(run):
    """A run folder's config, source tokenizer, target tokenizer and model, on `device()` and in eval mode."""
    config = load_config(run)
    source, target = (
        Tokenizer.load(Path(run) / f"vocabulary.{side}.json") for side in ("src", "tgt")
    )
    model = make_model(config, len(source), len(target))
    load_weights(model, Path(run) / "model.safetensors")
    return config, source, target, model.to(device()).eval()


def load_config(run):
    """The Config of a run folder. Raises InputError when there is none, or when a setting is unknown or impossible."""
    if not Path(run).is_dir():
        raise InputError(
            f"{run}: no such run folder. Train one with: python -m notebooks.training --run {run}"
        )
    try:
        return Config(**read_json(Path(run) / "config.json"))
    except TypeError as error:
        raise InputError(f"{run}/config.json: {error}") from None


def open_run(run, config, source, target):
    """Begins the run folder, its data type settled, or checks that it holds this very run already."""
    path = run / "config.json"
    if not path.exists():
        run.mkdir(parents=True, exist_ok=True)
        source.save(run / "vocabulary.src.json")
        target.save(run / "vocabulary.tgt.json")
        write_json(
            path,
            asdict(replace(config, dtype=native_dtype()) if config.dtype == "auto" else config),
        )
        return
    old, new = asdict(load_config(run)), asdict(config)
    new["dtype"] = old["dtype"] if config.dtype == "auto" else config.dtype
    changed = [f"{name} {old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
    for tokenizer, side in ((source, "src"), (target, "tgt")):
        if (
            Tokenizer.load(run / f"vocabulary.{side}.json").vocabulary.tokens
            != tokenizer.vocabulary.tokens
        ):
            changed.append(f"another {side} vocabulary, so other training text")
    if changed:
        raise InputError(
            f"{run}: was begun with {'; '.join(changed)}. Use --restart to begin anew, or another --run"
        )


def remove_run(run):
    """Deletes what a run has written into its folder, and nothing else."""
    if (run / "checkpoints").exists():
        shutil.rmtree(run / "checkpoints")
    for name in RUN_FILES:
        (run / name).unlink(missing_ok=True)


def plot_log(run, path):
    """Draws a run's log.jsonl, while it trains or later."""
    from notebooks.pictures import training_curves  # only who draws loads matplotlib

    records = read_log(run)
    if not records:
        raise InputError(f"{run}: holds no log yet. Is it the folder of a run that has begun?")
    try:
        training_curves(records)[0].figure.savefig(path)
    except ValueError as error:  # an ending that names no picture format
        raise InputError(f"{path}: {error}") from None
    return 0

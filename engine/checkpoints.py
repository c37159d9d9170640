"""Checkpoints of a run: weights, Adam's moments and progress, whole or not at all."""

import math
import re
import shutil
from dataclasses import asdict, dataclass

import torch

from engine.checks import check_fields
from engine.errors import InputError
from engine.files import read_form, write_json
from engine.model_files import (
    load_weights,
    read_like,
    read_tensors,
    write_tensors,
)

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # PyTorch's names for Adam's counter, m and v


@dataclass
class Progress:
    """The progress of a run: all that its next step depends on besides weights and moments."""

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


def step_folders(folder, ending=""):
    """The folders in it that are called step-NUMBER and this ending; no links."""
    name = re.compile(f"step-[0-9]+{re.escape(ending)}")
    folders = [path for path in folder.glob("step-*") if name.fullmatch(path.name)]
    return [path for path in folders if path.is_dir() and not path.is_symlink()]


def step_of(folder):
    """The number in the name of a checkpoint's folder."""
    return int(folder.name.removeprefix("step-"))


def find_checkpoints(folder):
    """The complete checkpoints in it, oldest first."""
    return sorted(step_folders(folder), key=step_of)


def at_evaluations(folder, config):
    """Those made at evaluations: not where a run was stopped in between."""
    every = config.eval_steps
    last = config.steps
    steps = [(checkpoint, step_of(checkpoint)) for checkpoint in find_checkpoints(folder)]
    return [checkpoint for checkpoint, step in steps if step % every == 0 or step == last]


def save_checkpoint(folder, model, optimizer, progress, made_for):
    """Writes one more into `folder` under a temporary name that is renamed at the end."""
    whole = folder / f"step-{progress.step}"
    if whole.exists():  # the step ended with an evaluation, and then the run was stopped
        return
    for left in step_folders(folder, ".tmp"):  # by a process that was killed
        shutil.rmtree(left)
    temporary = whole.with_name(whole.name + ".tmp")
    temporary.mkdir(parents=True)
    names = {parameter: name for name, parameter in model.named_parameters()}
    states = [(names[parameter], state) for parameter, state in optimizer.state.items()]
    moments = {f"{name}.{key}": state[key] for name, state in states for key in state}
    weights = dict(model.named_parameters())
    write_tensors(temporary / "model.safetensors", weights, made_for=made_for)
    write_tensors(temporary / "optimizer.safetensors", moments)
    write_json(temporary / "state.json", asdict(progress))
    temporary.rename(whole)


def drop_old(folder, config):
    """Keeps the newest, and the last `Config.checkpoints` that were made at evaluations."""
    kept = at_evaluations(folder, config)[-config.checkpoints :]
    for old in find_checkpoints(folder)[:-1]:
        if old not in kept:  # renamed first: half a folder must not count as a checkpoint
            shutil.rmtree(old.rename(old.with_name(old.name + ".tmp")))


def load_checkpoint(checkpoint, model, optimizer, scheduler, made_for):
    """Fills model, optimizer and scheduler. Returns its Progress.

    The learning rate needs no file, since it is a function of the step.
    """
    load_weights(model, checkpoint / "model.safetensors", made_for)
    wanted = {}
    for name, parameter in model.named_parameters():
        shapes = (torch.zeros(()), parameter, parameter)
        wanted |= {f"{name}.{key}": shape for key, shape in zip(MOMENTS, shapes)}
    moments = read_like(checkpoint / "optimizer.safetensors", wanted)
    for name, parameter in model.named_parameters():
        state = {key: moments[f"{name}.{key}"].to(parameter.device) for key in MOMENTS}
        optimizer.state[parameter] = state
    progress = read_form(checkpoint / "state.json", Progress, whole=True)
    if progress.step != step_of(checkpoint):
        wrong = f"is of step {progress.step}. Delete {checkpoint}"
        raise InputError(f"{checkpoint}/state.json: {wrong}")
    scheduler.last_epoch = progress.step  # it counts steps, whatever its name
    for group, rate in zip(optimizer.param_groups, scheduler.lr_lambdas):
        group["lr"] = rate(progress.step)
    return progress


def average(folder, config, weights):
    """The mean of weights with those of the other checkpoints kept (the paper, section 6.1)."""
    means = {name: tensor.detach().cpu().double() for name, tensor in weights.items()}
    others = at_evaluations(folder, config)[::-1][: config.checkpoints - 1]
    for other in others:
        for name, tensor in read_tensors(other / "model.safetensors").items():
            means[name] += tensor
    return {name: (total / (1 + len(others))).float() for name, total in means.items()}

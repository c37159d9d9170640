"""Checkpoints of a run: weights, the optimizer's state and progress, whole or not at all."""

import json
import re
import shutil
from dataclasses import asdict, dataclass
from math import inf, isfinite

import torch

from engine.checks import check_fields
from engine.errors import InputError
from engine.files import read_form, read_json, write_json
from engine.model_files import (
    check_like,
    load_weights,
    read_tensors,
    weights_of,
    write_tensors,
)


@dataclass
class Progress:
    """The progress of a run: all that its next step depends on besides weights and moments."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of the epoch already used
    best_loss: float = inf  # the lowest dev loss so far
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


def at_evaluations(folder, evaluated):
    """Those made at evaluations, at these steps: not where a run was stopped in between."""
    return [one for one in find_checkpoints(folder) if step_of(one) in evaluated]


def save_checkpoint(folder, model, optimizer, scheduler, progress, made_for):
    """Writes one more into `folder` under a temporary name that is renamed at the end."""
    whole = folder / f"step-{progress.step}"
    if whole.exists():  # the step ended with an evaluation, and then the run was stopped
        return
    for left in step_folders(folder, ".tmp"):  # by a process that was killed
        shutil.rmtree(left)
    temporary = whole.with_name(whole.name + ".tmp")
    temporary.mkdir(parents=True)
    write_tensors(temporary / "model.safetensors", weights_of(model), made_for=made_for)
    write_tensors(temporary / "optimizer.safetensors", moments(model, optimizer))
    write_json(temporary / "schedule.json", schedule(optimizer, scheduler))
    write_json(temporary / "state.json", asdict(progress))
    temporary.rename(whole)


def moments(model, optimizer):
    """{parameter.key: tensor} of what the optimizer keeps of each parameter, as Adam's m and v.

    And, so that a file is never without a tensor, the number of these.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {}
    for parameter, state in optimizer.state.items():
        if parameter not in names:
            wrong = f"the optimizer of notebook 14 keeps {parameter!r}, which is of no parameter"
            raise InputError(f"{wrong}. Keep it in the parameters' groups")
        for key, value in state.items():
            if value is not None:
                kind = None if isinstance(value, torch.Tensor) else torch.float32
                tensors[f"{names[parameter]}.{key}"] = torch.as_tensor(value, dtype=kind)
    return {**tensors, "count": torch.tensor(float(len(tensors)))}


def schedule(optimizer, scheduler):
    """What the next steps depend on besides `moments`, and whose state both are.

    A scheduler may move more of a group than its learning rate, as OneCycleLR does.
    """
    return {
        "kinds": [type(optimizer).__name__, type(scheduler).__name__],
        "scheduler": scheduler.state_dict(),
        "groups": groups_of(optimizer),
        "begun": getattr(optimizer, "begun", groups_of(optimizer)),
    }


def groups_of(optimizer):
    """What its groups of parameters hold besides them, as a file holds it."""
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    return json.loads(json.dumps(groups, default=float))


def check_schedule(optimizer, scheduler):
    """Raises InputError, before anything is trained, for what no checkpoint could hold.

    Notes what notebook 14 has made, since an optimizer may count in its groups.
    """
    if any(isinstance(group["lr"], torch.Tensor) for group in optimizer.param_groups):
        raise InputError("the learning rate of notebook 14 is a tensor. Give a number")
    try:
        optimizer.begun = groups_of(optimizer)
        json.dumps(scheduler.state_dict())
    except TypeError as error:
        wrong = f"a run cannot store the schedule of notebook 14 ({error})"
        raise InputError(f"{wrong}. Give it functions and numbers") from None


def drop_old(folder, config, evaluated):
    """Keeps the newest, and the last `Config.checkpoints` that were made at evaluations."""
    newest = at_evaluations(folder, evaluated)[-config.checkpoints :]
    for old in find_checkpoints(folder)[:-1]:
        if old not in newest:  # renamed first: half a folder must not count as a checkpoint
            shutil.rmtree(old.rename(old.with_name(old.name + ".tmp")))


def load_checkpoint(checkpoint, model, optimizer, scheduler, made_for):
    """Fills model, optimizer and scheduler. Returns its Progress."""
    load_weights(model, checkpoint / "model.safetensors", made_for)
    load_schedule(checkpoint / "schedule.json", optimizer, scheduler)
    load_moments(checkpoint / "optimizer.safetensors", model, optimizer)
    progress = read_form(checkpoint / "state.json", Progress, whole=True)
    if progress.step != step_of(checkpoint):
        wrong = f"is of step {progress.step}. Delete {checkpoint}"
        raise InputError(f"{checkpoint}/state.json: {wrong}")
    return progress


def load_moments(path, model, optimizer):
    """Fills the optimizer's state. Raises InputError unless it is that of this model's parameters.

    A tensor is as large as its parameter, or 1 wide where it holds one number for many.
    """
    stored = read_tensors(path)
    parameters = dict(model.named_parameters())
    expected = {"count": torch.zeros(())}
    for name in stored:
        parameter = parameters.get(name.rpartition(".")[0])
        if parameter is not None:
            fits = fits_into(stored[name].shape, parameter.shape)
            expected[name] = stored[name] if fits else parameter
    check_like(path, stored, expected)
    if stored.pop("count") != len(stored):
        raise InputError(f"{path}: is not whole. Take a whole copy of it, or train again")
    for name, tensor in stored.items():
        name, _, key = name.rpartition(".")
        parameter = parameters[name]
        optimizer.state[parameter][key] = tensor.to(parameter.device)


def fits_into(shape, whole):
    """Whether a tensor of this shape, repeated where it is 1 wide, has the shape `whole`."""
    if len(shape) > len(whole):
        return False
    ends = whole[len(whole) - len(shape) :]
    return all(size in (1, full) for size, full in zip(shape, ends))


def load_schedule(path, optimizer, scheduler):
    """Fills the scheduler's state and the groups of parameters. Raises InputError for another's."""
    if not path.exists():
        raise InputError(f"{path}: missing. Of another version? Train again with --restart")
    ours = schedule(optimizer, scheduler)
    stored = read_json(path)
    try:
        if stored["kinds"] != ours["kinds"]:
            theirs, now = (" and ".join(kinds) for kinds in (stored["kinds"], ours["kinds"]))
            wrong = f"{theirs} wrote it, and notebook 14 makes {now} now"
            raise InputError(f"{path}: {wrong}. Take that back, or begin anew with --restart")
        groups = stored["groups"]
        begun = stored.get("begun", groups)
        same = stored["scheduler"].keys() == ours["scheduler"].keys()
        alike = [group.keys() for group in begun] == [group.keys() for group in ours["begun"]]
        whole = [group.keys() >= first.keys() for group, first in zip(groups, begun, strict=True)]
        rates = [isfinite(float(group["lr"])) for group in groups]
        if not (same and alike and all(whole + rates)):
            raise ValueError
        check_numbers(path, begun, optimizer, scheduler)
        scheduler.load_state_dict(with_numbers(stored["scheduler"]))
    except (ValueError, TypeError, LookupError, AttributeError):
        hint = "Take a whole copy of it, or train again with --restart"
        raise InputError(f"{path}: damaged. {hint}") from None
    for group, values in zip(optimizer.param_groups, groups):
        for key, value in values.items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value


def check_numbers(path, groups, optimizer, scheduler):
    """Raises InputError where an edited lesson 14 gives the optimizer other numbers than it had."""
    if any(hasattr(scheduler, name) for name in ("use_beta1", "cycle_momentum")):
        return  # these move more than the learning rate
    for group, stored in zip(optimizer.param_groups, groups):
        for key, value in stored.items():
            now = list(group[key]) if isinstance(group[key], tuple) else group[key]
            if key != "lr" and value != now:
                wrong = f"the run was begun with {key} {value}, and notebook 14 has {now} now"
                raise InputError(f"{path}: {wrong}. Take that back, or begin anew with --restart")


def with_numbers(value):
    """What JSON made of a scheduler's state, the keys numbers again where all of them were."""
    if isinstance(value, list):
        return [with_numbers(part) for part in value]
    if not isinstance(value, dict):
        return value
    counted = all(key.isdecimal() for key in value)  # as the milestones of MultiStepLR
    return {int(key) if counted else key: with_numbers(part) for key, part in value.items()}


def average(folder, config, weights, evaluated):
    """The mean of weights with those of the other checkpoints kept (the paper, section 6.1)."""
    means = {name: tensor.detach().cpu().double() for name, tensor in weights.items()}
    kinds = {name: tensor.dtype for name, tensor in weights.items()}
    others = at_evaluations(folder, evaluated)[::-1][: config.checkpoints - 1]
    for other in others:
        for name, tensor in read_tensors(other / "model.safetensors").items():
            means[name] += tensor
    return {name: (total / (1 + len(others))).to(kinds[name]) for name, total in means.items()}

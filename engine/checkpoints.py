"""Checkpoints of a run: weights, the optimizer's state and progress, whole or not at all."""

import json
import re
import shutil
from dataclasses import asdict, dataclass
from math import inf

import torch

from engine.checks import check_fields
from engine.definitions import lessons_changed
from engine.errors import InputError
from engine.files import read_form, read_json, write_json
from engine.model_files import load_weights, read_tensors, weights_of, write_tensors


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

    def forget_best(self):
        """What was best was another model's, or is measured otherwise now."""
        self.best_loss = inf
        self.stale = 0

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


def save_checkpoint(folder, model, optimizer, scheduler, progress, made_for, digests):
    """Writes one more into `folder` under a temporary name that is renamed at the end.

    `digests` are `lesson_digests` of the code that it was computed with.
    """
    whole = folder / f"step-{progress.step}"
    if whole.exists():  # saved twice after a step, perhaps before and after an evaluation
        write_json(whole / "state.json", asdict(progress))
        return
    for left in step_folders(folder, ".tmp"):  # by a process that was killed
        shutil.rmtree(left)
    temporary = whole.with_name(whole.name + ".tmp")
    temporary.mkdir(parents=True)
    write_tensors(temporary / "model.safetensors", weights_of(model), made_for=made_for)
    write_tensors(temporary / "optimizer.safetensors", moments(optimizer))
    names = {"parameters": parameter_names(model, optimizer)}
    write_json(temporary / "schedule.json", digests | names | schedule(optimizer, scheduler))
    write_json(temporary / "state.json", asdict(progress))
    temporary.rename(whole)


def moments(optimizer):
    """{number of the parameter.key: tensor} of what an optimizer keeps, as Adam's m and v."""
    tensors = {"none": torch.tensor(0.0)}  # a file is never without a tensor
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{number}.{key}"] = value
            elif isinstance(value, int | float):
                tensors[f"{number}.{key}"] = torch.tensor(value, dtype=torch.float32)
            elif value is not None:
                wrong = f"a run cannot store {key!r}, a {type(value).__name__} of the optimizer"
                raise InputError(f"{wrong}. Notebook 14's state may hold tensors and numbers")
    return tensors


def parameter_names(model, optimizer):
    """The name of each of the optimizer's parameters in its order, None if the model lacks it.

    Their order is that of a class's lines, or of a set: the next process may have another.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names.get(id(one)) for group in optimizer.param_groups for one in group["params"]]


def schedule(optimizer, scheduler):
    """What the next steps depend on besides `moments`.

    A scheduler may move more of a group than its learning rate, as OneCycleLR does.
    """
    return {
        "scheduler": scheduler.state_dict(),
        "groups": optimizer.state_dict()["param_groups"],
    }


def check_schedule(model, optimizer, scheduler):
    """Raises InputError, before anything is trained, for what no checkpoint could hold.

    And for parameters that the optimizer leaves out: their gradients would add up, step by step.
    """
    trained = {id(one) for group in optimizer.param_groups for one in group["params"]}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in trained:
            wrong = f"notebook 14's optimizer leaves {name} out"
            raise InputError(f"{wrong}. Give it all parameters, or freeze: requires_grad_(False)")
    if None in parameter_names(model, optimizer):
        wrong = "notebook 14's optimizer trains a parameter that the model lacks"
        raise InputError(f"{wrong}, so no checkpoint holds it. Put it into the model")
    try:
        json.dumps(schedule(optimizer, scheduler))
    except (TypeError, AttributeError) as error:
        wrong = f"a run cannot store the optimizer and the schedule of notebook 14 ({error})"
        raise InputError(f"{wrong}. Give both, of functions and numbers") from None


def drop_old(folder, config, evaluated):
    """Keeps the newest, and the last `Config.checkpoints` that were made at evaluations."""
    newest = at_evaluations(folder, evaluated)[-config.checkpoints :]
    for old in find_checkpoints(folder)[:-1]:
        if old not in newest:  # renamed first: half a folder must not count as a checkpoint
            shutil.rmtree(old.rename(old.with_name(old.name + ".tmp")))


def load_checkpoint(checkpoint, model, optimizer, scheduler, made_for, digests):
    """Fills model, optimizer and scheduler. Returns its Progress, and whether lessons have changed.

    `digests` are `lesson_digests` of the code that goes on. Raises InputError if its optimizer is
    another: the state of one means nothing to the other.
    """
    load_weights(model, checkpoint / "model.safetensors", made_for)
    stored = read_json(checkpoint / "schedule.json")
    if stored.get("lesson") != digests["lesson"]:
        wrong = "notebook 14 has changed since the run was begun"
        raise InputError(f"{checkpoint}: {wrong}. Take that back, or begin anew with --restart")
    try:
        optimizer.load_state_dict({"state": {}, "param_groups": stored["groups"]})
        scheduler.load_state_dict(with_numbers(stored["scheduler"]))
        names = stored.get("parameters", parameter_names(model, optimizer))  # older runs have none
        load_moments(checkpoint / "optimizer.safetensors", model, optimizer, names)
    except (ValueError, TypeError, LookupError, AttributeError):
        hint = "Take a whole copy of it, or train again with --restart"
        raise InputError(f"{checkpoint}: damaged. {hint}") from None
    progress = read_form(checkpoint / "state.json", Progress, whole=True)
    if progress.step != step_of(checkpoint):
        wrong = f"is of step {progress.step}. Delete {checkpoint}"
        raise InputError(f"{checkpoint}/state.json: {wrong}")
    return progress, lessons_changed(stored, digests)


def load_moments(path, model, optimizer, names):
    """Puts them back in the types they had: `load_state_dict` would cast to the parameter's.

    `names` are `parameter_names` of when they were stored.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, tensor in read_tensors(path).items():
        number, _, key = name.partition(".")
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} holds NaN or infinity. Train again with --restart")
        if key:
            parameter = parameters[names[int(number)]]
            optimizer.state[parameter][key] = tensor.to(parameter.device)


def with_numbers(value):
    """What JSON made of a scheduler's state, the keys numbers again where all of them were."""
    if isinstance(value, list):
        return [with_numbers(part) for part in value]
    if not isinstance(value, dict):
        return value
    counted = all(key.isdecimal() for key in value)  # as the milestones of MultiStepLR
    return {int(key) if counted else key: with_numbers(part) for key, part in value.items()}


def average(folder, config, weights, evaluated):
    """The mean of weights with those of the other checkpoints kept (the paper, section 6.1).

    Counts and complex numbers stay as they are.
    """
    real = {name: tensor for name, tensor in weights.items() if tensor.is_floating_point()}
    totals = {name: tensor.detach().cpu().double() for name, tensor in real.items()}
    others = at_evaluations(folder, evaluated)[::-1][: config.checkpoints - 1]
    for other in others:
        stored = read_tensors(other / "model.safetensors")
        for name, total in totals.items():
            total += stored[name]
    count = 1 + len(others)
    return weights | {name: (totals[name] / count).to(real[name].dtype) for name in real}

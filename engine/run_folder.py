"""What the folder of a run holds: `RunFolder` reads it, and writes nothing.

config.json, vocabulary.src.json, vocabulary.tgt.json, made.json (the command that began it,
versions, and the hashes of the lessons that train it), model.safetensors (the weights to translate
with), checkpoint.pt (from which it goes on: model, optimizer, scheduler, step), log.jsonl,
scores.json and search.json (a length penalty that was chosen). Each is written under another name
and then renamed, so it is old or new and never half; the log is appended to. The file `lock` is
held by the process that trains in the folder.
"""

import json
import os
from pathlib import Path

import torch

from engine.checks import check_vocabularies
from engine.errors import InputError
from engine.fast_forms import use_fast_forms
from engine.files import read_form, read_json
from engine.model_files import load_tokenizer, load_weights
from engine.run_config import RunConfig, settings_of
from notebooks.make_model import make_model
from utils import ROOT
from utils import device as default_device

# a trained model that comes along; only `make model` writes there
BOX = ROOT / "data_small" / "model"


def is_the_box(path):
    """Whether a run folder is the model in the box, by whatever name."""
    return os.path.realpath(path) == os.path.realpath(BOX)


class RunFolder:
    """A run on the disk. Everything is read when it is asked for."""

    def __init__(self, path):
        self.path = Path(path)

    def read_config(self):
        """Its RunConfig. Raises InputError when there is none, or when a setting is impossible."""
        if self.path.is_file():
            raise InputError(f"{self.path}: is a file. Give the run's folder")
        if not self.path.is_dir():
            hint = f"Train one with: python train.py --run {self.path}"
            raise InputError(f"{self.path}: no such run folder. {hint}")
        return read_form(self.path / "config.json", RunConfig)

    def tokenizers(self):
        """Its source and its target tokenizer."""
        return [load_tokenizer(self.path / f"vocabulary.{side}.json") for side in ("src", "tgt")]

    def read_made(self):
        """How it was made: made.json, or nothing where there is none."""
        path = self.path / "made.json"
        return read_json(path) if path.exists() else {}

    def read_log(self):
        """The records of its log; a last line that is still being written is left out."""
        path = self.path / "log.jsonl"
        if not path.exists():
            return []
        with path.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]

    def is_finished(self):
        """Whether its log says that it was trained to its end."""
        losses = [record for record in self.read_log() if "dev_loss" in record]
        if not losses or not (self.path / "model.safetensors").exists():
            return False
        config = self.read_config()
        best = min(losses, key=lambda record: record["dev_loss"])
        stale = len(losses) - 1 - losses.index(best)  # evaluations since the best one
        return losses[-1]["step"] >= config.steps or 0 < config.patience <= stale

    def alpha(self, otherwise):
        """The length penalty that was chosen for this run, else `otherwise`."""
        path = self.path / "search.json"
        return read_json(path)["alpha"] if path.exists() else otherwise

    def load(self, device=None):
        """Config, source tokenizer, target tokenizer and model, in eval mode.

        On `device()`, or on another device. Raises InputError for a file that is missing or
        damaged, and PyTorch's RuntimeError for weights that do not fit the lessons.
        """
        config, (source, target) = self.read_config(), self.tokenizers()
        path = self.path / "model.safetensors"
        check_vocabularies(config, len(source), len(target))
        with torch.random.fork_rng(devices=()):  # what no file holds is drawn as in training
            torch.manual_seed(config.seed)
            model = make_model(config, len(source), len(target))
        load_weights(model, path)
        model = model.to(torch.device(device or default_device())).eval()
        use_fast_forms(model)
        return config, source, target, model


def check_start(start, config):
    """Raises InputError where the weights of the run `start` would mean something else.

    `config` may differ from that run's in what changes no weight's shape or meaning.
    """
    before = settings_of(RunFolder(start).read_config(), "weights")
    if not (Path(start) / "model.safetensors").exists():
        raise InputError(f"{start}: has no weights yet. Train it up to its first evaluation")
    for name, new in settings_of(config, "weights").items():
        old = before[name]
        if old != new:
            hint = f"Leave --{name.replace('_', '-')} out, or train without --start"
            raise InputError(f"{start}: its {name} is {old}, not {new}. {hint}")

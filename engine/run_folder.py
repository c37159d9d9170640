"""What the folder of a run holds: `RunFolder` reads it, and writes nothing.

A run folder holds config.json, vocabulary.src.json, vocabulary.tgt.json, made.json (what began the
run: command, versions, device, commit; and digests of the lessons that its weights were made with),
model.safetensors (the weights to translate with), log.jsonl, scores.json, search.json (a length
penalty that was chosen), and checkpoints/step-N/ with weights, the optimizer's state, schedule.json
(which holds digests of the lessons, too) and state.json. Every file but the log is written under a
temporary name and then renamed, so it is old or new and never half; the log is appended to, and
what is no record in it is skipped. The file `lock` is held by the process that trains in the
folder.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.checkpoints import Progress, find_checkpoints
from engine.checks import check_fields, check_vocabularies
from engine.definitions import code_digest, edited_names, lessons
from engine.errors import InputError
from engine.files import read_form
from engine.fused_attention import use_fused_attention
from engine.model_files import MEANING, check_size, load_tokenizer, load_weights, made_for
from engine.run_config import RunConfig
from engine.run_log import read_log
from notebooks.data_preparation import BOS, EOS, padding_mask
from notebooks.make_model import make_model
from utils import ROOT
from utils import device as default_device

# a trained model that comes along; only `make model` writes there
BOX = ROOT / "data_small" / "model"


def is_the_box(path):
    """Whether a run folder is the model in the box, by whatever name."""
    return os.path.realpath(path) == os.path.realpath(BOX)


@dataclass
class Search:
    """How a run is translated with, chosen on dev: search.json."""

    alpha: float  # length penalty
    search: str  # a digest of the lessons that search, with which it was chosen

    def __post_init__(self):
        check_fields(self)


def search_digest():
    """What a length penalty is chosen with: the searches of lessons 10 and 16."""
    return code_digest(*lessons(("10", "16")))[:16]


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
        if (self.path / "run.py").exists():
            hint = f"Translate with: python {self.path / 'run.py'}"
            raise InputError(f"{self.path}: is an exported model, and no run. {hint}")
        doubt = "Was lesson 00 another one when it was trained? Then put that back"
        return read_form(self.path / "config.json", RunConfig, whole=False, doubt=doubt)

    def tokenizers(self):
        """Its source and its target tokenizer."""
        return [load_tokenizer(self.path / f"vocabulary.{side}.json") for side in ("src", "tgt")]

    def checkpoints(self):
        """The folders of its complete checkpoints, oldest first."""
        return find_checkpoints(self.path / "checkpoints")

    def progress(self):
        """That of its newest checkpoint; Progress() if it has none."""
        newest = self.checkpoints()[-1:]
        return read_form(newest[0] / "state.json", Progress, whole=True) if newest else Progress()

    def read_log(self):
        """The records of its log."""
        return read_log(self.path / "log.jsonl")

    def is_finished(self):
        """Whether it was trained to its end: by its newest checkpoint, or else by its log."""
        if not (self.path / "model.safetensors").exists():
            return False
        if self.checkpoints():
            return self.progress().finished
        last = self.read_config().steps
        return any(record["step"] == last for record in self.read_log())

    def alpha(self, otherwise):
        """The length penalty that was chosen for this run, else `otherwise`."""
        path = self.path / "search.json"
        if not path.exists():
            return otherwise
        chosen = read_form(path, Search, whole=True)
        if chosen.search == search_digest():
            return chosen.alpha
        wrong = "its alpha was chosen with other searches, lessons 10 and 16 have changed"
        print(
            f"{self.path}: {wrong}: {otherwise} is used. Choose again: --alpha auto",
            file=sys.stderr,
        )
        return otherwise

    def load(self, device=None):
        """Config, source tokenizer, target tokenizer and model, in eval mode.

        On `device()`, or on another device. Raises InputError for a file that is missing or
        damaged, for weights of another run, and for weights with which the model cannot compute.
        """
        config, (source, target) = self.read_config(), self.tokenizers()
        path = self.path / "model.safetensors"
        check_vocabularies(config, len(source), len(target))
        check_size(path, config, max(len(source), len(target)))
        with torch.random.fork_rng(devices=()):  # what no file holds is drawn as in training
            torch.manual_seed(config.seed)
            model = make_model(config, len(source), len(target))
        load_weights(model, path, made_for(config, source, target))
        device = torch.device(device or default_device())
        model = model.to(device).eval()
        if device.type != "cpu":
            use_fused_attention(model)
        src, tgt = (torch.tensor([[number]], device=device) for number in (EOS, BOS))
        with torch.inference_mode():
            logits = model(src, tgt, padding_mask(src), padding_mask(tgt))
        if not logits.isfinite().all():
            hint = "Take a whole copy of it, or train again"
            if names := edited_names():
                hint = f"Edited were {', '.join(names)}: take that back, or train again"
            raise InputError(f"{path}: gives no numbers. {hint}")
        return config, source, target, model


def check_start(start, config):
    """Raises InputError where the weights of the run `start` would mean something else.

    `config` may differ from that run's in what changes no weight's shape or meaning.
    """
    before = RunFolder(start).read_config()
    for name in MEANING:
        old = getattr(before, name)
        new = getattr(config, name)
        if old != new:
            hint = f"Leave --{name.replace('_', '-')} out, or train without --start"
            raise InputError(f"{start}: its {name} is {old}, not {new}. {hint}")

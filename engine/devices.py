"""Which device computes, and whether Apple's GPU may: ten steps there and on the CPU, compared.

`python -m engine.devices` compares, prints a line, and exits with 0 if MPS is right.
"""

import os
import platform
import sys
from typing import Literal

import torch

from engine.errors import InputError
from engine.files import private_folder, read_json, write_json
from notebooks.data_preparation import BOS, EOS, Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import Config, replace
from notebooks.training import train_step
from utils import DEVICES

DeviceName = Literal[DEVICES]  # what --device may be
NOBODY = (
    "nobody has run the course's tests on one yet, so tell us: TEST_DEVICE=mps make test-device"
)


def choose_device(name=None):
    """What `--device` or TRANSFORMER_DEVICE asks for is used by `device()` from now on.

    Raises InputError where PyTorch has no such device here.
    """
    name = name or os.environ.get("TRANSFORMER_DEVICE", "auto")
    if name not in DEVICES:
        raise InputError(f"TRANSFORMER_DEVICE is {name!r}: give one of {', '.join(DEVICES)}")
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not here.get(name, True):
        raise InputError(f"there is no {name} device here for PyTorch. Try: --device auto")
    os.environ["TRANSFORMER_DEVICE"] = name


def ten_losses(place):
    """The losses of ten steps of `tiny` on made-up sentences, without dropout."""
    config = replace(Config.preset("tiny"), dropout=0.0, learning_rate=1e-2, warmup_steps=2)
    torch.manual_seed(0)
    model = make_model(config, 30, 30).to(place)
    lengths = torch.randint(2, 12, (16, 2)).tolist()
    rows = [[torch.randint(4, 30, (length,)).tolist() for length in pair] for pair in lengths]
    batch = Batch.collate([([*src, EOS], [BOS, *tgt, EOS]) for src, tgt in rows]).to(place)
    batch_loss = BatchLoss(model, LabelSmoothing(0.1))
    optimizer, scheduler = make_optimizer(model, config)
    losses = []
    for _ in range(10):
        loss, tokens, _ = train_step(batch_loss, batch, optimizer, config.clip)
        scheduler.step()
        losses.append(float(loss) / float(tokens))
    return torch.tensor(losses)


def compare(place):
    """How far apart the losses are, in nats a token. Not a number, if one of them is none."""
    return (ten_losses(place) - ten_losses("cpu")).abs().max().item()


def main():
    """Compares MPS with the CPU, or finds what was found before."""
    found = f"{torch.__version__}-{platform.mac_ver()[0]}".replace("/", "-")
    path = private_folder() / f"mps-{found}.json"
    try:
        apart = read_json(path)["apart"]
    except (InputError, KeyError):
        apart = compare("mps")
        write_json(path, {"apart": apart})
    if not apart < 0.01:
        print(f"Apple's GPU is not used: ten training steps were {apart:.3g} nats off the CPU's")
        return 1
    print(f"computing on Apple's GPU ({NOBODY})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

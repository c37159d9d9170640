"""Which device computes."""

import os
from typing import Literal

import torch

from engine.errors import InputError
from utils import DEVICES

DeviceName = Literal[DEVICES]  # what --device may be


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

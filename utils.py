"""What every notebook needs besides the model: device, data type, seeds, files written whole, and
the checks of the exercises. The figures are in notebooks/support/pictures.py."""

import os
import random
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent

# cuDNN's attention makes a plan for each new shape, which takes longer than hundreds of steps of a
# search, and each of these steps has a new shape. PyTorch's other forms need none.
torch.backends.cuda.enable_cudnn_sdp(False)


def device():
    """Where to compute: CUDA if there is one, then Apple's MPS, then the CPU.

    MPS is for one process: several cannot share it.
    """
    if torch.cuda.is_available():
        return torch.device("cuda")
    alone = os.environ.get("WORLD_SIZE", "1") == "1"  # as torchrun sets it
    return torch.device("mps" if alone and torch.backends.mps.is_available() else "cpu")


def seed_everything(seed):
    """Makes Python's, NumPy's and PyTorch's random numbers the same in every run."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def check(name):
    """For `@check("Exercise 1")` above a function of asserts: runs it at once.

    Prints what is wrong, and returns that. Never raises.
    """

    def run(asserts):
        try:
            asserts()
            result = "right"
        except AssertionError as error:
            result = f"not yet. {error}"
        except Exception as error:
            # a NotImplementedError with a message is a gap in PyTorch, not the hole
            if isinstance(error, NotImplementedError) and not error.args:
                result = "not filled yet"
            else:
                result = f"not yet. It stopped with {type(error).__name__}: {error}"
        print(f"{name}: {result}")
        return result

    return run

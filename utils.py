"""What every notebook needs besides the model: where to compute, and the checks of the exercises.

The figures are in notebooks/support/pictures.py.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent
DEVICES = ("auto", "cpu", "cuda", "mps")

# cuDNN's attention makes a plan for each new shape, which takes longer than hundreds of steps of a
# search, and each of these steps has a new shape. PyTorch's other forms need none.
torch.backends.cuda.enable_cudnn_sdp(False)


def device():
    """Where to compute: CUDA if there is one, then Apple's MPS if it computes right, then the CPU.

    The environment variable TRANSFORMER_DEVICE decides otherwise: cpu, cuda or mps. MPS is for one
    process: several cannot share it.
    """
    asked = os.environ.get("TRANSFORMER_DEVICE", "auto")
    if asked not in DEVICES:
        raise ValueError(f"TRANSFORMER_DEVICE is {asked!r}: give one of {', '.join(DEVICES)}")
    if asked != "auto":
        return torch.device(asked)
    if torch.cuda.is_available():
        return torch.device("cuda")
    alone = os.environ.get("WORLD_SIZE", "1") == "1"  # as torchrun sets it
    right = alone and torch.backends.mps.is_available() and mps_computes_right()
    return torch.device("mps" if right else "cpu")


@functools.cache
def mps_computes_right():
    """Whether a short training on MPS gives the CPU's losses. Says so on standard error.

    Compared once, by a process of its own, for each version of PyTorch and of the system; what it
    found is kept in the user's cache.
    """
    command = [sys.executable, "-m", "engine.devices"]
    environment = {**os.environ, "TRANSFORMER_DEVICE": "cpu", "PYTHONUTF8": "1"}
    options = dict(cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
    done = subprocess.run(command, **options)
    told = done.stdout or "Apple's GPU is not used: comparing it with the CPU failed\n"
    print(told, end="", file=sys.stderr)
    return done.returncode == 0


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

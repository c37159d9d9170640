"""Which forms of a model's parts train fastest on the device at hand. All compute the same."""

import importlib.util
import shutil
from contextlib import nullcontext

import torch

from engine.fast_dropout import use_fast_dropout
from engine.fused_attention import use_fused_attention
from engine.processes import processes
from utils import device

# compiling `base` takes a minute and a half on an H100, and saves 20 ms a step; smaller models less
WORTH_COMPILING = 10_000  # steps


def use_fast_forms(model, criterion, config):
    """Puts them in their places, before a training of `config.steps` steps.

    Returns whether parts will be compiled, at the first step.
    """
    if device().type == "cpu":
        use_fast_dropout(model)
        return False
    use_fused_attention(model)
    if device().type != "cuda" or config.steps < WORTH_COMPILING or not can_compile():
        return False
    if processes().is_main_process:
        print("compiling the model: the first step takes a minute or two", flush=True)
    compile_parts(model, criterion)
    return True


def can_compile():
    """Whether here is what `torch.compile` needs for a GPU: Triton and a C compiler."""
    compiler = any(map(shutil.which, ("cc", "gcc", "clang")))
    return compiler and importlib.util.find_spec("triton") is not None


def compile_parts(model, criterion, backend="inductor"):
    """`torch.compile` for encoder, decoder and loss: what stands between products becomes one
    kernel. Once for all shapes.

    On 2 CPU cores a training step of `small` would take 1.4 times as long.
    """
    for part in (model.encoder, model.decoder, criterion):
        part.compile(dynamic=True, backend=backend)


def eager():
    """A context in which nothing compiled runs, and nothing is compiled.

    For evaluations: to compile the model for them, and for each step of a search, would take
    longer than they do.
    """
    if device().type != "cuda":
        return nullcontext()
    return torch.compiler.set_stance("force_eager")

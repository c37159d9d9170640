"""What computes the same as the lessons, and faster on the device at hand.

Put in by one call, and only while lessons 01 to 13 are the course's: else their own forms run.
"""

import importlib.util
import shutil
from contextlib import nullcontext
from types import MethodType

import torch
from torch import nn
from torch.nn import functional as F

from engine.lessons import edited_among, listed, say_once
from notebooks.multi_head_attention import MultiHeadAttention
from utils import device

# compiling `base` takes a minute and a half on an H100, and saves 20 ms a step; smaller models less
WORTH_COMPILING = 10_000  # steps


def use_fast_forms(model, criterion=None, steps=0):
    """Puts them into a model, and with a criterion into its training of so many steps.

    Returns whether parts will be compiled, at the first step.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    if on_cpu and criterion is None:
        return False
    if edited := edited_among(1, 13):
        say_once(f"your {listed(edited)}: the lessons' own forms run, and no faster ones")
        return False
    if on_cpu:
        use_fast_dropout(model)
        return False
    use_fused_attention(model)
    compiles = criterion is not None and steps >= WORTH_COMPILING and can_compile()
    if compiles:
        compile_parts(model, criterion)
    return compiles


class FusedAttention(MultiHeadAttention):
    """PyTorch's fused attention, for GPUs; with `keep_weights` notebook 04's steps.

    On 2 CPU cores a training step of `small` takes 1.04 times as long with it in float32, and 1.5
    times in bfloat16.
    """

    def attend(self, query, key, value, mask):
        if self.keep_weights:
            return MultiHeadAttention.attend(self, query, key, value, mask)
        return F.scaled_dot_product_attention(query, key, value, mask)


def use_fused_attention(model):
    """Makes each `MultiHeadAttention` of a model a `FusedAttention`. Returns the model."""
    for module in model.modules():
        if type(module) is MultiHeadAttention:
            module.__class__ = FusedAttention
    return model


def fast_dropout(module, x):
    """`nn.Dropout.forward`, with a random byte for each value instead of a random float.

    On a CPU; p is rounded to a 256th, if that is at most 5 % off.
    """
    threshold = round(module.p * 256)
    too_coarse = threshold == 256 or abs(threshold / 256 - module.p) > module.p / 20
    if not module.training or module.p == 0 or x.device.type != "cpu" or too_coarse:
        return nn.Dropout.forward(module, x)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64)
    words.random_(-(2**63), None)  # whole numbers of 64 bits: eight random bytes each
    random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
    # 1 from the threshold on, else 0. A comparison would be slower: it makes booleans.
    mask = random_bytes.clamp(threshold - 1, threshold) - (threshold - 1)
    return x * (mask.to(x.dtype) * (256 / (256 - threshold)))


def use_fast_dropout(model):
    """Gives each `nn.Dropout` of a model `fast_dropout`. Returns the model.

    A training step of `small` takes 8 % less on 2 cores, in float32 with AVX2 and in bfloat16.
    """
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.forward = MethodType(fast_dropout, module)
    return model


def can_compile():
    """Whether here is what `torch.compile` needs: CUDA, Triton and a C compiler."""
    compiler = any(map(shutil.which, ("cc", "gcc", "clang")))
    return device().type == "cuda" and compiler and importlib.util.find_spec("triton") is not None


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

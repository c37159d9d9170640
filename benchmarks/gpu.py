"""What a GPU makes of `base`: `python benchmarks/gpu.py [batch tokens]`, three minutes.

Trains on random sentences of 10 to 60 tokens, 32,000 different ones, beside PyTorch's
nn.Transformer and Hugging Face's Marian with the same loss, optimiser and precision, by turns;
ours as `train.py` does, compiled, and as it does for short trainings.
Prints target tokens a second, the share of the peak (FLOPs of the model against those of a large
product in the same data type), and the memory.
"""

import sys
from unittest import mock

from engine.startup import tune_process

tune_process()  # before PyTorch

import numpy as np
import torch
from baselines import RIVALS, alternate, training_step
from torch.utils.flop_counter import FlopCounterMode

from engine.fast_forms import use_fast_forms
from engine.precision import native_dtype
from engine.run_config import RunConfig
from notebooks.data_preparation import BOS, EOS, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace

VOCABULARY = 32_000
ROUNDS = 5


def sentences():
    """Random pairs of id lists as a data set holds them, and their lengths."""
    random = np.random.default_rng(0)
    lengths = random.integers(10, 60, size=(20_000, 1)) + random.integers(0, 8, size=(20_000, 2))

    def draw(length):
        return random.integers(EOS + 1, VOCABULARY, size=length).tolist()

    return [([*draw(a), EOS], [BOS, *draw(b), EOS]) for a, b in lengths], lengths + 1


def peak():
    """FLOPs a second of a product of two matrices of 8,192 x 8,192."""
    dtype = getattr(torch, native_dtype())
    left, right = (torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))

    def products():
        for _ in range(10):
            left @ right
        torch.cuda.synchronize()
        return 10 * 2 * 8192**3

    return alternate({"products": products}, ROUNDS)["products"]


def training_steps(config):
    """Training steps of ours and of the rivals: {name: function of a batch}."""
    steps = {}
    for name, count in (("ours", config.steps), ("not compiled", 1)):
        ours = make_model(config, VOCABULARY, VOCABULARY).cuda().train()
        criterion = LabelSmoothing(config.label_smoothing)
        use_fast_forms(ours, criterion, replace(config, steps=count))
        steps[name] = training_step(ours, config, make_optimizer(ours, config)[0], criterion)
    for name, rival in RIVALS.items():
        steps[name] = training_step(rival(config, VOCABULARY, VOCABULARY).cuda(), config)
    return steps


def job(step, batches, memory, name):
    """A job for `alternate`: steps on these batches. Notes under its name what memory they took."""

    def work():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        tokens = int(sum(map(step, batches)))  # also waits for the GPU
        memory[name] = torch.cuda.max_memory_allocated() - before
        return tokens

    return work


def main(batch_tokens=25_000):
    if not torch.cuda.is_available():
        sys.exit("gpu.py measures an NVIDIA GPU, and PyTorch sees none here")
    config = replace(RunConfig.preset("base"), dtype=native_dtype(), batch_tokens=int(batch_tokens))
    items, lengths = sentences()
    loader = make_dataloader(items, TokenBatchSampler(lengths, config.batch_tokens))
    batches = [batch.to("cuda") for batch, _ in zip(loader, range(8))]
    steps = training_steps(config)
    # the form of attention whose products can be counted, and no logits computed twice
    attention = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    whole = mock.patch("engine.wrapped_loss.most_logits", lambda: 10**12)
    with FlopCounterMode(display=False) as counter, attention, whole:
        tokens = int(steps["not compiled"](batches[0]))
    flops = counter.get_total_flops() / tokens
    memory = {}
    jobs = {name: job(step, batches, memory, name) for name, step in steps.items()}
    speeds = alternate(jobs, ROUNDS)
    most = peak()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {config.dtype}")
    print(f"a product: {most / 1e12:.0f} TFLOP/s; `base`, {config.batch_tokens:,} tokens a step")
    tokens = sum(int((batch.tgt_out > 0).sum()) for batch in batches) / len(batches)
    for name, speed in speeds.items():
        text = f"{name:16}{speed:10,.0f} target tokens/s, a step {1000 * tokens / speed:.0f} ms"
        if name not in RIVALS:
            text += f", {speed * flops / most:.0%} of the peak"
        print(f"{text}, {memory[name] / 2**30:.1f} GiB for activations and gradients")


if __name__ == "__main__":
    main(*sys.argv[1:])

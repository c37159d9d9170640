"""What a GPU makes of `base`: `python benchmarks/gpu.py [batch tokens]`, three minutes.

Trains on random sentences of 10 to 60 tokens, 32,000 different ones, beside PyTorch's
nn.Transformer and Hugging Face's Marian with the same loss, optimiser and precision, by turns;
ours as `train.py` does, compiled, and as it does for short trainings.
Prints target tokens a second, the share of the peak (FLOPs of the model against those of a large
product in the same data type), and the memory.
"""

import functools
import statistics
import sys
from unittest import mock

from engine.startup import tune_process

tune_process()  # before PyTorch

import baselines
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.fast_forms import use_fast_forms
from engine.precision import native_dtype
from engine.run_config import RunConfig
from engine.wrapped_loss import WrappedLoss
from notebooks.data_preparation import BOS, EOS, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from notebooks.training import train_step

VOCABULARY = 32_000
ROUNDS = 5


def sentences(number=20_000):
    """Random pairs of id lists as a data set holds them, and their lengths."""
    random = np.random.default_rng(0)
    lengths = random.integers(10, 60, size=(number, 1)) + random.integers(0, 8, size=(number, 2))

    def draw(length):
        return random.integers(EOS + 1, VOCABULARY, size=length).tolist()

    return [([*draw(a), EOS], [BOS, *draw(b), EOS]) for a, b in lengths], lengths + 1


def time_of(work):
    """How long the GPU works at something."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def peak():
    """FLOPs a second of a product of two matrices of 8,192 x 8,192."""
    dtype = getattr(torch, native_dtype())
    left, right = (torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))

    def work():
        return [left @ right for _ in range(10)]

    return 10 * 2 * 8192**3 / statistics.median(time_of(work) for _ in range(ROUNDS))


def jobs(config):
    """Training steps of ours and of the rivals: {name: function of a batch}."""

    def make():
        return make_model(config, VOCABULARY, VOCABULARY).cuda().train()

    def adam(model):
        options = dict(lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
        return torch.optim.Adam(model.parameters(), **options)

    def step(model, optimizer, criterion=None):
        criterion = criterion or LabelSmoothing(config.label_smoothing)
        batch_loss = WrappedLoss(model, criterion, config)
        return functools.partial(
            train_step, batch_loss, optimizer=optimizer, max_grad_norm=config.max_grad_norm
        )

    for name, steps in (("ours", config.steps), ("not compiled", 1)):
        ours = make()
        criterion = LabelSmoothing(config.label_smoothing)
        use_fast_forms(ours, criterion, replace(config, steps=steps))
        yield name, step(ours, make_optimizer(ours, config)[0], criterion)
    torch_model = baselines.TorchTransformer(make(), config).cuda().train()
    yield "nn.Transformer", step(torch_model, adam(torch_model))
    marian = baselines.MarianParts(baselines.marian(config, VOCABULARY, VOCABULARY).cuda().train())
    yield "Marian", step(marian, adam(marian))


def main(batch_tokens=25_000):
    if not torch.cuda.is_available():
        sys.exit("gpu.py measures an NVIDIA GPU, and PyTorch sees none here")
    config = replace(RunConfig.preset("base"), dtype=native_dtype(), batch_tokens=int(batch_tokens))
    items, lengths = sentences()
    sampler = TokenBatchSampler(lengths, config.batch_tokens)
    loader = make_dataloader(items, sampler)
    batches = [batch.to("cuda") for batch, _ in zip(loader, range(8))]
    tokens = sum(int((batch.tgt_out > 0).sum()) for batch in batches)
    steps = dict(jobs(config))
    # the form of attention whose products can be counted, and no logits computed twice
    attention = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    whole = mock.patch("engine.wrapped_loss.most_logits", lambda: 10**12)
    with FlopCounterMode(display=False) as counter, attention, whole:
        steps["not compiled"](batches[0])
    flops = counter.get_total_flops() / int((batches[0].tgt_out > 0).sum())
    times = {name: [] for name in steps}
    memory = {}
    for turn in range(ROUNDS + 1):
        for name, step in steps.items():
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            taken = time_of(functools.partial(list, map(step, batches)))
            memory[name] = torch.cuda.max_memory_allocated() - before
            times[name] += [taken] * (turn > 0)
    most = peak()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {config.dtype}")
    print(f"a product: {most / 1e12:.0f} TFLOP/s; `base`, {config.batch_tokens:,} tokens a step")
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        speed = tokens / middle
        step = 1000 * middle / len(batches)
        text = f"{name:16}{speed:10,.0f} target tokens/s, a step {step:.0f} ms"
        if name in ("ours", "not compiled"):
            text += f", {speed * flops / most:.0%} of the peak"
        print(f"{text}, {memory[name] / 2**30:.1f} GiB for activations and gradients")


if __name__ == "__main__":
    main(*sys.argv[1:])

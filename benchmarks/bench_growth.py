"""Part of `make bench-full`: how cost grows with length and batch, and quality over three seeds."""

import contextlib
import statistics
import tempfile
from pathlib import Path
from unittest import mock

import torch
from timing import alternate

from engine.fast_dropout import use_fast_dropout
from engine.precision import native_dtype
from engine.run_config import RunConfig
from engine.training_run import run_training
from engine.wrapped_loss import WrappedLoss
from notebooks.data_preparation import Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from notebooks.training import train_step
from utils import ROOT


def growth(report):
    """Milliseconds of a training step and of a greedy search, against length and number of rows."""
    import matplotlib.pyplot as plt

    large = dict(max_length=1100, batch_tokens=200_000)
    config = replace(RunConfig.preset("small"), dtype=native_dtype(), **large)
    model = use_fast_dropout(make_model(config, 4000, 2000))
    optimizer, _ = make_optimizer(model, config)
    batch_loss = WrappedLoss(model, LabelSmoothing(0.1), config)

    def items(length):
        return ([5] * (length - 1) + [3], [2, *[6] * (length - 1), 3])

    shapes = {
        "tokens in a sentence (4 sentences)": [(2**n, 4) for n in range(4, 11)],
        "sentences (16 tokens each)": [(16, 2**n) for n in range(9)],
    }
    axes = plt.subplots(1, 2, figsize=(11, 3.8))[1]
    for axis, (title, cases) in zip(axes, shapes.items()):
        times = {"training step": [], "greedy search": []}
        for length, rows in cases:
            batch = Batch.collate([items(length)] * rows)

            def step(batch=batch):
                return (
                    train_step(batch_loss.train(), batch, optimizer, config.max_grad_norm)[1] * 0
                    + 1
                )

            def search(src=batch.src, length=length):
                return decode_steps(model.eval(), src, length)

            speeds = alternate({"training step": step, "greedy search": search}, 3)
            for name, speed in speeds.items():
                times[name].append(1000 / float(speed))
        x = [length if "tokens in" in title else rows for length, rows in cases]
        for name, values in times.items():
            axis.loglog(x, values, marker="o", label=name)
        axis.set(xlabel=title, ylabel="milliseconds")
        axis.set_xticks(x, x)
        axis.minorticks_off()
        axis.legend(frameon=False)
        report[f"growth, {title}"] = {"x": x, **times}
    plt.savefig(ROOT / "runs" / "bench-growth.png")


@torch.inference_mode()
def decode_steps(model, src, number):
    """As many tokens as asked for, whatever they are, with a cache."""
    memory = model.encode(src, None)
    cache = model.new_cache()
    token = src[:, :1]
    for _ in range(number):
        token = model.generator(model.decode(token, memory, None, cache=cache)).argmax(dim=-1)
    return 1


def quality(report, seeds=3, number=400):
    """Dev loss, after the same steps, of the fast settings and of float32 with plain dropout."""
    plain = mock.patch("engine.fast_forms.use_fast_dropout", lambda model: model)
    ways = (("fast", "auto", contextlib.nullcontext()), ("float32", "float32", plain))
    short = dict(steps=number, eval_steps=number, bleu_sentences=0)
    losses = {"fast": [], "float32": []}
    for seed in range(seeds):
        for name, dtype, change in ways:
            config = replace(RunConfig.preset("small"), **short, seed=seed, dtype=dtype)
            with tempfile.TemporaryDirectory() as folder, change:
                records = run_training(ROOT / "data_small", config, Path(folder) / "run")
                losses[name].append(records[-1]["dev_loss"])
    report["quality, dev loss of three seeds"] = losses
    fast, slow = (statistics.mean(values) for values in losses.values())
    noise = max(max(values) - min(values) for values in losses.values())
    report["ratios"]["quality: noise between seeds against the difference of the means"] = (
        noise / max(abs(fast - slow), 1e-9)
    )

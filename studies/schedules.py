"""How large a step, and when? Learning rates with and without warm-up, and four schedules, trained.

`make schedules` trains `small` for 400 steps, again and again, and at three rates for 2,600 (three
hours on 2 cores; stopped, it goes on from the file), and writes studies/schedules.json, which
notebook 14 shows: the loss on dev, by which nothing else is chosen.
"""

import math
from functools import partial
from itertools import product

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.checkpoints import Progress
from engine.corpus.pairs import load_data
from engine.loading import endless_batches, seed_step
from engine.run_config import RunConfig
from engine.training_run import mean_loss
from engine.wrapped_loss import WrappedLoss
from notebooks.label_smoothing import LabelSmoothing
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import linear_rate, make_optimizer
from notebooks.setup import replace
from notebooks.training import train_step
from studies.training import DATA, train_missing
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "schedules.json"
STEPS = 400
WARM_UP = 80
PEAKS = {"pre": [6e-4, 1.25e-3, 2.5e-3, 5e-3], "post": [1.5e-4, 3e-4, 6e-4, 1.25e-3, 2.5e-3]}
SHAPES = ["constant", "cosine", "noam"]  # beside linear, at one peak
SEEDS = 3
LONG = {"steps": 2600, "warm_up": 400, "dtype": "bfloat16"}  # as long as `small` trains
LONG_PEAKS = [1.25e-3, 2.5e-3, 5e-3]


def rate_of(shape, step, peak, warm_up, total):
    """The learning rate at a step counted from 1."""
    if shape == "linear":
        return linear_rate(step, peak, warm_up, total)
    if step <= warm_up:
        return peak * step / warm_up
    if shape == "cosine":
        return peak / 2 * (1 + math.cos(math.pi * (step - warm_up) / (total + 1 - warm_up)))
    return peak * (warm_up / step) ** 0.5 if shape == "noam" else peak


def run_row(row, data, config):
    """Trains once. Returns the row with its losses."""
    settings = ("norm", "seed", "steps", "dtype")
    config = replace(config, **{name: row[name] for name in settings if name in row})
    source, target, train_set, dev_set, _ = load_data(data, config)
    torch.manual_seed(config.seed)
    model = make_model(config, len(source), len(target)).to(device())
    optimizer, _ = make_optimizer(model, config)

    def rate(done):
        return rate_of(row["shape"], done + 1, row["peak"], row["warm_up"], config.steps)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    batch_loss = WrappedLoss(model, LabelSmoothing(config.label_smoothing), config).train()
    losses = []
    batches = endless_batches(train_set, config, Progress())
    for step, (batch, _) in zip(range(config.steps), batches):
        seed_step(config.seed, step)
        loss, count, _ = train_step(batch_loss, batch, optimizer, config.max_grad_norm)
        scheduler.step()
        losses.append((loss / count).item())
    every = max(1, config.steps // 40)
    means = [sum(losses[n : n + every]) / every for n in range(0, config.steps, every)]
    dev_loss = round(mean_loss(model.eval(), dev_set, config), 4)
    return row | {"train_loss": [round(mean, 3) for mean in means], "dev_loss": dev_loss}


def rows():
    """What is trained: norm, shape, peak, steps of warm-up, seed, and steps if they are others."""
    for norm, peaks in PEAKS.items():
        for peak, warm_up, seed in product(peaks, (WARM_UP, 1), range(SEEDS)):
            yield dict(norm=norm, shape="linear", peak=peak, warm_up=warm_up, seed=seed)
    for shape, seed in product(SHAPES, range(2)):
        yield dict(norm="pre", shape=shape, peak=2.5e-3, warm_up=WARM_UP, seed=seed)
    for peak, seed in product(LONG_PEAKS, range(2)):
        yield dict(norm="pre", shape="linear", peak=peak, seed=seed) | LONG


def main():
    """Trains what is missing; each is written when it is finished."""
    # in float32, which every machine has: rows of one file may come from several
    short = dict(steps=STEPS, batch_tokens=1024, dtype="float32")
    run = partial(run_row, data=DATA, config=replace(RunConfig.preset("small"), **short))
    train_missing(rows(), run, OUTPUT, "make schedules")


if __name__ == "__main__":
    main()

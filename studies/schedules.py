"""How large a step, and when? Learning rates with and without warm-up, trained.

`make schedules` trains `small` for 400 steps, again and again, and at three rates for 2,600 (three
hours on 2 cores; stopped, it goes on from the file), and writes studies/schedules.json, which
notebook 14 shows: the loss on dev, by which nothing else is chosen.
"""

from functools import partial
from itertools import product

from engine.startup import tune_process

tune_process()  # before PyTorch

from engine.run import run_training
from engine.run_config import RunConfig
from notebooks.setup import replace
from studies.training import DATA, name_of, train_missing
from utils import ROOT

OUTPUT = ROOT / "studies" / "schedules.json"
STEPS = 400
WARM_UP = 80
PEAKS = {"pre": [6e-4, 1.25e-3, 2.5e-3, 5e-3], "post": [1.5e-4, 3e-4, 6e-4, 1.25e-3, 2.5e-3]}
SEEDS = 3
LONG = {"steps": 2600, "warm_up": 400, "batch": 2048, "dtype": "bfloat16"}  # as `small` trains
LONG_PEAKS = [1.25e-3, 2.5e-3, 5e-3]  # half its peak, its own, and twice


def run_row(row, data, runs, config):
    """Trains once. Returns the row with its losses, on train of every 50 steps."""
    names = dict(norm="norm", peak="learning_rate", warm_up="warmup_steps", seed="seed",
                 steps="steps", batch="batch_tokens", dtype="dtype")  # fmt: skip
    config = replace(config, **{names[key]: row[key] for key in names if key in row})
    config = replace(config, eval_steps=config.steps, bleu_sentences=0)
    records = run_training(data, config, runs / name_of(row))
    losses = [round(record["loss"], 3) for record in records]
    return row | {"train_loss": losses, "dev_loss": round(records[-1]["dev_loss"], 4)}


def rows():
    """What is trained: norm, peak, steps of warm-up, seed, and steps if they are others."""
    linear = {"shape": "linear"}  # after the warm-up
    for norm, peaks in PEAKS.items():
        for peak, warm_up, seed in product(peaks, (WARM_UP, 1), range(SEEDS)):
            yield dict(norm=norm, peak=peak, warm_up=warm_up, seed=seed) | linear
    for peak, seed in product(LONG_PEAKS, range(2)):
        yield dict(norm="pre", peak=peak, seed=seed) | linear | LONG


def main():
    """Trains what is missing; each is written when it is finished."""
    # in float32, which every machine has: rows of one file may come from several
    short = dict(steps=STEPS, batch_tokens=1024, dtype="float32")
    config = replace(RunConfig.preset("small"), **short)
    run = partial(run_row, data=DATA, runs=ROOT / "runs" / "schedules", config=config)
    train_missing(rows(), run, OUTPUT, "make schedules")


if __name__ == "__main__":
    main()

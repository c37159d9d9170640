"""Which first weights train best? `small` from ten starts, whole schedules, measured on dev.

`make starts` trains them and writes studies/starts.json, a row a training; stopped, it goes on from
the file. All in bfloat16, which every processor computes and new ones fast. One seed finds the best
starts and rates, three seeds decide; then come runs that take one property at a time from another
start, and longer ones. Of the last it is also asked, as in notebooks 08 and 09, how they know the
verb of *play*.
"""

import math
from functools import partial

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch
from torch import nn

from engine import run as training
from engine.run_config import RunConfig
from engine.scoring import score
from engine.translator import Translator
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support.story import (
    MASKED,
    THINGS,
    count_right,
    translate_masked,
    transplant,
    variants,
)
from studies.training import DATA, name_of, train_missing
from utils import ROOT

OUTPUT = ROOT / "studies" / "starts.json"
STEPS = 1300
SEEDS = 3


def draw(model, tables=None, layers=None):
    """Draws the embedding tables, or the matrices of the layers, from N(0, std²)."""
    for module in model.modules():
        for std, kind in ((tables, nn.Embedding), (layers, nn.Linear)):
            if std and isinstance(module, kind) and module is not model.generator.projection:
                nn.init.normal_(module.weight, std=std)


def last_matrices(model):
    """The matrices that write into the residual connections, one a sublayer."""
    for name, parameter in model.named_parameters():
        if name.endswith(("output.weight", "outer.weight")):
            yield parameter


def as_gpt2(model):
    """GPT-2's: the last matrix of each sublayer is divided by the root of the sublayers' number."""
    draw(model, 0.02, 0.02)
    for matrix in last_matrices(model):
        matrix.div_(math.sqrt(2 * len(model.encoder.layers)))


def last_zero(model):
    """All N(0, 0.02²), but nothing is written into the residual connections at first."""
    draw(model, 0.02, 0.02)
    for matrix in last_matrices(model):
        matrix.zero_()


def with_gain(model, std, gain):
    """All N(0, std²), and the decoder's last norm begins with this gain, so logits are larger."""
    draw(model, std, std)
    nn.init.constant_(model.decoder.norm.weight, gain)


def as_pytorch(model):
    """As nn.Linear and nn.Embedding draw."""
    for module in model.modules():
        if (
            isinstance(module, nn.Linear | nn.Embedding)
            and module is not model.generator.projection
        ):
            module.reset_parameters()


def scale_positions(model, factor):
    """As it is, but with larger positions, so that words are as small beside them as with 0.02."""
    model.positions.table.mul_(factor)


def scale_logits(model, factor):
    """All N(0, 0.02²), but with the logits of larger tables."""
    draw(model, 0.02, 0.02)
    model.generator.register_forward_hook(lambda module, inputs, logits: factor * logits)


STARTS = {
    "as it is": lambda model: None,
    "all 0.02": partial(draw, tables=0.02, layers=0.02),
    "all 0.015": partial(draw, tables=0.015, layers=0.015),
    "all 0.03": partial(draw, tables=0.03, layers=0.03),
    "GPT-2": as_gpt2,
    "last zero": last_zero,
    "layers 0.02": partial(draw, layers=0.02),
    "tables 0.02": partial(draw, tables=0.02),
    "all 0.01": partial(draw, tables=0.01, layers=0.01),
    "PyTorch": as_pytorch,
}

DECIDED = ["all 0.02", "all 0.03", "as it is"]  # with three seeds
# the logits' size in the last norm's gain, so that the model's form stays
GAINS = {
    f"all {std}, gain {gain}": partial(with_gain, std=std, gain=gain)
    for std, gain in ((0.02, 3), (0.03, 2), (0.02, 5), (0.03, 4))
}
BEST = "all 0.02, gain 3"
LONGER = [1600, 2600]
# one property of the other start each: how large positions are beside words, and logits at first
REASONS = {
    "as it is, positions × 3": partial(scale_positions, factor=3),
    "all 0.02, logits × 3": partial(scale_logits, factor=3),
}


def rows():
    """What is trained: start, rate, steps, seed."""

    def row(start, rate=0.0025, steps=STEPS, seed=0):
        return dict(start=start, rate=rate, steps=steps, seed=seed)

    yield from map(row, STARTS)
    yield from (row(start, rate=0.0018) for start in ("all 0.02", "as it is"))
    yield from (row(start, seed=seed) for seed in (1, 2) for start in DECIDED)
    # why: the start of one with the step of the other, by the size of its weights
    yield from (row("all 0.02", rate=0.0008), row("as it is", rate=0.0078))
    yield from map(row, REASONS)
    yield from map(row, GAINS)
    yield from (row(BEST, steps=1600), *(row(BEST, seed=seed) for seed in (1, 2)))
    yield from (
        row("all 0.02", steps=steps, seed=seed) for steps in LONGER for seed in range(SEEDS)
    )


def make(*arguments, start):
    """`make_model` with another start."""
    model = make_model(*arguments)
    with torch.no_grad():
        (STARTS | REASONS | GAINS)[start](model)
    return model


def run_row(row, data, runs, config):
    """Trains and scores once. Returns the row with what is measured."""
    run = runs / name_of(row)
    settings = dict(steps=row["steps"], learning_rate=row["rate"], seed=row["seed"])
    training.make_model = partial(make, start=row["start"])
    records = training.run_training(data, replace(config, **settings), run)
    losses = {str(one["step"]): round(one["dev_loss"], 4) for one in records if "dev_loss" in one}
    if row["start"] in REASONS:  # what was changed is in no run folder, so only the loss is right
        return row | {"dev_loss": losses}
    scores, _, _ = score(run, data, "dev")
    dev = {search: [scores[search][name] for name in ("bleu", "chrf")] for search in scores}
    return row | {"dev_loss": losses} | dev | how_it_knows(Translator.load(run))


def how_it_knows(translator):
    """Right verbs of 168, all told, with the thing closed to the decoder or to the encoder's other
    words, and how many of 24 verbs follow when the vector of *play* is moved, as in notebook 08.
    """
    ways = {
        "verbs": "nothing masked",
        "decoder closed": "decoder: object masked",
        "encoder closed": "encoder: none attends to it",
    }
    right = {
        name: sum(count_right(thing, translate_masked(translator, thing, MASKED[way]))[0]
                  for thing in THINGS)
        for name, way in ways.items()
    }  # fmt: skip
    moved = transplant(translator, variants("the piano"), variants("football"))
    return right | {"play moved": count_right("the piano", moved)[0]}


def main():
    """Trains what is missing; each is written when it is finished."""
    config = replace(RunConfig.preset("small"), dtype="bfloat16", bleu_sentences=0)
    run = partial(run_row, data=DATA, runs=ROOT / "runs" / "starts", config=config)
    train_missing(rows(), run, OUTPUT, "make starts")


if __name__ == "__main__":
    main()

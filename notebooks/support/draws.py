"""Lesson 11's experiment: the same short training from weights that were drawn otherwise."""

from functools import cache

import torch
from torch import nn
from torch.nn import functional as F

from notebooks import make_model as lesson
from notebooks.data_preparation import PAD, TokenBatchSampler, make_dataloader, read_pairs
from notebooks.setup import replace
from notebooks.support import short_training
from utils import ROOT

LITTLE = replace(short_training.LITTLE, d_model=96, d_ff=192, dropout=0.0)


@cache
def corpus():
    """Source tokenizer, target tokenizer, train set and dev set of data_small."""
    splits = [read_pairs(ROOT / "data_small" / f"{split}.tsv") for split in ("train", "dev")]
    return short_training.prepare(*splits)


def token_loss(model, batch):
    """Mean loss per target token; PAD does not count."""
    logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    return F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD)


def scale_layers(model, factor):
    """Multiplies every matrix of a model's layers, in place."""
    with torch.no_grad():
        for parameter in (*model.encoder.parameters(), *model.decoder.parameters()):
            if parameter.dim() == 2:
                parameter.mul_(factor)


def learn(layers=1.0, table=1.0, redraw=None, seed=0, steps=50, copied=False):
    """Trains a model whose first weights are so many times as large: the model and its losses.

    `layers` scales the matrices of the layers, `table` that of the target embedding; `redraw` is
    called with the model and may draw anew. `copied`: the output projection begins as a copy of the
    table, and is not shared.
    """
    source, target, train_set, _ = corpus()
    torch.manual_seed(seed)
    model = lesson.make_model(LITTLE, len(source), len(target))
    scale_layers(model, layers)
    with torch.no_grad():
        model.tgt_embedding.lookup.weight.mul_(table)
        if redraw:
            redraw(model)
    if copied:
        model.generator.projection.weight = nn.Parameter(model.tgt_embedding.lookup.weight.clone())
    optimizer = short_training.adam(model, rate=2e-3)
    losses = []
    loader = make_dataloader(train_set, TokenBatchSampler(train_set.lengths, 256))
    for _, batch in zip(range(steps), loader):
        loss = token_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def train_twice(name, **changes):
    """Trains from two seeds, and prints the first loss and the mean of the last ten of each.

    Returns the losses of both, a list of 50 each.
    """
    runs = [learn(**changes, seed=seed)[1] for seed in (0, 1)]
    after = ", ".join(f"{sum(losses[-10:]) / 10:.2f}" for losses in runs)
    print(f"{name:32} first loss {runs[0][0]:5.1f}, after 50 steps {after}")
    return runs

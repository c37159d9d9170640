"""What the short trainings of lessons 11 to 13 share: a little model, its data, its optimiser."""

import torch

from notebooks.data_preparation import (
    TokenBatchSampler,
    TranslationDataset,
    make_dataloader,
    make_tokenizers,
)
from notebooks.setup import Config, replace

LITTLE = replace(Config.preset("tiny"), d_model=64, d_ff=128, num_heads=4, dropout=0.1)


def prepare(train, *others):
    """Source and target tokenizer of the pairs `train`, then a data set of each list of pairs."""
    source, target = make_tokenizers(train, LITTLE)
    options = source, target, LITTLE.max_length
    return source, target, *(TranslationDataset(pairs, *options) for pairs in (train, *others))


def batches(dataset, epoch=None):
    """The batches of a data set: as they are drawn for an epoch, or, to measure on, in order."""
    sampler = TokenBatchSampler(dataset.lengths, 1024, shuffle=epoch is not None)
    sampler.epoch = epoch or 0
    return make_dataloader(dataset, sampler)


def adam(model, rate=5e-3):
    """Adam as the paper has it (section 5.3), at a fixed rate."""
    return torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=True)

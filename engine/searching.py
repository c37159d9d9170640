"""One driver for every search: sentences that have ended leave the batch."""

import copy

import torch

from notebooks.data_preparation import padding_mask


@torch.inference_mode()
def run_search(model, src, search):
    """What a rule such as notebook 10's `GreedySearch` writes for src (B, S): a result for each.

    The same as a loop over `search.grow(model.next_logits(...))` until all are done, and faster:
    who is done is computed no longer. The model must be in eval mode.
    """
    src_mask = padding_mask(src)
    memory, cache = model.encode(src, src_mask), model.new_cache()
    numbers, parts = torch.arange(len(src), device=src.device), []
    while len(numbers):
        search.grow(model.next_logits(search, memory, src_mask, cache))
        done = search.done()
        count = len(done) - int(done.sum())  # a GPU is waited for here, once a step
        if count < len(done):
            order = done.int().argsort(stable=True)  # who goes on comes first
            going, ended = order[:count], order[count:]
            part = copy.copy(search)
            part.select(ended)
            parts.append((numbers[ended], part))
            search.select(going)
            src_mask, numbers = src_mask[going], numbers[going]
            memory = memory[:count, :0]  # its keys and values are in the cache
            for kept in [part for layer in cache for part in (layer.own, layer.cross)]:
                if kept.key is not None:  # as where a version of yours looks at no source
                    kept.key = kept.key.index_select(0, going)
                    kept.value = kept.value.index_select(0, going)
    results = [None] * len(src)
    for numbers, part in parts:
        for number, result in zip(numbers.tolist(), part.results()):
            results[number] = result
    return results

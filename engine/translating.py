"""From texts to texts: batches of similar length, what is cut, what is empty."""

import sys

from engine.errors import InputError
from engine.precision import search_precision
from engine.text_files import one_line
from notebooks.data_preparation import EOS, pad_rows
from notebooks.transformer import greedy_search


def translate_texts(model, search, tokenizers, texts, config, batch_size=64, first=1, bar=None):
    """One translation for each text, in their order; `search(src)` gives the ids for a batch.

    An empty text gives an empty one. One that is too long is cut; stderr says which, the first of
    them being line `first`. `bar` is of tqdm and counts texts. The model must be in eval mode.
    Raises InputError for weights with which it gives no probabilities.
    """
    source, target = tokenizers
    rows = source.encode_batch([one_line(text) for text in texts])
    for number, ids in enumerate(rows, start=first):
        if len(ids) > config.max_length:
            print(f"line {number}: cut after {config.max_length} tokens", file=sys.stderr)
    rows = [ids[: config.max_length] + [EOS] for ids in rows]
    written, place = [""] * len(rows), next(model.parameters()).device
    for numbers in batches_by_length(rows, batch_size):
        src = pad_rows([rows[number] for number in numbers]).to(place)
        with search_precision(config.dtype):
            results = search(src)
        if not all(results):
            wrong = "the model gives no probabilities: its weights are damaged"
            raise InputError(f"{wrong}. Train again")
        for number, ids in zip(numbers, results):
            written[number] = target.decode(ids)
        if bar is not None:
            bar.update(len(numbers))
    return written


def batches_by_length(rows, batch_size):
    """Yields the numbers of the rows in batches of similar length, without those that are empty."""
    order = [number for number, ids in enumerate(rows) if len(ids) > 1]  # EOS is there always
    order.sort(key=lambda number: len(rows[number]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def translate_greedily(model, tokenizers, texts, config):
    """One translation for each text by greedy search. The model must be in eval mode."""
    search = lambda src: greedy_search(model, src, config.max_length)
    return translate_texts(model, search, tokenizers, texts, config)

"""What the units of the decoder's feed-forwards compute, and what they write (Geva et al. 2021)."""

import torch

from notebooks.data_preparation import BOS, EOS, PAD, Batch
from notebooks.support.proofs import hooked, token_log_probs


@torch.no_grad()
def unit_values(translator, layer, unit, texts):
    """A decoder unit's values before ReLU, each where this was read and that was written.

    `texts` are pairs of an English sentence and the beginning of its translation.
    """
    source, target = translator.source, translator.target
    items = [([*source.encode(english), EOS], [BOS, *target.encode(chinese), EOS])
             for english, chinese in texts]  # fmt: skip
    batch, values = Batch.collate(items), {}
    modules = {layer: translator.model.decoder.layers[layer - 1].feed_forward.inner}
    with hooked(modules, values.__setitem__):
        translator.model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    last = (batch.tgt_in != PAD).sum(dim=1) - 1
    return values[layer][torch.arange(len(texts)), last, unit].tolist()


@torch.no_grad()
def decoder_units(translator, pairs):
    """The units' values as the decoder reads pairs of texts, and where it does.

    Returns the places, (text so far, id of the next token) each, and for each layer the values
    (places, d_ff) after the ReLU.
    """
    model, source, target = translator.model, translator.source, translator.target
    ids = [[*target.encode(chinese), EOS] for _, chinese in pairs]
    items = [([*source.encode(english), EOS], [BOS, *row]) for (english, _), row in zip(pairs, ids)]
    values = {number: [] for number in range(len(model.decoder.layers))}

    def keep(number, output):
        values[number].append(output[real].relu())

    inner = {number: layer.feed_forward.inner for number, layer in enumerate(model.decoder.layers)}
    with hooked(inner, keep):
        for start in range(0, len(items), 64):
            batch = Batch.collate(items[start : start + 64])
            real = batch.tgt_in != PAD
            model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    positions = [
        (target.decode(row[:position]), token) for row in ids for position, token in enumerate(row)
    ]
    return positions, [torch.cat(activations) for activations in values.values()]


def strongest_texts(translator, pairs, positions, values, count):
    """The pairs of texts in which a unit is largest, each with its values there.

    `values` (places,) of that unit. Returns {source text: (target tokens read, values)}.
    """
    number = torch.tensor([not text for text, _ in positions]).cumsum(dim=0) - 1  # of the pair
    peaks = torch.stack([values[number == row].max() for row in range(len(pairs))])
    rows = {}
    for row in peaks.topk(count).indices.tolist():
        inside = (number == row).nonzero().flatten().tolist()
        written = [translator.target.vocabulary.name(positions[index][1]) for index in inside]
        rows[pairs[row][0]] = (["<bos>", *written[:-1]], values[inside].tolist())
    return rows


@torch.no_grad()
def raised_tokens(translator, layer, count):
    """The tokens whose logits each unit of a decoder layer (from 1) raises most: (count, d_ff) ids.

    Its column of `outer` goes straight to the last norm and the generator; what later layers make
    of it is left out.
    """
    model = translator.model
    columns = model.decoder.layers[layer - 1].feed_forward.outer.weight  # (d_model, d_ff)
    weighted = model.decoder.norm.weight[:, None] * (columns - columns.mean(dim=0))
    return (model.generator.projection.weight @ weighted).topk(count, dim=0).indices


def equally_active(values, positions, units):
    """As many other units, each of the same layer and about as large at these places in the mean.

    `values` are those of `decoder_units`; `units` and the result are (layer from 1, number) each.
    """
    others = []
    for layer, number in units:
        means = values[layer - 1][positions].mean(dim=0)
        distances = (means - means[number]).abs()
        taken = [unit for at, unit in (*units, *others) if at == layer]
        distances[taken] = torch.inf
        others.append((layer, int(distances.argmin())))
    return others


def switched_off(translator, units):
    """A context in which units of the decoder, (layer from 1, number) each, add nothing."""
    layers = enumerate(translator.model.decoder.layers, start=1)

    def silence(layer, output):
        output[..., [number for at, number in units if at == layer]] = 0

    return hooked({number: layer.feed_forward.inner for number, layer in layers}, silence)


def probability_of(translator, token, english, chinese):
    """The probability of a target token where a translation has it for the first time."""
    position = chinese.index(token)
    log_probs, ids = token_log_probs(translator, english, chinese[: position + 1])
    return log_probs[position, ids[position]].exp().item()

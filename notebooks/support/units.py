"""What the units of the decoder's feed-forwards compute, and what they write (Geva et al. 2021)."""

import torch

from notebooks.data_preparation import BOS, EOS, PAD, Batch


@torch.no_grad()
def decoder_units(translator, pairs):
    """The units' values as the decoder reads pairs of texts, and where it does.

    Returns the places, (text so far, id of the next token) each, and for each layer the values
    (places, d_ff) after the ReLU.
    """
    model, source, target = translator.model, translator.source, translator.target
    ids = [[*target.encode(chinese), EOS] for _, chinese in pairs]
    items = [([*source.encode(english), EOS], [BOS, *row]) for (english, _), row in zip(pairs, ids)]
    values = [[] for _ in model.decoder.layers]

    def keep(kept):
        return lambda module, inputs, output: kept.append(output[real].relu())

    hooks = [
        layer.feed_forward.inner.register_forward_hook(keep(kept))
        for layer, kept in zip(model.decoder.layers, values)
    ]
    for start in range(0, len(items), 64):
        batch = Batch.collate(items[start : start + 64])
        real = batch.tgt_in != PAD
        model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    for hook in hooks:
        hook.remove()
    places = [(target.decode(row[:place]), token) for row in ids for place, token in enumerate(row)]
    return places, [torch.cat(kept) for kept in values]


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

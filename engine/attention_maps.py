"""Where a model looks: the attention weights of all its layers in one pass."""

import torch

from engine.errors import InputError
from engine.plain_text import one_line
from notebooks.data_preparation import BOS, EOS, Batch


@torch.no_grad()
def attention_maps(model, src, tgt, src_mask, tgt_mask):
    """The attention weights of every layer in one pass: a dict of stacks (layers, B, H, Tq, Tk).

    Its keys are "encoder" (S x S), "decoder" (T x T) and "cross" (T x S). The model is left in the
    mode it was in.
    """
    groups = {
        "encoder": [layer.self_attention for layer in model.encoder.layers],
        "decoder": [layer.self_attention for layer in model.decoder.layers],
        "cross": [layer.cross_attention for layer in model.decoder.layers],
    }
    modules = [module for group in groups.values() for module in group]
    training = model.training
    try:
        for module in modules:
            module.keep_weights = True
        model.eval()
        model(src, tgt, src_mask, tgt_mask)
        if any(module.weights is None for module in modules):
            wrong = "the attention of your lesson 04 keeps no weights to be shown"
            raise InputError(f"{wrong}: its `attend` has to, where keep_weights is set")
        return {
            kind: torch.stack([part.weights for part in group]) for kind, group in groups.items()
        }
    finally:
        model.train(training)
        for module in modules:
            module.keep_weights = False
            module.weights = None


def translation_attention(model, source, target, sentence, translation):
    """Names of the S source tokens and of the T tokens that the decoder reads, and attention maps.

    The translation is read in one pass, as in training. The maps are those of `attention_maps`
    without the batch axis: stacks (layers, H, Tq, Tk).
    """
    src = source.encode(one_line(sentence)) + [EOS]
    tgt = [BOS, *target.encode(translation)]
    batch = Batch.collate([(src, [*tgt, EOS])]).to(next(model.parameters()).device)
    maps = attention_maps(model, batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    names = [
        [side.vocabulary.name(number) for number in ids]
        for side, ids in ((source, src), (target, tgt))
    ]
    return *names, {kind: stack[:, 0] for kind, stack in maps.items()}

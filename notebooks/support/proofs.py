"""Helpers of the proofs in notebooks 08 to 10 and 16, and of the tests."""

import torch
from torch import nn

from notebooks.data_preparation import BOS, EOS, PAD, UNK, Batch


def copy_to_torch(ours, theirs):
    """Copies one of our layers, the encoder's or the decoder's, into PyTorch's layer."""
    attentions = [(ours.self_attention, theirs.self_attn)]
    if hasattr(ours, "cross_attention"):
        attentions.append((ours.cross_attention, theirs.multihead_attn))
    for mine, yours in attentions:
        parts = (mine.query, mine.key, mine.value)  # one matrix in PyTorch's module
        yours.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
        yours.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
        yours.out_proj.load_state_dict(mine.output.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, connection in enumerate(ours.sublayers, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(connection.norm.state_dict())


def shake(module):
    """Draws all parameters anew, biases and norms included, so that a proof overlooks none."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module


def record_shapes(model, batch):
    """{module name: shapes of what it returned, one a call} of a pass; the model's name is ""."""
    shapes = {}
    hooks = []
    for name, module in model.named_modules():

        def note(module, inputs, output, name=name):
            shapes.setdefault(name, []).append(tuple(output.shape))

        hooks.append(module.register_forward_hook(note))
    try:
        model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


@torch.inference_mode()
def next_log_probs(model, src, ids):
    """Log-probabilities (T, V) of every next token, of one source and one target, lists of ids.

    `src` and `ids` end in EOS. PAD, UNK and BOS are never written: theirs are -inf.
    """
    batch = Batch.collate([(src, [BOS, *ids])]).to(next(model.parameters()).device)
    logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)[0].clone()
    logits[:, [PAD, UNK, BOS]] = -torch.inf
    return logits.log_softmax(dim=-1).cpu()


def token_log_probs(translator, sentence, translation):
    """Log-probabilities (T, V) of every next token of a translation, and its ids, EOS included."""
    ids = [*translator.target.encode(translation), EOS]
    return next_log_probs(translator.model, translator.encode(sentence), ids), ids

"""Helpers of the proofs and experiments that lessons show, and of the tests."""

from contextlib import ExitStack, contextmanager
from functools import partial

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


@contextmanager
def hooked(modules, hook):
    """Within it `hook(name, output)` is called behind each of these modules, {name: module}.

    What it returns, if anything, is the module's output then.
    """

    def call(name, module, inputs, output):
        return hook(name, output)

    with ExitStack() as hooks:
        for name, module in modules.items():
            hooks.enter_context(module.register_forward_hook(partial(call, name)))
        yield


def record_shapes(model, batch):
    """{module name: shapes of what it returned, one a call} of a pass; the model's name is ""."""
    shapes = {}

    def note(name, output):
        shapes.setdefault(name, []).append(tuple(output.shape))

    with hooked(dict(model.named_modules()), note):
        model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
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


def likeliest(translator, sentence, text):
    """The three likeliest tokens behind a translation's beginning: pairs (token, probability)."""
    log_probs, _ = token_log_probs(translator, sentence, text)
    probabilities, ids = log_probs[-1].exp().topk(3)
    names = [translator.target.vocabulary.name(number) for number in ids.tolist()]
    return list(zip(names, probabilities.tolist()))

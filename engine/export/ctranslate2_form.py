"""A run for CTranslate2, a translation engine in C++ that can compute with 8-bit integers.

It wants the weights under its own names: queries, keys and values stacked, our table of positions
(its own begins at position 1), and, so that PAD, UNK and BOS are never written, a large negative
bias on their logits. Its greedy search then does what ours does. Its beam search divides by a power
of the length instead of Wu et al.'s penalty and stops by another rule.
"""

import torch

from engine.errors import InputError
from engine.export.tokenizer_files import names
from notebooks.data_preparation import BOS, EOS, PAD, UNK
from notebooks.positional_encoding import sinusoids

LONGEST = 1023  # tokens of an input, and EOS


def copy_to_ctranslate2(spec, layer):
    """Copies one layer of our encoder or decoder into CTranslate2's description of it."""

    def copy(linear, *ours):
        linear.weight, linear.bias = (
            torch.cat([getattr(part, name) for part in ours]) for name in ("weight", "bias")
        )

    own = layer.self_attention
    copy(spec.self_attention.linear[0], own.query, own.key, own.value)
    copy(spec.self_attention.linear[1], own.output)
    blocks = [spec.self_attention]
    if hasattr(layer, "cross_attention"):
        cross = layer.cross_attention
        copy(spec.attention.linear[0], cross.query)
        copy(spec.attention.linear[1], cross.key, cross.value)
        copy(spec.attention.linear[2], cross.output)
        blocks.append(spec.attention)
    copy(spec.ffn.linear_0, layer.feed_forward.inner)
    copy(spec.ffn.linear_1, layer.feed_forward.outer)
    for block, sublayer in zip([*blocks, spec.ffn], layer.sublayers):
        copy_norm(block.layer_norm, sublayer.norm)


def copy_norm(spec, norm):
    """A layer norm's weight and bias, under CTranslate2's names."""
    spec.gamma = norm.weight
    spec.beta = norm.bias


@torch.no_grad()
def export_ctranslate2(config, source, target, model, folder, int8=False):
    """Writes a model into a folder. `int8`: matrices as 8-bit integers."""
    from ctranslate2.specs import TransformerSpec  # only this function needs it

    if config.max_length > LONGEST:
        message = f"CTranslate2 reads at most {LONGEST} tokens, and max_length is"
        raise InputError(f"{message} {config.max_length}")
    spec = describe(TransformerSpec, config, (names(source), names(target)), model.cpu().eval())
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))


def describe(TransformerSpec, config, sides, model):
    """CTranslate2's description of a model and of the names of its tokens."""
    spec = TransformerSpec.from_config(
        (config.num_layers,) * 2, config.num_heads, pre_norm=config.norm == "pre"
    )
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = sides[1][UNK : EOS + 1]
    spec.config.decoder_start_token = sides[1][BOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder.layers[0].sublayers[0].norm.eps
    spec.register_source_vocabulary(sides[0])
    spec.register_target_vocabulary(sides[1])
    spec.encoder.embeddings[0].weight = model.src_embedding.lookup.weight
    spec.decoder.embeddings.weight = model.tgt_embedding.lookup.weight
    spec.decoder.projection.weight = model.generator.projection.weight
    spec.decoder.projection.bias = torch.zeros(len(sides[1])).index_fill(
        0, torch.tensor([PAD, UNK, BOS]), -1e4
    )
    for side, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        # it cuts inputs at 1,024 tokens
        side.position_encodings.encodings = sinusoids(1026, config.d_model)
        if config.norm == "pre":
            copy_norm(side.layer_norm, ours.norm)
        for layer, our_layer in zip(side.layer, ours.layers):
            copy_to_ctranslate2(layer, our_layer)
    return spec

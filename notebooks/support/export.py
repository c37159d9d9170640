"""A run for CTranslate2: `python export.py --run RUN --ctranslate2 OUT`.

CTranslate2 is a translation engine in C++; among other things it computes with 8-bit integers. It
wants the weights under its own names: queries, keys and values stacked, our table of positions (its
own begins at position 1), and, so that PAD, UNK and BOS are never written, a large negative bias on
their logits. Its greedy search then does what ours does. It splits and cuts no text: give it the
tokens of `source.segmenter`, at most `max_length` of them, and join its tokens with
`target.segmenter`. Its beam search divides by a power of the length instead of Wu et al.'s penalty
and stops by another rule, so its beam may find other translations than ours.
"""

import shutil
from pathlib import Path

import torch

from notebooks.data_preparation import BOS, CONTROL_TOKENS, PAD, UNK
from notebooks.positional_encoding import sinusoids
from notebooks.support.errors import InputError
from notebooks.support.files import fresh_name
from notebooks.support.run_folder import RunFolder


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
    spec.gamma, spec.beta = norm.weight, norm.bias


@torch.no_grad()
def export_ctranslate2(run, out):
    """Writes a run as a CTranslate2 model into a new folder; InputError if it is there. Gives 0."""
    try:  # only this function needs it
        from ctranslate2.specs import TransformerSpec
    except ModuleNotFoundError:
        raise InputError("CTranslate2 is not installed. Try: pip install ctranslate2") from None

    config, source, target, model = RunFolder(run).load()
    if Path(out).exists():
        raise InputError(f"{out}: is there already. Give a folder that does not exist yet")
    model = model.cpu()
    spec = TransformerSpec.from_config(
        (config.num_layers,) * 2, config.num_heads, pre_norm=config.norm == "pre"
    )
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = CONTROL_TOKENS[UNK:]
    spec.config.decoder_start_token, spec.config.add_source_eos = CONTROL_TOKENS[BOS], True
    spec.config.layer_norm_epsilon = model.encoder.layers[0].sublayers[0].norm.eps
    spec.register_source_vocabulary(CONTROL_TOKENS + source.vocabulary.tokens)
    spec.register_target_vocabulary(CONTROL_TOKENS + target.vocabulary.tokens)
    spec.encoder.embeddings[0].weight = model.src_embedding.lookup.weight
    spec.decoder.embeddings.weight = model.tgt_embedding.lookup.weight
    spec.decoder.projection.weight = model.generator.projection.weight
    spec.decoder.projection.bias = torch.zeros(len(target)).index_fill(
        0, torch.tensor([PAD, UNK, BOS]), -1e4
    )
    for side, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        side.position_encodings.encodings = sinusoids(
            1026, config.d_model
        )  # it cuts inputs at 1,024 tokens
        if config.norm == "pre":
            copy_norm(side.layer_norm, ours.norm)
        for layer, our_layer in zip(side.layer, ours.layers):
            copy_to_ctranslate2(layer, our_layer)
    spec.validate()
    spec.optimize()
    temporary = fresh_name(Path(out))
    temporary.mkdir(parents=True)
    try:
        spec.save(str(temporary))
        temporary.rename(out)
    except OSError as error:
        raise OSError(f"{out}: could not be written ({error}). Make room and start again") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return 0

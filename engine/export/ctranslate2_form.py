"""A run for CTranslate2, a translation engine in C++ that can compute with 8-bit integers.

It wants the weights under its own names: queries, keys and values stacked, our table of positions
(its own begins at position 1), and, so that PAD, UNK and BOS are never written, a large negative
bias on their logits. Its greedy search then does what ours does. Its beam search divides by a power
of the length instead of Wu et al.'s penalty and stops by another rule.
"""

import torch

from engine.errors import InputError
from engine.export.proof import compared_rows, refuse_replaced, tensors_of
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
    """Writes a model into a folder. `int8`: matrices as 8-bit integers.

    Raises InputError when CTranslate2 computes something else than `model`, as with a class that
    was edited.
    """
    from ctranslate2.specs import TransformerSpec  # only this function needs it

    refuse_replaced("CTranslate2")
    model = model.cpu().eval()
    if config.max_length > LONGEST:
        message = f"CTranslate2 reads at most {LONGEST} tokens, and max_length is"
        raise InputError(f"{message} {config.max_length}. Use --form onnx")
    sides = names(source), names(target)
    for quantization in (None, "int8")[: 1 + int8]:
        try:
            spec = describe(TransformerSpec, config, sides, model)
            spec.validate()
        except (AttributeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            message = f"a class was edited in a way that CTranslate2 has no place for ({reason})"
            raise InputError(f"{message}. Try: --form onnx") from None
        spec.optimize(quantization=quantization)
        spec.save(str(folder))
        if not quantization:
            compare(model, sides, folder)


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


def compare(model, sides, folder):
    """Raises InputError unless the engine computes the model's log-probabilities."""
    import ctranslate2

    translator = ctranslate2.Translator(str(folder))
    rows = compared_rows(map(len, sides), width=6)
    for start in range(0, len(rows), 64):
        compare_rows(model, sides, translator, rows[start : start + 64])


def compare_rows(model, sides, translator, rows):
    """`compare` for some pairs of rows of ids."""
    given, tgt_out = tensors_of(rows)
    logits = model(*given)
    logits[..., :EOS] = -torch.inf
    ours = logits.log_softmax(dim=-1).gather(2, tgt_out[:, :, None])[..., 0]
    src, tgt = (
        [[side[number] for number in row] for row in part] for side, part in zip(sides, zip(*rows))
    )
    try:
        results = translator.score_batch(src, tgt)
        theirs = torch.tensor([result.log_probs for result in results])
    except ValueError:  # its weights have other shapes than CTranslate2 knows
        theirs = torch.full_like(ours, torch.inf)
    if not (ours - theirs).abs().max() < 0.01 * ours.abs().mean():
        message = "CTranslate2 computes something else than this model, perhaps a class was edited"
        raise InputError(f"{message}. Try: --form onnx")

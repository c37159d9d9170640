"""The question of the course: sentences in which something is played, and forbidden looks."""

import itertools

import torch

from notebooks.data_preparation import BOS, EOS, causal_mask, pad_rows, padding_mask

WHO = ("We", "They", "My brothers", "The children", "You", "Many people")
WHEN = ("every day", "on Sunday", "after dinner", "in the evening")


def variants(thing, who=WHO):
    """Sentences in which this is played, one for each of `who` and each time."""
    return [f"{one} play {thing} {when}." for one, when in itertools.product(who, WHEN)]


def encode_sentences(source, sentences):
    """The ids (B, S) that the encoder reads: source tokens and EOS."""
    return pad_rows([[*source.encode(sentence), EOS] for sentence in sentences])


def blocked_masks(ids, words, others_attend=True, decoder_attends=True):
    """Masks for the encoder (B, 1, S, S) and for cross-attention (B, 1, 1, S), of ids (B, S).

    `words` (B,) are ids: without `others_attend` no other token of a sentence may attend to its
    word, without `decoder_attends` the decoder may not.
    """
    cross_mask = padding_mask(ids)
    src_mask = cross_mask.expand(-1, -1, ids.shape[1], -1)
    is_word = ids == words[:, None]
    not_word = ~is_word[:, None, None, :]
    if not others_attend:
        src_mask = src_mask & not_word | torch.diag_embed(is_word)[:, None]
    if not decoder_attends:
        cross_mask = cross_mask & not_word
    return src_mask, cross_mask


@torch.no_grad()
def vectors_of_play(model, source, thing, others_attend=True, who=WHO):
    """The vectors of `play` (layers + 1, B, D) in the variants: as it comes in, after each layer.

    Without `others_attend` no other word may attend to what is played.
    """
    ids = encode_sentences(source, variants(thing, who)).to(next(model.parameters()).device)
    number = source.vocabulary.ids
    words = ids.new_full((len(ids),), number[thing.split()[-1]])
    src_mask, _ = blocked_masks(ids, words, others_attend)
    x = model.positions(model.src_embedding(ids))
    vectors = [x[ids == number["play"]]]
    for layer in model.encoder.layers:
        x = layer(x, src_mask)
        vectors.append(x[ids == number["play"]])
    return torch.stack(vectors)


def mean_cosines(vectors):
    """The mean cosine of two things' vectors in equal sentences, for each stage: (layers + 1,).

    `vectors` has a thing's `vectors_of_play` under its name.
    """
    pairs = itertools.combinations(vectors.values(), 2)
    cosines = [torch.cosine_similarity(one, other, dim=-1).mean(dim=1) for one, other in pairs]
    return torch.stack(cosines).mean(dim=0)


@torch.no_grad()
def greedy_with_masks(model, target, ids, src_mask, cross_mask, max_length=60):
    """Greedy translations of ids (B, S) under these masks: texts."""
    memory = model.encode(ids, src_mask)
    text = torch.full_like(ids[:, :1], BOS)
    for length in range(1, max_length + 1):
        states = model.decode(text, memory, cross_mask, causal_mask(length, ids.device))
        scores = model.generator(states[:, -1])
        scores[:, :EOS] = -torch.inf  # PAD, UNK and BOS are never written
        text = torch.cat([text, scores.argmax(dim=-1, keepdim=True)], dim=1)
        if (text == EOS).any(dim=1).all():
            break
    return [target.decode(row) for row in text[:, 1:].tolist()]

"""The question of the course: sentences in which something is played, and forbidden looks."""

import itertools

import torch

from notebooks.data_preparation import BOS, EOS, causal_mask, pad_rows, padding_mask

WHO = ("We", "They", "My brothers", "The children", "You", "Many people")
WHEN = ("every day", "on Sunday", "after dinner", "in the evening")


def variants(thing, who=WHO):
    """Sentences in which this is played, one for each of `who` and each time."""
    return [f"{one} play {thing} {when}." for one, when in itertools.product(who, WHEN)]


def read(source, sentences):
    """The ids (B, S) that the encoder reads: source tokens and EOS."""
    return pad_rows([[*source.encode(sentence), EOS] for sentence in sentences])


def looks(ids, words, others_look=True, decoder_looks=True):
    """Masks for the encoder (B, 1, S, S) and for cross-attention (B, 1, 1, S), of ids (B, S).

    `words` (B,) are ids: without `others_look` no other token of a sentence may look at its word,
    without `decoder_looks` the decoder may not.
    """
    cross = padding_mask(ids)
    own = cross.expand(-1, -1, ids.shape[1], -1)
    there = ids == words[:, None]
    hidden = ~there[:, None, None, :]
    if not others_look:
        own = own & hidden | torch.diag_embed(there)[:, None]
    return own, cross if decoder_looks else cross & hidden


@torch.no_grad()
def vectors_of_play(model, source, thing, look=True, who=WHO):
    """The vectors of `play` (layers + 1, B, D) in the variants: as it comes in, after each layer.

    Without `look` no other word may look at what is played.
    """
    ids = read(source, variants(thing, who)).to(next(model.parameters()).device)
    number = source.vocabulary.ids
    own, _ = looks(ids, ids.new_full((len(ids),), number[thing.split()[-1]]), others_look=look)
    x = model.positions(model.src_embedding(ids))
    found = [x[ids == number["play"]]]
    for layer in model.encoder.layers:
        x = layer(x, own)
        found.append(x[ids == number["play"]])
    return torch.stack(found)


def mean_cosines(found):
    """The mean cosine of two things' vectors in equal sentences, for each stage: (layers + 1,).

    `found` has a thing's `vectors_of_play` under its name.
    """
    pairs = itertools.combinations(found.values(), 2)
    cosines = [torch.cosine_similarity(one, other, dim=-1).mean(dim=1) for one, other in pairs]
    return torch.stack(cosines).mean(dim=0)


@torch.no_grad()
def write(model, target, ids, own, cross, longest=60):
    """Greedy translations of ids (B, S) under these masks: texts."""
    memory, text = model.encode(ids, own), torch.full_like(ids[:, :1], BOS)
    for length in range(1, longest + 1):
        states = model.decode(text, memory, cross, causal_mask(length, ids.device))
        scores = model.generator(states[:, -1])
        scores[:, :EOS] = -torch.inf  # PAD, UNK and BOS are never written
        text = torch.cat([text, scores.argmax(dim=-1, keepdim=True)], dim=1)
        if (text == EOS).any(dim=1).all():
            break
    return [target.decode(row) for row in text[:, 1:].tolist()]

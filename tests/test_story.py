"""The question of the course, asked of the model in the box: how does it know which verb?

What the lessons say about it holds, as ranges: on many sentences, and on every machine.
"""

import itertools

import pytest
import torch

from notebooks.support.attention_maps import translation_attention
from notebooks.support.box import the_box

THINGS = {
    "football": "踢", "tennis": "打", "basketball": "打", "cards": "打", "chess": "下",
    "games": "玩", "the piano": "弹", "the guitar": "弹", "in the garden": "玩",
}  # fmt: skip
WHO = ["We", "They", "My brothers", "The children", "You", "Many people"]
WHEN = ["every day", "on Sunday", "after dinner", "in the evening"]


def variants(what):
    """24 sentences in which this is played."""
    return [f"{who} play {what} {when}." for who, when in itertools.product(WHO, WHEN)]


@pytest.mark.parametrize("what, verb", THINGS.items())
@pytest.mark.parametrize("beam_size", [1, 4])
def test_each_thing_has_its_verb(what, verb, beam_size):
    written = the_box().translate(variants(what), beam_size=beam_size)
    wrong = [text for text in written if verb not in text]
    assert len(wrong) <= (0 if beam_size == 4 else 3), wrong


def test_the_violin_is_pulled_by_the_beam_and_more_often_than_not_by_greedy_search():
    for beam_size, fewest in ((4, 15), (1, 14)):
        written = the_box().translate(variants("the violin"), beam_size=beam_size)
        assert sum("拉" in text for text in written) >= fewest, written


def test_play_comes_in_as_one_vector():
    """Notebook 02: one row of the table, whatever follows."""
    box = the_box()
    ids = [box.source.encode(f"We play {what} every day.") for what in THINGS]
    assert {row[1] for row in ids} == {box.source.vocabulary.ids["play"]}


def test_the_first_layer_carries_the_object_to_play():
    """Notebook 04: half of the attention of play, and an even share in the layers behind."""
    box, shares = the_box(), []
    for what in THINGS.keys() - {"in the garden"}:
        for sentence in variants(what):
            names, _, maps = translation_attention(box.model, box.source, box.target, sentence, "")
            noun = names.index(what.split()[-1])
            shares.append(maps["encoder"][:, :, names.index("play"), noun].mean(dim=1))
    mean = torch.stack(shares).mean(dim=0)
    assert 0.4 < mean[0] < 0.7, mean
    assert mean[1:].max() < 0.25, mean


def test_without_positions_nobody_knows_who_bit_whom():
    """Notebook 03: with them the two sentences differ, without them in the encoder they do not."""
    box = the_box()
    pairs = [
        ("The dog bit the man.", "The man bit the dog."),
        ("The dog is under the table.", "The table is under the dog."),
        ("Mary is waiting for Tom.", "Tom is waiting for Mary."),
    ]
    seen = [box.translate(list(pair)) for pair in pairs]
    assert [pair for pair, (one, other) in zip(pairs, seen) if one == other] == []
    encode, model = box.model.encode, box.model
    try:
        model.encode = lambda src, mask: model.encoder(model.src_embedding(src), mask)
        blind = [box.translate(list(pair)) for pair in pairs]
    finally:
        model.encode = encode
    assert [pair for pair, (one, other) in zip(pairs, blind) if one != other] == []

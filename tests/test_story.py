"""The question of the course, asked of the model in the box: how does it know which verb?

What the lessons say about it holds, as ranges: on many sentences, and on every machine.
"""

import pytest
import torch

from engine.attention_maps import translation_attention
from notebooks.data_preparation import BOS, EOS, PAD, Batch, padding_mask
from notebooks.support.box import load_pretrained
from notebooks.support.story import (
    blocked_masks,
    encode_sentences,
    greedy_with_masks,
    mean_cosines,
    variants,
    vectors_of_play,
)

THINGS = {
    "football": "踢", "tennis": "打", "basketball": "打", "cards": "打", "chess": "下",
    "games": "玩", "the piano": "弹", "the guitar": "弹", "in the garden": "玩",
}  # fmt: skip


@pytest.mark.parametrize("what, verb", THINGS.items())
@pytest.mark.parametrize("beam_size", [1, 4])
def test_each_thing_has_its_verb(what, verb, beam_size):
    written = load_pretrained().translate(variants(what), beam_size=beam_size)
    wrong = [text for text in written if verb not in text]
    assert len(wrong) <= (0 if beam_size == 4 else 3), wrong


def test_the_violin_is_pulled_by_the_beam_and_more_often_than_not_by_greedy_search():
    for beam_size, fewest in ((4, 15), (1, 14)):
        written = load_pretrained().translate(variants("the violin"), beam_size=beam_size)
        assert sum("拉" in text for text in written) >= fewest, written


def test_play_comes_in_as_one_vector():
    """Notebook 02: one row of the table, whatever follows."""
    box = load_pretrained()
    ids = [box.source.encode(f"We play {what} every day.") for what in THINGS]
    assert {row[1] for row in ids} == {box.source.vocabulary.ids["play"]}


def test_the_first_layer_carries_the_object_to_play():
    """Notebook 04: half of the attention of play, and an even share in the layers behind."""
    box, shares = load_pretrained(), []
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
    box = load_pretrained()
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


def test_the_vectors_of_play_part_and_do_not_where_the_look_is_forbidden():
    """Notebook 08, after the last layer, over six things of one word."""
    box = load_pretrained()
    things = ("football", "tennis", "basketball", "cards", "chess", "games")
    seen, blind = (
        mean_cosines({one: vectors_of_play(box.model, box.source, one, look) for one in things})
        for look in (True, False)
    )
    assert seen[0] == pytest.approx(1, abs=1e-4)
    assert 0.7 < seen[-1] < 0.92 < 0.97 < blind[-1]


def test_forbidden_looks_close_one_word_to_the_others_or_to_the_decoder():
    ids = torch.tensor([[5, 7, 6, EOS], [7, 6, EOS, PAD]])
    open_to_all, cross = blocked_masks(ids, torch.tensor([7, 7]))
    assert torch.equal(open_to_all, padding_mask(ids).expand(-1, -1, 4, -1))
    assert torch.equal(cross, padding_mask(ids))
    own, cross = blocked_masks(
        ids, torch.tensor([7, 7]), others_attend=False, decoder_attends=False
    )
    assert own[0, 0].int().tolist() == [[1, 0, 1, 1], [1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 1, 1]]
    assert own[1, 0, :3].int().tolist() == [[1, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]]
    assert cross[:, 0, 0].int().tolist() == [[1, 0, 1, 1], [0, 1, 1, 0]]


def test_with_nothing_forbidden_it_writes_what_the_greedy_search_writes():
    box, sentences = load_pretrained(), variants("the piano")
    ids = encode_sentences(box.source, sentences)
    written = greedy_with_masks(box.model, box.target, ids, padding_mask(ids), padding_mask(ids))
    assert written == box.translate(sentences, beam_size=1)


def says(english, chinese):
    """The probability that the box gives to each next token of a translation, `<eos>` last."""
    box = load_pretrained()
    ids = [*box.source.encode(english), EOS], [BOS, *box.target.encode(chinese), EOS]
    batch = Batch.collate([ids])
    with torch.no_grad():
        logits = box.model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)[0, :, 1:]
    return logits.softmax(dim=-1).gather(1, batch.tgt_out.T - 1)[:, 0]


def test_to_kick_a_piano_is_dear():
    """Notebook 13: in otherwise equal sentences, by the verb's own cost."""
    for who, chinese in (("She plays", "她"), ("He plays", "他"), ("We play", "我们")):
        right, wrong = (says(f"{who} the piano.", f"{chinese}{verb}钢琴。") for verb in "弹踢")
        place = len(chinese)
        assert -wrong[place].log() > -right[place].log() + 3
        assert right[:place].tolist() == wrong[:place].tolist()


def test_of_chess_it_is_surer_than_of_the_violin():
    """Notebook 12."""
    assert says("We play chess every day.", "我们每天下棋。")[4] > 0.85
    assert says("We play the violin every day.", "我们每天都在拉小提琴。")[6] < 0.4


def test_the_beam_finds_the_violins_verb_where_greedy_search_does_not():
    """Notebook 16: and finds what the model itself thinks more of."""
    sentence = "We play the violin every day."
    greedy, beam = (load_pretrained().translate([sentence], beam_size=size)[0] for size in (1, 4))
    assert "弹" in greedy and "拉" in beam
    assert says(sentence, beam).log().sum() > says(sentence, greedy).log().sum() + 1

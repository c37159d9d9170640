import json
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.data_preparation import (
    BOS,
    EOS,
    PAD,
    UNK,
    Batch,
    CharacterSegmenter,
    SubwordSegmenter,
    TokenBatchSampler,
    TranslationDataset,
    Vocabulary,
    WordSegmenter,
    look_ahead_mask,
    make_dataloader,
    make_tokenizers,
    padding_mask,
    read_pairs,
)
from notebooks.setup import Config, replace

from notebooks.support.errors import InputError
from notebooks.support.loading import Share
from notebooks.support.model_files import load_tokenizer, save_tokenizer
from notebooks.support.text_files import LINE_BYTES, read_lines

CONFIG = Config()
PAIRS = [("One.", "一。"), ("Two!", "二！")]


@pytest.fixture(scope="module")
def corpus():
    return [pair for split in ("train", "dev", "test") for pair in read_pairs(DATA, split, CONFIG)]


# readers


def test_the_corpus_has_the_size_that_its_page_says():
    sizes = [len(read_pairs(DATA, split, CONFIG)) for split in ("train", "dev", "test")]
    assert sizes == [30279, 603, 1003]


def write_tsv(folder, text, split="train"):
    (folder / f"{split}.tsv").write_bytes(text if isinstance(text, bytes) else text.encode())


def test_a_split_may_come_in_parts_with_windows_line_ends_and_a_mark_at_the_start(tmp_path):
    (tmp_path / "train-a.tsv").write_bytes(b"\xef\xbb\xbf" + "One.\t一。\r\n".encode())
    (tmp_path / "train-b.tsv").write_text("Two!\t二！", encoding="utf-8")
    assert read_pairs(tmp_path, "train", CONFIG) == PAIRS


def test_swap_reverses_tsv_only(tmp_path):
    write_tsv(tmp_path, "一。\tOne.\n二！\tTwo!\n")
    assert read_pairs(tmp_path, "train", replace(CONFIG, swap=True)) == PAIRS


def test_unusual_separators_and_control_characters_become_spaces(tmp_path):
    write_tsv(tmp_path, "One\u2028two\x0bthree \r \x1b[31m.\t\u3000一。\x00\r\n")
    assert read_pairs(tmp_path, "train", CONFIG) == [("One two three [31m.", "一。")]


def test_lines_may_end_with_a_carriage_return_only(tmp_path):
    write_tsv(tmp_path, "One.\t一。\rTwo!\t二！\r")
    assert read_pairs(tmp_path, "train", CONFIG) == PAIRS


def test_a_line_without_end_is_cut(tmp_path):
    write_tsv(tmp_path, "一" * 10**6 + "\nlast")
    (_, first), last = read_lines(tmp_path / "train.tsv")
    assert first == "一" * (LINE_BYTES // 3) and last == (2, "last")


def test_rows_without_two_texts_are_skipped_and_reported(tmp_path, capsys):
    write_tsv(tmp_path, "One.\t一。\nno tab\n\t二\nTwo!\t二！\nempty\t \n")
    assert read_pairs(tmp_path, "train", CONFIG) == PAIRS
    assert "skipped 3 of 5 lines without two texts (lines 2, 3, 5)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "train.tsv: the file is empty"),
        (b"no tab\n\n", "train.tsv: no line holds a pair"),
        (b"One.\t\xe4\xb8\x80\nTwo\xff.\t2\n", "train.tsv, line 2, byte 4: not UTF-8"),
    ],
)
def test_bad_files_are_named(tmp_path, content, message):
    write_tsv(tmp_path, content)
    with pytest.raises(InputError, match=message):
        read_pairs(tmp_path, "train", CONFIG)


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        read_pairs(tmp_path / "nowhere", "train", CONFIG)
    with pytest.raises(InputError, match="holds no train.tsv"):
        read_pairs(tmp_path, "train", CONFIG)


# segmenters and vocabulary


SEGMENTERS = [WordSegmenter("en"), CharacterSegmenter(), WordSegmenter("zh")]


@pytest.mark.parametrize("segmenter, side", list(zip(SEGMENTERS, (0, 1, 1))))
def test_segment_and_join_is_exact_on_the_corpus(corpus, segmenter, side):
    for pair in corpus:
        assert segmenter.join(segmenter.segment(pair[side])) == pair[side]


tricky = (
    st.text(st.sampled_from("ab I3'’-.,:;!?\"()[]“”$%_…é\u0301中。 \t\u00a0\u2028😀<>")) | st.text()
)


@pytest.mark.parametrize("segmenter", SEGMENTERS[:2])
@given(text=tricky)
@settings(deadline=None, max_examples=400)
def test_segmenting_the_joined_text_gives_the_same_tokens(segmenter, text):
    tokens = segmenter.segment(text)
    assert segmenter.segment(segmenter.join(tokens)) == tokens


@given(text=tricky)
@settings(deadline=None, max_examples=100)
def test_chinese_words_keep_every_sign(text):
    assert SEGMENTERS[2].join(SEGMENTERS[2].segment(text)) == " ".join(text.split())


@pytest.mark.parametrize(
    "text, tokens",
    [
        (
            "Don't go at 10:30 p.m., part-time Tom!",
            ["Don't", "go", "at", "10:30", "p.m.", ",", "part-time", "Tom", "!"],
        ),
        ('"Why?" he asked.', ['"', "Why", "?", '"', "he", "asked", "."]),
        ("<eos> <pad>", ["<", "eos", ">", "<", "pad", ">"]),
    ],
)
def test_english_tokens(text, tokens):
    assert WordSegmenter("en").segment(text) == tokens


@given(text=st.text())
@settings(deadline=None, max_examples=200)
def test_subwords_write_any_text(subwords, text):
    assert subwords.join(subwords.segment(text)) == text


@pytest.fixture(scope="module")
def subwords(corpus):
    return SubwordSegmenter.learn([text for pair in corpus[:2000] for text in pair], 1000)


@pytest.mark.parametrize("sharing", ["none", "three-way"])
def test_subwords_are_never_unknown(corpus, sharing):
    config = replace(
        CONFIG,
        src_segmentation="subwords",
        tgt_segmentation="subwords",
        sharing=sharing,
        max_size=400,
    )
    for tokenizer in make_tokenizers(corpus[:200], config):
        ids = tokenizer.encode("naïve 😀 ℵ₀ 龘")
        assert UNK not in ids and tokenizer.decode(ids) == "naïve 😀 ℵ₀ 龘"


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_a_batch_of_texts_gives_the_ids_of_their_tokens(corpus, kind):
    config = replace(CONFIG, src_segmentation=kind, tgt_segmentation=kind, max_size=400)
    for side, tokenizer in enumerate(make_tokenizers(corpus[:200], config)):
        texts = [*(pair[side] for pair in corpus[:300]), "", "<eos> 龘"]
        expected = [
            tokenizer.vocabulary.encode(tokenizer.segmenter.segment(text)) for text in texts
        ]
        assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
        assert tokenizer.encode_batch(texts) == expected


def test_vocabulary_counts_min_freq_and_max_size():
    sentences = [["a", "b", "a"], ["b", "c", "a"]]
    assert Vocabulary.build(sentences).tokens == ["a", "b", "c"]
    assert Vocabulary.build(sentences, min_freq=2).tokens == ["a", "b"]
    assert (
        Vocabulary.build(sentences, max_size=1).tokens == ["a"]
        and len(Vocabulary.build(sentences, max_size=1)) == 5
    )


def test_control_tokens_come_from_ids_only():
    vocabulary = Vocabulary(["<eos>", "<pad>"])
    assert vocabulary.encode(["<eos>", "<pad>", "<bos>"]) == [4, 5, UNK]
    assert vocabulary.decode([BOS, 4, PAD, UNK, 5, EOS, 4]) == ["<eos>", "<pad>"]
    names = [vocabulary.name(number) for number in range(6)]
    assert names == "<pad> <unk> <bos> <eos> <eos> <pad>".split()


@pytest.mark.parametrize(
    "kinds",
    [
        ("words", "characters"),
        ("words", "words"),
        ("subwords", "subwords"),
        ("characters", "subwords"),
    ],
)
@pytest.mark.parametrize("sharing", ["two-way", "three-way"])
def test_tokenizers_survive_saving(tmp_path, corpus, kinds, sharing):
    changes = dict(
        src_segmentation=kinds[0], tgt_segmentation=kinds[1], sharing=sharing, max_size=600
    )
    if sharing == "three-way" and kinds[0] != kinds[1] and "subwords" in kinds:
        with pytest.raises(InputError, match="three-way"):
            replace(CONFIG, **changes)
        return
    config = replace(CONFIG, **changes)
    pair = make_tokenizers(corpus[:500], config)
    assert (pair[0].vocabulary.tokens == pair[1].vocabulary.tokens) == (sharing == "three-way")
    for tokenizer, text in zip(pair, corpus[3]):
        save_tokenizer(tokenizer, tmp_path / "v.json")
        again = load_tokenizer(tmp_path / "v.json")
        assert again.encode(text) == tokenizer.encode(text) and again.decode(
            again.encode(text)
        ) == tokenizer.decode(tokenizer.encode(text))
        assert len(again) == len(tokenizer) <= 604


def test_vocabulary_is_from_training_text_only(corpus):
    source, target = make_tokenizers([("one one", "一一")], CONFIG)
    assert source.vocabulary.tokens == ["one"] and target.vocabulary.tokens == ["一"]


# data set, batches, masks


def test_dataset_counts_what_it_drops(corpus):
    source, target = make_tokenizers(corpus[:300], CONFIG)
    data = TranslationDataset(corpus[:300], source, target, max_length=10)
    fits = [
        max(len(source.encode(first)), len(target.encode(second))) <= 10
        for first, second in corpus[:300]
    ]
    assert len(data) == sum(fits) and data.dropped == 300 - sum(fits) > 0
    assert all(src[-1] == EOS and tgt[0] == BOS and tgt[-1] == EOS for src, tgt in data.items)


lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200)


@given(lengths=lengths, seed=st.integers(0, 9), count=st.integers(1, 3), start=st.integers(0, 2))
@settings(deadline=None)
def test_batches_hold_each_row_once_within_the_limit(lengths, seed, count, start):
    array = np.array(lengths)
    sampler = TokenBatchSampler(array, 64, seed)
    batches = sampler.batches()
    start = min(start, len(batches))
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    assert all(len(rows) * array[rows].max() <= 64 for rows in batches)
    assert list(sampler) == [rows.tolist() for rows in batches]
    shares = []
    for number in range(count):
        here = SimpleNamespace(process_index=number, num_processes=count)
        with mock.patch("notebooks.support.loading.processes", lambda here=here: here):
            shares.append(list(Share(sampler, start)))
    left = batches[start:]
    assert all(len(share) == len(left) for share in shares)
    assert all(sorted(sum(parts, [])) == sorted(whole) for *parts, whole in zip(*shares, left))


def test_batches_are_redrawn_each_epoch_from_the_seed():
    array = np.array([(5, 5), (5, 6)] * 200)
    first, again, other = (TokenBatchSampler(array, 64, seed) for seed in (0, 0, 1))
    one = list(first)
    assert one == list(again) != list(other)
    first.epoch = 1
    assert {frozenset(rows) for rows in first} != {frozenset(rows) for rows in one}
    share = Share(again, 3)
    assert list(share) == one[3:] and len(share) == len(one) - 3


def test_collate_shifts_and_masks():
    batch = Batch.collate([([5, EOS], [BOS, 6, 7, EOS]), ([5, 6, EOS], [BOS, EOS])])
    assert batch.src.tolist() == [[5, EOS, PAD], [5, 6, EOS]]
    assert batch.tgt_in.tolist() == [[BOS, 6, 7], [BOS, PAD, PAD]] and batch.tgt_out.tolist() == [
        [6, 7, EOS],
        [EOS, PAD, PAD],
    ]
    assert batch.src_mask[0, 0, 0].tolist() == [True, True, False]
    assert batch.tgt_mask[0, 0].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert batch.tgt_mask[1, 0].tolist() == [[True, False, False]] * 3


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), min_size=1, max_size=5))
def test_masks_open_exactly_what_may_be_seen(rows):
    ids = torch.tensor([row + [PAD] * (8 - len(row)) for row in rows])
    mask = padding_mask(ids) & look_ahead_mask(8)
    for b, q, k in np.ndindex(len(rows), 8, 8):
        assert mask[b, 0, q, k] == (ids[b, k] != PAD and k <= q)


def test_loading_leaves_the_random_state_alone(corpus):
    source, target = make_tokenizers(corpus[:50], CONFIG)
    data = TranslationDataset(corpus[:50], source, target, 60)
    before = torch.get_rng_state()
    assert (
        sum(len(batch.src) for batch in make_dataloader(data, TokenBatchSampler(data.lengths, 256)))
        == 50
    )
    assert torch.equal(before, torch.get_rng_state())


def test_a_process_without_a_row_gets_an_empty_batch():
    empty = Batch.collate([])
    assert empty.src.shape == (0, 1) and empty.tgt_mask.shape == (0, 1, 1, 1)


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", json.dumps({"segmenter": "WordSegmenter"})]
)
def test_a_broken_vocabulary_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "vocabulary.src.json").write_text(content)
    with pytest.raises(InputError, match="vocabulary.src.json"):
        load_tokenizer(tmp_path / "vocabulary.src.json")


def test_an_epoch_has_few_shapes():
    """Each new shape costs time and memory: lengths are rounded up, and no token is lost."""
    random = np.random.default_rng(0)
    items = [
        ([5] * int(a) + [EOS], [BOS, *[5] * int(b), EOS])
        for a, b in random.integers(1, 40, (3000, 2))
    ]
    lengths = np.array([[len(source), len(target) - 1] for source, target in items])

    class Items(list):
        """A data set."""

    data = Items(items)
    shapes, tokens = set(), 0
    for batch in make_dataloader(data, TokenBatchSampler(lengths, 1024)):
        for ids in (batch.src, batch.tgt_in):
            assert ids.shape[1] % 4 == 0 and ids.numel() <= 1024
        shapes.add((batch.src.shape, batch.tgt_in.shape))
        tokens += (batch.tgt_out != PAD).sum().item()
    assert tokens == lengths[:, 1].sum()
    plain = {(len(rows), *lengths[rows].max(axis=0)) for rows in TokenBatchSampler(lengths, 1024)}
    assert len(shapes) < 0.7 * len(plain)


def test_a_batch_is_pinned_as_a_whole(monkeypatch):
    """By the DataLoader itself; a stand-in for PyTorch's method, which wants a GPU."""
    pinned = []
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda ids, *_: pinned.append(ids) or ids.clone()
    )
    batch = Batch.collate([([5, EOS], [BOS, 6, EOS])])
    copy = torch.utils.data._utils.pin_memory.pin_memory(batch)
    assert type(copy) is Batch and len(pinned) == 5
    for tensor, other in zip(batch, copy):
        assert torch.equal(tensor, other) and tensor is not other

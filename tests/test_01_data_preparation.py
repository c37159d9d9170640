import hashlib
import json
import unicodedata
from functools import partial

import numpy as np
import pytest
import torch
from conftest import DATA
from hypothesis import example, given
from hypothesis import strategies as st

from engine.checks import check_batches
from engine.corpus.formats import read_split
from engine.corpus.pairs import load_data
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError
from engine.model_files import load_tokenizer, save_tokenizer, tokenizer_content
from engine.plain_text import join_words, one_line
from engine.run_config import RunConfig
from engine.translator import text_of
from notebooks.data_preparation import (
    BOS,
    EOS,
    PAD,
    UNK,
    Batch,
    CharacterSegmenter,
    SubwordSegmenter,
    TokenBatchSampler,
    Tokenizer,
    TranslationDataset,
    Vocabulary,
    WordSegmenter,
    make_dataloader,
    make_vocabulary,
)
from notebooks.setup import replace

CONFIG = RunConfig()
PAIRS = [("One.", "一。"), ("Two!", "二！")]


@pytest.fixture(scope="module")
def corpus():
    return [pair for split in ("train", "dev", "test") for pair in read_split(DATA, split, CONFIG)]


# edits of this lesson


def test_an_edited_joining_writes_translations(monkeypatch):
    ids, words = [4, 5], Tokenizer(WordSegmenter("en"), Vocabulary(["Yes", "."]))
    assert text_of(words, ids) == "Yes."
    monkeypatch.setattr("engine.translator.edited", lambda: ["01"])
    assert text_of(words, ids) == "Yes ."


# readers


def test_the_corpus_has_the_size_that_its_page_says():
    sizes = [len(read_split(DATA, split, CONFIG)) for split in ("train", "dev", "test")]
    assert sizes == [31907, 603, 1003]


def starred(words):
    """The sentence once for each of its words, with a star in that word's place."""
    return {(*words[:index], "*", *words[index + 1 :]) for index in range(len(words))}


def with_gap(words):
    """The sentence once for each gap between its words, with a star in the gap."""
    return {(*words[:index], "*", *words[index:]) for index in range(len(words) + 1)}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_sentences_that_are_measured_on_are_new_to_the_model(split):
    """What the corpus's page says of twins: equal but for one word exchanged, more or less."""
    cut = WordSegmenter("en").segment
    train, measured = read_split(DATA, "train", CONFIG), read_split(DATA, split, CONFIG)
    words = [tuple(cut(english.lower())) for english, _ in train]
    stars, gaps = (set().union(*map(form, words)) for form in (starred, with_gap))
    rows = [tuple(cut(english.lower())) for english, _ in measured]
    assert sum(bool(stars & starred(row)) for row in rows) == 0
    assert sum(bool(stars & with_gap(row) or gaps & starred(row)) for row in rows) == 2
    assert {text for _, text in train} & {text for _, text in measured} == set()


@pytest.mark.parametrize(
    "text",
    ["3.5kg and 1,000km at 10:30pm, 30°C, 1/2 or 5%.", "See https://example.com/a?b=1, please.",
     "and/or, well—no", "'Yes,' he said.", '"Yes," she said.', "«Oui», dit-il.", "the dogs' tails",
     "It is -5 to 10 °C, not 30°, on 2024-05-06.", "10–20 or +5 calls of 555-1234.",
     "Write to me.too@mail.example.com.",
     "Call 1-800-FLOWERS before 1e-5 or 3-4's.", "v3.2 of www.example.com costs ¥500 and $3.",
     "मैं हिन्दी बोलता हूँ।", "Köln, Tiếng Việt", "شُكْرًا", "a 20th-century U.S. part-time job",
     "AT&T, Q&A and R&D in C, C# and C++", 'At 5\'10" it is ~5 km, for 18+.',
     "2+2=4, 5~6, 1840 ~ 1890",
     "Ph.D. students of the '90s -- why?", "See example.com or mail.example.co.uk/x, not main.py.",
     "print() the word(s) of @snake_case", "US$10,000 or HK$5.5"],
)  # fmt: skip
def test_words_come_back_as_they_were(text):
    cut = WordSegmenter("en").segment
    assert join_words(cut(text), "en") == text
    decomposed = unicodedata.normalize("NFD", text)
    assert cut(one_line(decomposed)) == cut(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    "text",
    ["Das kostet 50 € pro Tag.", "Москва — столица России.", "20 $ o más, $5", "2 / 3",
     "Er sagt: „Ja ‚und‘ nein!“ Dann geht er.", "»Hallo«, sagt er, »wie geht’s?«", "„Tak”, mówi.",
     "”Hej”, sa han. ”Hur?”", "»Hei», hän sanoi.", "Он: «Да», и «нет».",
     "ہاں ہے۔ اور؟", "من می\u200cخواهم و می\u200cروم."],
)  # fmt: skip
def test_other_languages_keep_their_spaces(text):
    assert join_words(WordSegmenter("de").segment(text), "de") == text


def test_signs_that_nobody_sees_are_dropped_and_marks_have_an_end():
    assert one_line("Good morn\u00ading, vi\u2060olin.") == "Good morning, violin."
    assert one_line("I don’t: ‘Dogs’ food’, l’été.") == "I don't: ‘Dogs’ food’, l'été."
    for sign in "ʼ‘´`＇":
        assert one_line(f"I don{sign}t.") == "I don't."
    assert one_line("Good\u200b mor\u200bning, e\u2011mail.") == "Good morning, e-mail."
    assert (
        one_line("\u202aHe\u202c \u2066plays\u2069 foot\u200cball\u200d.") == "He plays football."
    )
    assert one_line("می\u200cخواهم 👩\u200d🎓") == "می\u200cخواهم 👩\u200d🎓"
    assert len(one_line("a" + "\u0300\u0316" * 100_000)) < 40  # NFC alone takes minutes


@pytest.mark.parametrize("language", ["en", "de"])
@given(text=st.text(max_size=40) | st.text("aA1¼v /-.:°C$€—@w'&_+=~#()", max_size=20))
@example("A¢¼")
def test_what_was_joined_is_cut_as_before(language, text):
    cut = WordSegmenter("en").segment
    once = join_words(cut(one_line(text)), language)
    assert join_words(cut(once), language) == once


def test_the_ids_of_the_corpus_are_those_that_the_model_in_the_box_learned():
    source, target, *sets, _ = load_data(DATA, RunConfig.preset("small"))
    rows = [dataset[number] for dataset in sets for number in range(len(dataset))]
    digest = hashlib.sha256(json.dumps([[*map(list, row)] for row in rows]).encode()).hexdigest()
    assert digest == "90b7975a566f26a0736fb924b73a0b5aa6355a7a629d1fb3afabc3d9ef3e1463"


def write_tsv(folder, text, split="train"):
    (folder / f"{split}.tsv").write_text(text, encoding="utf-8", newline="")


def test_a_split_may_come_in_parts_with_windows_line_ends_and_a_mark_at_the_start(tmp_path):
    write_tsv(tmp_path, "\ufeffOne.\t一。\r\n", "train-a")
    write_tsv(tmp_path, "Two!\t二！", "train-b")
    assert read_split(tmp_path, "train", CONFIG) == PAIRS


def test_unusual_separators_and_control_characters_become_spaces(tmp_path):
    write_tsv(tmp_path, "One\u2028two\x0bthree \r \x1b[31m.\t\u3000一。\x01\r\n")
    assert read_split(tmp_path, "train", CONFIG) == [("One two three [31m.", "一。")]


def test_rows_without_two_texts_are_skipped_and_reported(tmp_path, capsys):
    write_tsv(tmp_path, "One.\t一。\nno tab\n\t二\nTwo!\t二！\nempty\t \n" + 2 * "more\t多\n")
    assert read_split(tmp_path, "train", CONFIG) == [*PAIRS, ("more", "多"), ("more", "多")]
    assert "skipped 3 of 7 lines without two texts (lines 2, 3, 5)" in capsys.readouterr().err


# segmenters and vocabulary


english = partial(join_words, language="en")
SEGMENTERS = [WordSegmenter("en"), CharacterSegmenter(), WordSegmenter("zh")]


@pytest.mark.parametrize("segmenter, side", list(zip(SEGMENTERS, (0, 1, 1))))
def test_segment_and_join_is_exact_on_the_corpus(corpus, segmenter, side):
    join = english if side == 0 else segmenter.join
    for pair in corpus:
        assert join(segmenter.segment(pair[side])) == pair[side]


tricky = (
    st.text(st.sampled_from("ab I3'’-.,:;!?\"()[]“”$%_…é\u0301中。 \t\u00a0\u2028😀<>")) | st.text()
)


@pytest.mark.parametrize("segmenter", SEGMENTERS[:2])
@given(text=tricky)
def test_segmenting_the_joined_text_gives_the_same_tokens(segmenter, text):
    tokens = segmenter.segment(text)
    join = english if segmenter is SEGMENTERS[0] else segmenter.join
    assert segmenter.segment(join(tokens)) == tokens


@given(text=tricky)
def test_chinese_words_keep_every_sign(text):
    assert SEGMENTERS[2].join(SEGMENTERS[2].segment(text)) == " ".join(text.split())


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("Don't go at 10:30 p.m., part-time Tom!", "Don't go at 10:30 p.m. , part-time Tom !"),
        ('"Why?" he asked.', '" Why ? " he asked .'),
        ("<eos> <pad>", "< eos > < pad >"),
    ],
)
def test_english_tokens(text, tokens):
    assert WordSegmenter("en").segment(text) == tokens.split()


@pytest.fixture(scope="module")
def subwords(corpus):
    return SubwordSegmenter.learn([text for pair in corpus[:2000] for text in pair], 1000)


def test_an_edited_segment_that_training_would_not_use_is_refused(subwords, monkeypatch):
    tokenizer = Tokenizer(subwords, make_vocabulary(subwords, (), CONFIG))
    check_batches(tokenizer)
    lower = lambda self, text: self.model.encode(text.lower()).tokens  # noqa: E731
    monkeypatch.setattr(SubwordSegmenter, "segment", lower)
    with pytest.raises(InputError, match="encode_batch give different ids. Edit both"):
        check_batches(tokenizer)


@given(text=st.text())
def test_subwords_write_any_text(subwords, text):
    assert subwords.join(subwords.segment(text)) == text


@pytest.mark.parametrize("sharing", ["none", "three-way"])
def test_subwords_are_never_unknown(corpus, sharing):
    kinds = dict(src_segmentation="subwords", tgt_segmentation="subwords")
    config = replace(CONFIG, **kinds, tie_embeddings=sharing, max_vocab_size=400)
    text = "naïve 😀 ℵ₀ 龘"
    for tokenizer in make_tokenizers(corpus[:200], config):
        assert tokenizer.decode(tokenizer.encode(text)) == text  # `decode` leaves <unk> out


def test_capitals_and_small_letters_are_one_token_where_a_source_is_read_so(corpus, tmp_path):
    source, _ = make_tokenizers(corpus[:500], replace(CONFIG, src_segmentation="lowercase-words"))
    save_tokenizer(source, tmp_path / "source.json")
    for tokenizer in (source, load_tokenizer(tmp_path / "source.json")):
        assert tokenizer.encode("THE dog") == tokenizer.encode("the Dog")
        assert tokenizer.segmenter.segment("The Dog") == ["the", "dog"]


def test_a_tokenizer_that_was_saved_before_there_were_small_letters_keeps_capitals(tmp_path):
    file = dict(segmenter="WordSegmenter", language="en", tokens=["The", "the"], subwords=None)
    (tmp_path / "source.json").write_text(json.dumps(file))
    loaded = load_tokenizer(tmp_path / "source.json")
    assert loaded.encode("The the") == [4, 5]
    assert tokenizer_content(loaded) == file  # by which weights know their vocabulary


@pytest.mark.parametrize("kind", ["words", "lowercase-words", "characters", "subwords"])
def test_a_batch_of_texts_gives_the_ids_of_their_tokens(corpus, kind):
    config = replace(CONFIG, src_segmentation=kind, tgt_segmentation=kind, max_vocab_size=400)
    for side, tokenizer in enumerate(make_tokenizers(corpus[:200], config)):
        texts = [*(pair[side] for pair in corpus[:300]), "", "<eos> 龘"]
        tokens = map(tokenizer.segmenter.segment, texts)
        ids = [tokenizer.encode(text) for text in texts]
        assert ids == list(map(tokenizer.vocabulary.encode, tokens))
        assert ids == tokenizer.encode_batch(texts)


def test_vocabulary_counts_min_freq_and_max_size():
    sentences = [["a", "b", "a"], ["b", "c", "a"]]
    assert Vocabulary.build(sentences).tokens == ["a", "b", "c"]
    assert Vocabulary.build(sentences, min_freq=2).tokens == ["a", "b"]
    smallest = Vocabulary.build(sentences, max_size=1)
    assert (smallest.tokens, len(smallest)) == (["a"], 5)


def test_special_tokens_come_from_ids_only():
    vocabulary = Vocabulary(["<eos>", "<pad>"])
    assert vocabulary.encode(["<eos>", "<pad>", "<bos>"]) == [4, 5, UNK]
    assert vocabulary.decode([BOS, 4, PAD, UNK, 5, EOS, 4]) == ["<eos>", "<pad>"]
    names = [vocabulary.name(number) for number in range(6)]
    assert names == "<pad> <unk> <bos> <eos> <eos> <pad>".split()


@pytest.mark.parametrize(
    "kinds",
    [
        "words characters two-way", "words characters three-way", "words words three-way",
        "subwords subwords two-way", "subwords subwords three-way", "characters subwords two-way",
    ],
)  # fmt: skip
def test_tokenizers_survive_saving(tmp_path, corpus, kinds):
    src, tgt, sharing = kinds.split()
    changes = dict(
        src_segmentation=src, tgt_segmentation=tgt, tie_embeddings=sharing, max_vocab_size=600
    )
    pair = make_tokenizers(corpus[:500], replace(CONFIG, **changes))
    assert (pair[0].vocabulary.tokens == pair[1].vocabulary.tokens) == (sharing == "three-way")
    for tokenizer, text in zip(pair, corpus[3]):
        save_tokenizer(tokenizer, tmp_path / "v.json")
        again = load_tokenizer(tmp_path / "v.json")
        ids = tokenizer.encode(text)
        assert again.encode(text) == ids
        assert again.decode(ids) == tokenizer.decode(ids)
        assert len(again) == len(tokenizer) <= 604


def test_vocabulary_is_from_training_text_only():
    source, target = make_tokenizers([("one one", "一一")], CONFIG)
    assert (source.vocabulary.tokens, target.vocabulary.tokens) == (["one"], ["一"])


# data set, batches, masks


def test_dataset_counts_what_it_drops(corpus):
    source, target = make_tokenizers(corpus[:300], CONFIG)
    data = TranslationDataset(corpus[:300], source, target, max_length=10)
    lengths = [(len(source.encode(src)), len(target.encode(tgt))) for src, tgt in corpus[:300]]
    fits = sum(max(pair) <= 10 for pair in lengths)
    assert 0 < fits < 300
    assert (len(data), data.dropped) == (fits, 300 - fits)
    assert {(src[-1], tgt[0], tgt[-1]) for src, tgt in data.items} == {(EOS, BOS, EOS)}


lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200)


@given(lengths=lengths, seed=st.integers(0, 9))
def test_batches_hold_each_row_once_within_the_limit(lengths, seed):
    array = np.array(lengths)
    sampler = TokenBatchSampler(array, 64, seed)
    batches = sampler.batches()
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    assert max(len(rows) * array[rows].max() for rows in batches) <= 64
    assert list(sampler) == [rows.tolist() for rows in batches]


def test_a_sentence_longer_than_a_batch_is_a_batch_of_its_own():
    for lengths in ([(70, 3)], [(3, 70), (2, 3)], [(2, 3), (80, 70), (3, 90)]):
        batches = TokenBatchSampler(np.array(lengths), 64, shuffle=False).batches()
        assert sorted(map(len, batches)) == [1] * len(lengths)


def test_batches_are_redrawn_each_epoch_from_the_seed():
    array = np.array([(5, 5), (5, 6)] * 200)
    first, again, other = (TokenBatchSampler(array, 64, seed) for seed in (0, 0, 1))
    one = list(first)
    assert one == list(again)
    assert one != list(other)
    first.epoch = 1
    assert {frozenset(rows) for rows in first} != {frozenset(rows) for rows in one}
    assert len(first) == len(one)  # so a step's place in its epoch is its number


def test_collate_shifts_and_masks():
    batch = Batch.collate([([5, EOS], [BOS, 6, 7, EOS]), ([5, 6, EOS], [BOS, EOS])])
    assert batch.src.tolist() == [[5, EOS, PAD], [5, 6, EOS]]
    assert batch.tgt_in.tolist() == [[BOS, 6, 7], [BOS, PAD, PAD]]
    assert batch.tgt_out.tolist() == [[6, 7, EOS], [EOS, PAD, PAD]]
    assert batch.src_mask[0, 0, 0].tolist() == [1, 1, 0]
    assert batch.tgt_mask[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert batch.tgt_mask[1, 0].tolist() == [[1, 0, 0]] * 3


def test_loading_leaves_the_random_state_alone(corpus):
    source, target = make_tokenizers(corpus[:50], CONFIG)
    data = TranslationDataset(corpus[:50], source, target, 60)
    loader = make_dataloader(data, TokenBatchSampler(data.lengths, 256))
    before = torch.get_rng_state()
    assert sum(len(batch.src) for batch in loader) == 50
    assert torch.equal(before, torch.get_rng_state())


def test_an_epoch_has_few_shapes():
    """Each new shape costs time and memory: lengths are rounded up, and no token is lost."""
    lengths = np.random.default_rng(0).integers(2, 41, (3000, 2))
    items = [([5] * (s - 1) + [EOS], [BOS, *[5] * (t - 1), EOS]) for s, t in lengths.tolist()]
    shapes, tokens = set(), 0
    for batch in make_dataloader(items, TokenBatchSampler(lengths, 1024)):
        for ids in (batch.src, batch.tgt_in):
            assert ids.shape[1] % 4 == 0
            assert ids.numel() <= 1024
        shapes.add((batch.src.shape, batch.tgt_in.shape))
        tokens += (batch.tgt_out != PAD).sum().item()
    assert tokens == lengths[:, 1].sum()
    plain = {(len(rows), *lengths[rows].max(axis=0)) for rows in TokenBatchSampler(lengths, 1024)}
    assert len(shapes) < 0.7 * len(plain)

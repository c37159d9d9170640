"""The engine of the translating page computes what the course computes."""

import json
import os
import random
from pathlib import Path

import pytest
import torch
from conftest import DATA, TINY
from page_reference import differences
from py_mini_racer import MiniRacer

from engine import plain_text
from engine.corpus.formats import read_split
from engine.export.page_form import (
    EXAMPLES,
    PAGE,
    check_form,
    describe,
    round_weights,
)
from engine.run_config import RunConfig
from engine.run_folder import BOX
from engine.translator import Translator
from notebooks.data_preparation import (
    CharacterSegmenter,
    Tokenizer,
    Vocabulary,
    WordSegmenter,
)
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support import story
from notebooks.support.proofs import shake

TESTS = Path(__file__).parent
DRAWS = int(os.environ.get("DRAWS", 10))  # of each operation; `make fuzz` sets more


@pytest.fixture(scope="module")
def pairs():
    """All pairs of the corpus, the test set's last."""
    splits = ("train", "dev", "test")
    return [pair for split in splits for pair in read_split(DATA, split, RunConfig())]


def test_all_english_sentences_are_split_alike(pairs):
    box = Translator.load(BOX, device="cpu")
    file = describe(box) | {"weights": "", "tensors": {}}
    engine = MiniRacer()
    engine.eval((PAGE / "engine.js").read_text(encoding="utf-8"))
    engine.eval("const split = (file, texts) => { const model = new Model(file);"
                "return JSON.stringify(texts.map((text) => model.encode(text))); };")  # fmt: skip
    sentences = [english for english, _ in pairs] + ["\ufeff„He‘s «Tom»,“ she said \u200e‚softly‘."]
    sentences.append("\u202aHe\u202c \u2066plays\u2069 foot\u200cball\u200d.")
    encoded = json.loads(engine.call("split", file, sentences))
    expected = [box.encode(box.clean(sentence)) for sentence in sentences]
    assert [text for text, a, b in zip(sentences, expected, encoded) if a != b] == []


def random_translator(pairs, **changes):
    """A tiny random model with vocabularies of 60 pairs."""
    config = replace(TINY, **changes)
    tokenizers = []
    for side, language in enumerate((config.src, config.tgt)):
        segmenter = CharacterSegmenter() if language == "zh" else WordSegmenter(language, side == 0)
        texts = [pair[side] for pair in pairs]
        vocabulary = Vocabulary.build(map(segmenter.segment, texts), min_freq=1)
        tokenizers.append(Tokenizer(segmenter, vocabulary))
    torch.manual_seed(0)
    model = shake(make_model(config, *(len(side.vocabulary) for side in tokenizers)))
    return Translator(config, *tokenizers, model.half().float())


@pytest.mark.parametrize("norm, turned", [("pre", True), ("post", False)])
def test_other_runs_are_computed_alike(pairs, norm, turned):
    some = [pair[::-1] if turned else pair for pair in pairs[-60:]]
    languages = {"src": "zh", "tgt": "en"} if turned else {"src": "en", "tgt": "zh"}
    changes = dict(norm=norm, max_length=12, tie_embeddings="none", **languages)
    if turned:
        changes |= {"src_segmentation": "characters", "tgt_segmentation": "words"}
    translator = random_translator(some, **changes)
    check_form(translator)
    assert differences(translator, describe(translator), [one for one, _ in some[:8]]) == []


def test_sentences_are_computed_as_by_the_rounded_model(pairs, rounded):
    texts = [*EXAMPLES, *(english for english, _ in pairs[-46:])]
    assert differences(rounded, describe(rounded), texts) == []


@pytest.fixture(scope="module")
def operate():
    """A function that calls one of page_operations.js with the model in the box."""
    with MiniRacer() as engine:
        for path in (PAGE / "engine.js", PAGE / "account.js", TESTS / "page_operations.js"):
            engine.eval(path.read_text(encoding="utf-8"))
        engine.call("open", describe(Translator.load(BOX, device="cpu")))
        yield engine.call


def test_words_are_joined_as_the_course_joins_them():
    joined = """(tokens, marks) => Model.prototype.text.call(
        {spaced: true, dash: true, target: ["", "", "", "", ...tokens], ...marks},
        tokens.map((_, place) => place + 4))"""
    marks = {"opening": "".join(plain_text.OPENING), "closing": "".join(plain_text.CLOSING)}
    signs = [*"„“”‚‘«»‹›\"'—,.(", "ja", "no", "5", "$", "US$", "~", "/", "www.a.bc"]
    draw = random.Random(0)
    with MiniRacer() as engine:
        engine.eval((PAGE / "engine.js").read_text(encoding="utf-8"))
        for _ in range(2000):
            tokens = draw.choices(signs, k=draw.randint(1, 12))
            written = engine.eval(f"({joined})({json.dumps(tokens)}, {json.dumps(marks)})")
            assert written == plain_text.join_words(tokens, "en"), tokens


@pytest.fixture(scope="module")
def rounded():
    """The model in the box with the 16 bits that the page holds."""
    box = Translator.load(BOX, device="cpu")
    round_weights(box.model)
    return box


def drawn_sentences(count):
    """Things that are played, drawn with a seed, with one of their sentences: (thing, sentence)."""
    draw = random.Random(54)
    things = draw.choices(list(story.THINGS), k=count)
    return [(thing, draw.choice(story.variants(thing))) for thing in things], draw


def test_transplants_are_those_of_the_lessons(operate, rounded):
    sentences, draw = drawn_sentences(2 * DRAWS)
    stages = list(story.encoder_stages(rounded.model))
    for (_, giver), (_, taker) in zip(sentences[::2], sentences[1::2]):
        stage = draw.randrange(len(stages))
        expected = story.transplant(rounded, [giver], [taker], stages[stage])
        assert operate("transplanted", giver, taker, stage) == expected[0], (giver, taker, stage)


def test_cuts_are_those_of_the_lessons(operate, rounded):
    sentences, draw = drawn_sentences(DRAWS)
    ways = [("others", "object"), ("play", "object"), ("decoder", "play"), ("decoder", "object")]
    for thing, sentence in sentences:
        closed = draw.sample(ways, draw.randint(1, 4))
        ids = story.encode_sentences(rounded.source, [sentence])
        src_mask, cross_mask = story.blocked_masks(ids, *story.word_ids(rounded, thing), closed)
        memory = rounded.model.encode(ids, src_mask)
        expected = story.greedy_from_memory(rounded, memory, cross_mask)
        assert operate("cutAt", sentence, thing.split()[-1], closed) == expected[0], closed


def test_ledgers_are_those_of_the_lessons(operate, rounded):
    """Part by part, and in their sum: the difference of the logits."""
    names = {"cross-attention": "cross-attention {layer} from {word}", "embedding": "embedding",
             "bias": "cross-attention {layer}, bias", "norm": "the last norm's bias"}  # fmt: skip
    sentences, draw = drawn_sentences(DRAWS)
    for _, sentence in sentences:
        (text,) = rounded.translate([sentence], beam_size=1)
        one = draw.choice(text)
        other = draw.choice([verb for verb in "弹踢打下拉玩" if verb != one])
        account = operate("accountOf", sentence, one, other)
        words = [rounded.source.vocabulary.name(token) for token in rounded.encode(sentence)]
        ours = {}
        for part in account["parts"]:
            word = words[part["key"]] if "key" in part else ""
            name = names.get(part["part"], "{part} {layer}").format(**part | {"word": word})
            ours[name] = ours.get(name, 0) + part["amount"]
        assert ours == pytest.approx(
            story.logit_attribution(rounded, sentence, one, other), abs=1e-4
        )
        assert sum(ours.values()) == pytest.approx(account["difference"], abs=1e-4)

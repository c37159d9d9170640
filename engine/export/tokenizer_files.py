"""Notebook 01's tokenizers in the JSON form of the library `tokenizers`, for other programs."""

import json

import regex
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from engine.errors import InputError
from engine.plain_text import APOSTROPHE, INVISIBLE, one_line
from engine.translator import quotes_of
from notebooks.data_preparation import (
    SPECIAL_TOKENS,
    TOKEN,
    UNK,
    CharacterSegmenter,
    SubwordSegmenter,
)

# what `one_line` makes a single space: control characters, and white space of any kind
BLANKS = (
    r"[\x{0}-\x{20}\x{7f}-\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)
# a class of the library regex as the library's engine (Oniguruma) and JavaScript have it
CLASSES = {r"\S": r"[^\x{20}]"}
# what an edited segmenter may read otherwise
ODD = ["He was born in 1979, wasn’t he?", "It’s 3.5kg: 1,000km at 10:30!", "http://a.b/c?d=e"]


def names(tokenizer):
    """The names of all ids. A special token whose name a text can spell gets one more bracket."""
    tokens = set(tokenizer.vocabulary.tokens)
    special = list(SPECIAL_TOKENS)
    for number in range(len(special)):
        while special[number] in tokens:
            special[number] = f"<{special[number]}>"
    return special + tokenizer.vocabulary.tokens


def export_tokenizer(tokenizer, reads):
    """The library's `Tokenizer` with the same ids. `reads`: texts too; else it only joins tokens.

    Raises InputError for what the library cannot do: Chinese words, and a segmenter of yours that
    it would not follow.
    """
    segmenter = tokenizer.segmenter
    ids = {name: number for number, name in enumerate(names(tokenizer))}
    if isinstance(segmenter, SubwordSegmenter):
        merges = json.loads(segmenter.model.to_str())["model"]["merges"]
        exported = Tokenizer(models.BPE(ids, [tuple(pair) for pair in merges]))
        exported.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        exported.decoder = decoders.ByteLevel()
    else:
        exported = Tokenizer(models.WordLevel(ids, unk_token=names(tokenizer)[UNK]))
        every = isinstance(segmenter, CharacterSegmenter)
        pattern = r"[\x{0}-\x{10ffff}]" if every else word_pattern()
        exported.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        exported.decoder = decoders.Fuse()
    blanks = normalizers.Replace(Regex(BLANKS), " ")
    invisible = normalizers.Replace(Regex(INVISIBLE.pattern), "")  # as one_line drops them
    hyphen = normalizers.Replace("\u2011", "-")
    apostrophe = normalizers.Replace(Regex(APOSTROPHE.pattern), "'")
    steps = [invisible, normalizers.NFC(), hyphen, apostrophe, blanks, normalizers.Strip()]
    steps += [normalizers.Replace(*pair) for pair in quotes_of(tokenizer).items()]
    if getattr(segmenter, "lowercase", False):
        steps.append(normalizers.Lowercase())
    exported.normalizer = normalizers.Sequence(steps)
    if reads:
        check_equal(tokenizer, exported)
    return exported


def word_pattern():
    """Lesson 01's pattern of a word for Oniguruma, by CLASSES. Flags cannot be handed on."""
    if TOKEN.flags != regex.compile("").flags:
        raise InputError("the flags of your TOKEN, lesson 01, cannot be exported. Leave them out")
    pattern = TOKEN.pattern
    for ours, theirs in CLASSES.items():
        pattern = pattern.replace(ours, theirs)
    return pattern


def check_equal(tokenizer, exported):
    """Raises InputError unless both return the same ids for every token that the model knows."""
    tokens = [tokenizer.decode([number]) for number in range(len(SPECIAL_TOKENS), len(tokenizer))]
    parts = [tokens[start : start + 50] for start in range(0, len(tokens), 50)]
    texts = [one_line(between.join(part)) for part in parts for between in ("", " ")]
    texts += [text.upper() for text in texts] + [text.title() for text in texts]
    texts += map(one_line, ODD)
    for text in texts:
        if tokenizer.encode(text) != exported.encode(text).ids:
            what = f"texts of {type(tokenizer.segmenter).__name__}"
            if getattr(tokenizer.segmenter, "language", None) == "zh":
                what = "Chinese words, which jieba finds,"
            hint = "Train with another --src-segmentation"
            raise InputError(f"{what} cannot be split without this project. {hint}")

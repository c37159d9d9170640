"""Which values settings may have, and what a data folder must leave."""

import re

from engine.errors import InputError
from engine.languages import WITHOUT_SPACES

FEWEST_TOKENS = 20  # of a vocabulary, special tokens counted


# codes of three letters whose script and scoring go by the one of two letters
SHORTER_CODES = dict(cmn="zh", zho="zh", chi="zh", yue="zh", jpn="ja", kor="ko")


def check_language(name, value):
    """Raises InputError unless the value has the form of an ISO code, which scores go by."""
    if value in SHORTER_CODES:
        raise InputError(f"{name} is {value!r}: give {SHORTER_CODES[value]!r}, the shorter code")
    if not re.fullmatch("[a-z]{2,3}", value):
        code = "".join(re.findall("^[A-Za-z]{2,3}", value)).lower() or "en"
        raise InputError(f"{name} is {value!r}: give the code of the language alone, as {code!r}")


def check_segmentation(config):
    """Raises InputError for words of a language that has no spaces between them, zh excepted."""
    for side in ("src", "tgt"):
        language = getattr(config, side)
        kind = getattr(config, f"{side}_segmentation")
        if kind in ("words", "lowercase-words") and language in WITHOUT_SPACES:
            wrong = f"{side} is {language!r}, which has no spaces between words"
            hint = f"choose --{side}-segmentation characters or subwords"
            raise InputError(f"{wrong}, so a sentence would be one: {hint}")


def check_batches(tokenizer):
    """Raises InputError where notebook 01's `encode` and `encode_batch` differ: one was edited."""
    text = "He PLAYS football, she doesn't: 3.5 km"
    if [tokenizer.encode(text)] != tokenizer.encode_batch([text]):
        wrong = "Tokenizer.encode, which asks the segmenter, and encode_batch give different ids"
        raise InputError(f"notebook 01: {wrong}. Edit both: training and searches use the second")


def check_name(name, value):
    """Raises InputError unless the value may be part of a file's name."""
    if not re.fullmatch("[A-Za-z0-9_-]+", value):
        raise InputError(f"{name} is {value!r}: give letters, digits, _ and - only")


def check_kept(data, split, pairs, config):
    """Raises InputError if no pair of the split of a data folder is left."""
    if not pairs:
        raise InputError(
            f"{data}: every pair of {split} has more than "
            f"max_length {config.max_length} tokens on a side"
        )


def check_vocabularies(config, source_size, target_size):
    """Raises InputError for too few tokens, or if three-way sharing meets two sizes."""
    if min(source_size, target_size) < FEWEST_TOKENS:
        sizes = f"{source_size} and {target_size} tokens"
        hint = "Lower min_freq, raise max_vocab_size, or give more data"
        wrong = f"{sizes} are too small to translate with, {FEWEST_TOKENS} at least"
        raise InputError(f"vocabularies of {wrong}. {hint}")
    if config.tie_embeddings == "three-way" and source_size != target_size:
        sizes = f"{source_size} and {target_size} tokens"
        raise InputError(f"three-way sharing needs one vocabulary, and there are two, of {sizes}")

"""Which values settings may have, and what a data folder must leave."""

import re
import sys
from dataclasses import fields
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from engine.errors import InputError
from engine.languages import WITHOUT_SPACES

# the names from `step` on stand in the record of a run, which checkpoints.py checks likewise
ZERO_IS_FINE = set(
    "dropout label_smoothing patience bleu_sentences seed step epoch batch stale tokens "
    "alpha".split()
)
ABOVE_ZERO = set(
    "min_freq max_vocab_size max_length num_layers d_model d_ff num_heads batch_tokens steps "
    "warmup_steps learning_rate max_grad_norm grad_accum_steps eval_steps checkpoints".split()
)
INFINITE_IS_FINE = {"best_loss"}  # of a run that was not evaluated yet
HIGHEST = {
    "dropout": 0.999,
    "label_smoothing": 0.999,
    "num_layers": 1000,
    "d_model": 2**16,
    "d_ff": 2**18,
    "max_vocab_size": 10**7,
    "seed": 2**63 - 1,
    "alpha": 10,
}


FEWEST_TOKENS = 20  # of a vocabulary, special tokens counted


def check_setting(name, kind, value):
    """Raises InputError for a value that a setting of this type cannot have."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if value is None and NoneType in kinds:
        return
    kind = kinds[0]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(f"{name} is {value!r}: choose one of {', '.join(get_args(kind))}")
        return
    if kind not in (int, float, str, bool):
        wrong = f"{name} is {value!r}: a run stores numbers, texts, yes or no, and choices of texts"
        raise InputError(f"{wrong}. Give the field another type")
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise InputError(f"{name} is {value!r}: give a value of type {kind.__name__}")
    if kind not in (int, float):
        return
    bounded = name in ZERO_IS_FINE or name in ABOVE_ZERO  # others are a reader's own
    lowest = (" from 0" if name in ZERO_IS_FINE else " above 0") if bounded else ""
    highest = HIGHEST.get(name, 10**9 if kind is int else sys.float_info.max)
    too_low = bounded and (value < 0 or (value == 0 and name in ABOVE_ZERO))
    if too_low or value != value:  # the second is true of "not a number" only
        raise InputError(f"{name} is {value}: give a number{lowest}")
    if value > highest and not (name in INFINITE_IS_FINE and value == float("inf")):
        raise InputError(f"{name} is {value}: give a number of at most {highest:,}")


def check_fields(form):
    """Raises InputError for the first field of a dataclass whose value it cannot have.

    A default can be had, if it can be stored: the field may be the reader's own.
    """
    kinds = get_type_hints(type(form))  # also where they are written as texts
    for field in fields(form):
        value = getattr(form, field.name)
        if not isinstance(value, int | float | str | NoneType):
            check_setting(field.name, type(value), value)
        if type(value) is not type(field.default) or value != field.default:
            check_setting(field.name, kinds[field.name], value)


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

"""Which pairs are fit to learn from, and why the others are not."""

import hashlib

from engine.errors import InputError
from engine.languages import in_script
from engine.text_files import strip_pair

# What is cleaned from train. Of the 31,907 pairs of data_small/train.tsv the ratio drops 1
# (0.003 %), script and length 0.
MAX_CHARACTERS = 2_000  # on a side
RATIO_CHINESE = (1, 8)  # characters of the other language for one of Chinese; English has 3.3
RATIO = (1 / 4, 4)  # characters of one side for one of the other, for other languages
NO_PAIR, EMPTY, LONG, LENGTH_RATIO, SCRIPT, DUPLICATE, LEAK, TOKENS = STEPS = (
    "no pair in the line",
    "an empty side",
    "too many characters",
    "length ratio",
    "wrong script",
    "exact duplicates",
    "also in dev or test",
    "too many tokens",
)


def judge(pair, clean, config):
    """Why a pair is left out, one of STEPS or None, and its texts.

    Only train is cleaned: scores must be on unchanged texts.
    """
    texts = strip_pair(pair)
    if texts is None:
        return (NO_PAIR if pair is None else EMPTY), ("", "")
    return (drop_reason(*texts, config) if clean else None), texts


def drop_reason(source, target, config):
    """Why a pair of texts is not fit to learn from: one of STEPS, or None."""
    if max(len(source), len(target)) > MAX_CHARACTERS:
        return LONG
    ratio, (lowest, highest) = len(source) / len(target), RATIO
    if "zh" in (config.src, config.tgt) and not {"ja", "ko"} & {config.src, config.tgt}:
        ratio, (lowest, highest) = 1 / ratio if config.src == "zh" else ratio, RATIO_CHINESE
    if not lowest <= ratio <= highest:
        return LENGTH_RATIO
    right = in_script(source, config.src) and in_script(target, config.tgt)
    return None if right else SCRIPT


def hash_pair(source, target):
    """64 bits: two different pairs among 30 million have the same ones once in 40,000 times."""
    hasher = hashlib.blake2b(f"{source}\t{target}".encode(), digest_size=8)
    return int.from_bytes(hasher.digest())


def nothing_left(data, counts):
    """The InputError for a train without a pair, from the counts of the STEPS."""
    reasons = ", ".join(f"{step}: {counts[step]:,}" for step in STEPS if counts[step])
    hint = "Are --src, --tgt and --target-first right?"
    if counts[LEAK]:
        hint = "Give train pairs that are not in dev or test"
    return InputError(f"{data}: cleaning leaves no pair of train ({reasons}). {hint}")

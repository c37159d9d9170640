"""Lesson 00's first two looks: at the training text, and at the decoder while it writes."""

import re

from notebooks.data_preparation import read_pairs
from notebooks.support.proofs import likeliest
from utils import ROOT

PLAY = re.compile(r"\b[Pp]lay(s|ed|ing)?\b")
VERBS = dict(football="踢", piano="弹", chess="下", tennis="打", violin="拉", garden="玩")


def count_play(sentences):
    """Prints in how many training pairs *play* stands beside each thing, and with which verb.

    Pairs without the expected character are shown. Returns how many of the `sentences` are there.
    """
    pairs = read_pairs(ROOT / "data_small" / "train.tsv")
    played = [(english.lower(), chinese) for english, chinese in pairs if PLAY.search(english)]
    there = len({english for english, _ in pairs} & set(sentences))
    size = f"{len(pairs):,} pairs, {len(played)} with a form of play"
    print(f"{size}, {there} of the {len(sentences)} sentences")
    for thing, verb in VERBS.items():
        beside = [chinese for english, chinese in played if thing in english]
        others = [text for text in beside if verb not in text]
        counts = f"{len(beside):2} of the {len(played)}, {len(beside) - len(others):2} with {verb}"
        print(f"{thing:9} {counts}" + "".join(f", not: {text}" for text in others))
    return there


def watch(translator, sentence):
    """Prints what greedy search writes, step by step, and the three likeliest tokens each time.

    Returns the probability of each token that was written: a list of (token, probability).
    """
    text = ""
    written = []
    while not text.endswith("。"):
        tokens = likeliest(translator, sentence, text)
        row = [f"{token} {p:.2f}" for token, p in tokens]
        print(text.ljust(8, "\u3000"), "→", "  ".join(row))  # padded with blanks of Chinese width
        text += tokens[0][0]
        written.append(tokens[0])
    return written

"""What figures say, in the language of a copy of the course. In the course itself it is English."""

import functools
import json
import re
from pathlib import Path

from matplotlib.text import Text

WORDS = Path(__file__).with_name("words.json")  # empty in the course; see tools/catalogue.py
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
WORD = re.compile(r"[A-Za-z]{2}")
NO_WORD = re.compile(r"<\w+>|\$[^$]*\$|\w*_\w*|True|False")  # special tokens, formulas, names


@functools.cache
def words():
    """{text: text in the copy's language}, with {} for each number; nothing in the course."""
    return json.loads(WORDS.read_text(encoding="utf-8"))


def in_language(text, patterns=None):
    """The text as `patterns` or the copy's own words have it, or as it is where they have none."""
    pattern = (words() if patterns is None else patterns).get(NUMBER.sub("{}", text))
    return pattern.format(*NUMBER.findall(text)) if pattern else text


def texts_of(figure):
    """What stands in a figure that is drawn: texts with a word in them, each once."""
    texts = [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
    return list(dict.fromkeys(text for text in texts if WORD.search(NO_WORD.sub("", text))))


def translate_figure(figure):
    """Gives a figure's texts in the copy's language, but for the words beside a map's cells."""
    for text in figure.findobj(Text):
        text.set_text(in_language(text.get_text()))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            before = [label.get_text() for label in axis.get_ticklabels()]
            # what has a number beside a map, as "head 1", is no word of its sentence
            after = [in_language(label) if NUMBER.search(label) or not axes.images else label
                     for label in before]  # fmt: skip
            if after != before:
                axis.set_ticks(axis.get_ticklocs(), after)

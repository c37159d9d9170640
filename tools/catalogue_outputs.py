"""What is read in the outputs of notebooks: texts of pictures, and what checks say."""

from functools import partial

from notebooks.support.course_map import labels
from notebooks.support.words import NUMBER


def described(notebook):
    """The metadata of the pictures that a notebook shows: "alt" is a text, "texts" stand in it."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    described_outputs = [output.get("metadata", {}).get("image/png", {}) for output in outputs]
    return [about for about in described_outputs if "alt" in about]


def pictured(notebook):
    """The texts of a notebook's pictures; of those that differ in numbers alone, the first.

    Those on the map of the course are the site's.
    """
    every = [text for about in described(notebook) for text in (about["alt"], *about["texts"])]
    own = [text for text in every if text not in labels()]
    return list({NUMBER.sub("{}", text): text for text in reversed(own)}.values())[::-1]


def next_place(numbers, match):
    """The field {place} for a number, which matched, among those of its text, each used once."""
    place = numbers.index(match[0])
    numbers[place] = None
    return f"{{{place}}}"


def number_patterns(texts, words):
    """{text: its translation} of those in `words`, with {} for numbers, and {0} for the first."""
    patterns = {}
    for text in filter(words.get, texts):
        place = partial(next_place, NUMBER.findall(text))
        patterns[NUMBER.sub("{}", text)] = NUMBER.sub(place, words[text])
    return patterns


def verdict(line, words, verdicts):
    """A line that `check` has printed, in the language of both catalogues."""
    name, _, result = line.partition(": ")
    said = {"name": words.get(name, name), "result": verdicts.get(result, result)}
    return verdicts.get("{name}: {result}", "{name}: {result}").format(**said)

"""What is wrong with a translation: what it must have as its source has it."""

import re
from collections import Counter

ALIKE_PARTS = {
    "code": re.compile(r"`[^`\n]+`"),
    "formulas": re.compile(r"\$\$[\s\S]+?\$\$|\$[^$\n]+\$"),
    "links": re.compile(r"\]\(([^)\s]+)\)"),
    "numbers": re.compile(r"\d+(?:[.,]\d+)*"),
}
NUMBER = ALIKE_PARTS["numbers"]
LATIN_WORDS = re.compile(r"(?:[A-Za-z][\w'’-]*[ ,;:]+){8,}[A-Za-z]")  # nine in a row
QUOTED = re.compile(
    r"\[[^\]]*\](?:\([^)]*\))?|\"[^\"]*\"|“[^”]*”|\*[^*]+\*|\|.*\||<[^>]*>|\$[^$]*\$|`[^`]*`"
)
LARGE = re.compile(r"(\d[\d,.]*) ?(万|亿|thousand|million|billion)")  # 1,700 万 is 17 million
FACTORS = {"万": 10**4, "亿": 10**8, "thousand": 10**3, "million": 10**6, "billion": 10**9}


def in_full(match):
    """A number with the word behind it, which matched, at full length."""
    return f" {float(match[1].replace(',', '')) * FACTORS[match[2]]:.0f} "


def numbers(text):
    """The numbers of a text; those with a word behind them at full length."""
    text = ALIKE_PARTS["code"].sub(" ", ALIKE_PARTS["formulas"].sub(" ", text))
    text = ALIKE_PARTS["links"].sub("]", text)
    text = LARGE.sub(in_full, text)
    return [number.replace(",", "") for number in NUMBER.findall(text)]


def faults(source, target, terms, forbidden=()):
    """What is wrong with a translation, as short texts.

    `terms` are {English: its translations}, `forbidden` {pattern: what should stand there}.
    """
    problems = []
    for name, pattern in ALIKE_PARTS.items():
        expected, translated = (
            Counter(numbers(text) if name == "numbers" else pattern.findall(text))
            for text in (source, target)
        )
        if expected != translated:
            lost, new = expected - translated, translated - expected
            problems.append(f"{name}: {sorted(lost.elements())} became {sorted(new.elements())}")
    bare = QUOTED.sub(" | ", target)
    if english := LATIN_WORDS.search(bare):
        problems.append(f"English: {english[0]}")
    words = QUOTED.sub(" | ", source).lower()
    for english, allowed in terms.items():
        if re.search(rf"\b{english}\b", words) and not any(one in target for one in allowed):
            problems.append(f"term: {english}")
    for pattern, better in dict(forbidden).items():
        if match := re.search(pattern, target):
            problems.append(f"{match[0]}: better {better}")
    return problems

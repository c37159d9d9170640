"""What people type is made easy for the model: signs, sentences, and the end mark that is missing.

Texts that are scored or trained on stay as they are. Exported folders have this file, so besides
Python's own library it imports `sentencex` only.
"""

import re

from sentencex import segment

# of a Chinese keyboard: ，。？！：；（）ＡＢＣ１２３ and the like become ASCII
ASCII = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {0x3002: "."}
# behind which it puts no space
END_WITHOUT_SPACE = re.compile(r"([。！？])(?=\w)")
OWN_SIGNS = ("zh", "ja", "ko")  # whose sources have these signs themselves
ENDED = re.compile(r"[.!?…:;,—-]\W*$")  # perhaps with a quote or an emoji behind it
QUESTION_WORDS = set("what who whom whose which where when why how".split())
AUXILIARIES = set(
    "am is are was were do does did have has had can could will would shall should may might must "
    "isn't aren't wasn't weren't don't doesn't didn't haven't hasn't hadn't can't couldn't won't "
    "wouldn't shouldn't".split()
)
COMMANDS = {"do", "don't", "have"}  # unless a subject follows: Do it now, Have a nice day
FEWEST_WORDS = 3  # greetings of two words stay as they are
MARKS = ".!?。！？"


def sentences_of(text, language):
    """The sentences of a line as they are to be translated, and whether a mark was added to each.

    Pairs (sentence, bool). An English sentence without an end mark gets one: a question mark behind
    a word that asks, else a full stop.
    """
    if language in OWN_SIGNS:
        return [(text, False)]
    text = END_WITHOUT_SPACE.sub(r"\1 ", text).translate(ASCII)
    sentences = []
    for part in filter(None, map(str.strip, segment(language, text))):
        if sentences and not has_letter(part):  # an emoji
            sentences[-1] += f" {part}"
        elif sentences and not has_letter(sentences[-1]):  # the number of a list
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
    return [with_end(sentence, language) for sentence in sentences] or [("", False)]


def has_letter(text):
    """Whether a text says something."""
    return any(sign.isalpha() for sign in text)


def with_end(sentence, language):
    """The sentence with an end mark, and whether it was added."""
    words = sentence.lower().replace("’", "'").split()
    if language != "en" or len(words) < FEWEST_WORDS or ENDED.search(sentence):
        return sentence, False
    return sentence + ("?" if asks(*words[:2]) else "."), True


def asks(first, second):
    """Whether an English sentence that begins with these two words is a question."""
    if first in COMMANDS:
        return second in ("i", "you", "we", "they")
    if first == "what":  # What a nice day!
        return second not in ("a", "an")
    if first == "when":  # When I was young, I lived there.
        return second in AUXILIARIES
    return first in QUESTION_WORDS or first in AUXILIARIES and second not in AUXILIARIES


def translate_typed(translate, lines, languages, first=1, **options):
    """Translates lines as people type them: one line for each, whose sentences are joined.

    `translate(sentences, numbers=..., **options)` translates sentences of these line numbers;
    `languages` are the codes of source and target. The first line has the number `first`.
    """
    source, target = languages
    rows = [sentences_of(line, source) for line in lines]
    numbers = [number for number, row in enumerate(rows, start=first) for _ in row]
    sentences = [sentence for row in rows for sentence, _ in row]
    written = iter(translate(sentences, numbers=numbers, **options))
    between = "" if target in ("zh", "ja") else " "
    return [between.join(without(next(written), added) for _, added in row) for row in rows]


def without(text, added):
    """The text without the mark at its end, if that was added to its source."""
    return text[:-1].rstrip() if added and text[-1:] and text[-1] in MARKS else text

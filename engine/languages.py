"""What is known of languages: their names in data files, and the letters they are written in."""

import regex

NAMES = dict(
    en="english", zh="chinese", de="german", fr="french", es="spanish", it="italian", ru="russian",
    ja="japanese", ko="korean", pt="portuguese", nl="dutch", ar="arabic", tr="turkish", cs="czech",
)  # fmt: skip
SCRIPTS = dict.fromkeys(NAMES, r"\p{Latin}") | dict(
    zh=r"\p{Han}", ja=r"[\p{Hiragana}\p{Katakana}]", ko=r"\p{Hangul}", ru=r"\p{Cyrillic}",
    ar=r"\p{Arabic}",
)  # fmt: skip
# of a language that is not listed: a letter of none whose writers are
OTHER = r"(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])\p{Letter}"


# whose writers put no spaces between words, and for which lesson 01 has no segmenter of words
WITHOUT_SPACES = set("ja th lo km my bo".split())


def in_script(text, code):
    """Whether a text has a letter of this language; of one that is not listed, any other letter."""
    return regex.search(SCRIPTS.get(code, OTHER), text) is not None


def name_of(code):
    """Its English name; of a language that is not listed its code."""
    return NAMES.get(code, code).capitalize()


def languages_of(config):
    """{code: name} of the two languages of a run."""
    return {code: name_of(code) for code in (config.src, config.tgt)}

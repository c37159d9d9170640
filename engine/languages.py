"""What is known of languages: their names in data files, and the letters they are written in."""

import re

NAMES = dict(
    en="english", zh="chinese", de="german", fr="french", es="spanish", it="italian", ru="russian",
    ja="japanese", ko="korean", pt="portuguese", nl="dutch", ar="arabic", tr="turkish", cs="czech",
)  # fmt: skip
LATIN = "[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"
SCRIPTS = {code: re.compile(LATIN) for code in NAMES} | {
    "zh": re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]"),
    "ja": re.compile("[\u3040-\u30ff\uff66-\uff9d]"),  # a sentence without kana is rare
    "ko": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "ar": re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc]"),
}
# a letter of none of these three: who writes them is listed
LETTER = re.compile(
    r"(?![\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7a3])[^\W\d_]"
)


def in_script(text, code):
    """Whether a text has a letter of this language; of one that is not listed, any other letter."""
    return SCRIPTS.get(code, LETTER).search(text) is not None


def name_of(code):
    """Its English name; of a language that is not listed its code."""
    return NAMES.get(code, code).capitalize()


def languages_of(config):
    """{code: name} of the two languages of a run."""
    return {code: name_of(code) for code in (config.src, config.tgt)}

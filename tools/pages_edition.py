"""The site in one language: its words, its texts, and the pictures that go with them."""

import re
from pathlib import Path

import nbformat
from catalogue import in_language, sources, translations

# as `make chinese EXECUTE=1` leaves it
EXECUTED = Path(__file__).resolve().parent.parent / "chinese"


class Edition:
    """The site in a language: English, or one that has a folder in `translations`."""

    def __init__(self, lang, name, below="", language=None):
        """`lang` is its tag for browsers, `below` its folder in the site."""
        self.lang = lang
        self.name = name
        self.below = below
        self.language = language
        self.up = "../" * below.count("/")
        self.words = translations(language, "site") if language else {}
        self.anchors = {}
        for catalogue in sources() if language else ():
            headings = translations(language, catalogue).items()
            self.anchors |= {
                named(there): named(here) for here, there in headings if here[0] == "#"
            }

    def word(self, text):
        """A text of the site's own."""
        return self.words.get(text, text)

    def text(self, name, text):
        """The text of a file of the course; with its own pictures where a copy was executed."""
        if not self.language:
            return text
        text = in_language(self.language, name, text)
        executed = EXECUTED / name
        if name.endswith(".ipynb") and executed.exists():
            copy = executed.read_text(encoding="utf-8")
            if sources_of(copy) == sources_of(text):
                return copy
        return text

    def anchor(self, heading):
        """The heading that this one is a translation of: anchors are the same in all languages."""
        return self.anchors.get(heading, heading)


def sources_of(text):
    """What stands in the cells of a notebook."""
    return [cell.source for cell in nbformat.reads(text, as_version=4).cells]


def named(block):
    """What a block of Markdown that is a heading says, without its marks."""
    return re.sub("[*`]", "", block.partition("\n")[0].lstrip("#").strip())

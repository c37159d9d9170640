"""The index that the search field of the site reads: which words stand in which sections."""

import json
import re
import unicodedata
from textwrap import shorten

from bs4 import BeautifulSoup

# A Chinese character is a word; other words end where letters and digits do, as in pages.js.
WORD = re.compile(r"[\u3400-\u9fff]|(?:(?![\u3400-\u9fff])[^\W_])+")
EXCERPT = 140  # characters
DEFINED = re.compile(r"^ *(?:class|def) (\w+)", re.MULTILINE)


def words(text):
    """The different words of a text, as they are searched for."""
    return set(WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def sections(page):
    """The sections of an HTML page: anchor, title, words and beginning, one for each heading.

    Of code, only the names that it defines count, of what it printed nothing.
    """
    main = BeautifulSoup(page, "html.parser").main
    for tag in main.select("math, script, figure, details, .output, .anchor"):
        tag.decompose()
    for code in main.select("div.highlight"):
        code.string = " ".join(DEFINED.findall(code.get_text()))
    sections = []
    for part in main.find_all(["section", "div"], recursive=False):
        for tag in part.find_all(True, recursive=False) if part.name == "section" else [part]:
            if re.fullmatch("h[1-3]", tag.name):
                title = re.sub(r"^\d+ ", "", tag.get_text().strip())
                sections.append([tag["id"], title, set(), ""])
            elif tag.name == "p" and not sections[-1][3]:
                sections[-1][3] = shorten(tag.get_text(), EXCERPT, placeholder=" …")
            sections[-1][2].update(words(tag.get_text(" ")))
    return sections


def search_index(pages):
    """The script that holds the index; `pages` are (file, title, HTML).

    Its sections are [number of the page, anchor, title, beginning], without a title where the
    page's own stands for it. Its words are {word: "numbers of sections"}, each number but the
    first as the distance from the one before it.
    """
    names = []
    entries = []
    positions = {}
    for file, title, page in pages:
        for number, (anchor, heading, in_it, begin) in enumerate(sections(page)):
            for word in in_it:
                positions.setdefault(word, []).append(len(entries))
            entries.append([len(names), anchor, heading if number else "", begin])
        names.append([file, title])
    coded = {}
    for word in sorted(positions):
        before = [0, *positions[word]]
        coded[word] = " ".join(str(after - last) for last, after in zip(before, positions[word]))
    index = {"pages": names, "sections": entries, "words": coded}
    return f"searchIndex = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"

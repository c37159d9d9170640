"""The index that the search field of the site reads: the text of each section."""

import json
import re

from bs4 import BeautifulSoup

DEFINED = re.compile(r"^ *(?:class|def) (\w+)", re.MULTILINE)


def sections(page):
    """The sections of an HTML page: [anchor, title, text], one for each heading.

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
            text = " ".join(tag.get_text().split())
            if re.fullmatch("h[1-3]", tag.name):
                sections.append([tag["id"], re.sub(r"^\d+ ", "", text), ""])
            else:
                sections[-1][2] += f" {text}"
    return sections


def search_index(pages):
    """The script that holds the index; `pages` are (file, title, HTML).

    Its sections are [number of the page, anchor, title, text], without a title where the page's
    own stands for it.
    """
    names = [[file, title] for file, title, _ in pages]
    entries = [
        [number, anchor, heading if place else "", text.strip()]
        for number, (_, _, page) in enumerate(pages)
        for place, (anchor, heading, text) in enumerate(sections(page))
    ]
    index = {"pages": names, "sections": entries}
    return f"searchIndex = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"

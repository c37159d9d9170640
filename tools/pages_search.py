"""The index that the search field of the site reads: the text of each section."""

import json
import re

from bs4 import BeautifulSoup

DEFINED = re.compile(r"^ *(?:class|def) (\w+)", re.MULTILINE)


def sections(page):
    """The sections of an HTML page: (anchor, title, text), one for each heading.

    Of code, only the names that it defines count, of what it printed nothing.
    """
    main = BeautifulSoup(page, "html.parser").main
    for tag in main.select("math, script, figure, details, .output, .anchor"):
        tag.decompose()
    for code in main.select("div.highlight"):
        code.string = f" {' '.join(DEFINED.findall(code.get_text()))} "
    headings = main.select("h1, h2, h3")
    anchors = [heading["id"] for heading in headings]
    titles = [re.sub(r"^\d+ ", "", heading.get_text().strip()) for heading in headings]
    for heading in headings:
        heading.string = "\0"
    texts = [" ".join(text.split()) for text in main.get_text().split("\0")[1:]]
    return zip(anchors, titles, texts)


def search_index(pages, written):
    """The script that holds the index, [address, name, text] of the sections of these pages.

    `written` has their HTML by their files.
    """
    index = []
    for page in pages:
        for number, (anchor, title, text) in enumerate(sections(written[page.file])):
            name = f"{page.title} › {title}" if number else page.title
            index.append([f"{page.file}#{anchor}", name, text])
    return f"searchIndex = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"

"""How a notebook's text reads: its words, its asides, its box *Since then*."""

import re

LONG = 8  # words: an aside of as many interrupts its sentence


def prose(notebook):
    """The text that a learner reads: no code, no table, no folded solution, a formula as one word.

    One string for each paragraph.
    """
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    text = "\n\n".join(cells)
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "formula", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)  # a link's address
    text = re.sub(r"`[^`\n]+`", "code", text)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    return [part for part in re.split(r"\n\s*\n", text) if part.strip()]


def count(text):
    """Its words. A Chinese sentence is one."""
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def asides(notebook):
    """What parentheses, or a pair of dashes, enclose in eight words or more."""
    found = []
    for paragraph in prose(notebook):
        found += re.findall(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)", paragraph)
        for sentence in re.split(r"(?<=[.!?])\s", paragraph):
            found += re.findall(r"\s[–—]\s([^–—]*)\s[–—]\s", sentence)
    return [aside for aside in found if count(aside) >= LONG]


def share_of_asides(notebook):
    """Their words, as a share of all."""
    return sum(map(count, asides(notebook))) / sum(map(count, prose(notebook)))

"""What lessons print: tables, and Chinese with its English."""

import json
import re

from tabulate import tabulate

from utils import ROOT

GLOSSES = ROOT / "engine" / "export" / "page" / "glosses.json"


def print_table(headers, *rows, decimals=2):
    """Prints rows of texts and numbers below their headers; a text is printed as it is."""
    texts = [n for n, column in enumerate(zip(*rows)) if all(isinstance(c, str) for c in column)]
    options = dict(tablefmt="simple", floatfmt=f".{decimals}f", disable_numparse=texts)
    print(tabulate(rows, headers, **options))


def gloss(text):
    """A Chinese text with the English of each sign: 弹 pluck, 琴 instrument."""
    glosses = json.loads(GLOSSES.read_text(encoding="utf-8"))
    signs = [sign for sign in text if "\u4e00" <= sign <= "\u9fff"]
    return ", ".join(f"{sign} {re.split('[,;]', glosses[sign])[0]}" for sign in signs)

"""What lessons print: tables, and Chinese with its English."""

import json

from tabulate import tabulate

from utils import ROOT

GLOSSES = ROOT / "engine" / "export" / "page" / "glosses.json"


def print_table(headers, *rows, decimals=2):
    """Prints rows of texts and numbers below their headers."""
    print(tabulate(rows, headers, tablefmt="simple", floatfmt=f".{decimals}f"))


def gloss(text):
    """A Chinese text with the English of each sign: 弹 pluck, 琴 instrument."""
    glosses = json.loads(GLOSSES.read_text(encoding="utf-8"))
    signs = [sign for sign in text if "\u4e00" <= sign <= "\u9fff"]
    return ", ".join(f"{sign} {glosses[sign].partition(',')[0]}" for sign in signs)

"""English and German to measure on, 24,000 sentences: LibreOffice's help, from Debian packages.

    apt-get download libreoffice-help-en-us libreoffice-help-de
    for package in libreoffice-help-*.deb; do dpkg -x $package help; done
    python benchmarks/help_pages.py help/usr/share/libreoffice/help runs/help

A paragraph has the same name in all languages. What two languages say alike is left out, and so is
what is said again: no English side occurs twice, no German side of train in dev or test.
"""

import random
import re
import sys
from pathlib import Path

from bs4 import BeautifulSoup

HELD_BACK = 800  # pairs in dev, and as many in test


def paragraphs(page):
    """{name: text} of the paragraphs and headings of an HTML file."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    tags = soup.find_all(re.compile(r"^(p|h\d)$"), id=re.compile("^[a-z]+_id[0-9A-Za-z]+$"))
    return {tag["id"]: " ".join(tag.get_text().split()) for tag in tags}


def help_pairs(folder):
    """{English: German} of the paragraphs that both have, 3 to 35 words, at most 40 in German."""
    found = {}
    for page in sorted((folder / "en-US" / "text").rglob("*.html")):
        other = folder / "de" / page.relative_to(folder / "en-US")
        german = paragraphs(other) if other.exists() else {}
        for name, text in paragraphs(page).items():
            translated = german.get(name, text)
            short = 3 <= len(text.split()) <= 35 and 1 <= len(translated.split()) <= 40
            if short and translated != text:
                found.setdefault(text, translated)
    return found


def split(pairs):
    """{"dev", "test", "train": pairs}, dealt out by chance, the same each time."""
    pairs = list(pairs)
    random.Random(0).shuffle(pairs)
    held = {german for _, german in pairs[: 2 * HELD_BACK]}
    train = [pair for pair in pairs[2 * HELD_BACK :] if pair[1] not in held]
    return {
        "dev": pairs[:HELD_BACK],
        "test": pairs[HELD_BACK : 2 * HELD_BACK],
        "train": train,
    }


def main(pages, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in split(help_pairs(Path(pages)).items()).items():
        lines = [f"{english}\t{german}\n" for english, german in pairs]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        print(f"{folder / name}.tsv: {len(pairs):,} pairs")


if __name__ == "__main__":
    main(*sys.argv[1:])

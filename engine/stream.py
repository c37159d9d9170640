"""What the command lines of 15 and 16 read and print: lines as they come, samples and scores."""

import sys

from tqdm import tqdm

from engine.errors import InputError
from engine.plain_text import numbered_texts, one_line, rounds, same_file
from engine.text_files import read_lines


def translate_lines(load, texts=(), path=None):
    """Prints the translation of each of the texts, or of the file's lines, or of standard input's.

    `load` returns the function that translates a list of texts; it takes its time, so it is called
    when there is something to translate. Each line is answered as it comes, and many together where
    many wait, so memory does not grow with their number. Raises InputError for bytes that are not
    UTF-8, before any work where a file holds them, and when there is nothing to translate or
    nowhere to write.
    """
    if not texts and not path and (sys.stdin is None or sys.stdin.isatty()):
        raise InputError("nothing to translate: give a text, --input FILE, or pipe one in")
    if sys.stdout is None:
        raise InputError("standard output is closed: give translations somewhere to go")
    if not texts and same_file(path or sys.stdin.fileno(), sys.stdout):
        name = path or "standard input"
        raise InputError(f"{name}: would be read and written at once. Write to another file")
    texts = list(numbered_texts(texts))
    total = sum(1 for _ in read_lines(path)) if path else None
    lines = texts or read_lines(path or sys.stdin.fileno())
    translate = load()
    shown = total and sys.stderr.isatty() and not sys.stdout.isatty()
    with tqdm(total=total, unit="sentence", disable=not shown) as bar:
        for batch in rounds(lines):
            numbers, sentences = zip(*batch)
            translations = translate(sentences, first=numbers[0], bar=bar)
            print(*map(one_line, translations), sep="\n", flush=True)

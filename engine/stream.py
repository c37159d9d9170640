"""Translations of a text, a file or standard input, printed line by line as they come."""

import sys
from collections import Counter

from tqdm import tqdm

from engine.errors import InputError
from engine.plain_text import numbered_texts, one_line, rounds, same_file
from engine.text_files import read_lines


def translate_lines(load, texts=(), path=None, **options):
    """Prints the translation of each of the texts, or of the file's lines, or of standard input's.

    `load` returns a `Translator`; it takes its time, so it is called when there is something to
    translate; `options` go to its search. Each line is answered as it comes, and many together
    where many wait, so memory does not grow with their number. Unknown words are named at the end.
    Raises InputError for bytes that are not UTF-8, before any work where a file holds them, and
    when there is nothing to translate or nowhere to write.
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
    translator, unknown = load(), Counter()
    shown = total and sys.stderr.isatty() and not sys.stdout.isatty()
    with tqdm(total=total, unit="line", disable=not shown) as bar:
        for batch in rounds(lines, size=500):
            numbers, written = zip(*batch)
            translations = translator.translate_typed(written, first=numbers[0], **options)
            print(*map(one_line, translations), sep="\n", flush=True)
            unknown += translator.unknown_words(written)
            bar.update(len(batch))
    tell_unknown(unknown)


def tell_unknown(unknown):
    """Names unknown words on standard error, the first twenty, those met several times with it."""
    if unknown:
        words = [word + f" ({n} times)" * (n > 1) for word, n in list(unknown.items())[:20]]
        more = f" and {len(unknown) - 20:,} more" if len(unknown) > 20 else ""
        print(f"unknown words: {', '.join(words)}{more}", file=sys.stderr)

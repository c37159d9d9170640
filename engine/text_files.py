"""Lines of text files and what is done about bad ones, whatever their format is."""

import os
import sys
from pathlib import Path

from engine.errors import InputError
from engine.files import regular
from engine.languages import in_script
from engine.plain_text import LINE_BYTES, numbered_lines, one_line


def read_lines(path, tell=True):
    """Yields (line number from 1, text without its line end) of a UTF-8 file.

    Longer lines than LINE_BYTES are cut. Raises InputError at the first bad byte.
    """
    name = "standard input" if path == 0 else path  # or the number of an open file
    if type(path) is int and hasattr(os, "set_blocking"):
        os.set_blocking(path, True)  # nothing to read yet is not the end
    with open(path if type(path) is int else regular(Path(path)), "rb", LINE_BYTES) as file:
        yield from numbered_lines(file, name, tell)


def split_files(folder, split, extension):
    """The files `SPLIT.EXTENSION` and `SPLIT-*.EXTENSION` of a data folder, sorted by name."""
    folder = Path(folder)
    if not folder.is_dir():
        kind = "a file" if folder.is_file() else "no such folder"
        raise InputError(f"{folder}: {kind}. Give a folder that holds train.tsv and dev.tsv")
    os.listdir(folder)  # an error where it may not be read; glob would find nothing
    files = [*folder.glob(f"{split}.{extension}"), *folder.glob(f"{split}-*.{extension}")]
    return sorted(map(regular, files))


def strip_pair(pair):
    """A pair with each text on one line; None if there is no pair, or an empty side."""
    source, target = map(one_line, pair or ("", ""))
    return (source, target) if source and target else None


def check_file(path, lines, pairs):
    """Raises InputError for a file of so many lines in which fewer than half hold a pair."""
    if 2 * pairs >= lines > 0:
        return
    wrong = "no line holds a pair" if lines else "the file is empty"
    if pairs:
        wrong = f"{lines - pairs} of {lines} lines hold no pair"
    form = "data_large/README.md shows what its lines hold"
    if ".tsv" in Path(path).name:
        form = "A line is: source, tab, target"
    elif ".json" in Path(path).name:
        form = f"Each line is a JSON object of its own, and not all of them one array: {form}"
    raise InputError(f"{path}: {wrong}. {form}")


def check_scripts(path, pairs, config):
    """Raises InputError where most texts of a side have no letter of its language."""
    for side, code in enumerate((config.src, config.tgt)):
        wrong = sum(not in_script(pair[side], code) for pair in pairs)
        if 2 * wrong > len(pairs):
            message = f"{wrong} of {len(pairs)} texts that should be {code} have no letter of it"
            order = "target, tab, source" if config.target_first else "source, tab, target"
            raise InputError(
                f"{path}: {message}. It is read as {order}: what --src, --tgt and --target-first "
                "say when a run is trained"
            )


def kept_pairs(path, rows, config):
    """The pairs among `rows`, one for each line of a file, None for a line without two texts.

    Such lines are counted and reported on stderr. Raises InputError when they are the most, and
    when the texts are of other languages.
    """
    skipped = [number for number, pair in enumerate(rows, start=1) if pair is None]
    check_file(path, len(rows), len(rows) - len(skipped))
    pairs = [pair for pair in rows if pair is not None]
    check_scripts(path, pairs, config)
    if skipped:
        share = f"{len(skipped)} of {len(rows)} lines"
        first = ", ".join(map(str, skipped[:5]))
        print(f"{path}: skipped {share} without two texts (lines {first})", file=sys.stderr)
    if 2 * sum(is_quoted(source) and is_quoted(target) for source, target in pairs) > len(pairs):
        hint = "as spreadsheets write them. Take the marks away, or they will be translated, too"
        print(f"{path}: most texts stand between quotation marks, {hint}", file=sys.stderr)
    return pairs


def is_quoted(text):
    """Whether a text begins and ends with a straight quotation mark."""
    return len(text) > 1 and text[0] == text[-1] == '"'

"""Lines of text files and what is done about bad ones, whatever their format is."""

import gzip
import os
import re
import sys
import zlib
from pathlib import Path

from engine.errors import InputError
from engine.languages import in_script
from engine.plain_text import numbered_lines, one_line


def read_lines(path):
    """Yields (line number from 1, text without its line end) of a UTF-8 file, .gz or not.

    `path` may be the number of an open file: standard input's. Raises InputError for a file that is
    damaged or not UTF-8.
    """
    if type(path) is int:
        if hasattr(os, "set_blocking"):
            os.set_blocking(path, True)  # nothing to read yet is not the end
        with open(path, "rb") as file:
            yield from numbered_lines(file, "standard input")
        return
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: is no regular file. Give one")
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            yield from numbered_lines(file, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, error) from None


def damaged(path, error):
    """The InputError for a file that a library could not read."""
    first_line = str(error).partition("\n")[0]
    return InputError(f"{path}: cut short or damaged ({first_line}). Fetch or write it again")


# train-00000-of-00002.tsv, and train-00000-of-00002-a1b2c3.parquet
PART_OF = re.compile(r"(.*)-(\d+)-of-(\d+)[-.]")


def split_files(folder, split, extension):
    """The files `SPLIT.EXTENSION` and `SPLIT-*.EXTENSION` of a data folder, sorted by name."""
    folder = Path(folder)
    if not folder.is_dir():
        kind = "a file" if folder.is_file() else "no such folder"
        raise InputError(f"{folder}: {kind}. Give a folder that holds train.tsv and dev.tsv")
    files = [*folder.glob(f"{split}.{extension}"), *folder.glob(f"{split}-*.{extension}")]
    check_parts(folder, files)
    return sorted(files)


def check_parts(folder, files):
    """Raises InputError where a part of a file in parts is missing, or is there twice."""
    parts = {}
    for match in filter(None, (PART_OF.match(file.name) for file in files)):
        name, number, count = match.groups()
        parts.setdefault((name, int(count)), []).append(int(number))
    for (name, count), numbers in parts.items():
        if len(numbers) != count or len(set(numbers)) != count:
            present = f"{len(set(numbers))} of the {count} parts of {name} are there"
            hint = "Have each once, or name what is there otherwise"
            raise InputError(f"{folder}: {present}, in {len(numbers)} files. {hint}")


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
        form = f"Each line is a JSON object with both languages, not all of them one array: {form}"
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
    return pairs

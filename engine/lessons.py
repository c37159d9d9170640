"""Which lessons were edited: each is known by a hash of the code in its export cells."""

import ast
import functools
import hashlib
import io
import json
import sys
import tokenize

from engine.plain_text import InputError
from notebooks import FOLDER, export_cells
from utils import ROOT

SHIPPED = ROOT / "engine" / "lessons.json"  # the course's hashes: `make notebooks` writes it


def lesson_hashes():
    """The hash of each lesson by its number: {"00": ..., "16": ...}."""
    paths = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    return {path.name[:2]: code_hash(export_cells(path)) for path in paths}


def code_hash(cells):
    """16 hexadecimal digits of the code of export cells, its comments and docstrings left out."""
    source = "\n\n".join(text for _, text in cells) + "\n"
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno
            lines[first - 1 : last] = [""] * (last - first + 1)
    code = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(code.encode()).hexdigest()[:16]


@functools.cache
def edited():
    """The numbers of the lessons that are not the course's, as they are when it is first asked."""
    shipped = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return [number for number, digest in lesson_hashes().items() if shipped.get(number) != digest]


def edited_among(first, last, *more):
    """Those of the lessons `first` to `last`, and of `more`, that were edited."""
    asked = [f"{number:02}" for number in (*range(first, last + 1), *more)]
    return [number for number in asked if number in edited()]


def listed(numbers):
    """Lessons in a sentence: "lesson 04", "lessons 04, 05 and 07"."""
    *others, last = numbers
    return f"lessons {', '.join(others)} and {last}" if others else f"lesson {last}"


def used(numbers):
    """What a reader is told of his own lessons: "your lessons 04 and 05 are used"."""
    return f"your {listed(numbers)} {'is' if len(numbers) == 1 else 'are'} used"


def trained_with_others(made):
    """The numbers of the lessons that differ from those in a run's made.json.

    None of them where it does not say: runs that were made before hold no hashes.
    """
    before = made.get("lessons")
    if not isinstance(before, dict):
        return []
    return [number for number, digest in lesson_hashes().items() if before.get(number) != digest]


def refuse_edited():
    """Raises InputError where lessons that translate were edited: an export has its own forms."""
    if numbers := edited_among(1, 11, 16):
        message = f"an export computes as the course does, and not as your {listed(numbers)}"
        raise InputError(f"{message}. Take the edits back, or use translate.py --serve")


@functools.cache
def say_once(line):
    """Prints a line on standard error, once in a process."""
    print(line, file=sys.stderr)


if __name__ == "__main__":
    SHIPPED.write_text(json.dumps(lesson_hashes(), indent=1) + "\n", encoding="utf-8")

"""Grades filled copies of the course: `python tools/grade.py FOLDER... [--out grades.csv]`.

A student's answer is the cell tagged `exercise`. It meets the check of this checkout's notebook,
not the student's own, but the student's notebooks are what it imports: an edited class counts. Each
copy is graded in a process of its own. That guards against slips and endless loops, not against
code that means harm: it runs what the students wrote with your rights, and such code can forge its
own verdict. What comes back is text alone, as JSON.
"""

import argparse
import ast
import csv
import importlib
import importlib.util
import json
import multiprocessing
import os
import re
import sys
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import MagicMock

import nbformat

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
FOLDED = "<details><summary>Solution</summary>\n\n"  # how a solution's cell begins
LIMIT = 60  # seconds for one exercise
MEMORY = 32 << 30  # bytes of address space for a copy, of which PyTorch alone maps several
LONGEST = 1 << 16  # bytes of a verdict
# all but the last as `utils.check` says them
RESULTS = ("right", "not yet", "not filled yet", "not graded")


class Exercise(NamedTuple):
    """An exercise of the course: three pieces of code."""

    hole: str
    check: str
    solution: str


class Task(NamedTuple):
    """What the grading process is given for one exercise."""

    notebook: str  # 05_layer_norm
    number: int
    cells: list  # code in which the answer finds its imports, functions and classes
    answer: str
    check: str


class Grade(NamedTuple):
    """How one exercise of one copy was solved; `hint` is what the check says is wrong."""

    folder: str
    notebook: str
    exercise: int
    result: str
    hint: str = ""


def tagged(cells, tag):
    """The cells that have this tag."""
    return [cell for cell in cells if tag in cell.metadata.get("tags", [])]


@cache
def exercises(path):
    """The exercises of a notebook of the course, in their order."""
    cells = nbformat.read(path, as_version=4).cells
    found = []
    for number, cell in enumerate(cells):
        if tagged([cell], "exercise"):
            check, folded = cells[number + 2], cells[number + 3].source
            whole = folded.startswith(FOLDED) and folded.endswith("\n\n</details>")
            assert tagged([check], "check") and whole, path
            solution = re.search(r"```python\n(.*?)```", folded, re.DOTALL)[1]
            found.append(Exercise(cell.source, check.source, solution))
    return found


def other_cells(cells):
    """The code of all cells but the exercises and their checks."""
    special = tagged(cells, "exercise") + tagged(cells, "check")
    return [cell.source for cell in cells if cell.cell_type == "code" and cell not in special]


def statements(source):
    """A cell's statements. Magics, which are no Python, become calls of `get_ipython`."""
    # imported here, as tools/student.py needs nothing but nbformat
    from IPython.core.inputtransformer2 import TransformerManager

    return ast.parse(TransformerManager().transform_cell(source)).body


def is_check(statement):
    """Whether this is the function of asserts that `@check(...)` runs at once."""
    return getattr(statement, "name", "") == "_"


def run_each(nodes, names):
    """Runs statements one by one. One that fails is left out: the check tells if it is needed."""
    for node in nodes:
        try:
            exec(compile(ast.Module([node], []), "<cell>", "exec"), names)
        except (Exception, SystemExit):
            pass


def namespace(module, cells):
    """What an answer finds: its notebook's whole module, and what these cells import and define."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    names = {**vars(importlib.import_module(f"notebooks.{module}")), "__name__": "__main__"}
    names |= {"get_ipython": MagicMock(), "display": print}  # magics and pictures are for Jupyter
    for cell in cells:
        try:
            nodes = statements(cell)
        except SyntaxError:
            continue
        run_each([node for node in nodes if isinstance(node, kinds) and not is_check(node)], names)
    return names


def verdict(names, answer, source, check):
    """What the check whose cell is `source` says about an answer; `check` is the course's own."""
    run_each(statements(answer), names)
    names["check"] = check  # an answer may have defined one, too
    nodes = [node for node in statements(source) if is_check(node)]
    exec(compile(ast.Module(nodes, []), "<check>", "exec"), names)
    return names["_"]


def work(connection, folder, tasks):
    """The grading process: sends "ready", then the verdict on each task as soon as it has it."""
    spec = importlib.util.spec_from_file_location("utils_of_the_course", ROOT / "utils.py")
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)
    with suppress(ImportError, ValueError, OSError):  # not on Windows, or a lower limit holds
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    say(connection, "ready")
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    sys.dont_write_bytecode = True
    # the course stands in for what was not handed in: utils.py, the data
    sys.path[:0] = [str(folder), str(ROOT)]
    os.chdir(folder / "notebooks")
    notebook = names = None
    for task in tasks:
        try:
            if task.notebook != notebook:
                names = namespace(task.notebook[3:], task.cells)
                notebook = task.notebook
            text = verdict(names, task.answer, task.check, utils.check)
        except BaseException as error:  # whatever a student's code may raise
            text = f"not yet. It stopped with {type(error).__name__}: {error}"
        say(connection, text)


def say(connection, text):
    """Sends a text, cut short, as JSON: whoever receives it unpacks no objects."""
    connection.send_bytes(json.dumps(str(text)[: LONGEST // 8]).encode())


def heard(connection):
    """The text that was sent. Raises EOFError if it is no such text."""
    try:
        text = json.loads(connection.recv_bytes(LONGEST))
    except (ValueError, OSError, RecursionError):
        raise EOFError from None
    if not isinstance(text, str):
        raise EOFError
    return text


def run_tasks(folder, tasks):
    """Yields the verdict on each task, in order.

    After an endless loop or a crash a new process does the rest.
    """
    context = multiprocessing.get_context("spawn")
    while tasks:
        connection, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, folder, tasks))
        process.start()
        theirs.close()  # else its end could not be seen from here
        try:
            if not begins(connection):
                sys.exit("grade.py: the grading process did not start; what stands above says why")
            alive = True
            while tasks and alive:
                tasks = tasks[1:]
                alive = connection.poll(LIMIT)
                late = f"not yet. It was stopped after {LIMIT} s: an endless loop?"
                yield heard(connection) if alive else late
        except EOFError:
            process.join(1)
            yield f"not yet. It ended Python itself, with exit status {process.exitcode}"
        finally:
            process.kill()
            process.join()


def begins(connection):
    """Whether the grading process gets as far as "ready"."""
    try:
        return heard(connection) == "ready"
    except EOFError:
        return False


def answers(folder, path):
    """The tasks that a copy sets for one notebook of the course.

    Raises an exception that says what is wrong with it.
    """
    package, copy = folder / "notebooks" / "__init__.py", folder / "notebooks" / path.name
    if not package.is_file():
        raise FileNotFoundError(f"{package}: missing. Is this a whole copy?")
    if not copy.is_file():
        raise FileNotFoundError(f"{copy}: missing")
    cells, ours = nbformat.read(copy, as_version=4).cells, exercises(path)
    theirs = [cell.source for cell in tagged(cells, "exercise")]
    if len(theirs) != len(ours):
        raise ValueError(
            f"cells tagged exercise: {len(theirs)} instead of {len(ours)}; "
            "restore the tags or the cells"
        )
    # checks import something, too
    code = other_cells(cells) + [exercise.check for exercise in ours]
    numbered = enumerate(zip(theirs, ours), start=1)
    return [
        Task(path.stem, number, code, answer, exercise.check)
        for number, (answer, exercise) in numbered
    ]


def grade(folder):
    """The grades of one copy, of all exercises of the course, in their order."""
    place = folder.resolve()
    found = []  # tasks, and the grades of what cannot be run
    for path in NOTEBOOKS:
        try:
            found += answers(place, path)
        except Exception as error:  # a copy's file may be anything
            for number in range(1, len(exercises(path)) + 1):
                found.append(Grade(str(folder), path.stem, number, "not graded", str(error)))
    texts = run_tasks(place, [task for task in found if isinstance(task, Task)])
    return [
        entry if isinstance(entry, Grade) else to_grade(folder, entry, next(texts))
        for entry in found
    ]


def to_grade(folder, task, text):
    """The grade that a verdict means."""
    result, _, hint = text.partition(". ")
    return Grade(str(folder), task.notebook, task.number, result, " ".join(hint.split())[:300])


def cell(value):
    """A value for a table: a spreadsheet must not read a student's text as a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def print_table(folder, grades):
    """Prints one copy's grades and their totals."""
    print(folder)
    for _, notebook, number, result, hint in grades:
        print(f"  {notebook:24} {number}  {result:14}  {hint}".rstrip())
    counts = Counter(grade.result for grade in grades)
    totals = ", ".join(f"{counts[result]} {result}" for result in RESULTS)
    print(f"  {len(grades)} exercises: {totals}\n", flush=True)


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(
        "grade.py", description="Grades filled copies of the course with the checks of this one."
    )
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="a filled copy: it holds notebooks/"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE.csv", help="write the grades to this file, too"
    )
    options = parser.parse_args(arguments)
    missing = [str(folder) for folder in options.folders if not (folder / "notebooks").is_dir()]
    if missing:
        parser.error(
            f"{', '.join(missing)}: no folder notebooks in it. "
            "A copy's notebooks belong into FOLDER/notebooks"
        )
    if options.out and not options.out.absolute().parent.is_dir():
        parser.error(f"{options.out}: there is no such folder to write to")
    if options.out and options.out.is_dir():
        parser.error(f"{options.out}: is a folder. Name a file, such as grades.csv")
    grades = []
    for folder in options.folders:
        found = grade(folder)
        print_table(folder, found)
        grades += found
    if options.out:
        # -sig: the mark by which Excel knows UTF-8
        with open(options.out, "w", newline="", encoding="utf-8-sig") as file:
            rows = [[cell(value) for value in grade] for grade in grades]
            csv.writer(file).writerows([Grade._fields, *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())

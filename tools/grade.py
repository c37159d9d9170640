"""Grades filled copies of the course: `python tools/grade.py FOLDER... [--out grades.csv]`.

How an answer meets its check, and what that guards against, stands in grading.py.
"""

import argparse
import csv
import html
import io
import os
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import grading
from grading import NOTEBOOKS, answers, defined_elsewhere, exercises, not_importable, run_tasks

from engine.errors import run_command
from engine.files import at_home, write_whole
from engine.plain_text import CONTROL

# all but the last as `utils.check` says them
RESULTS = ("right", "not yet", "not filled yet", "not graded")
SIGNS = dict(zip(RESULTS, "+-.?"))  # of a result in the table of the class
LEGEND = ", ".join(f"{sign} {result}" for result, sign in SIGNS.items())
STYLE = """<!doctype html><meta charset="utf-8"><title>The class</title>
<style>td, th { padding: 0 .4em; text-align: center } table { border-collapse: collapse }
tr { border-top: 1px solid #ccc }</style>"""
MISSED = 5  # exercises that the class is told about


class Grade(NamedTuple):
    """How one exercise of a copy was solved; `hint` is what the check says is wrong."""

    notebook: str
    exercise: int
    result: str
    hint: str = ""


def grade(folder, notebooks=None):
    """The grades of one copy, of all exercises of these notebooks or of all, in their order."""
    place = folder.resolve()
    refused = not_importable(place)
    grades = []
    for path in notebooks or NOTEBOOKS:
        try:
            tasks, course = answers(place, path)
            texts = list(verdicts(place, tasks, course, refused))
        except Exception as error:  # a copy's file may be anything
            texts = [f"not graded. {error}"] * len(exercises(path))
        grades += [to_grade(path.stem, *numbered) for numbered in enumerate(texts, 1)]
    return grades


def verdicts(place, tasks, course, refused):
    """Yields the verdict on each task of a notebook; what is still the hole is not run."""
    blank = [task.answer.split() == task.hole.split() for task in tasks]
    run = run_tasks(place, [task for task, empty in zip(tasks, blank) if not empty], refused)
    course += [task.check for task in tasks]
    for task, empty in zip(tasks, blank):
        if not empty:
            text = next(run)
            if task.own and text.startswith("not yet"):
                # where the student's own cells before it have run it may be right
                for again in run_tasks(place, [task._replace(in_order=True)], refused):
                    text = again if again == "right" else text
            yield text
        elif names := defined_elsewhere(task, task.hole, course):
            yield f"not filled yet. Another cell defines {', '.join(names)}: it belongs here"
        else:
            yield "not filled yet"


def to_grade(notebook, number, text):
    """The grade that a verdict means."""
    result, _, hint = clean(text).partition(". ")
    return Grade(notebook, number, result, " ".join(hint.split())[:300])


def clean(text):
    """A text without orders to a terminal and halves of characters, which cannot be printed."""
    return CONTROL.sub(" ", str(text)).encode(errors="backslashreplace").decode()


def cell(value):
    """A value for a table: a spreadsheet must not read a student's text as a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def print_table(name, grades):
    """Prints one copy's grades, without those of empty exercises, and the totals."""
    print(name)
    for notebook, number, result, hint in grades:
        if result != "not filled yet" or hint:
            print(f"  {notebook:24} {number}  {result:14}  {hint}".rstrip())
    counts = Counter(grade.result for grade in grades)
    totals = ", ".join(f"{counts[result]} {result}" for result in RESULTS)
    print(f"  {len(grades)} exercises: {totals}\n", flush=True)


def names_of(folders):
    """What copies are called: their folders' names, or their paths where two have one name.

    Numbers go before paths that differ only in what cannot be printed.
    """
    for names in ([folder.resolve().name for folder in folders], folders):
        names = list(map(clean, names))
        if len(set(names)) == len(names):
            return names
    return [f"{number} {name}" for number, name in enumerate(names, start=1)]


def html_table(students):
    """The class, {name: grades}, as a page: a row for each student, a column for each exercise."""
    first, *_ = students.values()
    head = "".join(f"<th>{one.notebook[:2]}.{one.exercise}" for one in first)
    lines = [STYLE, f"<table><tr><th>{head}<th>right"]
    for name, own in students.items():
        signs = "".join(f'<td title="{html.escape(one.hint)}">{SIGNS[one.result]}' for one in own)
        right = sum(one.result == "right" for one in own)
        lines.append(f"<tr><th>{html.escape(name)}{signs}<td>{right}")
    return "\n".join([*lines, f"</table><p>{LEGEND}; point at a sign for the hint"])


def csv_table(students):
    """The grades as a table for spreadsheets."""
    table = io.StringIO(newline="")
    rows = [(name, *grade) for name, grades in students.items() for grade in grades]
    rows = [("folder", *Grade._fields), *rows]
    csv.writer(table).writerows([cell(value) for value in row] for row in rows)
    return table.getvalue()


def grade_all(folders, notebooks):
    """Yields the grades of each copy, in their order; two copies are graded at the same time."""
    grading.stopping.clear()
    with ThreadPoolExecutor(2) as pool:
        try:
            yield from pool.map(partial(grade, notebooks=notebooks), folders)
        except (Exception, KeyboardInterrupt, SystemExit):
            grading.stop_all()
            pool.shutdown(cancel_futures=True)
            raise


def print_class(students):
    """Prints a class: a line for each student, what was right, and which exercises were missed."""
    grades = [one for own in students.values() for one in own]
    each = len(grades) // len(students)
    print(f"The class: {len(students)} students, {each} exercises ({LEGEND})")
    width = max(map(len, students))
    for name, own in students.items():
        print(f"  {name:{width}}", end="")
        for notebook, results in groupby(own, lambda one: one.notebook[:2]):
            print(f"  {notebook} {''.join(SIGNS[one.result] for one in results)}", end="")
        print()
    right = sorted(sum(one.result == "right" for one in own) for own in students.values())
    least, middle, most = right[0], right[len(right) // 2], right[-1]
    print(f"Right: {sum(right)} of {len(grades)}; a student {least} to {most}, the middle {middle}")
    hints = {}
    for one in grades:
        if one.result == "not yet":
            hints.setdefault((one.notebook, one.exercise), Counter())[one.hint] += 1
    ungraded = sum(one.result == "not graded" for one in grades)
    none = f"No wrong answer; {ungraded} could not be graded" if ungraded else "No wrong answer"
    print("Most missed:" if hints else none)
    ranked = sorted(hints.items(), key=lambda item: -item[1].total())
    for (notebook, number), given in ranked[:MISSED]:
        [(hint, times)] = given.most_common(1)
        print(f"  {notebook} {number}: {given.total()} of {len(students)}; {times} x {hint}")


def read_options(arguments):
    """The command line's options; argparse ends the program where one is wrong."""
    purpose = "Grades filled copies of the course with the checks of this one."
    usage = "grade.py FOLDER ... [--out FILE] [--only NN ...]"  # --only takes all that follows it
    parser = argparse.ArgumentParser("grade.py", usage=usage, description=purpose)
    meaning = "a filled copy: it holds notebooks/"
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help=meaning)
    meaning = "write the grades to this .csv or .html, too"
    parser.add_argument("--out", type=Path, metavar="FILE", help=meaning)
    numbers = [path.name[:2] for path in NOTEBOOKS]
    meaning = "only these lessons, by their numbers"
    parser.add_argument("--only", nargs="+", choices=numbers, metavar="NN", help=meaning)
    options = parser.parse_args(arguments)
    options.folders = list(map(at_home, options.folders))
    for folder in options.folders:
        if not (folder / "notebooks").is_dir():
            parser.error(f"{clean(folder)}: a copy's notebooks belong into FOLDER/notebooks")
    if len({folder.resolve() for folder in options.folders}) < len(options.folders):
        parser.error("a copy is given twice")
    out = options.out = options.out and at_home(options.out)
    if out and (
        out.is_dir() or out.suffix not in (".csv", ".html") or not out.absolute().parent.is_dir()
    ):
        parser.error(f"{out}: name a file that ends in .csv or .html, in a folder that exists")
    return options


def main(arguments=None):
    """The command line. Returns the exit status."""
    options = read_options(arguments)
    only = options.only
    notebooks = [path for path in NOTEBOOKS if not only or path.name[:2] in only]
    students = {}
    for name, grades in zip(names_of(options.folders), grade_all(options.folders, notebooks)):
        print_table(name, grades)
        students[name] = grades
    if len(students) > 1:
        print_class(students)
    if options.out:
        table = html_table if options.out.suffix == ".html" else csv_table
        text = table(students)
        # -sig: the mark by which Excel knows UTF-8
        write_whole(options.out, text.encode("utf-8-sig"))
    return 0


if __name__ == "__main__":
    # for the grading processes
    os.environ.update(PYTHONUTF8="1", PYTHONIOENCODING="utf-8:backslashreplace", MPLBACKEND="agg")
    for stop in grading.STOPS:
        if signal.getsignal(stop) == signal.SIG_DFL:  # nohup lets one be ignored
            signal.signal(stop, signal.default_int_handler)  # as Ctrl-C
    sys.exit(run_command(main, None))

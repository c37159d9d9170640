"""Grades filled copies of the course: `python tools/grade.py FOLDER... [--out grades.csv]`.

How an answer meets its check, and what that guards against, stands in grading.py.
"""

import argparse
import csv
import io
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":  # a grading process imports the student's `notebooks`
    from engine.errors import run_command  # first: Ctrl-C is one line from here

from grading import NOTEBOOKS, STOPS, answers, exercises, not_importable, run_tasks

# all but the last as `utils.check` says them
RESULTS = ("right", "not yet", "not filled yet", "not graded")
SIGNS = dict(zip(RESULTS, "+-.?"))  # of a result in the table of the class
MISSED = 5  # exercises that the class is told about


class Grade(NamedTuple):
    """How one exercise of one copy was solved; `hint` is what the check says is wrong."""

    folder: str
    notebook: str
    exercise: int
    result: str
    hint: str = ""


def grade(folder):
    """The grades of one copy, of all exercises of the course, in their order."""
    place = folder.resolve()
    refused = not_importable(place)
    grades = []
    for path in NOTEBOOKS:
        try:
            tasks = answers(place, path)
        except Exception as error:  # a copy's file may be anything
            texts = [f"not graded. {error}"] * len(exercises(path))
        else:
            texts = verdicts(place, path, tasks, refused)
        grades += [to_grade(folder, path.stem, *numbered) for numbered in enumerate(texts, 1)]
    return grades


def verdicts(place, path, tasks, refused):
    """Yields the verdict on each task of a notebook; what is still the hole is not run."""
    blank = [task.answer.split() == one.hole.split() for task, one in zip(tasks, exercises(path))]
    run = run_tasks(place, [task for task, empty in zip(tasks, blank) if not empty], refused)
    for empty in blank:
        yield "not filled yet" if empty else next(run)


def to_grade(folder, notebook, number, text):
    """The grade that a verdict means."""
    result, _, hint = clean(text).partition(". ")
    return Grade(clean(folder), notebook, number, result, " ".join(hint.split())[:300])


def clean(text):
    """A text without orders to a terminal and halves of characters, which cannot be printed."""
    from engine.errors import CONTROL

    return CONTROL.sub(" ", str(text)).encode(errors="backslashreplace").decode()


def cell(value):
    """A value for a table: a spreadsheet must not read a student's text as a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def print_table(folder, grades):
    """Prints one copy's grades and their totals."""
    print(clean(folder))
    for _, notebook, number, result, hint in grades:
        print(f"  {notebook:24} {number}  {result:14}  {hint}".rstrip())
    counts = Counter(grade.result for grade in grades)
    totals = ", ".join(f"{counts[result]} {result}" for result in RESULTS)
    print(f"  {len(grades)} exercises: {totals}\n", flush=True)


def count_missed(grades):
    """How many of these answers are wrong."""
    return sum(one.result == "not yet" for one in grades)


def print_class(grades):
    """Prints a class: a line for each student, what was right, and which exercises were missed."""
    students = {}
    asked = {}
    for one in grades:
        students.setdefault(one.folder, {}).setdefault(one.notebook[:2], []).append(one.result)
        asked.setdefault((one.notebook, one.exercise), []).append(one)
    width = max(len(name) for name in students)
    signs = ", ".join(f"{sign} {result}" for result, sign in SIGNS.items())
    print(f"The class: {len(students)} students, {len(asked)} exercises ({signs})")
    for name, notebooks in students.items():
        rows = [
            f"{number} {''.join(map(SIGNS.get, results))}" for number, results in notebooks.items()
        ]
        print(f"  {name:{width}}  {'  '.join(rows)}")
    solved = Counter(one.folder for one in grades if one.result == "right")
    right = sorted(solved[name] for name in students)
    least = right[0]
    middle = right[len(right) // 2]
    most = right[-1]
    print(f"Right: {sum(right)} of {len(grades)}; a student {least} to {most}, the middle {middle}")
    wrong = [item for item in asked.items() if count_missed(item[1])]
    ranked = sorted(wrong, key=lambda item: -count_missed(item[1]))
    print("Most missed:" if ranked else "Nobody has a wrong answer")
    for (notebook, number), results in ranked[:MISSED]:
        hints = Counter(one.hint for one in results if one.result == "not yet")
        hint, times = hints.most_common(1)[0]
        print(f"  {notebook} {number}: {count_missed(results)} of {len(results)}; {times} x {hint}")


def main(arguments=None):
    """The command line. Returns the exit status."""
    # not at the top, as the `notebooks` of a grading process are the student's
    from engine.files import regular, write_whole

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
    missing = [clean(folder) for folder in options.folders if not (folder / "notebooks").is_dir()]
    if missing:
        parser.error(
            f"{', '.join(missing)}: no folder notebooks in it. "
            "A copy's notebooks belong into FOLDER/notebooks"
        )
    if options.out and not options.out.absolute().parent.is_dir():
        parser.error(f"{options.out}: there is no such folder to write to")
    if options.out and options.out.is_dir():
        parser.error(f"{options.out}: is a folder. Name a file, such as grades.csv")
    if options.out:
        regular(options.out)
    grades = []
    for folder in options.folders:
        of_copy = grade(folder)
        print_table(folder, of_copy)
        grades += of_copy
    if len(options.folders) > 1:
        print_class(grades)
    if options.out:
        table = io.StringIO(newline="")
        rows = [[cell(value) for value in grade] for grade in grades]
        csv.writer(table).writerows([Grade._fields, *rows])
        # -sig: the mark by which Excel knows UTF-8
        write_whole(options.out, table.getvalue().encode("utf-8-sig"))
    return 0


if __name__ == "__main__":
    # for the grading processes
    os.environ.update(PYTHONUTF8="1", PYTHONIOENCODING="utf-8:backslashreplace")
    for stop in STOPS:
        if signal.getsignal(stop) == signal.SIG_DFL:  # nohup lets one be ignored
            signal.signal(stop, signal.default_int_handler)  # as Ctrl-C
    sys.exit(run_command(main, None))

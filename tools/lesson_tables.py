"""Writes how long the lessons take to read, and the tables of the READMEs.

`python tools/lesson_tables.py`: the minutes of reading_time.py go to the head of each notebook, and
from there, with its question and its time to run, into the tables.
"""

import re
import sys

import nbformat
from reading_time import reading_minutes, rounded

from notebooks import FOLDER
from utils import ROOT

ASKED = re.compile(r"\*\*The question of this notebook: (.+?)\*\*")
READ = re.compile(r"Reading: [^.]*\.")
RUN = re.compile(r"Running: (.+?)\.\*")
# the rows of a lesson: what stands before and behind what is written
ROWS = {
    "README.md": r"(?m)^(\| \d\d \| \[[^]]*\]\(notebooks/{name}\) \| ).*?( \|)$",
    "notebooks/README.md": r"(?m)^(\| \[[^]]*\]\({name}\) \| ).*? \| .*?( \| .*\|)$",
}


def with_minutes(notebook):
    """The notebook, whose head says how long it takes to read."""
    first, second = map(rounded, reading_minutes(notebook))
    text = f"Reading: {first} minutes"
    text += f", second reading: {second} minutes." if second else "."
    head = notebook.cells[0]
    head.source, count = READ.subn(text, head.source)
    if count != 1:
        raise ValueError(f"{head.source[:40]!r}: no line with its minutes to read")
    return notebook


def facts_of(notebook):
    """{"question", "read", "run"} from a notebook's head."""
    head = "\n".join(cell.source for cell in notebook.cells[:12] if cell.cell_type == "markdown")
    question = ASKED.search(head)[1]
    return {
        "question": question[0].upper() + question[1:],
        "read": " + ".join(re.findall(r"\d+", READ.search(head)[0])),
        "run": RUN.search(head)[1],
    }


def with_facts(file, text, lessons):
    """The text of a README with the facts of these lessons, {file name: facts}, in its table."""
    for name, facts in lessons.items():
        written = facts["question"] if file == "README.md" else "{read} | {run}".format(**facts)
        row = ROWS[file].replace("{name}", re.escape(name))
        text, count = re.subn(row, lambda m, written=written: m[1] + written + m[2], text)
        if count != 1:
            raise ValueError(f"the table of {file} has {count} rows for {name}")
    return text


def main():
    """Writes heads and tables. Returns the exit status."""
    lessons = {}
    for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb")):
        notebook = with_minutes(nbformat.read(path, as_version=4))
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
        lessons[path.name] = facts_of(notebook)
    for file in ROWS:
        text = (ROOT / file).read_text(encoding="utf-8")
        (ROOT / file).write_text(with_facts(file, text, lessons), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes what the lessons say of themselves into the tables of the READMEs.

`python tools/lesson_tables.py`: question, minutes to read and time to run stand at the head of each
notebook, and nowhere else by hand.
"""

import re
import sys

import nbformat

from notebooks import FOLDER
from utils import ROOT

# in English and in Chinese
ASKED = re.compile(r"\*\*(?:The question of this notebook: |本课的问题：)(.+?)\*\*")
TIMES = re.compile(
    r"(?:Reading: |阅读：)(\d+) (?:minutes|分钟)[.。] ?(?:Running: |运行：)(.+?)[.。]\*"
)
# the rows of a lesson: what stands before and behind what is written
ROWS = {
    "README.md": r"(?m)^(\| \d\d \| \[[^]]*\]\(notebooks/{name}\) \| ).*?( \|)$",
    "notebooks/README.md": r"(?m)^(\| \[[^]]*\]\({name}\) \| )\d+ \| .*?( \| .*\|)$",
}


def facts_of(notebook):
    """{"question", "read", "run"} from a notebook's head; ValueError where one is missing."""
    head = "\n".join(cell.source for cell in notebook.cells[:12] if cell.cell_type == "markdown")
    asked, times = ASKED.search(head), TIMES.search(head)
    if not (asked and times):
        raise ValueError("no line with its question, or none with minutes to read and time to run")
    question = asked[1][0].upper() + asked[1][1:]
    return {"question": question, "read": times[1], "run": times[2]}


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
    """Writes both tables. Returns the exit status."""
    paths = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    lessons = {path.name: facts_of(nbformat.read(path, as_version=4)) for path in paths}
    for file in ROWS:
        text = (ROOT / file).read_text(encoding="utf-8")
        (ROOT / file).write_text(with_facts(file, text, lessons), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

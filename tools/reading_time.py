"""How long a lesson takes to read: `python tools/reading_time.py`, for all lessons.

Prose at 95 words a minute, shown code at 4.5 lines a minute, exported code at 4, a picture a
minute. These rates were fitted to estimates made lesson by lesson, thinking included. Exercises,
folded cells and outputs are not counted. The first reading ends at the heading "Second reading".
"""

import re

import nbformat

from notebooks import FOLDER

SECOND = re.compile(r"^## (Second reading|第二遍)", re.MULTILINE)
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)


def reading_minutes(notebook):
    """The minutes of the first and of the second reading."""
    minutes, part = [0.0, 0.0], 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            part = 1 if SECOND.search(cell.source) else part
            if not cell.source.startswith(("**Exercise", "<details>")):
                minutes[part] += len(FOLDED.sub("", cell.source).split()) / 95
        elif not (is_folded(cell) or {"exercise", "check"} & set(cell.metadata.get("tags", ()))):
            lines = sum(bool(line.strip()) for line in cell.source.splitlines())
            minutes[part] += lines / (4 if cell.source.startswith("#| export") else 4.5)
            minutes[part] += sum("image/png" in one.get("data", {}) for one in cell.outputs)
    return minutes


def is_folded(cell):
    """Whether JupyterLab shows the cell without its source."""
    return cell.metadata.get("jupyter", {}).get("source_hidden", False)


def rounded(minutes):
    """Minutes, rounded to five."""
    return 5 * round(minutes / 5)


def main():
    """Prints the minutes of each lesson, and of all."""
    total = [0.0, 0.0]
    for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb")):
        first, second = reading_minutes(nbformat.read(path, as_version=4))
        print(f"{path.stem:24} first {first:4.0f}   second {second:4.0f}")
        total = [total[0] + first, total[1] + second]
    print(f"{'all':24} first {total[0]:4.0f}   second {total[1]:4.0f}")


if __name__ == "__main__":
    main()

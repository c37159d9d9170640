"""Executes lessons for committing: `python tools/execute.py 04 14`, all without numbers.

In a copy of the course without a `runs` folder, so that no output depends on what another lesson,
or a training of one's own, has left there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from tidy import tidied

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("notebooks", "engine", "studies", "data_small", "utils.py", "train.py", "translate.py")


def execute(path, course):
    """Executes one lesson in the copy, and writes it tidied to its own place."""
    copy = course / "notebooks" / path.name
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace"]
    # the copy's engine and utils, also where the course is installed
    subprocess.run([*command, copy], check=True, env={**os.environ, "PYTHONPATH": str(course)})
    text = nbformat.writes(tidied(nbformat.read(copy, as_version=4))) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def main(numbers):
    """Executes the lessons of these numbers, each in a fresh copy of the course."""
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        if numbers and path.name[:2] not in numbers:
            continue
        with TemporaryDirectory() as folder:
            for name in PARTS:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, Path(folder) / name)
            execute(path, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])

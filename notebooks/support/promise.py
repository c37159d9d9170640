"""Lesson 00's promise at work: an edited lesson is what every later one uses."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from notebooks import FOLDER


def after_edit(notebook, old, new, program):
    """What `program` prints in a new Python process, in a copy of the lessons.

    In the copy's `notebook` the text `old` is replaced by `new`. Where the program fails, its
    traceback.
    """
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(FOLDER, Path(folder) / "notebooks")) / notebook
        copy.write_text(copy.read_text("utf-8").replace(old, new), "utf-8")
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}  # behind the copy
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stderr if done.returncode else done.stdout.strip()

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
    traceback. Raises ValueError where the notebook does not hold `old`.
    """
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(FOLDER, Path(folder) / "notebooks")) / notebook
        text = copy.read_text("utf-8")
        if old not in text:
            raise ValueError(f"{notebook} does not hold {old!r} any more: have you edited it?")
        copy.write_text(text.replace(old, new), "utf-8")
        command = [sys.executable, "-c", program]
        # the course's other modules are found behind the copy
        path = os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}
        pipes = dict(capture_output=True, encoding="utf-8")
        done = subprocess.run(command, cwd=folder, env=environment, **pipes)
    return done.stderr if done.returncode else done.stdout.strip()

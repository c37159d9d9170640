"""What copies of the project have: which files, and where their text differs from this one's."""

import re
import subprocess
from pathlib import Path

import nbformat

from engine.plain_text import InputError

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = (
    ".ci/",
    ".pre-commit-config.yaml",
    "CONTRIBUTING.md",
    "tools/",
    "translations/",
    "README.zh.md",
    "notebooks/README.md",
    "studies/ablation.py",
    "studies/ablation_rows.json",
    "studies/variants.py",
    "studies/schedules.py",
    "tests/fuzz.py",
    "tests/test_ablation.py",
    "tests/test_studies.py",
    "tests/test_box.py",
    "tests/test_browser.py",
    "tests/test_catalogue.py",
    "tests/test_exercises.py",
    "tests/test_fuzz.py",
    "tests/test_notebooks.py",
    "tests/test_pages.py",
    "tests/test_student.py",
    "tests/test_tidy.py",
)
HOW_TO_WORK = (ROOT / "tools" / "student.md").read_text(encoding="utf-8")  # the copy's own section
CHANGES = {  # file: [(what is there, what the copy has instead)]
    "Makefile": [
        (r"^(test: .*## ).*", r"\1run the tests"),
        (r"^STARTED .*\n", ""),
        (r"^\t.*run_tests\.py\n", "\t$(BIN)/python -m pytest tests/\n"),
        (r"^\t.*(ruff|--nbval).*\n", ""),
        (r"^# For teachers\b(.|\n)*", ""),
    ],
    "README.md": [
        (r"^\[中文\].*\n\n", ""),
        (r"^(make test +# ).*", r"\1the unit tests, run on your version of the classes"),
        (r"^## For teachers\n(.|\n)*?(?=^## |\Z)", ""),
        (r"^(?=## Two commands\n)", HOW_TO_WORK + "\n"),
    ],
    "docs/install.md": [
        (r"^.*--nbval.*\n", ""),
        (r"^## Many machines, slow network\n(.|\n)*?(?=^## )", ""),
        (r"; nobody has run the tests on one yet: `TEST_DEVICE=mps make test-device`", ""),
    ],
    "notebooks/11_make_model.ipynb": [("`make ablation`", "A program of the course")],
    "notebooks/14_optimizer_schedule.ipynb": [("`make schedules`", "A program of the course")],
    "notebooks/15_training.ipynb": [("`make ablation`", "a program of the course")],
    "notebooks/00_setup.ipynb": [(r" The solution is folded\.", "")],
}


# the ends of the names of files whose text may be another in a copy
OTHER_TEXT = (".ipynb", ".md", ".js", "Makefile", "utils.py", "words.json")


def tracked_files(left_out=LEFT_OUT):
    """The files of this checkout that Git tracks but for those left out, from its root."""
    try:
        command = ["git", "-C", ROOT, "ls-files", "-z"]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    except FileNotFoundError:
        raise InputError("git is needed to list the project's files: it is missing") from None
    names = [name for name in done.stdout.split("\0") if name]
    if done.returncode or not names:
        reason = done.stderr.strip() or "no file is tracked there"
        raise InputError(f"{ROOT} is no Git checkout of the project: {reason}")
    return [name for name in names if not name.startswith(left_out)]


def changed(name, text):
    """The text of a file as the copy has it, in English and with solutions."""
    for pattern, replacement in CHANGES.get(name, []):
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        if count == 0:
            raise InputError(
                f"{name} has changed: {pattern!r}, in tools/copies.py, is no longer found there"
            )
    return text


def as_notebook(name, text):
    """A file's text as a notebook. Raises InputError if it is none."""
    try:
        return nbformat.reads(text, as_version=4)
    except (ValueError, AttributeError) as error:
        raise InputError(f"{name} is no notebook ({error}). Take a whole copy of it") from None

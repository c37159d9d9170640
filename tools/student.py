"""Writes a student's copy of the course: `python tools/student.py [OUT] [--language zh_CN]`.

OUT, a new folder, holds all files that Git tracks, with the notebooks that nbgrader releases, and
without what holds solutions or is the teacher's.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.errors import InputError, end_at_signals, run_command
from engine.files import at_home
from utils import ROOT

FOLDED = "<details><summary>"  # how a solution's cell begins
LEFT_OUT = (
    ".ci/",
    ".pre-commit-config.yaml",
    "CONTRIBUTING.md",
    "tools/",
    "translations/",
    "README.zh.md",
    "notebooks/README.md",
    "studies/ablation.py",
    "studies/variants.py",
    "studies/schedules.py",
    "tests/exercises.py",
    *(f"tests/test_{name}.py" for name in ("ablation", "box", "browser", "catalogue", "exercises",
      "notebooks", "pages", "school", "studies", "tidy")),
)  # fmt: skip
TEXTS = (".ipynb", ".md", ".js", "Makefile", "utils.py", "words.json")  # may be in a language
HOW_TO_WORK = "tools/student.md"  # the copy's README begins with it
CHANGES = {  # file: [(what is there, what the copy has instead)]
    "Makefile": [
        (r"^(test: .*## ).*", r"\1run the tests"),
        (r"^STARTED .*\n", ""),
        (r"^\t.*run_tests\.py\n", "\t$(BIN)/python -m pytest tests/\n"),
        (r"^# For teachers\b(.|\n)*", ""),
    ],
    "README.md": [(r"^\[中文\].*\n\n", ""), (r"^## For teachers\n(.|\n)*?(?=^## |\Z)", "")],
}


def tracked_files(left_out=()):
    """The files of this checkout that Git tracks but for those left out, from its root."""
    command = ["git", "-C", ROOT, "ls-files", "-z"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise InputError(f"{ROOT} is no Git checkout of the project: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name and not name.startswith(left_out)]


def changed(name, text):
    """The text of a file as a copy has it, in English."""
    for pattern, replacement in CHANGES.get(name, []):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def write_copy(out, in_language=lambda name, text: text):
    """Writes the copy to the new folder `out`, all of it or nothing.

    `in_language` gives the text of a file in the copy's language.
    """
    from school import LESSONS, release

    if out.exists():
        raise InputError(f"{out} exists already. Name another folder, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{out.name}.", dir=out.parent) as temporary:
        folder, copy = Path(temporary) / "class", Path(temporary) / "copy"
        release(LESSONS.values(), folder)
        released = {f"notebooks/{path.name}": path for path in folder.glob("release/*/*.ipynb")}
        for name in tracked_files(LEFT_OUT):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)  # with its rights
            if name.endswith(TEXTS):
                text = released.get(name, ROOT / name).read_text(encoding="utf-8")
                text = in_language(name, changed(name, text))
                (copy / name).write_text(text, encoding="utf-8", newline="\n")
        how = in_language(HOW_TO_WORK, (ROOT / HOW_TO_WORK).read_text(encoding="utf-8"))
        readme = copy / "README.md"
        readme.write_text(f"{how}\n{readme.read_text('utf-8')}", encoding="utf-8", newline="\n")
        copy.rename(out)


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser("student.py", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("out", nargs="?", type=Path, default="student", help="new folder; student")
    languages = sorted(path.parent.name for path in ROOT.glob("translations/*/terms.json"))
    meaning = "of its prose, as zh_CN; if not given, English"
    parser.add_argument("--language", choices=languages, help=meaning)
    options = parser.parse_args(arguments)
    out = at_home(options.out)
    if options.language:
        import catalogue  # which needs polib

        write_copy(out, lambda name, text: catalogue.in_language(options.language, name, text))
    else:
        write_copy(out)
    print(f"written: {out}. Its README.md says how to begin")
    return 0


if __name__ == "__main__":
    end_at_signals()
    sys.exit(run_command(main, None))

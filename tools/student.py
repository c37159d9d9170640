"""Writes a student's copy of the course: `python tools/student.py [OUT]`.

OUT is a new folder, `student` if none is named. It holds all files that Git tracks, as they are in
this checkout, but
- the notebooks have no solutions and no outputs (their code is the same, byte for byte);
- what is the teacher's or the project's is left out: `tools`, `.ci`, two pages, and the tests of
  solutions, of committed outputs, of the site and of this command. The other tests stay, for a
  student who edits a class; they hold no solution;
- the Makefile and the README promise nothing that is missing, and the README says how to work in a
  copy.
"""

import argparse
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import nbformat
from copies import OTHER_TEXT, ROOT, as_notebook, changed, tracked_files
from grading import FOLDED, tagged

from engine.errors import end_at_signals, run_command
from engine.files import at_home
from engine.plain_text import InputError


def without_solutions(name, text):
    """A notebook's text without solutions, outputs and what the last run has left behind."""
    notebook = as_notebook(name, text)
    cells = [cell for cell in notebook.cells if not cell.source.startswith(FOLDED)]
    holes = tagged(cells, "exercise")
    if len(notebook.cells) - len(cells) != len(holes):
        raise InputError(
            f"{name}: a folded solution is wanted for each of its {len(holes)} exercises"
        )
    for number, hole in enumerate(holes, start=1):
        if "raise NotImplementedError" not in hole.source:
            raise InputError(
                f"{name}, exercise {number}: it is filled. Put `raise NotImplementedError` back"
            )
    for cell in cells:
        metadata_keys = ("tags", "jupyter")  # the latter says what is folded
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in metadata_keys}
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    notebook.cells = cells
    return nbformat.writes(notebook) + "\n"


def write_copy(out, in_language=lambda name, text: text):
    """Writes the copy to the new folder `out`, all of it or nothing.

    `in_language` gives the text of a file in the copy's language.
    """
    if os.path.lexists(out):
        raise InputError(
            f"{out} exists already, and was not changed. Name another folder, or remove it"
        )
    names = tracked_files()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{out.name}.", dir=out.parent) as temporary:
        copy = Path(temporary) / "copy"
        for name in names:
            path = copy / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, path)
            if name.endswith(OTHER_TEXT):
                text = changed(name, path.read_text(encoding="utf-8-sig"))
                text = without_solutions(name, text) if name.endswith(".ipynb") else text
                path.write_text(in_language(name, text), encoding="utf-8", newline="\n")
        copy.rename(out)


def main(arguments=None):
    """The command line. Returns the exit status."""
    purpose = "Writes a student's copy of the course, without solutions and outputs."
    parser = argparse.ArgumentParser("student.py", description=purpose)
    parser.add_argument("out", nargs="?", type=Path, default="student", help="new folder; student")
    languages = sorted(path.parent.name for path in ROOT.glob("translations/*/terms.json"))
    meaning = "of its prose, as zh_CN; if not given, English"
    parser.add_argument("--language", choices=languages, help=meaning)
    options = parser.parse_args(arguments)
    out = at_home(options.out)
    if options.language:
        from catalogue import check, in_language  # which needs polib

        write_copy(out, partial(in_language, options.language))
        _, missing = check(options.language)
        if missing:
            begin = f"student.py: {len(missing)} blocks stay English, as {missing[0]}"
            print(f"{begin}. Look into translations/{options.language}", file=sys.stderr)
    else:
        write_copy(out)
    print(f"written: {out}. Its README.md says how to begin")
    return 0


if __name__ == "__main__":
    end_at_signals()
    sys.exit(run_command(main, None))

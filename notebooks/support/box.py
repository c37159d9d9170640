"""The model in the box: what `make run` trained, in data_small/model, to look at and translate with
before anything is trained. Lessons and tests ask for it by name; `make model` makes it anew."""

import ast
import functools
import hashlib
import sys

from notebooks import FOLDER, export_cells
from notebooks.support.errors import InputError
from notebooks.support.files import read_json
from notebooks.support.run_folder import BOX, RunFolder
from notebooks.translation import Translator
from utils import ROOT

# what the functions and classes of the lessons are in the course: `make notebooks` writes it
EXPORTS = FOLDER / "support" / "exports.json"
# the lessons that translating uses
TRANSLATING = (*(f"{number:02}" for number in range(1, 12)), "16")


@functools.cache
def the_box():
    """Its `Translator`, on the CPU, where what it computes is the same everywhere.

    Definitions of the lessons that you have changed are used, and named. Where its weights no
    longer fit them, one line says so, and so does every use of what is given back.
    """
    edited = edited_names()
    if edited:
        print(f"the model in the box: your version of {', '.join(edited)} is used")
    try:
        box = Translator.load(BOX, place="cpu")
        box.translate(["Good morning."])
        return box
    except Exception as error:
        if not edited and not isinstance(error, InputError):
            raise
        told = str(error).partition("\n")[0] or type(error).__name__
        missing = NoBox(no_longer_fits(edited, told))
        print(missing.told)
        return missing


def no_longer_fits(edited, told):
    """The line for weights that cannot be used."""
    if not edited:
        return f"the model in the box cannot be opened: {told}"
    undo = "Undo the change to use it, or train a model of your own: make run"
    return f"the model in the box no longer fits your {', '.join(edited)} ({told}). {undo}"


class NoBox:
    """In the place of the box's translator: says in one line, at every use, why there is none."""

    def __init__(self, told):
        self.told = told

    def __getattr__(self, name):
        raise BoxError(self.told)


class BoxError(InputError):
    """There is no model in the box to be used. In a notebook it is one line, not a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def default_run():
    """What is translated with where no run is named: runs/small if it is finished, else the box.

    Says on standard error which.
    """
    run = RunFolder(ROOT / "runs" / "small")
    if run.is_finished():
        print(f"translating with {run.path}", file=sys.stderr)
        return run.path
    steps = "make run trains one of your own" if not run.path.exists() else "it is not finished"
    print(f"translating with the model in the box, {BOX}: no runs/small ({steps})", file=sys.stderr)
    return BOX


# which definitions are no longer the course's


def definitions(path):
    """{name: digest of its text} of the functions and classes in a notebook's export cells."""
    found = {}
    for _, source in export_cells(path):
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
                text = "\n".join(lines[first - 1 : node.end_lineno])
                found[node.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def all_definitions():
    """`definitions` of every lesson that translating uses: {notebook: {name: digest}}."""
    paths = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    return {path.stem: definitions(path) for path in paths if path.name.startswith(TRANSLATING)}


def edited_names():
    """The names of functions and classes that are not as the course has them, or are new."""
    ours = read_json(EXPORTS)
    return [
        name
        for notebook, found in all_definitions().items()
        for name, digest in found.items()
        if ours.get(notebook, {}).get(name) != digest
    ]

"""The notebook is the module: ``notebooks.layer_norm`` is imported from ``05_layer_norm.ipynb``.

Only the cells whose first line is ``#| export`` are executed, in their order, as one module.
Everything else in a notebook (demonstrations, proofs, figures, exercises) runs only in Jupyter.
"""

import importlib.abc
import importlib.util
import json
import linecache
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
EXPORT = "#| export"
# however it is spelt: with a bar in any line, without one in the first
MARK = re.compile(r"^\s*#\s*\|\s*export.*$|\A\s*#\s*exports?\s*$", re.MULTILINE | re.IGNORECASE)


class NotebookError(ImportError):
    """A notebook that cannot be a module; the message says which one and why."""


def export_cells(path):
    """The export cells of the notebook at ``path``: a list of (cell number counted from 0, source).

    Raises NotebookError, naming the notebook, when the file is not a notebook, and the cell, when
    the mark is not its first line or is spelt otherwise.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8-sig"))["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, LookupError, TypeError) as error:
        hint = "Is it cut short, or does it hold the marks of a merge?"
        raise NotebookError(f"{path.name} is not a notebook ({error}). {hint}") from None
    exported = []
    for number, (kind, text) in enumerate(sources):
        if kind == "code" and text.partition("\n")[0].rstrip() == EXPORT:
            exported.append((number, text))
        elif kind == "code" and MARK.search(text):
            hint = f"The cell must begin with {EXPORT!r}"
            raise NotebookError(f"{path.name}, cell {number}: its mark is spelt otherwise. {hint}")
    return exported


def explain_syntax_error(error, path, cells):
    """The same SyntaxError with a message that names the notebook, the cell and the cell's line."""
    line = error.lineno or 1
    for number, text in cells:  # noqa: B007
        length = text.count("\n") + 2  # the cells are joined with one empty line between them
        if line <= length:
            break
        line -= length
    rows = [*text.split("\n"), ""]
    title = next(filter(str.strip, rows[1:]), "")
    where = f"{path.name}, cell {number} ({title!r}), line {line} of the cell"
    place = str(path), error.lineno, error.offset, rows[line - 1]
    return SyntaxError(f"{error.msg}: {where}", place)


class NotebookLoader(importlib.abc.ExecutionLoader):
    """Executes the export cells of one notebook as one module."""

    def __init__(self, path):
        self.path = path

    def is_package(self, fullname):
        return False

    def get_filename(self, fullname):
        return str(self.path)

    def get_source(self, fullname):
        """The text of the module. It also goes into linecache.

        So getsource, ``??`` and tracebacks show the cell's lines and not the notebook's JSON. (An
        entry without a modification time is never thrown out.)
        """
        text = "\n\n".join(text for _, text in export_cells(self.path)) + "\n"
        name = str(self.path)
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        return text

    def get_code(self, fullname):
        try:
            return super().get_code(fullname)
        except SyntaxError as error:
            raise explain_syntax_error(error, self.path, export_cells(self.path)) from None


class NotebookFinder(importlib.abc.MetaPathFinder):
    """Finds ``notebooks.NAME`` in the file ``NN_NAME.ipynb`` of this folder."""

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.rpartition(".")
        if package != __name__ or name.startswith("__"):
            return None
        for file in FOLDER.glob(f"[0-9][0-9]_{name}.ipynb"):
            loader = NotebookLoader(file)
            return importlib.util.spec_from_file_location(fullname, file, loader=loader)
        return None  # Python says that there is no such module


sys.meta_path.append(NotebookFinder())

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
# a line that is IPython's and not Python's: ``%time f()``, ``f?``
MAGIC = re.compile(r"[%!?]|[\w.]+\?{1,2}$|[\w, ]+= ?[%!]")


class NotebookError(ImportError):
    """A notebook that cannot be a module; the message says which one and why."""


def export_cells(path):
    """The export cells of the notebook at ``path``: a list of (cell number counted from 0, source).

    Raises NotebookError, naming the notebook, when the file is not a notebook, and the cell, when
    the mark is not its first line or is spelt otherwise.
    """
    take = "Take a whole copy of it"
    try:
        cells = json.loads(path.read_text(encoding="utf-8-sig"))["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except OSError as error:
        raise NotebookError(f"{path.name} cannot be read ({error.strerror}). {take}") from None
    except (ValueError, LookupError, TypeError) as error:
        hint = f"Is it cut short, or does it hold the marks of a merge? {take}"
        raise NotebookError(f"{path.name} is not a notebook ({error}). {hint}") from None
    exported = []
    for number, (kind, text) in enumerate(sources):
        where = f"{path.name}, cell {number}"
        marked = text.partition("\n")[0].rstrip() == EXPORT
        if marked and kind != "code":
            hint = "In JupyterLab select it and press Y"
            raise NotebookError(f"{where}: begins with {EXPORT!r}, and is no code cell. {hint}")
        if marked:
            exported.append((number, text))
        elif kind == "code" and MARK.search(text):
            hint = f"The cell must begin with {EXPORT!r}"
            raise NotebookError(f"{where}: its mark is no first line, or spelt otherwise. {hint}")
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
    hint = error.msg
    if MAGIC.match(rows[line - 1].strip()):
        hint = f"{error.msg}; a magic or shell command cannot stand in an export cell"
    where = f"{path.name}, cell {number} ({title!r}), line {line} of the cell"
    return SyntaxError(f"{hint}: {where}", (str(path), error.lineno, error.offset, rows[line - 1]))


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


PROGRAMS = {"training": "train.py", "translation": "translate.py"}  # instead of `python -m`


class NotebookFinder(importlib.abc.MetaPathFinder):
    """Finds ``notebooks.NAME`` in the file ``NN_NAME.ipynb`` of this folder."""

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.rpartition(".")
        if package != __name__ or name.startswith("__"):
            return None
        if sys.argv[:1] == ["-m"] and name in PROGRAMS:  # Python looks for what to run
            print(f"Type instead: python {PROGRAMS[name]} ...", file=sys.stderr)
            raise SystemExit(2)
        matches = sorted(FOLDER.glob(f"[0-9][0-9]_{name}.ipynb"))
        if len(matches) == 1:
            return importlib.util.spec_from_file_location(
                fullname, matches[0], loader=NotebookLoader(matches[0])
            )
        names = ", ".join(file.name for file in matches) or "none"
        raise NotebookError(
            f"'{fullname}' needs exactly one notebook NN_{name}.ipynb in {FOLDER}; found: {names}",
            name=fullname,
        )


sys.meta_path.append(NotebookFinder())

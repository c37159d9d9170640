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
# however it is spelt: with a bar in any line; as the first also with more behind it, or no bar
MARK = re.compile(r"^\s*#\s*\|\s*export\s*$", re.MULTILINE | re.IGNORECASE)
FIRST = re.compile(r"\s*#\s*(\|\s*export.*|exports?i?)\s*$", re.IGNORECASE)
TAKE = "Take a whole copy of it"


class NotebookError(ImportError):
    """A notebook that cannot be a module; the message says which one and why."""


def export_cells(path):
    """The export cells of the notebook at ``path``: a list of (cell number counted from 0, source).

    Raises NotebookError, naming the notebook, when the file is not a notebook, and the cell, when
    the mark is not its first line or is spelt otherwise.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        if "worksheets" in content:
            hint = "Open it in JupyterLab and save it"
            raise NotebookError(f"{path.name} has the format of 2015 (nbformat 3). {hint}")
        cells = content["cells"]
        sources = [
            (number, cell["cell_type"], "".join(cell["source"]))
            for number, cell in enumerate(cells)
        ]
    except OSError as error:
        raise NotebookError(f"{path.name} cannot be read ({error.strerror}). {TAKE}") from None
    except (ValueError, LookupError, TypeError) as error:
        hint = f"Is it cut short, or does it hold the marks of a merge? {TAKE}"
        raise NotebookError(f"{path.name} is not a notebook ({error}). {hint}") from None
    for number, kind, text in sources:
        if kind != "code" and text.startswith(EXPORT):
            wrong = f"{path.name}, cell {number}: begins with {EXPORT!r}, and is no code cell"
            raise NotebookError(f"{wrong}. In JupyterLab select it and press Y")
    code = [(number, text) for number, kind, text in sources if kind == "code"]
    for number, text in code:
        first = text.partition("\n")[0]
        if first.rstrip() != EXPORT and (FIRST.match(first) or MARK.search(text)):
            wrong = f"{path.name}, cell {number}: its mark is no first line, or spelt otherwise"
            raise NotebookError(f"{wrong}. The cell must begin with {EXPORT!r}")
    return [(number, text) for number, text in code if text.startswith(EXPORT)]


def explain_syntax_error(error, path, cells):
    """The same SyntaxError with a message that names the notebook, the cell and the cell's line."""
    line = error.lineno or 1
    for number, text in cells:  # noqa: B007
        length = text.count("\n") + 2  # the cells are joined with one empty line between them
        if line <= length:
            break
        line -= length
    title = next((row for row in text.splitlines()[1:] if row.strip()), "")
    hint = error.msg
    if is_magic(text, line):
        hint = f"{error.msg}; a magic or shell command cannot stand in an export cell"
    where = f"{path.name}, cell {number} ({title!r}), line {line} of the cell"
    return SyntaxError(f"{hint}: {where}", (str(path), error.lineno, error.offset, error.text))


def is_magic(text, line):
    """Whether the line (counted from 1) is IPython's and not Python's: ``%time f()``, ``f?``."""
    row = (text.splitlines()[line - 1 : line] or [""])[0].strip()
    return bool(re.match(r"[%!?]|[\w.]+\?{1,2}$|[\w, ]+= ?[%!]", row))


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
        lines = text.splitlines(keepends=True)
        linecache.cache[name] = (len(text), None, lines, name)
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

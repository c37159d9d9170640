"""Which functions and classes of the lessons are still those of the course."""

import ast
import functools
import hashlib

from engine.files import read_json
from notebooks import FOLDER, export_cells
from utils import ROOT

# what the functions and classes of the lessons are in the course: `make notebooks` writes it
DEFINITIONS = ROOT / "engine" / "definitions.json"
# the lessons that translating uses
TRANSLATING = (*(f"{number:02}" for number in range(1, 12)), "16")


def definitions(path):
    """{name: digest} of the functions and classes in a notebook's export cells.

    Of what they do: comments, docstrings and line ends are left out.
    """
    digests = {}
    for _, source in export_cells(path):
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.unparse(without_docstrings(node))
                digests[node.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return digests


def without_docstrings(tree):
    """The tree of a definition, changed: none of its functions and classes has a docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def code_digest(*paths):
    """A digest of all code of modules and notebooks, docstrings and comments left out."""
    parts = []
    for path in paths:
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            source = "\n".join(source for _, source in export_cells(path))
        parts.append(ast.unparse(without_docstrings(ast.parse(source))))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def translating_lessons():
    """The notebooks that translating uses, in their order."""
    paths = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    return [path for path in paths if path.name.startswith(TRANSLATING)]


def all_definitions():
    """`definitions` of every lesson that translating uses: {notebook: {name: digest}}."""
    return {path.stem: definitions(path) for path in translating_lessons()}


@functools.cache
def edited_names():
    """The names of functions and classes that are not as the course has them, or are new."""
    ours = read_json(DEFINITIONS)
    return [
        name
        for notebook, digests in all_definitions().items()
        for name, digest in digests.items()
        if ours.get(notebook, {}).get(name) != digest
    ]

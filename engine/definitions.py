"""Which functions and classes of the lessons are still those of the course."""

import ast
import functools
import hashlib
import re

from engine.files import read_json
from notebooks import FOLDER, export_cells
from utils import ROOT

# what the functions and classes of the lessons are in the course: `make notebooks` writes it
DEFINITIONS = ROOT / "engine" / "definitions.json"
# the lessons that translating uses, and with the loss those of which production has other forms
TRANSLATING = (*(f"{number:02}" for number in range(1, 12)), "16")
RECORDED = (*TRANSLATING, "13")
LESSON = re.compile(r"\d\d_[a-z_]+")  # JupyterLab's copies, 16_translation-Copy1, are none


def definitions(path):
    """{name: digest} of the functions, classes and constants in a notebook's export cells.

    Of what they do: comments, docstrings and line ends are left out.
    """
    digests = {}
    for _, source in export_cells(path):
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.unparse(without_docstrings(node))
                digests[node.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = ast.unparse(node.value).encode()
                digests[node.targets[0].id] = hashlib.sha256(value).hexdigest()[:16]
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


def lessons(numbers=("",)):
    """The notebooks of these lessons, of all by default, in their order."""
    paths = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    paths = [path for path in paths if LESSON.fullmatch(path.stem)]
    return [path for path in paths if path.name.startswith(tuple(numbers))]


def all_definitions(numbers=RECORDED):
    """`definitions` of these lessons: {notebook: {name: digest}}."""
    return {path.stem: definitions(path) for path in lessons(numbers)}


@functools.cache
def edited_names(numbers=TRANSLATING):
    """What is defined in these lessons otherwise than in the course, or is new: names."""
    ours = read_json(DEFINITIONS)
    return [
        name
        for notebook, digests in all_definitions(numbers).items()
        for name, digest in digests.items()
        if ours.get(notebook, {}).get(name) != digest
    ]

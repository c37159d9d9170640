"""The exercises of the lessons, and what a check says about an answer."""

import ast
import importlib
import re
from functools import cache
from typing import NamedTuple

import nbformat
from student import FOLDED

import utils


class Exercise(NamedTuple):
    """An exercise of the course: three pieces of code."""

    hole: str
    check: str
    solution: str


def tagged(cells, tag):
    """The cells that have this tag."""
    return [cell for cell in cells if tag in cell.metadata.get("tags", ())]


@cache
def exercises(path):
    """The exercises of a notebook of the course, in their order."""
    cells = nbformat.read(path, as_version=4).cells
    solutions = [
        re.search(r"```python\n(.*?)```", cell.source, re.DOTALL)[1]
        for cell in cells
        if cell.source.startswith(FOLDED)
    ]
    holes, checks = ([one.source for one in tagged(cells, tag)] for tag in ("exercise", "check"))
    return [Exercise(*parts) for parts in zip(holes, checks, solutions, strict=True)]


def namespace(path):
    """What an answer finds: its lesson's module, and what its cells import and define."""
    names = {**vars(importlib.import_module(f"notebooks.{path.stem[3:]}")), "__name__": "__main__"}
    cells = nbformat.read(path, as_version=4).cells
    special = tagged(cells, "exercise")
    code = [cell.source for cell in cells if cell.cell_type == "code" and cell not in special]
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    for node in (node for source in code for node in statements(source)):
        if isinstance(node, kinds) and getattr(node, "name", "") != "_":
            run(node, names)
    return names


def statements(source):
    """The statements of a cell; none of one that is for Jupyter."""
    try:
        return ast.parse(source).body
    except SyntaxError:
        return []


def run(node, names):
    """Runs a statement. One that fails is left out: the check tells if it is needed."""
    try:
        exec(compile(ast.Module([node], []), "<cell>", "exec"), names)
    except Exception:
        pass


def verdict(names, answer, check):
    """What a check says about an answer."""
    for node in statements(answer):
        run(node, names)
    exec(check, names | {"check": utils.check}, found := {})
    return found["_"]

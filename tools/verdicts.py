"""What a check says about a student's answer: the code that an answer finds, and that it runs.

An answer may use what other cells of its notebook import, define and assign.
"""

import ast
import importlib
import re
from unittest.mock import MagicMock


def statements(source):
    """A cell's statements. Magics, which are no Python, become calls of `get_ipython`."""
    # imported here, as tools/student.py needs nothing but nbformat
    from IPython.core.inputtransformer2 import TransformerManager

    first, _, rest = source.lstrip().partition("\n")
    if re.match("%%(time|timeit|capture|prun)\\b", first):  # it runs the cell, too
        source = rest
    source = re.sub(r"^(\s*)%time +", r"\1", source, flags=re.MULTILINE)  # so does this a line
    return ast.parse(TransformerManager().transform_cell(source)).body


def readable(source):
    """The statements of a student's cell, which may be anything: none where it is no Python."""
    try:
        return statements(source)
    except Exception:
        return []


def is_check(statement):
    """Whether this is the function of asserts that `@check(...)` runs at once."""
    return getattr(statement, "name", "") == "_"


def run_each(nodes, names):
    """Runs statements one by one. One that fails is left out: the check tells if it is needed.

    Returns how they failed.
    """
    errors = []
    for node in nodes:
        try:
            exec(compile(ast.Module([node], []), "<cell>", "exec"), names)
        except (Exception, SystemExit) as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors


def namespace(module, cells):
    """What an answer finds: its notebook's whole module, and what these cells import and define."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    names = {**vars(importlib.import_module(f"notebooks.{module}")), "__name__": "__main__"}
    names |= {"get_ipython": MagicMock(), "display": print}  # magics and pictures are for Jupyter
    nodes = [node for cell in cells for node in readable(cell) if isinstance(node, kinds)]
    run_each([node for node in nodes if not is_check(node)], names)
    return names


def run_cells(cells, names):
    """Runs a student's own cells before the answer, as Jupyter does.

    They may fill a list, or set an attribute, of which the answer's names say nothing; and a cell
    behind the answer may use a name again.
    """
    for cell in cells:
        run_each([node for node in readable(cell) if not is_check(node)], names)


def verdict(names, answer, source, check, cells=()):
    """What the check whose cell is `source` says about an answer; `check` is the course's own.

    A name that the answer lacks is looked for among what other `cells` assign.
    """
    try:
        errors = run_each(statements(answer), names)
    except SyntaxError as error:
        line = (error.text or "").strip()
        return f"not yet. Line {error.lineno} is no Python ({error.msg}): {line}"
    names["check"] = check  # an answer may have defined one, too
    nodes = [node for node in statements(source) if is_check(node)]
    expected = None
    while True:
        exec(compile(ast.Module(nodes, []), "<check>", "exec"), names)
        text = str(names["_"])
        missing = re.search(r"NameError: name '(\w+)' is not defined", text)
        if not missing or missing[1] == expected:
            break
        expected = missing[1]
        assign(expected, cells, names)
    if errors and text.startswith("not yet"):
        text += f" (before it a line of the answer failed: {errors[0]})"
    return text


def assign(name, cells, names, before=frozenset()):
    """Runs what these cells assign to a name, and before it to the names that this needs.

    It may stand inside an `if`, `with` or `try`.
    """
    before |= {name}
    nodes = [node for cell in cells for node in readable(cell)]
    for node in (node for node in nodes if name in names_in(node, ast.Store)):
        for used in free_names(node) - names.keys() - before:
            assign(used, cells, names, before)
        run_each([node], names)


def free_names(node):
    """The names that a statement reads and does not bind itself, as a lambda or comprehension."""
    inner = [part.target for part in ast.walk(node) if isinstance(part, ast.comprehension)]
    bound = set().union(*(names_in(target, ast.Store) for target in inner))
    bound |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    return names_in(node, ast.Load) - bound


def names_in(node, context):
    """The names that a statement reads (ast.Load) or gives a value (ast.Store)."""
    parts = ast.walk(node)
    return {part.id for part in parts if isinstance(part, ast.Name) and type(part.ctx) is context}

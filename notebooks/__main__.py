"""`python -m notebooks > transformer.py`: the export cells of all lessons as one file of Python.

The file needs no other of the course. `python transformer.py --help` says how it trains. Cells that
begin with `#| one-file` go only there: a training loop in one piece (lesson 15).
"""

import argparse
import ast
import builtins
import re
import sys

from engine.definitions import edited_names, imported_files, is_own
from notebooks import EXPORT, FOLDER, NotebookError, explain_syntax_error, export_cells

MARKS = (EXPORT, "#| one-file")
# in which other names live than outside
SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


class Refused(Exception):
    """Lessons that cannot be one file; the message says which and why."""


def without_imports(name, source):
    """A module's text without docstring and imports, and its imports: (text, set of lines).

    Imports of lessons are dropped, since all of them become one file; of a name that they give
    anew an assignment remains.
    """
    lines = source.split("\n")
    imports = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and not of_ours(node):
            if any(is_own(file) for file in imported_files(node, FOLDER / "__init__.py")):
                raise Refused(f"{name}: `{ast.unparse(node)}` is no lesson's code. Write it there")
        if node not in tree.body and of_ours(node):
            where = "stands inside other code. Put it at the top"
            raise Refused(f"{name}: `{ast.unparse(node)}` {where}")
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            where = "may give a name of another lesson anew. Import what you need"
            raise Refused(f"{name}: `{ast.unparse(node)}` {where}")
    for number, node in enumerate(tree.body):
        imported = isinstance(node, ast.Import | ast.ImportFrom)
        constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        docstring = number == 0 and constant
        if not imported and not docstring:
            continue
        instead = ""
        if of_ours(node):
            check_lesson(name, node)
            renamed = [f"{one.asname} = {one.name}" for one in node.names if one.asname]
            instead = "; ".join(renamed)
        elif imported:
            imports.add(ast.unparse(node))
        last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        if not instead:
            last = last.lstrip("; ")
        first = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        lines[node.end_lineno - 1] = first + instead + last
        lines[node.lineno - 1 : node.end_lineno - 1] = [""] * (node.end_lineno - node.lineno)
    return "\n".join(line for line in lines if line not in MARKS).strip("\n"), imports


def of_ours(node):
    """Whether a statement imports from this folder, where the lessons are."""
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == "notebooks" for alias in node.names)
    module = str(getattr(node, "module", None)).partition(".")[0]
    return isinstance(node, ast.ImportFrom) and bool(node.level or module == "notebooks")


def check_lesson(name, node):
    """Raises Refused unless an import in the lesson `name` takes from one that comes before it."""
    lesson = str(getattr(node, "module", None)).removeprefix("notebooks.")
    lessons = [path.stem for path in FOLDER.glob(f"[0-9][0-9]_{lesson}.ipynb")]
    if not isinstance(node, ast.ImportFrom) or not lessons:
        raise Refused(f"{name}: `{ast.unparse(node)}` is no lesson's code. Write it there")
    if lessons[0] >= name:
        raise Refused(f"{name}: `{ast.unparse(node)}` is of {lessons[0]}, which comes later")


def lesson_source(path):
    """The code of a lesson's cells. Raises Refused, naming the cell, if it is no Python."""
    cells = export_cells(path, MARKS)
    try:
        ast.parse("\n\n".join(source for _, source in cells))
    except SyntaxError as error:
        raise Refused(explain_syntax_error(error, path, cells).msg) from None
    return "\n\n\n".join(source for _, source in cells)


def one_file():
    """The text of the file: its docstring, all imports, the lessons in order, the program."""
    lessons = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    sources = {path.stem: lesson_source(path) for path in lessons}
    program = (FOLDER / "support" / "program.py").read_text(encoding="utf-8")
    texts = []
    imports = set()
    defined = {}
    for name, source in [*sources.items(), ("program", program)]:
        text, needed = without_imports(name, source)
        for other in assigned(ast.parse(text).body):
            check_builtin(other, f"defined in {name}")
            if defined.setdefault(other, name) != name:
                raise Refused(f"{other} is defined in {defined[other]} and in {name}. Rename one")
        texts.append(f"# {name}\n\n{text}\n")
        imports |= needed
    check_imports(imports, defined)
    docstring = ast.get_docstring(ast.parse(program), clean=False)
    head = "\n".join(sorted(imports, key=place))
    text = "\n\n".join([f'"""{docstring}"""\n\n{head}\n', *texts])
    return re.sub(r"\n{4,}", "\n\n\n", text)


def assigned(nodes):
    """The names that statements of a module define."""
    names = set()
    for node in nodes:
        if isinstance(node, SCOPES):
            names |= {node.name} if hasattr(node, "name") else set()
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            names |= assigned(ast.iter_child_nodes(node))
    return names


def check_builtin(name, where):
    """Raises Refused for one of Python's own: all lessons would use the new one."""
    if hasattr(builtins, name):
        raise Refused(f"{name}, {where}, is a name of Python's own. Rename it")


def check_imports(imports, defined):
    """Raises Refused if a name that is imported means something else elsewhere."""
    meanings = {}
    for line in sorted(imports):
        (node,) = ast.parse(line).body
        module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            whole = module or alias.asname
            imported = alias.name if whole else alias.name.partition(".")[0]  # `import a.b` binds a
            name = alias.asname or imported
            check_builtin(name, f"imported by `{line}`")
            meaning = f"{module}{imported}"
            if name in defined:
                raise Refused(f"{name} is defined in {defined[name]}, and imported. Rename one")
            if meanings.setdefault(name, meaning) != meaning:
                raise Refused(
                    f"{name} is imported as {meanings[name]} and as {meaning}. Rename one"
                )


def place(line):
    """Where an import stands: `from __future__` first, then `import`, then `from`."""
    return not line.startswith("from __future__"), line.startswith("from"), line


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m notebooks", description=__doc__).parse_args()
    try:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as output:
            output.write(one_file())
        if edited := edited_names(("15",)):
            where = f"edited in lesson 15 and not used in the file: {', '.join(edited)}"
            hint = "Its loop stands in the cells that begin with #| one-file"
            print(f"{where}. {hint}", file=sys.stderr)
    except (Refused, NotebookError) as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: not written ({error.strerror}). Give another place")

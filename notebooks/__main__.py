"""`python -m notebooks > transformer.py`: the export cells of all lessons as one file of Python.

The file needs no other of the course. `python transformer.py --help` says how it trains. Cells that
begin with `#| one-file` go only there: a training loop in one piece (lesson 15).
"""

import ast
import re
import sys

from notebooks import EXPORT, FOLDER, export_cells

MARKS = (EXPORT, "#| one-file")


def without_imports(source):
    """A module's text without docstring and imports, and its imports: (text, set of lines).

    Imports of lessons are dropped, since all of them become one file.
    """
    lines = source.split("\n")
    imports = set()
    for number, node in enumerate(ast.parse(source).body):
        docstring = number == 0 and isinstance(node, ast.Expr)
        imported = isinstance(node, ast.Import | ast.ImportFrom)
        if docstring or imported:
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
        if imported and not str(getattr(node, "module", "")).startswith("notebooks."):
            imports.add(ast.unparse(node))
    kept = [line for line in lines if line not in MARKS]
    return "\n".join(kept).strip("\n"), imports


def one_file():
    """The text of the file: its docstring, all imports, the lessons in order, the program."""
    lessons = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    sources = {
        path.stem: "\n\n\n".join(source for _, source in export_cells(path, MARKS))
        for path in lessons
    }
    program = (FOLDER / "support" / "program.py").read_text(encoding="utf-8")
    texts = []
    imports = set()
    for name, source in [*sources.items(), ("program", program)]:
        text, needed = without_imports(source)
        texts.append(f"# {name}\n\n{text}\n")
        imports |= needed
    docstring = ast.get_docstring(ast.parse(program), clean=False)
    head = "\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line)))
    text = "\n\n".join([f'"""{docstring}"""\n\n{head}\n', *texts])
    return re.sub(r"\n{4,}", "\n\n\n", text)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    print(one_file(), end="")

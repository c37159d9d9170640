"""`python -m notebooks > transformer.py`: the export cells of all lessons as one file of Python.

The file needs no other of the course: it trains and translates (`python transformer.py --help`).
"""

import ast

from notebooks import EXPORT, FOLDER, export_cells


def without_lessons(source):
    """A module's text without its imports of lessons: in the one file all stand before it."""
    lines = source.split("\n")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("notebooks."):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line for line in lines if line.rstrip() != EXPORT)


def one_file():
    """The text of the file: the lessons in their order, and a short program."""
    program = (FOLDER / "support" / "program.py").read_text(encoding="utf-8")
    docstring, _, program = program.partition('"""\n\n')
    parts = [f'{docstring}"""']
    for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb")):
        cells = "\n\n".join(source for _, source in export_cells(path))
        parts.append(f"# {path.stem}\n{without_lessons(cells)}")
    return "\n\n\n".join(part.strip("\n") for part in [*parts, without_lessons(program)]) + "\n"


if __name__ == "__main__":
    print(one_file(), end="")

"""What is read in code and computes nothing: comments, docstrings, hints of checks.

A message is a whole docstring, the comments of lines that follow each other, the name of an
exercise, or a text that its check may show; in an f-string the fields stand as they are written.
"""

import ast
import inspect
import io
import json
import re
import textwrap
import tokenize
from typing import NamedTuple

WORDS = re.compile(r"(?<!\w)[a-z]{2,}(?!\w)|Exercise \d")  # no names, no shapes
ORDERS = re.compile(r"#\s*(\||noqa|fmt:|isort:|type:|%%)")  # comments that tools read
WIDTH = 100  # columns of a line of comments; a Chinese character takes two


class Place(NamedTuple):
    """A message in a cell: where it begins and ends, in characters, and how it is written there."""

    begin: int
    end: int
    text: str
    written: object  # of a text, as source code


def places(source):
    """The messages of a cell in their order; none where it is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return []
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line, column):
        """The place in the source of a column that is counted in bytes, as `ast` does."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    messages = [
        Place(at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset), *rest)
        for node, *rest in docstrings(tree) + hints(tree)
    ]
    messages += comments(source, starts)
    return sorted(place for place in messages if WORDS.search(place.text))


def docstrings(tree):
    """(node, text, how it is written) of each docstring."""
    owners = ast.FunctionDef | ast.ClassDef
    nodes = [node for node in ast.walk(tree) if isinstance(node, owners)]
    bodies = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    return [
        (body.value, inspect.cleandoc(body.value.value), docstring_writer(body.col_offset))
        for body in bodies
    ]


def docstring_writer(indent):
    """How a docstring that begins at this column is written."""

    def written(text):
        text = text.replace("\\", "\\\\")
        end = "\n" + " " * indent if "\n" in text else ""  # the quotes stand on a line of their own
        return f'"""{textwrap.indent(text, " " * indent).lstrip()}{end}"""'

    return written


def hints(tree):
    """(node, text, how it is written) of each text that an assert of a check may show."""
    nodes = [node for check in filter(is_check, ast.walk(tree)) for node in ast.walk(check)]
    shown = [node.msg for node in nodes if isinstance(node, ast.Assert) and node.msg]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for call in calls:
        if ast.unparse(call.func) in ("check", "print"):  # the name of an exercise, and its verdict
            shown += call.args
    names = set().union(*(names_in(node, ast.Load) for node in shown))
    for node in nodes:  # `for hint, answer in others.items():`
        if isinstance(node, ast.For) and names & names_in(node.target, ast.Store):
            names |= names_in(node.iter, ast.Load)
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AugAssign) and names & names_in(node, ast.Store):
            shown.append(node.value)
    return [hint for node in shown for hint in texts_in(node)]


def is_check(node):
    """Whether this is a function of asserts below `@check(...)`, or `check` itself."""
    if not isinstance(node, ast.FunctionDef):
        return False
    decorators = (ast.unparse(one) for one in node.decorator_list)
    return node.name == "check" or any(one.startswith("check(") for one in decorators)


def texts_in(node):
    """The texts of an expression; fields of an f-string are part of it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [(node, node.value, text_writer(""))]
    if isinstance(node, ast.JoinedStr):
        return [(node, "".join(map(part_of_text, node.values)), text_writer("f"))]
    if isinstance(node, ast.Call | ast.Compare | ast.Subscript):
        return []  # its texts are no words for a reader
    return [hint for child in ast.iter_child_nodes(node) for hint in texts_in(child)]


def part_of_text(part):
    """A part of an f-string as it is written between the quotes."""
    if isinstance(part, ast.Constant):
        return part.value.replace("{", "{{").replace("}", "}}")
    return ast.unparse(ast.JoinedStr([part]))[2:-1]


def text_writer(prefix):
    """How a string of Python, or with "f" an f-string, is written."""
    return lambda text: prefix + json.dumps(text, ensure_ascii=False)


def comments(source, starts):
    """The comments of a cell; lines that hold nothing else and follow each other are one."""
    messages = []
    previous = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or ORDERS.match(token.string):
            continue
        (line, column), text = token.start, token.string.lstrip("#").strip()
        alone = not token.line[:column].strip()
        begin, end = (starts[row - 1] + place for row, place in (token.start, token.end))
        if alone and previous == (line - 1, column):
            before = messages.pop()
            messages.append(Place(before.begin, end, f"{before.text} {text}", before.written))
        else:
            messages.append(Place(begin, end, text, comment_writer(column if alone else None)))
        previous = (line, column) if alone else None
    return messages


def comment_writer(column):
    """How a comment is written that stands alone at this column, or, None, behind code."""

    def written(text):
        lines = [text] if column is None else wrapped(text, WIDTH - column - 2)
        return f"\n{' ' * (column or 0)}".join(f"# {line}" for line in lines)

    return written


def wrapped(text, width):
    """A text in lines of at most so many columns, broken at blanks and behind Chinese signs."""
    lines = [""]
    for part in re.findall(r"[^\s\u2e80-\uffef]+\s*|[\u2e80-\uffef]\s*", text):
        columns = sum(1 + (sign >= "\u2e80") for sign in (lines[-1] + part).rstrip())
        closing = part[0] in "，。；：？！、）》”"
        if columns > width and lines[-1] and not closing:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def names_in(node, context):
    """The names that a node reads (ast.Load) or gives a value (ast.Store)."""
    parts = ast.walk(node)
    return {part.id for part in parts if isinstance(part, ast.Name) and type(part.ctx) is context}


def code_messages(source):
    """The texts of a cell that are read."""
    return [message.text for message in places(source)]


def translated_code(source, words):
    """The cell with those of its texts in another language that `words` has."""
    for begin, end, text, written in reversed(places(source)):
        if text in words:
            source = source[:begin] + written(words[text]) + source[end:]
    return source

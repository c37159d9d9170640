"""Which functions and classes of the lessons are still those of the course."""

import ast
import functools
import hashlib
import sys

from engine.files import read_json
from notebooks import FOLDER, export_cells
from utils import ROOT

# what the functions and classes of the lessons are in the course: `make notebooks` writes it
DEFINITIONS = ROOT / "engine" / "definitions.json"
# the lessons that translating uses; with the loss those of which production has other forms; and
# with the schedule those whose options depend on them
TRANSLATING = (*(f"{number:02}" for number in range(1, 12)), "16")
WITH_OTHER_FORMS = (*TRANSLATING, "13")
RECORDED = (*WITH_OTHER_FORMS, "14")
# and a lesson's number: what is no function, class or constant, and may patch one
OTHER = "other code of lesson "
# by their names: a reader's copies and notebooks of his own, beside them, are none
LESSONS = (
    "setup data_preparation input_embedding positional_encoding multi_head_attention layer_norm "
    "feed_forward sublayer_connection encoder decoder transformer make_model label_smoothing loss "
    "optimizer_schedule training translation"
).split()


def definitions(path, known=()):
    """{name: digest} of the functions, classes and constants in a notebook's export cells.

    Of what they do: comments, docstrings and line ends are left out. All other statements but
    imports have one digest together, under OTHER and the lesson's number, and so has an import of a
    reader's own module, which may do anything. Of other imports those count that may replace a
    definition: from PyTorch and Python's own library only under one of the names `known`.
    """
    digests = {}
    other = []
    for _, source in export_cells(path):
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.unparse(without_docstrings(node))
                digests[node.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = ast.unparse(node.value).encode()
                digests[node.targets[0].id] = hashlib.sha256(value).hexdigest()[:16]
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                other.append(ast.unparse(node))
            else:
                module = getattr(node, "module", None)
                foreign = isinstance(node, ast.ImportFrom) and is_foreign(module or ".")
                for alias in node.names:
                    name = alias.asname or alias.name
                    origin = f"{module}.{alias.name}" if module else alias.name
                    if isinstance(node, ast.Import) and is_own(alias.name):
                        other.append(ast.unparse(node))
                    elif foreign or name in known:
                        key = f"{name}, imported by lesson {path.name[:2]}"
                        digests[key] = hashlib.sha256(origin.encode()).hexdigest()[:16]
    if other:
        text = "\n".join(other).encode()
        digests[OTHER + path.name[:2]] = hashlib.sha256(text).hexdigest()[:16]
    return digests


def is_own(module):
    """Whether it is a file of a reader's own in the course's folder."""
    ours = module.partition(".")[0] in ("engine", "notebooks", "utils")
    return not ours and (ROOT / f"{module.replace('.', '/')}.py").is_file()


def is_foreign(module):
    """Whether it is a module of the course or of somebody else."""
    root = module.partition(".")[0]
    return root not in sys.stdlib_module_names and root not in ("torch", "regex", "tokenizers")


def without_docstrings(tree):
    """The tree of a definition, changed: none of its functions and classes has a docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


@functools.lru_cache(maxsize=64)
def bare_code(source):
    """The code without docstrings and comments. Kept: each training and each score asks for it."""
    return ast.unparse(without_docstrings(ast.parse(source)))


def own_modules(source):
    """The files of a reader's own, in the course's folder, that this code imports."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return [ROOT / f"{name.replace('.', '/')}.py" for name in sorted(names) if is_own(name)]


def code_digest(*paths):
    """A digest of all code of modules and notebooks, docstrings and comments left out.

    Of a reader's own modules, which notebooks import, too.
    """
    parts = []
    for path in paths:
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            source = "\n".join(source for _, source in export_cells(path))
            parts += [bare_code(own.read_text(encoding="utf-8")) for own in own_modules(source)]
        parts.append(bare_code(source))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def lessons_changed(made):
    """Whether a run, by its made.json, was begun with other lessons. Older ones do not say."""
    return made.get("lessons") not in (None, code_digest(*lessons()))


def lessons(numbers=("",)):
    """The notebooks of these lessons, of all by default, in their order."""
    paths = [FOLDER / f"{number:02}_{name}.ipynb" for number, name in enumerate(LESSONS)]
    return [path for path in paths if path.name.startswith(tuple(numbers))]


def all_definitions(numbers=RECORDED):
    """`definitions` of these lessons: {notebook: {name: digest}}."""
    return {path.stem: definitions(path) for path in lessons(numbers)}


@functools.cache
def edited_names(numbers=TRANSLATING):
    """What is defined in these lessons otherwise than in the course, is new or missing: names."""
    ours = read_json(DEFINITIONS)
    names = []
    for path in lessons(numbers):
        before = ours.get(path.stem, {})
        digests = definitions(path, known=before)
        changed = (name for name in [*digests, *before] if digests.get(name) != before.get(name))
        names += dict.fromkeys(changed)
    return names


def are_ours(*names, numbers=WITH_OTHER_FORMS):
    """Whether these definitions are the course's own: not edited, nor perhaps patched.

    A statement that is no definition, in a lesson of these numbers, may patch any.
    """
    edited = edited_names(numbers)
    return not any(one.partition(", ")[0] in names or one.startswith(OTHER) for one in edited)


# what exported programs have other forms of: how text becomes ids, and the searches
REPLACED = {
    "WordSegmenter",
    "CharacterSegmenter",
    "SubwordSegmenter",
    "Vocabulary",
    "Tokenizer",
    "add_marks",
    "length_limits",
    "next_logits",
    "greedy_search",
}


def replaced_names():
    """The edited definitions that an exported program would not follow, their names."""
    names = [
        name
        for name in edited_names(("01", "10"))
        if name.partition(", ")[0] in REPLACED or name.startswith(OTHER)
    ]
    return names + [name for name in edited_names(("16",)) if name != "bleu"]


def tell_unused(instead, *names):
    """Says on stderr which of these definitions of lesson 01 were edited: `instead` is used."""
    edited = [name for name in edited_names(("01",)) if name in names]
    if edited:
        where = f"edited in lesson 01 and not used here: {', '.join(edited)}"
        print(f"{where}. Edit {instead}, which does its work", file=sys.stderr)

"""Which functions and classes of the lessons are still those of the course."""

import ast
import functools
import hashlib
import importlib.util
import sys
import sysconfig
from pathlib import Path

from engine.files import read_json
from notebooks import FOLDER, export_cells
from utils import ROOT

# what the functions and classes of the lessons are in the course: `make notebooks` writes it
DEFINITIONS = ROOT / "engine" / "definitions.json"
# the lessons that translating uses; with the loss those of which production has other forms; and
# with schedule and loop those whose edits a run names
TRANSLATING = (*(f"{number:02}" for number in range(1, 12)), "16")
WITH_OTHER_FORMS = (*TRANSLATING, "12", "13")
RECORDED = (*WITH_OTHER_FORMS, "14", "15")
TRAINING = tuple(number for number in RECORDED if number != "16")
# and a lesson's number: what is no function, class or constant, and may patch one
OTHER = "other code of lesson "
# where the code of libraries is: beside PyTorch, and Python's own
LIBRARIES = (
    str(Path(importlib.util.find_spec("torch").origin).parents[1]),
    sysconfig.get_paths()["stdlib"],
)
# by their names: a reader's copies and notebooks of his own, beside them, are none
LESSONS = (
    "setup data_preparation input_embedding positional_encoding multi_head_attention layer_norm "
    "feed_forward sublayer_connection encoder decoder transformer make_model label_smoothing loss "
    "optimizer_schedule training translation"
).split()


def definitions(path, known=()):
    """{name: digest} of the functions, classes and constants in a notebook's export cells.

    Of what they do: comments, docstrings and line ends are left out. All other statements but
    imports have one digest together, under OTHER and the lesson's number, with those of a reader's
    own modules, which may patch anything. Of imports those count that may replace a definition:
    from PyTorch and Python's own library only under one of the names `known`.
    """
    tree = ast.parse(notebook_source(path))
    digests = {}
    for node in tree.body:
        digests |= dict.fromkeys(defined_names(node), short_digest(defined_text(node)))
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, origin in imported_names(node, known):
                digests[f"{name}, imported by lesson {path.name[:2]}"] = short_digest(origin)
    other = other_statements(tree)
    for own in own_modules(tree).values():
        other += other_statements(own)
    if other:
        digests[OTHER + path.name[:2]] = short_digest("\n".join(other))
    return digests


def notebook_source(path):
    """The code of a notebook's export cells."""
    return "\n".join(source for _, source in export_cells(path))


def short_digest(text):
    """The first 16 hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def defined_names(node):
    """The names that a statement defines or assigns to, if it does nothing else."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if not isinstance(node, ast.Assign):
        return []
    inside = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.value))
    plain = all(isinstance(target, ast.Name) for target in node.targets) and not inside
    return [target.id for target in node.targets] if plain else []


def defined_text(node):
    """The code of a definition without docstrings, and that of an assignment's value."""
    return ast.unparse(node.value if isinstance(node, ast.Assign) else without_docstrings(node))


def imported_names(node, known):
    """The names that an import may replace a definition by: (name, where it is from)."""
    for alias in node.names:
        name = alias.asname or alias.name
        module = getattr(node, "module", None)
        foreign = isinstance(node, ast.ImportFrom) and is_foreign(module or ".")
        if name != "*" and (foreign or name in known):
            yield name, f"{module}.{alias.name}" if module else alias.name


def other_statements(tree):
    """What a module does beside defining and importing names, each statement as a text.

    An own module that is imported whole belongs to it, and so does all that `*` stands for.
    """
    texts = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            other = any(own_files(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            other = any(alias.name == "*" for alias in node.names)
        else:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            other = not docstring and not defined_names(node)
        if other:
            texts.append(ast.unparse(node))
    return texts


def own_files(module):
    """The files of a reader's own, of the course's folder or another, that importing it runs."""
    parts = module.split(".")
    if parts[0] in ("engine", "utils", ""):
        return []
    folder = folder_of(parts[0])
    places = [folder.joinpath(*parts[: count + 1]) for count in range(len(parts))]
    files = [path for place in places for path in (place / "__init__.py", place.with_suffix(".py"))]
    if parts[0] == "notebooks" and len(parts) > 1:
        files += FOLDER.glob(f"[0-9][0-9]_{parts[1]}.ipynb")
    ours = {ROOT / "notebooks" / "__init__.py", *lessons()}
    return [path for path in files if path.is_file() and path not in ours]


def folder_of(name):
    """Where a module of a reader's own is: the course's folder, or that where Python finds it."""
    ours = [ROOT / name, ROOT / f"{name}.py"]
    if name in sys.builtin_module_names or any(path.exists() for path in ours):
        return ROOT
    spec = importlib.util.find_spec(name) if name not in sys.stdlib_module_names else None
    origin = getattr(spec, "origin", None) or ""
    if not origin.endswith(".py") or origin.startswith(LIBRARIES):
        return ROOT
    return Path(origin).parents[1 if spec.submodule_search_locations else 0]


def own_source(path):
    """The code of a reader's own file, or its bytes as a text: a `try` may import what is none."""
    code = notebook_source(path) if path.suffix == ".ipynb" else path.read_bytes()
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return repr(code)
    return code


def own_modules(tree, package="notebooks"):
    """The trees of a reader's own files that this code imports, also by way of one another."""
    files = {}
    waiting = [(tree, package)]
    for tree, package in waiting:  # which grows
        for module in imported_modules(tree, package):
            for path in own_files(module):
                if path not in files:
                    files[path] = ast.parse(own_source(path))
                    base = folder_of(module.partition(".")[0])
                    waiting.append((files[path], ".".join(path.parent.relative_to(base).parts)))
    return files


def imported_modules(tree, package):
    """The names of all modules that some code of a package may import: `from a import b`, two."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*(parents if node.level else ()), *filter(None, [node.module])])
            names |= dict.fromkeys([module, *(f"{module}.{alias.name}" for alias in node.names)])
    return list(names)


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


def code_digest(*paths):
    """A digest of all code of modules and notebooks, docstrings and comments left out.

    Of a reader's own modules, which notebooks import, too, and of what lesson 00 gives all others.
    """
    parts = [] if lessons(["00"])[0] in paths else [shared_code()]
    for path in paths:
        source = path.read_text(encoding="utf-8") if path.suffix == ".py" else notebook_source(path)
        if path.suffix == ".ipynb":
            tree = ast.parse(source)
            own = own_modules(tree)
            files = named_files(tree, path.parent)
            for module, own_tree in own.items():
                files += named_files(own_tree, module.parent)
            parts += [ast.unparse(without_docstrings(own_tree)) for own_tree in own.values()]
            parts += [patch.read_text(encoding="utf-8") for patch in patches(path).values()]
            parts += [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
        parts.append(bare_code(source))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def shared_code():
    """The code of lesson 00 without presets and plain settings: their values are a run's own."""
    tree = without_docstrings(ast.parse(notebook_source(lessons(["00"])[0])))
    tree.body = [node for node in tree.body if defined_names(node) != ["PRESETS"]]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Config":
            node.body = [part for part in node.body if not isinstance(part, ast.AnnAssign)]
    return ast.unparse(tree)


def named_files(tree, folder):
    """The files that texts in the code name, as a dictionary of a reader's own that it reads.

    From the current folder, the course's or `folder`, that of the code.
    """
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    texts = (node.value for node in constants if isinstance(node.value, str))
    short = (text for text in texts if len(text) < 200 and text.isprintable())
    files = [place / text for text in short for place in (Path(), ROOT, folder)]
    return [file for file in dict.fromkeys(files) if file.is_file()]


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


def edited_names(numbers=TRANSLATING):
    """What these lessons define otherwise than the course, or hold patched: names."""
    patched = (name for path in lessons(numbers) for name in patches(path))
    return list(dict.fromkeys([*changed_names(numbers), *patched]))


@functools.cache
def changed_names(numbers):
    """What is defined in these lessons otherwise than in the course, is new or missing: names."""
    ours = read_json(DEFINITIONS)
    names = []
    for path in lessons(numbers):
        before = ours.get(path.stem, {})
        digests = definitions(path, known=before)
        changed = (name for name in [*digests, *before] if digests.get(name) != before.get(name))
        names += dict.fromkeys(changed)
    return names


@functools.lru_cache(maxsize=64)
def exported_names(path, modified):
    """The names that a lesson defines. Kept while its file is as `modified`: each batch asks."""
    tree = ast.parse(notebook_source(path))
    return [name for node in tree.body for name in defined_names(node)]


def patches(path):
    """{name: file} of a lesson's definitions that run code of another file of a reader's own.

    Asked of the module itself, if it is imported: whoever put the code there, and however.
    """
    module = vars(sys.modules.get(f"notebooks.{path.stem[3:]}", object))
    if module.get("__file__") != str(path):
        return {}
    files = {}
    names = exported_names(path, path.stat().st_mtime_ns)
    for name in [name for name in names if name in module]:
        members = vars(module[name]) if isinstance(module[name], type) else {name: module[name]}
        for member in members.values():
            member = getattr(member, "__func__", getattr(member, "fget", member))
            file = getattr(getattr(member, "__code__", None), "co_filename", str(path))
            if file != str(path) and not file.startswith(("<", *LIBRARIES)):
                files[name] = Path(file)
    return files


def are_ours(*names, numbers=WITH_OTHER_FORMS):
    """Whether these definitions are the course's own: not edited, nor perhaps patched.

    A statement that is no definition, in a lesson of these numbers, may patch any.
    """
    edited = edited_names(numbers)
    return not any(one.partition(", ")[0] in names or one.startswith(OTHER) for one in edited)


# what exported programs have other forms of: how text becomes ids, and the searches
REPLACED = set(
    "WordSegmenter CharacterSegmenter SubwordSegmenter Vocabulary Tokenizer add_marks "
    "length_limits next_logits keep_rows greedy_search".split()
)


def replaced_names():
    """The edited definitions that an exported program would not follow, their names."""
    names = [name for name in edited_names() if name.startswith(OTHER)]  # may patch any of them
    names += [name for name in edited_names(("01", "10")) if name.partition(", ")[0] in REPLACED]
    names += [name for name in edited_names(("16",)) if name != "bleu"]
    return list(dict.fromkeys(names))


def tell_unused(instead, *names):
    """Says on stderr which of these definitions of lesson 01 were edited: `instead` is used."""
    edited = [name for name in edited_names(("01",)) if name in names]
    if edited:
        where = f"edited in lesson 01 and not used here: {', '.join(edited)}"
        print(f"{where}. Edit {instead}, which does its work", file=sys.stderr)

"""Which functions and classes of the lessons are still those of the course."""

import ast
import functools
import hashlib
import importlib.util
import linecache
import sys
import sysconfig
import tokenize
from importlib.machinery import PathFinder
from pathlib import Path

from engine.files import file_digest, read_json
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


def definitions(path):
    """{name: digest} of the functions, classes and constants in a notebook's export cells.

    Of what they do: comments, docstrings and line ends are left out. Of imports those of other
    lessons count, each by its name. All other statements but imports have one digest together,
    under OTHER and the lesson's number, with the reader's own modules, which may patch anything.
    """
    tree = ast.parse(notebook_source(path))
    number = path.name[:2]
    digests = {}
    texts = {}
    other = []
    for node in tree.body:
        for name in defined_names(node):  # all that a name was defined as: the last one counts
            texts.setdefault(name, []).append(defined_text(node))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("notebooks."):
            for alias in node.names:
                name = f"{alias.asname or alias.name}, imported by lesson {number}"
                digests[name] = short_digest(f"{node.module}.{alias.name}")
        elif is_other(node):
            other.append(ast.unparse(node))
    digests |= {name: short_digest("\n".join(codes)) for name, codes in texts.items()}
    other += own_modules(path).values()
    if other:
        digests[OTHER + number] = short_digest("\n".join(other))
    return digests


def notebook_source(path):
    """The code of a notebook's export cells: as it was imported, whatever was saved since."""
    module = sys.modules.get(f"notebooks.{path.stem[3:]}")
    if getattr(module, "__file__", None) == str(path):
        return "".join(linecache.getlines(str(path)))
    return source_of_version(path, file_digest(path) if path.exists() else None)


@functools.lru_cache(maxsize=64)
def source_of_version(path, digest):
    """`notebook_source`. Kept while the file is the same: each training asks a hundred times."""
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


def is_other(node):
    """Whether a statement does more than define or import names, or say something."""
    if isinstance(node, ast.Import | ast.ImportFrom) or defined_names(node):
        return False
    return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


# a reader's own modules: files that are neither the course's nor a library's


def own_modules(path):
    """{file: bare code} of those that a file imports, anywhere in its code and by one another."""
    codes = {path: own_source(path)}
    for importing in (waiting := [path]):  # which grows
        for node in imports_of(codes[importing]):
            for file in imported_files(node, importing):
                if is_own(file) and file not in codes:
                    codes[file] = bare_code(own_source(file))
                    waiting.append(file)
    del codes[path]
    return codes


@functools.lru_cache(maxsize=128)
def parts_of(source, kind):
    """The nodes of this kind anywhere in some code. Kept as `source_of_version` is."""
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kind)]


def imports_of(source):
    """All imports in some code, calls of `importlib.import_module` and `__import__` among them."""
    imports = list(parts_of(source, ast.Import | ast.ImportFrom))
    for call in parts_of(source, ast.Call):
        function = ast.unparse(call.func).rpartition(".")[2]
        name = getattr(call.args[0], "value", None) if call.args else None
        if function in ("import_module", "__import__") and isinstance(name, str):
            imports.append(ast.Import([ast.alias(name)]))
    return imports


def imported_files(node, importing):
    """The files that an import in the file `importing` runs.

    `from a import b` runs a and, if that is a module, a.b.
    """
    if isinstance(node, ast.Import):
        modules = [(0, alias.name) for alias in node.names]
    else:
        parent = f"{node.module}." if node.module else ""
        modules = [(node.level, parent + alias.name) for alias in node.names]
    for level, module in modules:
        parts = module.split(".")
        folders = [str(importing.parents[level - 1])] if level else None
        if not level and parts[0] == "notebooks":
            folders = [str(FOLDER)]
            del parts[0]
        if folders == [str(FOLDER)]:
            yield from FOLDER.glob(f"[0-9][0-9]_{''.join(parts[:1])}.ipynb")
        for name in parts:
            spec = PathFinder.find_spec(name, folders)
            if spec is None:
                break
            yield Path(spec.origin or "")  # a folder without an __init__.py has none
            folders = spec.submodule_search_locations or []


def is_own(file):
    """Whether it is a reader's own module; no export cell of the course imports engine or utils."""
    ours = file in lessons() or file.parent == FOLDER and file.name == "__init__.py"
    return file.suffix in (".py", ".ipynb") and not ours and not str(file).startswith(LIBRARIES)


def own_source(file):
    """The code of a module or a notebook; of a cell in Jupyter what IPython has kept of it."""
    if file.suffix == ".ipynb":
        return notebook_source(file)
    if not file.exists():
        return "".join(linecache.getlines(str(file)))
    with tokenize.open(file) as code:  # as Python reads it, a byte order mark or another encoding
        return code.read()


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

    Of a reader's own modules, which notebooks import or which have patched them, of the files that
    all these name, and of what lesson 00 gives all others.
    """
    parts = [] if lessons(["00"])[0] in paths else [shared_code()]
    for path in paths:
        parts.append(bare_code(own_source(path)))
        if path.suffix == ".ipynb":
            own = own_modules(path)
            for file in patches(path).values():
                own.setdefault(file, bare_code(own_source(file)))
            parts += own.values()
            # a training loop's are what it writes, as a log
            reading = () if path.name.startswith("15") else (path, *own)
            files = [file for code in reading for file in named_files(code)]
            parts += [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def named_files(path):
    """The files that texts in the code of a file name, as a dictionary that a lesson reads.

    From the current folder, the course's or its own. A name has a dot or a slash: words such as
    "zh" and "sum" stand in the code for other things.
    """
    constants = parts_of(own_source(path), ast.Constant)
    texts = (node.value for node in constants if isinstance(node.value, str))
    named = (text for text in texts if {".", "/"} & set(text))
    short = (text for text in named if len(text) < 200 and text.isprintable())
    files = [folder / text for text in short for folder in (Path(), ROOT, path.parent)]
    return [file for file in dict.fromkeys(files) if file.is_file()]


def shared_code():
    """The code of lesson 00 without presets and settings: their values are a run's own."""
    tree = without_docstrings(ast.parse(notebook_source(lessons(["00"])[0])))
    tree.body = [node for node in tree.body if defined_names(node) != ["PRESETS"]]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Config":
            node.body = [part for part in node.body if not is_setting(part)]
    return ast.unparse(tree)


def is_setting(node):
    """Whether a statement of a dataclass is a field: it has a type, which is no ClassVar."""
    return isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)


def lesson_digests():
    """Of the lessons that translate, of those that only training uses, and of the optimizer's.

    made.json and a checkpoint's schedule.json hold them.
    """
    training = [number for number in TRAINING if number not in TRANSLATING]
    return {
        "lessons": code_digest(*lessons(TRANSLATING)),
        "training_lessons": code_digest(*lessons(training)),
        "lesson": code_digest(*lessons(["14"])),
    }


def lessons_changed(stored, digests):
    """Whether `lesson_digests` that are stored with something else are others than these."""
    return any(stored.get(name) not in (None, digest) for name, digest in digests.items())


def lessons(numbers=("",)):
    """The notebooks of these lessons, of all by default, in their order."""
    paths = [FOLDER / f"{number:02}_{name}.ipynb" for number, name in enumerate(LESSONS)]
    return [path for path in paths if path.name.startswith(tuple(numbers))]


def all_definitions(numbers=RECORDED):
    """`definitions` of these lessons: {notebook: {name: digest}}."""
    return {path.stem: definitions(path) for path in lessons(numbers)}


@functools.cache
def course_definitions():
    """`all_definitions` of the course, as `make notebooks` has written them."""
    return read_json(DEFINITIONS)


def edited_names(numbers=TRANSLATING):
    """What these lessons define otherwise than the course, or hold patched: names."""
    changed = (name for path in lessons(numbers) for name in changed_names(path))
    patched = (name for path in lessons(numbers) for name in patches(path))
    return list(dict.fromkeys([*changed, *patched]))


@functools.cache
def changed_names(path):
    """What is defined in a lesson otherwise than in the course, is new or missing: names."""
    before = course_definitions().get(path.stem, {})
    digests = definitions(path)
    changed = (name for name in [*digests, *before] if digests.get(name) != before.get(name))
    return list(dict.fromkeys(changed))


def patches(path):
    """{name: file} of a lesson's definitions that run code of another file of a reader's own.

    Asked of the module itself, if it is imported: whoever put the code there, and however.
    """
    module = vars(sys.modules.get(f"notebooks.{path.stem[3:]}", object))
    if module.get("__file__") != str(path):
        return {}
    files = {}
    for name in [name for name in course_definitions().get(path.stem, ()) if name in module]:
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

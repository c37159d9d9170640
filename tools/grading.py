"""The process that grades a notebook of a copy: it runs what a student wrote, and its checks.

A student's answer is the cell tagged `exercise`. It meets the check of this checkout's notebook,
not the student's own, but the student's notebooks are what it imports: an edited class counts. Each
notebook of a copy is graded in a process of its own. That guards against slips and endless loops,
not against code that means harm: it runs what the students wrote with your rights, and such code
can forge its own verdict. What comes back is text alone, as JSON.
"""

import importlib
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
from verdicts import namespace, readable, run_cells, verdict

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = [
    path
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    if path.stem[3:].isidentifier()  # no 05_layer_norm-Copy1, which JupyterLab's Duplicate writes
]
FOLDED = "<details><summary>"  # how a solution's cell begins, in any language
LIMIT = 60  # seconds for one exercise, and for importing one notebook
# bytes of address space for a notebook: what the machine has, though PyTorch alone maps several GB
MEMORY = 32 << 30
if hasattr(os, "sysconf"):
    MEMORY = max(8 << 30, min(MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
LONGEST = 4092  # bytes of a verdict: with its length, 4 bytes, a pipe takes it at once
# Windows has no SIGHUP
STOPS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
# On Linux a process is forked from one that has PyTorch and nothing of a student. Elsewhere PyTorch
# may not survive that.
CONTEXT = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
CONTEXT.set_forkserver_preload(["torch", "nbformat", "IPython.core.inputtransformer2"])
running = set()
stopping = threading.Event()


class Exercise(NamedTuple):
    """An exercise of the course: three pieces of code."""

    hole: str
    check: str
    solution: str


class Task(NamedTuple):
    """What the grading process is given for one exercise."""

    notebook: str  # 05_layer_norm
    cells: list  # code in which the answer finds its imports, functions and classes
    own: list  # those of them that are not the course's, and stand before the answer
    answer: str
    hole: str
    check: str
    in_order: bool = False  # whether the cells of `own` run before the answer


def tagged(cells, tag):
    """The cells that have this tag."""
    return [cell for cell in cells if tag in (cell.metadata.get("tags") or [])]


def read_notebook(path):
    """A notebook of a copy, with a byte order mark or without. ValueError for a damaged cell."""
    notebook = nbformat.reads(path.read_text(encoding="utf-8-sig"), as_version=4)
    for number, cell in enumerate(notebook.cells):
        tags = cell.get("metadata", {}).get("tags") or ()
        texts = (cell.get("source"), cell.get("cell_type"), *tags)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"cell {number} is damaged")
    return notebook


@cache
def course_cells(path, language=None):
    """The cells of a notebook of the course, as copies in this language have them."""
    text = path.read_text(encoding="utf-8")
    if language:
        from catalogue import in_language  # which needs polib

        text = in_language(language, f"notebooks/{path.name}", text)
    return nbformat.reads(text, as_version=4).cells


def language_of(notebook):
    """The language that a copy's notebook was written in, or None, English."""
    named = str(notebook.metadata.get("language", ""))
    return named if (ROOT / "translations" / named / "terms.json").is_file() else None


@cache
def exercises(path, language=None):
    """The exercises of a notebook of the course, in their order."""
    cells = course_cells(path, language)
    every = []
    for number, cell in enumerate(cells):
        if tagged([cell], "exercise"):
            check = cells[number + 2]
            folded = cells[number + 3].source
            whole = folded.startswith(FOLDED) and folded.endswith("\n\n</details>")
            assert tagged([check], "check") and whole, path
            solution = re.search(r"```python\n(.*?)```", folded, re.DOTALL)[1]
            every.append(Exercise(cell.source, check.source, solution))
    return every


def other_cells(cells):
    """The code of all cells but the exercises and their checks."""
    special = tagged(cells, "exercise") + tagged(cells, "check")
    return [cell.source for cell in cells if cell.cell_type == "code" and cell not in special]


def defined_names(source):
    """The functions and classes that a cell defines, and the names that it assigns to."""
    nodes = readable(source)
    names = {getattr(node, "name", None) for node in nodes}
    targets = [target for node in nodes for target in getattr(node, "targets", ())]
    return (names | {getattr(target, "id", None) for target in targets}) - {None, "_"}


def defined_elsewhere(task, hole, course):
    """The names of an exercise that another cell of the copy defines, which the course has not."""
    others = set().union(*(defined_names(cell) for cell in task.cells if cell not in course))
    return sorted(defined_names(hole) & others)


class CourseFinder(importlib.abc.MetaPathFinder):
    """In the place of a notebook that a copy lacks, or that is none: the course's own.

    So one damaged file does not spoil the exercises of the notebooks that import it.
    """

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, fullname, path=None, target=None):
        for ours in NOTEBOOKS:
            if fullname == f"notebooks.{ours.stem[3:]}" and not self.has(ours.name):
                loader = sys.modules["notebooks"].NotebookLoader(ours)
                return importlib.util.spec_from_file_location(fullname, ours, loader=loader)
        return None

    def has(self, name):
        """Whether the copy has this notebook, and it can be read."""
        try:
            read_notebook(self.folder / "notebooks" / name)
            return True
        except Exception:  # a student's file may be anything
            return False


def work(connection, folder, tasks, refused):
    """The grading process: sends "ready", then the verdict on each task as soon as it has it."""
    with suppress(AttributeError):  # on Windows
        os.setsid()  # so that it is killed with all that it has started
    spec = importlib.util.spec_from_file_location("utils_of_the_course", ROOT / "utils.py")
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)
    utils.torch.set_num_threads(1)  # on a busy machine more of them wait for each other
    with suppress(ImportError, ValueError, OSError):  # not on Windows, or a lower limit holds
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    say(connection, "ready")
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    sys.dont_write_bytecode = True
    sys.modules.update(dict.fromkeys(refused))  # None: it cannot be imported
    # the course stands in for what was not handed in: utils.py, the data
    sys.path[:0] = [str(folder / "notebooks"), str(folder), str(ROOT)]
    sys.meta_path.insert(0, CourseFinder(folder))
    os.chdir(folder / "notebooks")
    notebook = names = None
    for task in tasks:
        utils.torch.set_default_dtype(utils.torch.float32)  # whatever the last answer has set
        utils.torch.set_grad_enabled(True)
        try:
            if task.notebook != notebook:
                names = namespace(task.notebook[3:], task.cells)
                notebook = task.notebook
            if task.in_order:
                run_cells(task.own, names)
            text = verdict(names, task.answer, task.check, utils.check, task.cells)
        except BaseException as error:  # whatever a student's code may raise
            result = "not graded" if type(error).__name__ == "NotebookError" else "not yet"
            text = f"{result}. It stopped with {type(error).__name__}: {error}"
        if refused and re.search("NameError|ModuleNotFoundError", text):
            text += f" ({'; '.join(refused.values())})"
        say(connection, text)


def say(connection, text):
    """Sends a text, cut short, as JSON: whoever receives it unpacks no objects."""
    connection.send_bytes(json.dumps(str(text)[: LONGEST // 12 - 1]).encode())


def heard(connection):
    """The text that was sent. Raises EOFError, OSError or ValueError if it is none."""
    return str(json.loads(connection.recv_bytes(LONGEST)))


def run_tasks(folder, tasks, refused):
    """Yields the verdict on each task, in order. `refused`: {module: why it is not imported}.

    After an endless loop or a crash a new process does the rest.
    """
    while tasks and not stopping.is_set():
        connection, theirs = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=work, args=(theirs, folder, tasks, refused))
        alive = False
        process.start()
        running.add(process)
        try:
            theirs.close()  # else its end could not be seen from here
            alive = connection.poll(None) and heard(connection)  # ready: no student's code has run
            while tasks and alive:
                tasks = tasks[1:]
                alive = connection.poll(LIMIT)
                late = f"not yet. It was stopped after {LIMIT} s: an endless loop?"
                yield heard(connection) if alive else late
        except (EOFError, OSError, ValueError):
            if not alive:
                sys.exit("grade.py: the grading process did not start; what stands above says why")
            process.join(1)
            yield f"not yet. It ended Python itself, with exit status {process.exitcode}"
        finally:
            kill(process)
            running.discard(process)


def kill(process):
    """Ends a grading process with all that it has started."""
    with suppress(OSError, AttributeError):  # all have ended, or this is Windows
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def stop_all():
    """Ends all grading processes: none is started any more."""
    stopping.set()
    for process in list(running):
        kill(process)


def not_importable(folder):
    """{module: why}, of the notebooks of a copy whose export cells loop or end Python."""
    refused = {}
    check = "@check('')\ndef _():\n    pass"
    tasks = [Task(path.stem, [], [], "", "", check) for path in NOTEBOOKS]
    # `refused` goes to each new process, too
    for task, text in zip(tasks, run_tasks(folder, tasks, refused)):
        if not text.startswith(("right", "not yet. It stopped with")):  # else it came to its end
            refused[f"notebooks.{task.notebook[3:]}"] = text.replace("not yet. It", task.notebook)
    return refused


def answers(folder, path):
    """The tasks that a copy sets for one notebook of the course, and the course's other cells.

    Raises an exception that says what is wrong with it.
    """
    package = folder / "notebooks" / "__init__.py"
    copy = folder / "notebooks" / path.name
    if not package.is_file():
        raise FileNotFoundError(f"{package}: missing. Is this a whole copy?")
    if not copy.is_file():
        same = sorted(copy.parent.glob(f"{path.name[:2]}*.ipynb"))
        names = ", ".join(file.name for file in same)
        raise FileNotFoundError(f"{copy}: missing" + (f"; rename it: {names}" if same else ""))
    try:
        notebook = read_notebook(copy)
    except Exception as error:  # a student's file may be anything
        wrong = f"cannot be read as a notebook ({error})"
        raise ValueError(f"{path.name} {wrong}: ask for it again") from None
    language = language_of(notebook)
    ours = exercises(path, language)
    theirs = [cell.source for cell in tagged(notebook.cells, "exercise")]
    if len(theirs) != len(ours):
        raise ValueError(
            f"cells tagged exercise: {len(theirs)} instead of {len(ours)}; "
            "restore the tags or the cells"
        )
    # checks import something, too
    checks = [exercise.check for exercise in ours]
    course = other_cells(course_cells(path, language))
    code = other_cells(notebook.cells)
    tasks = []
    numbers = [n for n, cell in enumerate(notebook.cells) if tagged([cell], "exercise")]
    for number, answer, exercise in zip(numbers, theirs, ours):
        before = other_cells(notebook.cells[:number])
        own = [source for source in before if source not in course]
        tasks.append(Task(path.stem, code + checks, own, answer, *exercise[:2]))
    return tasks, course

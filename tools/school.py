"""A class by nbgrader: `python tools/school.py assignments|grade [NN ...]`, all lessons or these.

`assignments` writes the folder class: nbgrader's settings, each lesson as its source, and in
class/release what students get. `grade` takes what they handed in from class/handed_in/NAME, marks
it and prints the class. It runs the students' code with your rights.
"""

import os
import re
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.plugins import CsvExportPlugin
from student import FOLDED
from tqdm import tqdm
from traitlets.config import PyFileConfigLoader

from engine.errors import InputError, run_command
from utils import ROOT

CLASS = ROOT / "class"
# nbgrader calls a program of its environment
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
warnings.filterwarnings("ignore", module="nbgrader")  # what SQLAlchemy says of its code
LESSONS = {path.name[:2]: path for path in sorted(ROOT.glob("notebooks/[0-9][0-9]_*.ipynb"))}
NO_HAND_IN = {"__MACOSX", ".ipynb_checkpoints", ".venv"}
SETTINGS = """c = get_config()
c.CourseDirectory.course_id = "transformer"
c.CourseDirectory.root = {root!r}
names = "LockCells", "ClearOutput", "CheckCellMetadata", "ComputeChecksums", "SaveCells"
c.GenerateAssignment.preprocessors = [f"nbgrader.preprocessors.{{name}}" for name in names]
c.Execute.timeout = 300  # seconds for a cell
c.Execute.skip_cells_with_tag = "long"  # trainings that no exercise needs
c.Execute.extra_arguments = ["--log-level=ERROR"]
"""


def lessons_of(numbers):
    """The paths of the lessons of these numbers, or of all."""
    for number in numbers:
        if number not in LESSONS:
            raise InputError(f"{number}: no lesson has this number. Give one as 03")
    return [LESSONS[number] for number in numbers or LESSONS]


def nbgrader(folder):
    """nbgrader's interface to the class in a folder."""
    return NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", str(folder)).load_config())


def succeed(result):
    """Raises InputError with nbgrader's reason where it has failed."""
    if not result["success"]:
        log = f"{result['log']}\n{result['error']}"
        reasons = re.findall(r"^ *(?:\w+\.)*(\w+(?:Error|Exception): .*)", log, re.MULTILINE)
        raise InputError((reasons or log.strip().splitlines())[0])


def release(lessons, folder=None):
    """Writes the lessons' sources and what students get to the folder of a class."""
    folder = folder or CLASS
    folder.mkdir(exist_ok=True)
    (folder / "nbgrader_config.py").write_text(SETTINGS.format(root=str(folder)), encoding="utf-8")
    api = nbgrader(folder)
    for path in tqdm(lessons, "lessons", disable=None):
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = [one for one in notebook.cells if not one.source.startswith(FOLDED)]
        for cell in notebook.cells:
            tags = cell.metadata.get("tags", ())
            if "exercise" in tags and "raise NotImplementedError" not in cell.source:
                raise InputError(f"{path.name}: an exercise is filled. Put the hole back")
        source = folder / "source" / path.name[:2] / path.name
        source.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, source)
        succeed(api.generate_assignment(path.name[:2], force=True, create=True))


def collect(lessons):
    """Sorts what was handed in to where nbgrader looks for it.

    Returns [(student, number)], and what is missing or no notebook, a line each.
    """
    handed_in = CLASS / "handed_in"
    students = sorted(one for one in handed_in.glob("*") if one.is_dir())
    if not students:
        raise InputError(f"{handed_in} holds no student's folder: put one there for each")
    found, wrong = [], []
    for student in students:
        for path in lessons:
            number = path.name[:2]
            files = [one for one in student.rglob(f"{number}_*.ipynb")
                     if not NO_HAND_IN & set(one.relative_to(student).parts)]  # fmt: skip
            if not files:
                wrong.append(f"{student.name}: {number} is missing")
                continue
            newest = max(files, key=lambda one: one.stat().st_mtime)
            try:
                notebook = nbformat.read(newest, as_version=4)
                nbformat.validate(notebook)
                notebook = without_doubles(notebook)
            except Exception as error:  # a file may hold anything
                reason = str(error).partition("\n")[0]
                wrong.append(f"{student.name}: {newest.name} is no notebook ({reason})")
                continue
            if len(files) > 1:
                wrong.append(f"{student.name}: {number} is there {len(files)} times, newest taken")
            place = CLASS / "submitted" / student.name / number
            place.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, place / path.name)
            found.append((student.name, number))
    return found, wrong


def without_doubles(notebook):
    """The notebook; of cells that were one before somebody split or copied it, the first counts."""
    known = set()
    for cell in [one for one in notebook.cells if "nbgrader" in one.metadata]:
        name = cell.metadata["nbgrader"]["grade_id"]
        if name in known:
            del cell.metadata["nbgrader"]
        known.add(name)
    return notebook


def mark(folder, student, number):
    """Marks one notebook of a class, and writes its feedback."""
    api = nbgrader(folder)
    result = api.autograde(number, student, force=True, create=True)
    if "Kernel died before replying" in str(result):  # another kernel took its port meanwhile
        result = api.autograde(number, student, force=True, create=True)
    succeed(result)
    succeed(api.generate_feedback(number, student, force=True))


def marks():
    """{(student, exercise): whether it is solved} of all that is marked; also grades.csv."""
    with Gradebook(f"sqlite:///{CLASS / 'gradebook.db'}") as book:
        CsvExportPlugin(to=str(CLASS / "grades.csv")).export(book)
        return {
            (submission.student.id, f"{lesson.name}.{grade.name[-1]}"): grade.score > 0
            for lesson in book.assignments
            for submission in lesson.submissions
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def table(solved, lessons):
    """The class, a line a student: + solved, - not solved, . not marked; then who missed what."""
    asked = {path.name[:2] for path in lessons}
    exercises = sorted({one for _, one in solved if one[:2] in asked})
    students = sorted({student for student, _ in solved})
    width = max(map(len, students), default=0)
    signs = {True: "+", False: "-", None: "."}
    lines = ["+ solved, - not solved, . not marked", " ".join([" " * width, *exercises])]
    for student in students:
        row = [f"{signs[solved.get((student, one))]:>4}" for one in exercises]
        lines.append(" ".join([student.ljust(width), *row]))
    for one in exercises:
        missed = [student for student in students if solved.get((student, one)) is False]
        lines += [f"{one} missed by {', '.join(missed)}"] if missed else []
    return lines


def grade(lessons):
    """Marks what was handed in of these lessons, two notebooks at a time. Returns what to print."""
    if missing := [path for path in lessons if not (CLASS / "release" / path.name[:2]).exists()]:
        release(missing)
    found, wrong = collect(lessons)
    with Gradebook(f"sqlite:///{CLASS / 'gradebook.db'}") as book:
        for student in sorted({student for student, _ in found}):
            book.update_or_create_student(student)  # else both processes may add the same one
    # two notebooks share the processors
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(mark, CLASS, *one): one for one in found}
        for future in tqdm(as_completed(futures), "notebooks", len(found), disable=None):
            if error := future.exception():
                wrong.append(f"{' '.join(futures[future])}: {error}")
    where = f"feedback: {CLASS / 'feedback'}, marks: {CLASS / 'grades.csv'}"
    return [*table(marks(), lessons), *sorted(wrong), where]


def main(arguments=None):
    """The command line. Returns the exit status."""
    task, *numbers = arguments or sys.argv[1:]
    if task == "grade":
        print("\n".join(grade(lessons_of(numbers))))
    else:
        release(lessons_of(numbers))
        print(f"students get {CLASS}/release, and hand in into {CLASS}/handed_in/NAME")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

"""A class by nbgrader, and the copy that a student gets."""

import copy
import html
import json
import re
import shutil
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import nbformat
import pytest
import school
import student
from conftest import NOTEBOOKS, ROOT, run_python
from exercises import exercises, tagged
from nbgrader.api import Gradebook
from test_exercises import WRONG

from engine.errors import InputError, run_command

LESSONS = [NOTEBOOKS[number] for number in (3, 4, 5)]


def hand_in(folder, path, answers):
    """Writes a released lesson with answers in its exercises."""
    notebook = nbformat.read(school.CLASS / "release" / path.name[:2] / path.name, as_version=4)
    for cell, answer in zip(tagged(notebook.cells, "exercise"), answers):
        cell.source = answer
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / path.name)


def wrong_answers(path):
    """A plausible wrong answer to each exercise of a lesson."""
    for number, one in enumerate(exercises(path), start=1):
        part, mistake, _ = WRONG[path.name[:2], number]
        yield one.solution.replace(part, mistake)


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """The folder of a class of three, one with damaged notebooks, and what `grade` printed."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("school") / "class"
        patch.setattr(school, "CLASS", folder)
        school.release(LESSONS)
        handed_in = folder / "handed_in"
        for path in LESSONS:
            hand_in(handed_in / "Ada L" / "course" / "notebooks", path,
                    [one.solution for one in exercises(path)])  # fmt: skip
            hand_in(handed_in / "Ada L" / "__MACOSX", path, ["no Python"] * 2)
            hand_in(handed_in / "王", path, wrong_answers(path))
        hand_in(handed_in / "cem", NOTEBOOKS[5], [one.solution for one in exercises(NOTEBOOKS[5])])
        (handed_in / "cem" / NOTEBOOKS[3].name).write_text('{"cells"', encoding="utf-8")
        path = handed_in / "cem" / NOTEBOOKS[5].name
        notebook = nbformat.read(path, as_version=4)
        first = tagged(notebook.cells, "exercise")[1]
        second = copy.deepcopy(first)  # somebody has split the cell
        first.source, second.source = re.split(r"\n(?=class )", first.source)
        notebook.cells.insert(notebook.cells.index(first) + 1, second)
        nbformat.write(notebook, path)
        yield folder, school.grade(LESSONS)


def test_students_are_known_before_two_processes_mark_them(tmp_path, monkeypatch):
    """Both would add a student whose first two notebooks are marked at the same time."""

    def submit(mark, folder, student, number):
        with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
            known.append([one.id for one in book.students])
        done = Future()
        done.set_result(None)
        return done

    known = []
    monkeypatch.setattr(school, "CLASS", tmp_path)
    monkeypatch.setattr(school, "collect", lambda _: ([("Ada", "03"), ("Ada", "04")], []))
    pool = nullcontext(SimpleNamespace(submit=submit))
    monkeypatch.setattr(school, "ProcessPoolExecutor", lambda *_, **__: pool)
    monkeypatch.setattr(school, "marks", dict)
    school.grade([])
    assert known == [["Ada"], ["Ada"]]


def test_a_class_is_marked_whatever_some_have_handed_in(marked):
    """Nested folders, other alphabets, a damaged notebook, missing ones, and a split cell."""
    folder, printed = marked
    text = "\n".join(printed)
    assert printed[2:5] == [
        "Ada L    +    +    +    +    +    +    +    +    +",
        "cem      .    .    .    .    .    .    +    +    +",
        "王        -    -    -    -    -    -    -    -    -",
    ]
    assert "03.1 missed by 王" in text
    assert "cem: 03_positional_encoding.ipynb is no notebook" in text
    assert "cem: 04 is missing" in text
    assert "__MACOSX" not in text and "Ada L:" not in text
    assert (folder / "grades.csv").read_text("utf-8").count("\n") == 1 + 3 * 3


def test_feedback_has_the_hint_for_each_wrong_answer(marked):
    folder, _ = marked
    for path in LESSONS:
        page = (folder / "feedback" / "王" / path.name[:2] / f"{path.stem}.html").read_text("utf-8")
        for number in range(1, 1 + len(exercises(path))):
            assert html.escape(WRONG[path.name[:2], number][2], quote=False) in page


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A student's copy."""
    out = tmp_path_factory.mktemp("student") / "copy"
    assert student.main([str(out)]) == 0
    return out


def test_no_file_of_a_students_copy_holds_a_solution(own):
    kinds = (".ipynb", ".py", ".md", ".toml", "")
    files = [path for path in own.rglob("*") if path.suffix in kinds and path.is_file()]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert f'"{student.FOLDED}Solution' not in text
    cells = [cell.source for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells]
    shown = "\n".join(cell for cell in cells if not cell.startswith(student.FOLDED))
    for exercise in (exercise for path in NOTEBOOKS for exercise in exercises(path)):
        lines = map(str.strip, exercise.solution.splitlines())
        secret = [line for line in lines if line not in shown]
        # notebook 11 shows that one before it asks for it
        assert secret or "lookup.weight = model" in exercise.solution
        assert not [line for line in secret if line in text or json.dumps(line)[1:-1] in text]


def test_a_students_copy_promises_only_what_is_there(own):
    makefile = (own / "Makefile").read_text(encoding="utf-8")
    assert re.search("^test:", makefile, re.MULTILINE) and "tools/" not in makefile
    tools = "|".join(path.stem for path in ROOT.glob("tools/*.py"))
    for path in own.glob("tests/*.py"):  # else `make test` ends before it begins
        assert not re.search(rf"(?m)^(from|import) ({tools})\b", path.read_text("utf-8")), path
    readme = (own / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("# Your copy") and "teacher" not in readme.partition("\n# ")[2]
    for link in re.findall(r"\]\(([^)#\s:\\]+)\)", readme):
        assert (own / link).exists(), link


def test_an_edited_class_is_what_later_notebooks_of_the_copy_use(own, tmp_path):
    folder = shutil.copytree(own, tmp_path / "anna")
    path = folder / "notebooks" / NOTEBOOKS[5].name
    call = "F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)"
    text = path.read_text(encoding="utf-8")
    assert call in text
    path.write_text(text.replace(call, f"0 * {call}"), encoding="utf-8")
    program = """
import torch
from notebooks.encoder import EncoderLayer
from notebooks.setup import Config
norm = next(one for one in EncoderLayer(Config()).modules() if type(one).__name__ == "LayerNorm")
print(norm(torch.randn(2, 256)).abs().sum().item())
"""
    done = run_python("-c", program, cwd=folder, PYTHONPATH=str(folder))
    assert done.stdout == "0.0\n", done.stderr


def test_a_copy_in_chinese_has_its_lessons_and_its_readme_in_chinese(tmp_path, monkeypatch):
    monkeypatch.setattr(school, "LESSONS", {"05": NOTEBOOKS[5]})
    assert student.main([str(tmp_path / "ming"), "--language", "zh_CN"]) == 0
    for name in ("README.md", f"notebooks/{NOTEBOOKS[5].name}"):
        text = (tmp_path / "ming" / name).read_text(encoding="utf-8")
        assert len(re.findall("[\u4e00-\u9fff]{5}", text)) > 20


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch, capsys):
    assert run_command(student.main, [str(tmp_path)]) == 2
    monkeypatch.setattr(school, "CLASS", tmp_path / "class")
    for arguments in (["assignments", "17"], ["grade", "03"]):
        assert run_command(school.main, arguments) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_a_kernel_whose_port_another_took_is_started_again(monkeypatch):
    failed = {"success": False, "log": "RuntimeError: Kernel died before replying to kernel_info",
              "error": ""}  # fmt: skip
    right = {"success": True}
    results = [failed, right | {"log": ""}]
    api = SimpleNamespace(autograde=lambda *_, **__: results.pop(0),
                          generate_feedback=lambda *_, **__: right)  # fmt: skip
    monkeypatch.setattr(school, "nbgrader", lambda folder: api)
    school.mark(None, "Ada L", "03")
    assert results == []
    results = [failed, failed]
    with pytest.raises(InputError, match="Kernel died"):
        school.mark(None, "Ada L", "03")

"""`make student` and `make grade`: the copy holds no solution and works.

Its exercises are graded by the course's checks.
"""

import ast
import csv
import itertools
import json
import math
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import catalogue
import copies
import grade
import grading
import nbformat
import pytest
import student
import verdicts
from conftest import ROOT, run_python
from grading import NOTEBOOKS, exercises

import utils
from engine.errors import InputError, run_command

pytestmark = pytest.mark.skipif(
    not (ROOT / ".git").exists() or not shutil.which("git"), reason="needs a Git checkout"
)

GRADE = ROOT / "tools" / "grade.py"
POSITIONS = "03_positional_encoding"
LAYER_NORM, FEED_FORWARD = "05_layer_norm", "06_feed_forward"
SUBLAYER, ENCODER = "07_sublayer_connection", "08_encoder"
# what LayerNorm.forward returns
NORMALISED = "F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A copy that nobody changes."""
    out = tmp_path_factory.mktemp("copies") / "original"
    assert student.main([str(out)]) == 0
    return out


def handed_in(original, folder, *names):
    """A copy of which these notebooks were handed in, and no other."""
    ours = original / "notebooks"
    theirs = folder / "notebooks"
    shutil.copytree(ours / "support", theirs / "support")
    for name in ("__init__.py", *(f"{name}.ipynb" for name in names)):
        shutil.copy(ours / name, theirs / name)
    return folder


def edit(folder, name, change):
    """Saves a notebook after `change(cells)`."""
    path = folder / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    change(notebook.cells)
    nbformat.write(notebook, path)


def fill(folder, name, *answers):
    """Writes answers into the exercises of a notebook; None leaves one as it is."""

    def change(cells):
        for cell, answer in zip(grading.tagged(cells, "exercise"), answers):
            cell.source = cell.source if answer is None else answer

    edit(folder, name, change)


def replace_in(folder, name, old, new):
    """Edits the code of a notebook."""

    def change(cells):
        (cell,) = [cell for cell in cells if old in cell.source]
        cell.source = cell.source.replace(old, new)

    edit(folder, name, change)


def solutions(name):
    return [exercise.solution for exercise in exercises(ROOT / "notebooks" / f"{name}.ipynb")]


def stated(name, number, statement):
    """The hole of an exercise with a statement where the answer belongs."""
    hole = exercises(ROOT / "notebooks" / f"{name}.ipynb")[number - 1].hole
    return hole.replace("raise NotImplementedError", statement)


def test_notebooks_are_valid_and_the_same_but_for_outputs_and_solutions(original):
    for path in NOTEBOOKS:
        ours, theirs = (nbformat.read(folder / path.name, as_version=4)
                        for folder in (path.parent, original / "notebooks"))  # fmt: skip
        nbformat.validate(theirs)
        assert theirs.metadata == ours.metadata

        def code(book):
            return [cell.source for cell in book.cells if cell.cell_type == "code"]

        assert code(ours) == code(theirs)
        assert len(ours.cells) - len(theirs.cells) == len(exercises(path))
        holes = [hole.source for hole in grading.tagged(theirs.cells, "exercise")]
        assert holes == [exercise.hole for exercise in exercises(path)]
        folded = [cell.metadata.get("jupyter") for cell in ours.cells if cell.cell_type == "code"]
        assert folded == [cell.metadata.get("jupyter") for cell in theirs.cells
                          if cell.cell_type == "code"]  # fmt: skip
        for cell in theirs.cells:
            assert set(cell.metadata) <= {"tags", "jupyter"} and not cell.get("outputs")
            assert cell.get("execution_count") is None


def test_no_file_holds_a_solution_or_speaks_of_one(original):
    kinds = (".ipynb", ".py", ".md", ".toml", "")
    files = [path for path in original.rglob("*") if path.suffix in kinds]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files if path.is_file())
    assert "<details>" not in text and "olution is folded" not in text
    cells = [cell.source for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells]
    shown = "\n".join(cell for cell in cells if not cell.startswith(grading.FOLDED))
    for exercise in (exercise for path in NOTEBOOKS for exercise in exercises(path)):
        lines = map(str.strip, exercise.solution.splitlines())
        secret = [line for line in lines if line not in shown]
        # notebook 11 shows that one before it asks for it
        assert secret or "lookup.weight = model" in exercise.solution
        assert not [line for line in secret if line in text or json.dumps(line)[1:-1] in text]


def test_the_rest_of_the_project_is_there_and_nothing_of_the_teacher(original):
    files = [path for path in original.rglob("*") if path.is_file()]
    names = {path.relative_to(original).as_posix() for path in files}
    needed = (
        "pyproject.toml requirements.txt utils.py "
        "data_small/train.tsv engine/corpus/prepare.py tests/test_08_encoder.py"
    )
    assert set(needed.split()) <= names
    assert not any(name.startswith(copies.LEFT_OUT) for name in names)
    tools = "|".join(path.stem for path in GRADE.parent.glob("*.py"))
    for path in original.glob("tests/*.py"):  # else `make test` ends before it begins
        assert not re.search(rf"(?m)^(from|import) ({tools})\b", path.read_text("utf-8")), path
    for name in names - set(copies.CHANGES):
        if not name.endswith(".ipynb"):
            assert (original / name).read_bytes() == (ROOT / name).read_bytes(), name
    assert [path.name for path in original.parent.iterdir()] == ["original"]  # no temporary folder


def test_readme_and_notebooks_promise_only_what_is_there(original):
    makefile = (original / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert {"run", "translate", "test", "lab"} <= targets and "student" not in targets
    assert "tools" not in makefile and "nbval" not in makefile and "ruff" not in makefile
    for path in (*original.rglob("*.md"), *original.rglob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:^|`)make (?:[A-Z]+=\S+ )?([a-z-]+)", text, re.M)
        assert set(named) <= targets, path
        if path.suffix == ".ipynb":  # in code `](` is a call
            cells = nbformat.reads(text, as_version=4).cells
            text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        for link in re.findall(r"\]\(([^)#\s:\\]+)\)", text):
            assert (path.parent / link).exists(), (path, link)
        for file in re.findall(r"\btests/[\w/]+\.py", text):
            assert (original / file).exists(), (path, file)
    readme = (original / "README.md").read_text(encoding="utf-8")
    assert "## Your copy" in readme and "teacher" not in readme


def test_an_edited_class_is_what_later_notebooks_use(original, tmp_path):
    copy = shutil.copytree(original, tmp_path / "anna")
    replace_in(copy, LAYER_NORM, NORMALISED, f"0 * {NORMALISED}")
    program = (
        "import torch\n"
        "from notebooks.encoder import EncoderLayer\n"
        "from notebooks.setup import Config\n"
        "parts = EncoderLayer(Config()).modules()\n"
        "norm = next(part for part in parts if type(part).__name__ == 'LayerNorm')\n"
        "print(norm(torch.randn(2, 256)).abs().sum().item())\n"
        "from train import TrainCommand; print(TrainCommand(Config()).data)"
    )
    done = run_python("-c", program, cwd=copy, PYTHONPATH=str(copy))
    assert done.stdout == f"0.0\n{copy / 'data_small'}\n", done.stderr


def test_no_copy_is_written_over_a_folder_by_half_or_without_a_checkout(
    tmp_path, monkeypatch, capsys
):
    def refusal(out):
        assert run_command(student.main, [str(out)]) == 2
        return capsys.readouterr().err

    def full(notebook):
        raise OSError("the disk is full")

    (tmp_path / "mine.txt").write_text("kept")
    monkeypatch.chdir(tmp_path)
    assert "Write the whole path" in refusal("$HOME/copy")
    assert f"{tmp_path} exists already" in refusal(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(student.nbformat, "writes", full)
        assert "the disk is full" in refusal(tmp_path / "out")
    monkeypatch.setattr(copies, "ROOT", tmp_path)
    message = refusal(tmp_path / "out")
    assert "is no Git checkout" in message and message.count("\n") == 1
    monkeypatch.setenv("PATH", "")
    assert "git is needed" in refusal(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_would_give_a_solution_away_is_refused():
    text = (ROOT / "notebooks" / "06_feed_forward.ipynb").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="filled"):
        student.without_solutions("06", text.replace("raise NotImplementedError", "return 1"))
    with pytest.raises(InputError, match="folded"):
        student.without_solutions("06", text.replace("<details>", "<div>"))
    for damaged, read in itertools.product(
        (text[:2000], "[]"), (student.without_solutions, catalogue.texts)
    ):
        with pytest.raises(InputError, match="06.ipynb is no notebook .*Take a whole copy"):
            read("06.ipynb", damaged)
    with pytest.raises(InputError, match="Makefile has changed"):
        student.changed("Makefile", "all:\n")


@pytest.mark.parametrize(
    "cells",
    [
        ["ROOT = math.sqrt", "EPS, BIG = 1e-9, 10", "no Python", "print(ROOT)"],
        ["BIG = ROOT = NAMES['root']", "POWERS = {'root': math.sqrt}", "NAMES = {**POWERS}"],
        ["BIG = 1\nif BIG:\n    with open('/dev/null'):\n        ROOT = math.sqrt"],
        ["BIG = 1\ntry:\n    import quick\nexcept ImportError:\n    ROOT = math.sqrt"],
        ["%time BIG = 1", "if BIG:\n    %time ROOT = math.sqrt"],
    ],
)
def test_an_answer_may_use_what_another_cell_assigns(cells):
    check = "@check('Exercise 1')\ndef _():\n    assert root(9) == 3, 'wrong'"
    answer = "def root(x):\n    assert BIG\n    return ROOT(x)"
    assert verdicts.verdict({"math": math}, answer, check, utils.check, cells) == "right"
    names = {}  # without math
    assert "is not defined" in verdicts.verdict(names, answer, check, utils.check, cells)


def test_what_a_statement_binds_itself_is_not_looked_for():
    """Else all cells that assign to an x would run, and that may take minutes."""
    (node,) = ast.parse("f = lambda x: [x + y for y, z in zip(a, b)]").body
    assert verdicts.free_names(node) == {"a", "b", "zip"}


def test_a_cell_without_tags_is_no_error():
    cell = nbformat.v4.new_code_cell("")
    cell.metadata["tags"] = None
    assert grading.tagged([cell], "check") == []


@pytest.mark.parametrize("damage", [{"source": None}, {"metadata": {"tags": [4]}}, {"source": 5}])
def test_a_damaged_cell_is_no_notebook(tmp_path, damage):
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, **damage}
    notebook = {"cells": [{"source": "", **cell}], "metadata": {}, "nbformat": 4}
    (tmp_path / "05.ipynb").write_text(json.dumps({**notebook, "nbformat_minor": 4}))
    with pytest.raises(ValueError, match="cell 0 is damaged"):
        grading.read_notebook(tmp_path / "05.ipynb")


def test_every_copy_has_a_name_of_its_own(tmp_path):
    twins = [tmp_path / name for name in ("a\x01", "a\x02", "b")]
    assert [name.split()[0] for name in grade.names_of(twins)] == ["1", "2", "3"]
    assert grade.names_of(twins[1:]) == ["a ", "b"]


def test_untouched_and_odd_copies_make_a_table(original, tmp_path, capsys):
    """Nothing in a copy stops the class, or gives orders to the terminal."""
    odd = handed_in(original, tmp_path / "odd\x1b[2J", LAYER_NORM)
    raises = "raise SystemExit('\\ud800 \\x1b[31m red')"
    fill(odd, LAYER_NORM, stated(LAYER_NORM, 1, raises), None)
    (odd / "notebooks" / f"{SUBLAYER}.ipynb").write_text("\x1b[31m")
    table = tmp_path / "grades.csv"
    page = tmp_path / "grades.html"
    # a solution in a cell of one's own, and a line that is no Python
    (own,) = [source for source in solutions(FEED_FORWARD)[:1]]
    shutil.copy(original / "notebooks" / f"{FEED_FORWARD}.ipynb", odd / "notebooks")
    edit(odd, FEED_FORWARD, lambda cells: cells.append(nbformat.v4.new_code_cell(own)))
    fill(odd, FEED_FORWARD, None, "raise KeyError('mine')\n")
    before = sorted(original.rglob("*"))
    options = ["--only", "05", "06", "07", "--out", str(table)]
    assert grade.main([str(original), str(odd), *options]) == 0
    assert sorted(original.rglob("*")) == before
    printed, written = capsys.readouterr().out, table.read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(written.splitlines()))
    each = len(rows) // 2
    assert f"0 right, 0 not yet, {each} not filled yet, 0 not graded" in printed
    assert "The class: 2 students" in printed
    assert each >= 6 and {row["result"] for row in rows[:each]} == {"not filled yet"}
    assert list(rows[1].values()) == [original.name, LAYER_NORM, "2", "not filled yet", ""]
    assert "Another cell defines" in printed
    assert "(before it a line of the answer failed: KeyError: 'mine')" in printed
    fill(odd, LAYER_NORM, "x = 1\ny = = 2\n", None)
    assert grade.main([str(odd), "--only", "05", "--out", str(page)]) == 0
    only = capsys.readouterr().out
    assert "Line 2 is no Python (invalid syntax): y = = 2" in only and "06" not in only
    assert page.read_text(encoding="utf-8-sig").count("<td") == 3  # two exercises and their sum
    notebook = original / "notebooks" / f"{ENCODER}.ipynb"
    shutil.copy(notebook, odd / "notebooks" / f"{ENCODER} (1).ipynb")  # as a browser saves it
    grade.main([str(odd), "--only", "08"])
    assert f"missing; rename it: {ENCODER} (1).ipynb" in capsys.readouterr().out
    for text in (printed, written):
        assert r"It stopped with SystemExit: \ud800 [31m red" in text
        assert "\x1b" not in text


OWN_CHECK = "def check(name):\n    return lambda asserts: 'right'\n\nprint('Exercise 1: right')"


def test_a_filled_copy(original, tmp_path):
    """One copy with all that can happen, since each grading process has to import PyTorch anew."""
    copy = shutil.copytree(original, tmp_path / "anna")
    for name in ("00_setup", POSITIONS, "15_training"):
        fill(copy, name, *solutions(name))
    marked = copy / "notebooks" / "00_setup.ipynb"  # an editor has put a byte order mark there
    marked.write_text(marked.read_text(encoding="utf-8"), encoding="utf-8-sig")
    attend, own_matrix = solutions("04_multi_head_attention")
    fill(copy, "04_multi_head_attention", attend.replace("/ math.sqrt(len(query))", ""), own_matrix)
    # what an answer sets spoils no other: `count` below calls `id`
    sets = (
        "import builtins\nbuiltins.id = lambda thing: 0\n"
        "torch.set_grad_enabled(False)\ntorch.set_default_dtype(torch.float64)\n"
    )
    settings = "raise KeyError(torch.is_grad_enabled(), torch.get_default_dtype())"
    fill(copy, LAYER_NORM, sets + solutions(LAYER_NORM)[0], stated(LAYER_NORM, 2, settings))
    # an edited class is what later notebooks import
    replace_in(copy, LAYER_NORM, NORMALISED, f"{NORMALISED} * 0 + 7")
    mean = stated(ENCODER, 2, "raise KeyError(norms[0](x).mean().item())")
    fill(copy, ENCODER, stated(ENCODER, 1, "return bytearray(1 << 40)"), mean)
    # a magic, a picture, a variable of another cell: they work in Jupyter, and are no mistakes
    count, rezero = solutions(SUBLAYER)
    count += "\n%timeit 1 + 1\nprint(of_another_cell)\ndisplay(3)"
    fill(copy, SUBLAYER, count, f"!ls\n{rezero}")
    other_cell = nbformat.v4.new_code_cell("%matplotlib inline\nno Python")
    edit(copy, SUBLAYER, lambda cells: cells.append(other_cell))
    # and a list that other cells fill
    listed = nbformat.v4.new_code_cell("FACTORS = []\nFACTORS.append(1)\nONE = 1.0\n1 / 0")
    again = nbformat.v4.new_code_cell("ONE = 5.0")  # behind the answer: another use of the name
    edit(copy, POSITIONS, lambda cells: (cells.insert(1, listed), cells.append(again)))
    learned, rotary = solutions(POSITIONS)
    rotary = rotary.replace("return turned", "return FACTORS[0] * ONE * turned")
    fill(copy, POSITIONS, learned, rotary)
    # a cell that ends Python changes no verdict and no hint
    ends = nbformat.v4.new_code_cell("import os\nos._exit(0)")
    edit(copy, "04_multi_head_attention", lambda cells: cells.insert(1, ends))

    # a check of one's own does not help, in the check's cell, the answer's or utils.py
    def own_checks(cells):
        for cell in grading.tagged(cells, "check"):
            cell.source = OWN_CHECK

    edit(copy, FEED_FORWARD, own_checks)
    fill(copy, FEED_FORWARD, None, OWN_CHECK)
    utils = copy / "utils.py"
    text = utils.read_text(encoding="utf-8").replace('"not filled yet"', '"right"')
    utils.write_text(text, encoding="utf-8")

    # what cannot be graded
    def untag(cells):
        return grading.tagged(cells, "exercise")[0].metadata.clear()

    edit(copy, "02_input_embedding", untag)
    (copy / "notebooks" / "12_label_smoothing.ipynb").unlink()
    (copy / "notebooks" / "14_optimizer_schedule.ipynb").write_text("{")
    fill(copy, "16_translation", None, "answer = 1")
    replace_in(copy, "16_translation", "def beam_search(model", "def beam_search((model")

    grades = {(one.notebook[:2], one.exercise): (one.result, one.hint) for one in grade.grade(copy)}
    right = [("00", 1), ("00", 2), ("03", 1), ("03", 2), ("04", 2), ("05", 1), ("07", 1), ("07", 2)]
    assert {key: grades[key] for key in right} == dict.fromkeys(right, ("right", ""))
    # a hole is not run, even where its notebook cannot run
    empty = [("01", 1), ("06", 1), ("09", 1), ("11", 2), ("16", 1)]
    assert {key: grades[key] for key in empty} == dict.fromkeys(empty, ("not filled yet", ""))
    assert grades["04", 1] == ("not yet", "the scores were not divided by √d_k")
    assert grades["05", 2] == ("not yet", "It stopped with KeyError: (True, torch.float32)")
    hint = "It stopped with NameError: name 'GatedFeedForward' is not defined"
    assert grades["06", 2] == ("not yet", hint)
    assert grades["08", 2] == ("not yet", "It stopped with KeyError: 7.0")
    tags = "cells tagged exercise: 1 instead of 2; restore the tags or the cells"
    assert grades["02", 1] == grades["02", 2] == ("not graded", tags)
    missing = f"{copy / 'notebooks' / '12_label_smoothing.ipynb'}: missing"
    assert grades["12", 1] == ("not graded", missing)
    assert grades["14", 2][0] == "not graded" and "JSON" in grades["14", 2][1]
    # 12 and 14, which 15 imports, are the course's then
    assert [grades["15", number][0] for number in (1, 2)] == ["right"] * 2
    wrong = r"It stopped with SyntaxError: .*16_translation.ipynb, cell \d+"
    assert re.match(wrong, grades["16", 2][1])
    assert len(grades) == 34
    if os.name != "nt":  # Windows has no limit of memory
        assert grades["08", 1][0] == "not yet" and "MemoryError" in grades["08", 1][1]


def test_endless_loops_and_exits_are_told_where_only_the_notebooks_were_handed_in(
    original, tmp_path, monkeypatch
):
    names = (POSITIONS, LAYER_NORM, FEED_FORWARD, SUBLAYER)
    monkeypatch.setattr(grading, "LIMIT", 5)
    for module in (grade, grading):
        some = [path for path in NOTEBOOKS if path.stem in names]
        monkeypatch.setattr(module, "NOTEBOOKS", some)
    copy = handed_in(original, tmp_path / "ben", *names)
    fill(copy, POSITIONS, "import os\nos._exit(3)", stated(POSITIONS, 2, "exit()"))
    # an export cell that loops is waited for once, though two notebooks import it
    replace_in(copy, LAYER_NORM, "class LayerNorm", "while True:\n    pass\n\n\nclass LayerNorm")
    fill(copy, LAYER_NORM, *solutions(LAYER_NORM))
    fill(copy, FEED_FORWARD, "while True:\n    pass", solutions(FEED_FORWARD)[1])
    fill(copy, SUBLAYER, *solutions(SUBLAYER))
    halted = "import of notebooks.layer_norm halted; None in sys.modules"
    reason = f"{LAYER_NORM} was stopped after 5 s: an endless loop?"
    late = ("not yet", f"It stopped with ModuleNotFoundError: {halted} ({reason})")
    assert [(one.result, one.hint) for one in grade.grade(copy)] == [
        ("not yet", "It ended Python itself, with exit status 3"),
        ("not yet", "It stopped with SystemExit: None"),
        late,
        late,
        ("not yet", "It was stopped after 5 s: an endless loop?"),
        ("right", ""),
        late,
        late,
    ]
    # without it Python would take the course's own notebooks
    (copy / "notebooks" / "__init__.py").unlink()
    assert {one.result for one in grade.grade(copy)} == {"not graded"}


@pytest.mark.parametrize(
    "arguments",
    [["no/where"], [str(ROOT), "--out", str(ROOT)], [str(ROOT), f"{ROOT}/tests/.."]],
    ids=["no folder", "out is a folder", "one copy twice"],
)
def test_grading_what_is_no_class_of_copies(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        grade.main(arguments)
    assert stopped.value.code == 2 and "grade.py: error: " in capsys.readouterr().err


def test_no_cell_of_the_table_is_a_formula():
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"):
        assert grade.cell(text) == f"'{text}"
    assert grade.cell("right") == "right"


def test_the_class_is_a_line_for_each_student_and_what_was_missed(capsys):
    results = {
        "anna": ["right", "not yet. forgot the mask", "not filled yet"],
        "ben": ["right", "not yet. forgot the mask", "not graded. missing"],
        "chao": ["not yet. other", "not yet. too slow", "right"],
    }
    tasks = ("04_attention", 1), ("04_attention", 2), ("05_layer_norm", 1)
    students = {
        name: [grade.to_grade(*task, text) for task, text in zip(tasks, texts)]
        for name, texts in results.items()
    }
    grade.print_class(students)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  anna  04 +-  05 .",
        "  ben   04 +-  05 ?",
        "  chao  04 --  05 +",
        "Right: 3 of 9; a student 1 to 1, the middle 1",
        "Most missed:",
        "  04_attention 2: 3 of 3; 2 x forgot the mask",
        "  04_attention 1: 1 of 3; 1 x other",
    ]


def test_what_a_grading_process_sends_is_text_alone():
    """No object is unpacked, whatever a student's code writes into the connection."""
    for sent in (pickle.dumps(Path("x")), b"\xff", b'"' + b"x" * 70_000):
        ours, theirs = multiprocessing.Pipe()
        theirs.send_bytes(sent)
        with pytest.raises((OSError, ValueError)):
            grading.heard(ours)
    ours, theirs = multiprocessing.Pipe()
    grading.say(theirs, "not yet. " + "好" * 100_000)
    assert grading.heard(ours).startswith("not yet. 好")


def test_grading_is_in_utf_8(original, tmp_path):
    copy = handed_in(original, tmp_path / "kim", LAYER_NORM)
    prints = solutions(LAYER_NORM)[0].replace("    return x /", "    print('电')\n    return x /")
    fill(copy, LAYER_NORM, prints, stated(LAYER_NORM, 2, "raise KeyError('√')"))
    done = run_python(GRADE, copy, PYTHONUTF8="0", PYTHONIOENCODING="cp1252")
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert [row for row in rows if row.startswith(LAYER_NORM)] == [
        f"{LAYER_NORM} 1 right",
        f"{LAYER_NORM} 2 not yet It stopped with KeyError: '√'",
    ], done.stderr


def is_alive(number):
    """Whether there is such a process, and it has not ended."""
    path = Path(f"/proc/{number}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(holds):
    """Whether this holds within two minutes."""
    end = time.monotonic() + 120
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
    return holds()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_a_stopped_grader_leaves_no_process_behind(original, tmp_path):
    copy = handed_in(original, tmp_path / "jan", LAYER_NORM)
    note = tmp_path / "processes"
    loops = f"""
def rms_norm(*given):
    import os
    import subprocess

    child = subprocess.Popen(["sleep", "600"])
    with open({str(note)!r}, "w") as file:
        print(os.getpid(), child.pid, file=file)
    while True:
        pass
"""
    fill(copy, LAYER_NORM, loops, None)
    options = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    # a session of its own: a signal of a terminal reaches all processes of a group
    grader = subprocess.Popen([sys.executable, GRADE, copy], start_new_session=True, **options)
    left = []
    try:
        assert wait_until(lambda: note.exists() and note.read_text().endswith("\n"))
        left = [int(number) for number in note.read_text().split()]
        os.killpg(grader.pid, signal.SIGTERM)
        message = grader.communicate(timeout=60)[1]
        assert (grader.returncode, message) == (130, "stopped\n")
        assert wait_until(lambda: not any(map(is_alive, left))), "processes were left behind"
    finally:
        for number in filter(is_alive, [grader.pid, *left]):
            os.kill(number, signal.SIGKILL)
        grader.wait()


def test_magics_that_run_their_cell_are_left_out_of_an_answer():
    assert [node.name for node in verdicts.statements("%%time\ndef f():\n    return 1")] == ["f"]
    assert verdicts.statements("%%html\n<b>text</b>")[0].value.func.attr == "run_cell_magic"

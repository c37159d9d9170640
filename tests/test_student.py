"""`make student` and `make grade`: the copy holds no solution and works.

Its exercises are graded by the course's checks.
"""

import csv
import json
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

import grade
import nbformat
import pytest
import student
from conftest import ROOT, run_python
from grade import NOTEBOOKS, exercises
from nbclient import NotebookClient

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


@pytest.fixture
def copy(original, tmp_path):
    """A copy to be filled."""
    return shutil.copytree(original, tmp_path / "anna")


def handed_in(original, folder, *names):
    """A copy of which these notebooks were handed in, and no other."""
    ours = original / "notebooks"
    theirs = folder / "notebooks"
    shutil.copytree(ours / "support", theirs / "support")
    for name in ("__init__.py", *(f"{name}.ipynb" for name in names)):
        shutil.copy(ours / name, theirs / name)
    return folder


def results(folder, *names):
    """(result, hint) of each exercise of these notebooks."""
    return [(one.result, one.hint) for one in grade.grade(folder) if one.notebook in names]


def read(folder, name):
    return nbformat.read(folder / "notebooks" / f"{name}.ipynb", as_version=4)


def edit(folder, name, change):
    """Saves a notebook after `change(cells)`."""
    notebook = read(folder, name)
    change(notebook.cells)
    nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")


def fill(folder, name, *answers):
    """Writes answers into the exercises of a notebook; None leaves one as it is."""

    def change(cells):
        for cell, answer in zip(grade.tagged(cells, "exercise"), answers):
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


def test_notebooks_are_valid_and_the_same_but_for_outputs_and_solutions(original):
    for path in NOTEBOOKS:
        ours, theirs = nbformat.read(path, as_version=4), read(original, path.stem)
        nbformat.validate(theirs)
        assert theirs.metadata == ours.metadata
        code = lambda book: [cell.source for cell in book.cells if cell.cell_type == "code"]
        assert code(ours) == code(theirs)
        assert len(ours.cells) - len(theirs.cells) == len(exercises(path))
        holes = grade.tagged(theirs.cells, "exercise")
        assert [hole.source for hole in holes] == [exercise.hole for exercise in exercises(path)]
        assert all("raise NotImplementedError" in hole.source for hole in holes)
        for cell in theirs.cells:
            assert set(cell.metadata) <= {"tags"} and not cell.get("outputs")
            assert cell.get("execution_count") is None


def test_no_file_holds_a_solution_or_speaks_of_one(original):
    kinds = (".ipynb", ".py", ".md", ".toml", "")
    files = [path for path in original.rglob("*") if path.suffix in kinds]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files if path.is_file())
    assert "<details>" not in text and "olution is folded" not in text
    cells = [cell.source for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells]
    shown = "\n".join(cell for cell in cells if not cell.startswith(grade.FOLDED))
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
        "data_small/train.tsv data_large/prepare.py tests/test_08_encoder.py"
    )
    assert set(needed.split()) <= names
    assert not any(name.startswith(student.LEFT_OUT) for name in names)
    for name in names - set(student.CHANGES):
        if not name.endswith(".ipynb"):
            assert (original / name).read_bytes() == (ROOT / name).read_bytes(), name
    assert [path.name for path in original.parent.iterdir()] == ["original"]  # no temporary folder


def test_readme_and_notebooks_promise_only_what_is_there(original):
    makefile = (original / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert targets == set(
        "help run translate test lab translator bench bench-full train-large".split()
    )
    assert "tools" not in makefile and "nbval" not in makefile and "ruff" not in makefile
    for path in (*original.rglob("*.md"), *original.rglob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:^|`)make (?:[A-Z]+=\S+ )?([a-z-]+)", text, re.M)
        assert set(named) <= targets, path
        if path.suffix == ".ipynb":  # in code `](` is a call
            cells = nbformat.reads(text, as_version=4).cells
            prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        else:
            prose = text
        for link in re.findall(r"\]\(([^)#\s:\\]+)\)", prose):
            assert (path.parent / link).exists(), (path, link)
        for file in re.findall(r"\btests/[\w/]+\.py", text):
            assert (original / file).exists(), (path, file)
    readme = (original / "README.md").read_text(encoding="utf-8")
    assert "## Your copy" in readme
    assert not [word for word in ("teacher", "nbval", "compared") if word in readme]


def test_an_edited_class_is_what_later_notebooks_use(copy):
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


@pytest.mark.parametrize("name", [LAYER_NORM, SUBLAYER])
def test_run_all_goes_through(original, name):
    """Two quick notebooks; `make test` runs all of them, with the same holes."""
    notebook = read(original, name)
    client = NotebookClient(notebook, resources={"metadata": {"path": original / "notebooks"}})
    client.execute(env={**os.environ, "PYTHONPATH": str(original), "OMP_NUM_THREADS": "1"})
    printed = [cell.outputs[0].text for cell in grade.tagged(notebook.cells, "check")]
    assert printed == ["Exercise 1: not filled yet\n", "Exercise 2: not filled yet\n"]


def test_a_folder_that_exists_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("kept")
    assert student.main([str(tmp_path)]) == 2
    message = (
        f"student.py: {tmp_path} exists already, and was not changed. "
        "Name another folder, or remove it\n"
    )
    assert capsys.readouterr().err == message
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failure_leaves_nothing(tmp_path, monkeypatch, capsys):
    def fails(notebook):
        raise OSError("the disk is full")

    monkeypatch.setattr(student.nbformat, "writes", fails)
    assert student.main([str(tmp_path / "out")]) == 2
    assert "out was not written: the disk is full" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_git_or_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(student, "ROOT", tmp_path)
    assert student.main([str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert f"{tmp_path} is no Git checkout" in message and message.count("\n") == 1
    monkeypatch.setenv("PATH", "")
    assert student.main([str(tmp_path / "out")]) == 2
    assert "git is needed" in capsys.readouterr().err


def test_what_would_give_a_solution_away_is_refused():
    text = (ROOT / "notebooks" / "06_feed_forward.ipynb").read_text(encoding="utf-8")
    with pytest.raises(student.CopyError, match="06, exercise 1: it is filled"):
        student.without_solutions("06", text.replace("raise NotImplementedError", "return 1"))
    told = "06: a folded solution is wanted for each of its 2 exercises"
    with pytest.raises(student.CopyError, match=told):
        student.without_solutions("06", text.replace("<details>", "<div>"))
    with pytest.raises(student.CopyError, match="Makefile has changed"):
        student.changed("Makefile", "all:\n")


def test_an_untouched_copy_is_not_filled_yet(original, tmp_path, capsys):
    before = sorted(original.rglob("*"))
    assert grade.main([str(original), "--out", str(tmp_path / "grades.csv")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("not filled yet\n") == 35
    assert "0 right, 0 not yet, 35 not filled yet, 0 not graded" in printed
    rows = list(csv.DictReader((tmp_path / "grades.csv").open(encoding="utf-8-sig")))
    assert len(rows) == 35 and {row["result"] for row in rows} == {"not filled yet"}
    assert list(rows[11].values()) == [str(original), LAYER_NORM, "2", "not filled yet", ""]
    assert sorted(original.rglob("*")) == before


OWN_CHECK = "def check(name):\n    return lambda asserts: 'right'\n\nprint('Exercise 1: right')"


def test_a_filled_copy(copy):
    """One copy with all that can happen, since each grading process has to import PyTorch anew."""
    for name in ("00_setup", "03_positional_encoding", "15_training"):
        fill(copy, name, *solutions(name))
    attend, own_matrix = solutions("04_multi_head_attention")
    fill(copy, "04_multi_head_attention", attend.replace("/ math.sqrt(len(query))", ""), own_matrix)
    # an edited class is what later notebooks import
    replace_in(copy, LAYER_NORM, NORMALISED, f"{NORMALISED} * 0 + 7")
    mean = (
        "def post_norm_layer(attention, feed_forward, norms, x, mask):\n"
        "    raise KeyError(norms[0](x).mean().item())"
    )
    fill(copy, ENCODER, None, mean)
    # a magic, a picture, a variable of another cell: they work in Jupyter, and are no mistakes
    count, rezero = solutions(SUBLAYER)
    count += "\n%timeit 1 + 1\nprint(of_another_cell)\ndisplay(3)"
    fill(copy, SUBLAYER, count, f"!ls\n{rezero}")
    other_cell = nbformat.v4.new_code_cell("%matplotlib inline\nno Python")
    edit(copy, SUBLAYER, lambda cells: cells.append(other_cell))

    # a check of one's own does not help, in the check's cell, the answer's or utils.py
    def own_checks(cells):
        for cell in grade.tagged(cells, "check"):
            cell.source = OWN_CHECK

    edit(copy, FEED_FORWARD, own_checks)
    fill(copy, FEED_FORWARD, None, OWN_CHECK)
    utils = copy / "utils.py"
    text = utils.read_text(encoding="utf-8").replace('"not filled yet"', '"right"')
    utils.write_text(text, encoding="utf-8")
    # what cannot be graded
    untag = lambda cells: grade.tagged(cells, "exercise")[0].metadata.clear()
    edit(copy, "02_input_embedding", untag)
    (copy / "notebooks" / "12_label_smoothing.ipynb").unlink()
    (copy / "notebooks" / "14_optimizer_schedule.ipynb").write_text("{")
    fill(copy, "16_translation", None, "answer = 1")
    replace_in(copy, "16_translation", "class Translator:", "class Translator(:")

    found = {(one.notebook[:2], one.exercise): (one.result, one.hint) for one in grade.grade(copy)}
    right = [("00", 1), ("00", 2), ("03", 1), ("03", 2), ("04", 2), ("07", 1), ("07", 2)]
    assert {key: found[key] for key in right} == dict.fromkeys(right, ("right", ""))
    empty = [("01", 1), ("05", 2), ("06", 1), ("08", 1), ("11", 2)]
    assert {key: found[key] for key in empty} == dict.fromkeys(empty, ("not filled yet", ""))
    assert found["04", 1] == ("not yet", "the scores were not divided by √d_k")
    hint = "It stopped with NameError: name 'GatedFeedForward' is not defined"
    assert found["06", 2] == ("not yet", hint)
    assert found["08", 2] == ("not yet", "It stopped with KeyError: 7.0")
    tags = "cells tagged exercise: 1 instead of 2; restore the tags or the cells"
    assert found["02", 1] == found["02", 2] == ("not graded", tags)
    missing = f"{copy / 'notebooks' / '12_label_smoothing.ipynb'}: missing"
    assert found["12", 1] == ("not graded", missing)
    assert found["14", 2][0] == "not graded" and "JSON" in found["14", 2][1]
    # 12 and 14, which 15 imports, are the course's then
    assert [found["15", number][0] for number in (1, 2, 3)] == ["right"] * 3
    wrong = r"It stopped with SyntaxError: .*16_translation.ipynb, cell \d+"
    assert re.match(wrong, found["16", 2][1])
    assert len(found) == 35


def test_endless_loops_and_exits_are_told_where_only_the_notebooks_were_handed_in(
    original, tmp_path, monkeypatch
):
    copy = tmp_path / "ben"
    shutil.copytree(original / "notebooks", copy / "notebooks")
    monkeypatch.setattr(grade, "LIMIT", 5)
    two = [path for path in NOTEBOOKS if path.stem in (LAYER_NORM, SUBLAYER)]
    monkeypatch.setattr(grade, "NOTEBOOKS", two)
    fill(copy, LAYER_NORM, "import time\nwhile True:\n    time.sleep(1)", solutions(LAYER_NORM)[1])
    exits = "class ReZero:\n    def __init__(self):\n        exit()"
    fill(copy, SUBLAYER, "import os\nos._exit(3)", exits)
    assert [(one.result, one.hint) for one in grade.grade(copy)] == [
        ("not yet", "It was stopped after 5 s: an endless loop?"),
        ("right", ""),
        ("not yet", "It ended Python itself, with exit status 3"),
        ("not yet", "It stopped with SystemExit: None"),
    ]
    # without it Python would take the course's own notebooks
    (copy / "notebooks" / "__init__.py").unlink()
    assert {one.result for one in grade.grade(copy)} == {"not graded"}


def test_grading_a_folder_that_is_none(tmp_path, capsys):
    no_place = [str(ROOT), "--out", str(tmp_path / "no" / "grades.csv")]
    folder = [str(ROOT), "--out", str(tmp_path)]
    for arguments in ([str(tmp_path)], ["no/where"], no_place, folder):
        with pytest.raises(SystemExit) as stopped:
            grade.main(arguments)
        assert stopped.value.code == 2 and "grade.py: error: " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_of_the_table_is_a_formula(text):
    assert grade.cell(text) == f"'{text}" and grade.cell("right") == "right"


def test_the_class_is_a_line_for_each_student_and_what_was_missed(capsys):
    results = {
        "anna": ["right", "not yet. forgot the mask", "not filled yet"],
        "ben": ["right", "not yet. forgot the mask", "not graded. missing"],
        "chao": ["not yet. other", "not yet. too slow", "right"],
    }
    places = ("04_multi_head_attention", 1), ("04_multi_head_attention", 2), ("05_layer_norm", 1)
    grades = [
        grade.to_grade(name, *place, text)
        for name, texts in results.items()
        for place, text in zip(places, texts)
    ]
    grade.print_class(grades)
    assert capsys.readouterr().out.splitlines() == [
        "The class: 3 students, 3 exercises (+ right, - not yet, . not filled yet, ? not graded)",
        "  anna  04 +-  05 .",
        "  ben   04 +-  05 ?",
        "  chao  04 --  05 +",
        "Right: 3 of 9; a student 1 to 1, the middle 1",
        "Most missed:",
        "  04_multi_head_attention 2: 3 of 3; 2 x forgot the mask",
        "  04_multi_head_attention 1: 1 of 3; 1 x other",
    ]
    grade.print_class([one for one in grades if one.result != "not yet"])
    assert capsys.readouterr().out.splitlines()[-1] == "Nobody has a wrong answer"


def test_what_is_still_the_hole_is_not_filled_even_where_its_notebook_cannot_run(copy):
    replace_in(copy, "06_feed_forward", "class PositionwiseFeedForward", "class Other")
    found = {(one.notebook[:2], one.exercise): one.result for one in grade.grade(copy)}
    assert set(found.values()) == {"not filled yet"}


def test_what_a_grading_process_sends_is_text_alone():
    """No object is unpacked, whatever a student's code writes into the connection."""
    ours, theirs = multiprocessing.Pipe()
    for sent in (pickle.dumps(Path("x")), b"[1]", b"[" * 60_000, b"\xff", b'"' + b"x" * 70_000):
        ours, theirs = multiprocessing.Pipe()
        theirs.send_bytes(sent)
        with pytest.raises(EOFError):
            grade.heard(ours)
    ours, theirs = multiprocessing.Pipe()
    grade.say(theirs, "not yet. " + "好" * 100_000)
    assert grade.heard(ours).startswith("not yet. 好")


def test_a_copy_that_wants_too_much_memory_is_told(original, tmp_path, monkeypatch):
    pytest.importorskip("resource", reason="Windows has no such limit")
    copy = tmp_path / "eva"
    shutil.copytree(original / "notebooks", copy / "notebooks")
    two = [path for path in NOTEBOOKS if path.stem == LAYER_NORM]
    monkeypatch.setattr(grade, "NOTEBOOKS", two)
    greedy = "def rms_norm(*given):\n    return bytearray(1 << 40)"
    fill(copy, LAYER_NORM, greedy, solutions(LAYER_NORM)[1])
    found = [(one.result, one.hint) for one in grade.grade(copy)]
    assert found[1] == ("right", "") and found[0][0] == "not yet" and "MemoryError" in found[0][1]


def test_what_an_answer_sets_spoils_no_other(original, tmp_path):
    copy = handed_in(original, tmp_path / "mia", POSITIONS, LAYER_NORM, SUBLAYER)
    sets = (
        "import builtins\nbuiltins.id = None\n"
        "torch.set_grad_enabled(False)\ntorch.set_default_dtype(torch.float64)\n"
    )
    tells = "raise KeyError(torch.is_grad_enabled(), torch.get_default_dtype())"
    answer = sets + solutions(LAYER_NORM)[0]
    fill(copy, LAYER_NORM, answer, f"def norm_gradients(x, g):\n    {tells}")
    fill(copy, SUBLAYER, *solutions(SUBLAYER))  # the first calls `id`
    assert results(copy, LAYER_NORM, SUBLAYER) == [
        ("right", ""),
        ("not yet", "It stopped with KeyError: (True, torch.float32)"),
        ("right", ""),
        ("right", ""),
    ]


def test_grading_is_in_utf_8_whatever_the_environment_says(original, tmp_path):
    copy = handed_in(original, tmp_path / "kim", LAYER_NORM)
    prints = solutions(LAYER_NORM)[0].replace("    return x /", "    print('电')\n    return x /")
    assert "电" in prints
    fill(copy, LAYER_NORM, prints, "def norm_gradients(x, g):\n    raise KeyError('√')")
    done = run_python(GRADE, copy, PYTHONUTF8="0", PYTHONIOENCODING="cp1252")
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines() if LAYER_NORM in line]
    assert [row[2].split(maxsplit=2) for row in rows] == [
        ["right"],
        ["not", "yet", "It stopped with KeyError: '√'"],
    ], done.stderr


def test_export_cells_that_loop_are_waited_for_once(original, tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "LIMIT", 10)
    names = (LAYER_NORM, FEED_FORWARD, SUBLAYER)
    copy = handed_in(original, tmp_path / "leo", POSITIONS, *names)
    replace_in(copy, LAYER_NORM, "class LayerNorm", "while True:\n    pass\n\n\nclass LayerNorm")
    for name in names:
        fill(copy, name, *solutions(name))
    halted = "import of notebooks.layer_norm halted; None in sys.modules"
    reason = f"{LAYER_NORM} was stopped after 10 s: an endless loop?"
    late = ("not yet", f"It stopped with ModuleNotFoundError: {halted} ({reason})")
    right = ("right", "")  # 06 does not import it, 07 does
    assert results(copy, *names) == [late, late, right, right, late, late]


def test_half_a_message_is_not_waited_for(original, tmp_path):
    copy = handed_in(original, tmp_path / "ute", LAYER_NORM)
    writes_half = """
def rms_norm(*given):
    import gc
    import os
    from multiprocessing.connection import Connection

    for thing in gc.get_objects():
        if isinstance(thing, Connection):
            os.write(thing.fileno(), b"\\0\\0\\0\\x20half")
    while True:
        pass
"""
    fill(copy, LAYER_NORM, writes_half, solutions(LAYER_NORM)[1])
    done = run_python(GRADE, copy)  # in a process of its own, which can be ended
    rows = [" ".join(line.split()) for line in done.stdout.splitlines() if LAYER_NORM in line]
    told = [f"{LAYER_NORM} 1 not yet It sent no verdict", f"{LAYER_NORM} 2 right"]
    assert rows == told, done.stderr


def test_no_oddity_of_a_student_stops_the_class_or_orders_the_terminal(original, tmp_path, capsys):
    odd = handed_in(original, tmp_path / "odd\x1b[2J", LAYER_NORM)
    raises = "raise SystemExit('\\ud800 \\x1b[31m red')"
    fill(odd, LAYER_NORM, f"def rms_norm(*given):\n    {raises}", None)
    (odd / "notebooks" / f"{SUBLAYER}.ipynb").write_text("\x1b[31m")
    plain = handed_in(original, tmp_path / "plain", LAYER_NORM)
    table = tmp_path / "grades.csv"
    assert grade.main([str(odd), str(plain), "--out", str(table)]) == 0
    printed = capsys.readouterr().out
    written = table.read_text(encoding="utf-8-sig")
    assert f"{plain}\n" in printed
    for text in (printed, written):
        assert r"It stopped with SystemExit: \ud800 [31m red" in text
        assert "\x1b" not in text


def test_the_table_is_written_whole_or_not_at_all(tmp_path):
    pytest.importorskip("resource", reason="Windows has no such limit")
    (tmp_path / "notebooks").mkdir()
    table = tmp_path / "grades.csv"
    table.write_text("last week's")
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", sys.executable, GRADE]
    command = [*limited, tmp_path, "--out", table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, table.read_text()) == (2, "last week's"), done.stderr
    assert re.fullmatch("error: .*File too large.*\n", done.stderr), done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"grades.csv", "notebooks"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_table_that_is_no_regular_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "notebooks").mkdir()
    done = run_python(GRADE, tmp_path, "--out", "/dev/full")
    told = "error: /dev/full: is no regular file. Give one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_who_reads_the_grades_may_stop_reading(tmp_path):
    (tmp_path / "notebooks").mkdir()
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, GRADE, tmp_path]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def is_alive(number):
    """Whether there is such a process, and it has not ended."""
    path = Path(f"/proc/{number}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(holds):
    """Whether this holds within a minute."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
    return holds()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
@pytest.mark.parametrize("sent", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_stopped_grader_leaves_no_process_behind(original, tmp_path, sent):
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
    # a session of its own: Ctrl-C in a terminal reaches all processes of a group
    grader = subprocess.Popen([sys.executable, GRADE, copy], start_new_session=True, **options)
    left = []
    try:
        assert wait_until(lambda: note.exists() and note.read_text().endswith("\n"))
        left = [int(number) for number in note.read_text().split()]
        os.killpg(grader.pid, getattr(signal, sent))
        told = grader.communicate(timeout=60)[1]
        assert (grader.returncode, told) == (130, "stopped\n")
        assert wait_until(lambda: not any(map(is_alive, left))), "processes were left behind"
    finally:
        for number in filter(is_alive, [grader.pid, *left]):
            os.kill(number, signal.SIGKILL)
        grader.wait()

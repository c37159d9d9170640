"""The importer: a notebook is a module.

Faulty notebooks are made in a folder of their own with a copy of the importer.
"""

import ast
import graphlib
import inspect
import json
import platform
import runpy
import shutil
import sys

import IPython
import nbformat
import pytest
import torch
from conftest import NOTEBOOKS, ROOT, TUNE, run_python

import notebooks
from notebooks import __main__ as one_file_program
from notebooks.layer_norm import LayerNorm
from notebooks.positional_encoding import sinusoids

GREET = '#| export\nimport sys\n\n\ndef greet(name):\n    return f"hello {name}"'


def write_notebook(path, *cells):
    """A notebook file with these code cells."""
    code = [nbformat.v4.new_code_cell(text) for text in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=code), path)


@pytest.fixture
def package(tmp_path):
    """A folder with a `notebooks` package of its own, which holds one notebook."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copy(ROOT / "notebooks" / "__init__.py", folder)
    (tmp_path / "engine").mkdir()
    for name in ("__init__.py", "startup.py", "plain_text.py"):
        shutil.copy(ROOT / "engine" / name, tmp_path / "engine")
    wrong = "raise SystemError('not exported')"
    write_notebook(folder / "03_greeting.ipynb", wrong, GREET, "%matplotlib inline")
    return folder


def run_in(package, *arguments, **options):
    return run_python(*arguments, cwd=package.parent, PYTHONPATH=str(package.parent), **options)


def test_only_export_cells_are_executed(package):
    done = run_in(package, "-c", "from notebooks.greeting import greet; print(greet('you'))")
    assert (done.returncode, done.stdout) == (0, "hello you\n"), done.stderr


ROOMS = ("engine", "engine/corpus", "engine/export", "notebooks/support", "studies", ".")


def sources():
    """The project's modules and the code that an import of each executes: {name: source}."""
    sources_by_name = {}
    for folder in ROOMS:
        for path in sorted((ROOT / folder).glob("[a-z]*.py")):
            name = f"{folder.strip('.').replace('/', '.')}.{path.stem}".strip(".")
            sources_by_name[name] = path.read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        cells = notebooks.export_cells(path)
        sources_by_name[f"notebooks.{path.stem[3:]}"] = "\n\n".join(text for _, text in cells)
    return sources_by_name


def imported(source):
    """The modules that a source imports anywhere, inside functions and classes too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


LESSONS = [f"notebooks.{path.stem[3:]}" for path in NOTEBOOKS]
PROGRAMS = ["train", "translate", "prepare", "export"]


def may_import(name):
    """Of which modules of the project a module may import."""
    if name in LESSONS:  # those with lower numbers, and nothing else of ours
        return LESSONS[: LESSONS.index(name)]
    if name == "utils":
        return []
    rooms = ["engine.", "notebooks.", "utils"]
    if name.startswith("engine."):
        return ["engine.", "utils", *LESSONS]
    if name.startswith("notebooks.support."):
        return rooms
    assert name in PROGRAMS or name.startswith("studies."), name
    return [*rooms, "studies."]


def test_arrows_go_one_way():
    """Lessons, then engine, then what lessons show and programs: no module imports back."""
    graph = {name: set(imported(source)) & sources().keys() for name, source in sources().items()}
    wrong = [(name, other) for name, others in graph.items() for other in others
             if not other.startswith(tuple(may_import(name)))]  # fmt: skip
    assert wrong == []
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names a circle
    assert sum(map(len, graph.values())) > 150


def test_an_import_inside_a_function_would_be_found():
    source = "def late():\n    from notebooks.training import train\n    import utils"
    assert {"notebooks.training", "utils"} <= set(imported(source))


def test_getsource_of_class_and_function():
    assert inspect.getsource(LayerNorm).startswith("class LayerNorm(nn.Module):\n")
    assert inspect.getsource(LayerNorm).rstrip().endswith("self.eps)")
    assert inspect.getsource(sinusoids).startswith("def sinusoids(")
    assert inspect.getsource(LayerNorm.forward).strip().startswith("def forward")


@pytest.mark.skipif(IPython.version_info < (8,), reason="IPython 7 shows no source of a notebook")
def test_double_question_mark_shows_the_source():
    code = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
    code += "; s.run_cell('from notebooks.layer_norm import *')"
    done = run_python("-c", code + "; s.run_cell('LayerNorm??')")
    assert "self.bias = nn.Parameter" in done.stdout, done.stderr
    assert "05_layer_norm.ipynb" in done.stdout


def test_uncaught_error_in_plain_python_shows_the_line_of_the_cell(package):
    write_notebook(package / "04_broken.ipynb", "#| export\ndef fail():\n    return 1 / 0  # here")
    write_notebook(package / "05_crash.ipynb", "#| export\nimport notebooks.broken as b\nb.fail()")
    done = run_in(
        package,
        "-c",
        TUNE + "import notebooks.crash",
    )
    assert done.returncode == 1
    assert "return 1 / 0  # here" in done.stderr
    assert "04_broken.ipynb" in done.stderr


@pytest.mark.parametrize(
    "module, program", [("training", "train.py"), ("translation", "translate.py")]
)
def test_a_lesson_is_no_program_and_says_what_is(module, program):
    done = run_python("-m", f"notebooks.{module}", "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Type instead: python {program} ...\n"


def test_torchrun(package):
    text = (
        "#| export\nimport os\n\n"
        'rank, size = os.environb[b"RANK"], os.environb[b"WORLD_SIZE"]\n'
        'os.write(1, b"rank %s of %s\\n" % (rank, size))'
    )
    write_notebook(package / "06_ranks.ipynb", text)
    launch = "-m torch.distributed.run --nproc-per-node 2".split()
    done = run_in(package, *launch, "-m", "notebooks.ranks")
    assert sorted(done.stdout.split("\n")[:-1]) == ["rank 0 of 2", "rank 1 of 2"], done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pickle_to_a_worker(package, method):
    if method == "forkserver" and sys.platform == "win32":
        pytest.skip("Windows has no forkserver")
    (package.parent / "main.py").write_text(
        "import multiprocessing\nfrom notebooks.greeting import greet\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context('{method}').Pool(1) as pool:\n"
        "        print(pool.map(greet, ['a', 'b']))\n"
    )
    assert run_in(package, "main.py").stdout == "['hello a', 'hello b']\n"


def test_a_program_can_send_its_functions_to_spawned_workers(package):
    text = (
        "#| export\nimport multiprocessing\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [3]))"
    )
    write_notebook(package / "06_workers.ipynb", text)
    assert run_in(package, "-m", "notebooks.workers").stdout == "[6]\n"


def test_reload_uses_the_edited_notebook(package):
    code = (
        "import importlib, inspect, pathlib, notebooks.greeting as g; old = g.greet\n"
        "path = pathlib.Path(g.__file__)\n"
        "path.write_text(path.read_text().replace('hello', 'goodbye'))\n"
        "importlib.reload(g)\n"
        "print(g.greet('you'), old('you'), 'goodbye' in inspect.getsource(g.greet))"
    )
    assert run_in(package, "-c", code).stdout == "goodbye you hello you True\n"


def test_a_breakpoint_stops_in_the_cell(package):
    stops = GREET.replace("    return", "    breakpoint()\n    return")
    write_notebook(package / "03_greeting.ipynb", stops)
    code = "from notebooks.greeting import greet; print(greet('you'))"
    done = run_in(package, "-c", code, stdin="p name\ncontinue\n")
    assert "03_greeting.ipynb(7)greet()" in done.stdout and "-> return" in done.stdout
    assert "'you'" in done.stdout and "hello you" in done.stdout


def test_from_any_working_directory(tmp_path):
    code = "import utils, notebooks.setup as s; print(s.Config().d_model, utils.ROOT)"
    done = run_python("-c", code, cwd=tmp_path)
    assert done.stdout == f"256 {ROOT}\n", done.stderr


def test_missing_notebook_names_it(package):
    done = run_in(package, "-c", "import notebooks.nowhere")
    assert "NotebookError" in done.stderr
    assert "NN_nowhere.ipynb" in done.stderr


def test_a_notebook_as_other_editors_save_it(package):
    path = package / "03_greeting.ipynb"
    write_notebook(path, "#| export \r\nWORD = 'hello'\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    done = run_in(package, "-c", "import notebooks.greeting as lesson; print(lesson.WORD)")
    assert done.stdout == "hello\n", done.stderr


@pytest.mark.parametrize("mark", ["#| Export", "#|export", "#export", "# exports", "#|exporti"])
def test_a_mark_that_is_spelt_otherwise_is_refused(package, mark):
    write_notebook(package / "03_greeting.ipynb", f"{mark}\nWORD = 'hello'")
    done = run_in(package, "-c", "import notebooks.greeting")
    assert "The cell must begin with '#| export'" in done.stderr


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_export_cell_that_became_text_is_refused(package, kind):
    """By one key in Jupyter: M or R."""
    cell = {"cell_type": kind, "source": "#| export\nx = 1", "metadata": {}}
    (package / "02_other.ipynb").write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(notebooks.NotebookError, match="is no code cell. In JupyterLab select it"):
        notebooks.export_cells(package / "02_other.ipynb")


def test_what_is_no_file_is_told_by_name(package):
    path = package / "03_greeting.ipynb"
    path.unlink()
    path.mkdir()
    done = run_in(package, "-c", "import notebooks.greeting")
    assert "NotebookError: 03_greeting.ipynb cannot be read" in done.stderr


def test_two_notebooks_of_one_name(package):
    shutil.copy(package / "03_greeting.ipynb", package / "04_greeting.ipynb")
    done = run_in(package, "-c", "import notebooks.greeting")
    assert "03_greeting.ipynb, 04_greeting.ipynb" in done.stderr


@pytest.mark.parametrize("content", ["{", '{"cells": [{"cell_type": "code"}]}', "[]"])
def test_not_a_notebook(package, content):
    (package / "03_greeting.ipynb").write_text(content)
    done = run_in(package, "-c", "import notebooks.greeting")
    assert "NotebookError: 03_greeting.ipynb is not a notebook" in done.stderr


def test_syntax_error_names_notebook_cell_and_line(package):
    cells = ["text = 1", "#| export\nimport sys", "#| export\ndef f():\n    return (1"]
    write_notebook(package / "07_wrong.ipynb", *cells)
    done = run_in(package, "-c", "import notebooks.wrong")
    where = "07_wrong.ipynb, cell 2 ('def f():'), line 3 of the cell"
    assert "SyntaxError" in done.stderr
    assert where in done.stderr


@pytest.mark.parametrize("magic", ["%time f()", "!ls", "f?", "x = !ls"])
def test_magic_in_an_export_cell(package, magic):
    write_notebook(package / "07_magic.ipynb", f"#| export\ny = 1\n{magic}")
    done = run_in(package, "-c", "import notebooks.magic")
    message = "a magic or shell command cannot stand in an export cell: 07_magic.ipynb, cell 0"
    assert message in done.stderr


@pytest.mark.parametrize("line", ['print("lr = %g" % 3', "x = (1,  # is this right?"])
def test_a_syntax_error_is_not_taken_for_a_magic(package, line):
    write_notebook(package / "07_open.ipynb", f"#| export\ny = 1\n{line}")
    assert "was never closed: 07_open" in run_in(package, "-c", "import notebooks.open").stderr


def test_the_percent_operator_is_not_a_magic(package):
    write_notebook(package / "07_percent.ipynb", "#| export\ny = (7\n% 4)")
    assert run_in(package, "-c", "import notebooks.percent as p; print(p.y)").stdout == "3\n"


def test_other_imports_are_left_alone():
    find = notebooks.NotebookFinder().find_spec
    names = ("json", "notebooks.layer_norm.inner", "notebooks.__main__")
    assert [name for name in names if find(name) is not None] == []


def test_threads_wait_shortly(monkeypatch):
    """OpenMP reads its setting when PyTorch is loaded: this must come before."""
    text = TUNE + "import os; print(os.environ.get('GOMP_SPINCOUNT'))"
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    assert run_python("-c", text).stdout == "10000\n"
    assert run_python("-c", text, GOMP_SPINCOUNT="7").stdout == "7\n"
    assert run_python("-c", text, OMP_WAIT_POLICY="PASSIVE").stdout == "None\n"


def test_a_lesson_changes_nothing_for_the_process():
    text = "import gc, os, sys; old = gc.get_threshold(), dict(os.environ), sys.excepthook\n"
    text += "import notebooks.training\n"
    text += "print(old == (gc.get_threshold(), dict(os.environ), sys.excepthook))"
    assert run_python("-c", text).stdout == "True\n"


def test_cycles_are_looked_for_less_often():
    text = TUNE + "import gc; print(gc.get_threshold()[0], gc.isenabled())"
    assert run_python("-c", text).stdout == "100000 True\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has to be told")
def test_freed_memory_is_kept_for_the_next_step():
    """A block that is freed costs no page faults when it is taken again."""
    text = """if True:
        from engine.startup import tune_process
        tune_process()
        import torch
        pages = lambda: int(open("/proc/self/statm").read().split()[1])
        block = torch.ones(8_000_000)
        held = pages()
        del block
        print(held - pages())
    """
    assert int(run_python("-c", text).stdout) < 100  # else 7,813


def test_the_lessons_as_one_file_train_and_translate(small_data, tmp_path, monkeypatch, capsys):
    """The file needs no other of the course, and a training that was stopped goes on the same."""
    done = run_python("-m", "notebooks")
    program = tmp_path / "transformer.py"
    program.write_text(done.stdout, encoding="utf-8")
    files = small_data / "train.tsv", small_data / "dev.tsv"
    command = ["-I", program, *files, "--config", "tiny", "--eval-steps", "20"]
    straight = run_python(*command, cwd=tmp_path, stdin="\ufeffGood morning.\nGood morning.\n")
    assert (straight.returncode, straight.stderr) == (0, "")
    *log, first, second = straight.stdout.splitlines()
    assert first == second  # a mark before the text is no part of it
    assert [line.split()[1] for line in log] == ["20:", "40:"]
    early = tmp_path / "stopped.py"  # the same, but it ends at the first checkpoint
    early.write_text(
        done.stdout.replace("asdict(config)}, path)", "asdict(config)}, path); 1 / 0"), "utf-8"
    )
    saved = tmp_path / "stopped.pt"
    stopped = run_python("-I", early, *command[2:], "--weights", saved, cwd=tmp_path)
    assert "ZeroDivisionError" in stopped.stderr
    resumed = run_python(*command, "--weights", saved, cwd=tmp_path)
    assert "this program was edited since that training began" in resumed.stderr
    printed = (stopped.stdout + resumed.stdout).splitlines()
    without_speed = [[line.rpartition(",")[0] for line in lines] for lines in (printed, log)]
    assert without_speed[0] == without_speed[1]
    weights = [torch.load(path)["model"] for path in (tmp_path / "transformer.pt", saved)]
    assert all(torch.equal(*pair) for pair in zip(*(one.values() for one in weights)))

    def refusal(*arguments, text=done.stdout):
        program.write_text(text, encoding="utf-8")
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as ending:
            patch.chdir(tmp_path)
            patch.setattr(sys, "argv", [str(program), *command[4:], *map(str, arguments)])
            runpy.run_path(str(program), run_name="__main__")
        assert ending.value.code == 2
        return capsys.readouterr().err

    for options, reason in (
        (["--pieces", "0"], "no whole number from 1"),
        (["--steps", "1e3"], "no whole number from 1"),
        (["--tgt", "Chinese"], "no code of a language"),
        (["--config", "subwords", "--tgt-segmentation", "words"], "needs subwords"),
        (["--seed", "5"], "was trained with another seed"),
    ):
        assert reason in refusal(*files, *options)
    edited = done.stdout.replace("-counts[token], token)", "counts[token], token)")
    other_text = "was trained with another text, or a model of another shape"
    assert other_text in refusal(*files, text=edited)  # ids mean others
    edited = done.stdout.replace("PRESETS = {\n", 'PRESETS = {"my": dict(keep="last"),\n')
    unknown = "preset my sets keep, which is no setting"
    assert unknown in refusal(*files, "--config", "my", text=edited)
    others = tmp_path / "others.tsv"
    lines = files[1].read_bytes().splitlines(keepends=True)
    for content, reason in (
        (lines[::-1], other_text),
        ([*lines, b"\n"], f"line {len(lines) + 1}: is no sentence, tab"),
        ([b"a " * 61 + b"\tb\n"], "more than 60 tokens"),
        ([b"\xff"], "cannot be read"),
        ([], "is empty"),
    ):
        others.write_bytes(b"".join(content))
        assert reason in refusal(files[0], others)
    (tmp_path / "transformer.pt.best").unlink()
    assert "transformer.pt.best is missing" in refusal(*files)
    saved.write_bytes(b"no weights")
    assert "no training of this program" in refusal(*files, "--weights", saved)
    absent = tmp_path / "none" / "x.pt"
    assert "none: no such folder for the weights" in refusal(*files, "--weights", absent)
    if sys.platform == "linux":
        assert "/proc/x.pt cannot be written" in refusal(*files, "--weights", "/proc/x.pt")
    steep = tmp_path / "steep.py"
    clip = "        norm = torch.nn.utils.clip_grad_norm_("
    broken = f"        next(model.parameters()).grad.fill_(math.nan)\n{clip}"
    steep.write_text(done.stdout.replace(clip, broken), encoding="utf-8")
    ended = run_python("-I", steep, *command[2:], "--weights", "steep.pt", cwd=tmp_path)
    assert ended.stderr == "error: a gradient is no number: lower the learning rate, lesson 14\n"


@pytest.mark.parametrize(("argument", "status"), [("05", 2), ("--help", 0)])
def test_the_one_file_is_not_written_where_something_else_is_asked(argument, status):
    done = run_python("-m", "notebooks", argument)
    assert done.returncode == status and "class " not in done.stdout


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("GAIN = 2.0", "GAIN = 0.1", "GAIN is defined in 05_one and in 06_two. Rename one"),
        ("import math; SCALE = 3.0", "import math", "SCALE = 3.0"),
        ("class A:\n    pass", "from notebooks.one import A as B", "B = A"),
        ("class A:\n    pass", "from .one import A", "# 06_two"),
        ("from notebooks.support import mine", "x = 1", "is no lesson's code. Write it there"),
        ("from __future__ import annotations", "import ast", "annotations\nimport ast"),
        ("def f():\n    from notebooks.two import A", "A = 2", "A` stands inside other code. Put"),
        ("if True:\n    import notebooks.two as t", "A = 2", "as t` stands inside other code. Put"),
        ("from notebooks.two import A", "A = 2", "A` is of 06_two, which comes later"),
        ("print(4)\nx = 1", "y = 2", "print(4)"),
        ("a = [n for n in (1, 2)]", "b = {n for n in (3, 4)}", "b = {n"),
        (
            "import time",
            "from time import time",
            "time is imported as time.time and as time. Rename one",
        ),
        ("from utils import device", "y = 2", "device` is no lesson's code. Write it there"),
        ("x = (", "y = 2", "'(' was never closed: 05_one.ipynb, cell 0 ('x = ('), line 2 of the"),
        ("%time 3", "y = 2", "a magic or shell command cannot stand in an export cell: 05_one"),
        ("def max(a, b): ...", "y = 2", "max, defined in 05_one, is a name of Python's own"),
        ("from numpy import sum", "y = 2", "sum, imported by `from numpy import sum`, is a name"),
        ("from numpy import *", "y = 2", "import *` may give a name of another lesson anew"),
        ("import re", "import regex as re", "re is imported as re and as regex. Rename one"),
        ("import os.path", "import os\nimport numpy as np", "import os.path"),
        ("import numpy", "numpy = 1", "numpy is defined in 06_two, and imported. Rename one"),
    ],
)
def test_lessons_that_cannot_be_one_file_are_named(tmp_path, monkeypatch, first, second, result):
    monkeypatch.setattr(one_file_program, "FOLDER", tmp_path)
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "program.py").write_text('"""Nothing."""\nx2 = 1', encoding="utf-8")
    write_notebook(tmp_path / "05_one.ipynb", f"#| export\n{first}")
    write_notebook(tmp_path / "06_two.ipynb", f"#| export\n{second}")
    try:
        text = one_file_program.one_file()
        compile(text, "transformer.py", "exec")
    except one_file_program.Refused as error:
        text = str(error)
    assert result in text

"""The importer: a notebook is a module.

Faulty notebooks are made in a folder of their own with a copy of the importer.
"""

import ast
import graphlib
import platform
import re
import shutil
import sys

import IPython
import nbformat
import pytest
import torch
from conftest import NOTEBOOKS, ROOT, TUNE, run_python
from safetensors.torch import load_file

import notebooks

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


@pytest.mark.skipif(IPython.version_info < (8,), reason="IPython 7 shows no source of a notebook")
def test_double_question_mark_shows_the_source():
    code = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
    code += "; s.run_cell('from notebooks.layer_norm import *')"
    done = run_python("-c", code + "; s.run_cell('LayerNorm??')")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)  # without IPython's colours
    assert "self.bias = nn.Parameter" in shown, done.stderr
    assert "05_layer_norm.ipynb" in shown


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


@pytest.mark.parametrize("mark", ["#| Export", "#|export", "#export", "# exports", "#|exporti"])
def test_a_mark_that_is_spelt_otherwise_is_refused(package, mark):
    write_notebook(package / "03_greeting.ipynb", f"{mark}\nWORD = 'hello'")
    done = run_in(package, "-c", "import notebooks.greeting")
    assert "The cell must begin with '#| export'" in done.stderr


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


def test_threads_wait_shortly(monkeypatch):
    """OpenMP reads its setting when PyTorch is loaded: this must come before."""
    text = TUNE + "import os; print(os.environ.get('GOMP_SPINCOUNT'))"
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    assert run_python("-c", text).stdout == "10000\n"
    assert run_python("-c", text, GOMP_SPINCOUNT="7").stdout == "7\n"
    assert run_python("-c", text, OMP_WAIT_POLICY="PASSIVE").stdout == "None\n"


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


def test_the_lessons_as_one_file_train_stop_go_on_and_translate(small_data, tmp_path):
    """The file needs no other of the course."""
    text = run_python("-m", "notebooks").stdout
    program, early = tmp_path / "transformer.py", tmp_path / "stopped.py"
    program.write_text(text, encoding="utf-8")
    at_step_30 = "after_step=lambda step: step == 30"
    early.write_text(text.replace("after_step=lambda step: False", at_step_30), encoding="utf-8")
    outputs = {"straight": [program], "stopped": [early, program]}
    for out, programs in outputs.items():
        for one in programs:
            options = [small_data, "--config", "tiny", "--out", out]
            done = run_python("-I", one, *options, cwd=tmp_path, stdin="Hello.\n\n")
        assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 3  # the record of step 40, and two lines
    weights = [load_file(tmp_path / out / "model.safetensors") for out in outputs]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])

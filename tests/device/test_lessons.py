"""The notebooks 02 to 16 where `utils.device` gives another device: they run, asserts included.

Each runs in a copy of the course, so that runs/ stays as it is. Outputs are not compared.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from conftest import DEVICE, NOTEBOOKS, ROOT
from nbclient import NotebookClient

# what trains for minutes is shortened; 16 takes the run that notebook 15 has written
SHORTER = {
    "15": [
        ("steps=1600", "steps=30, eval_steps=10, bleu_sentences=10"),
        ('records[-1]["dev_loss"] < 3', 'records[-1]["dev_loss"] < 8'),
        ("(0, 250, 750, config.steps)", "(0, 10, 20, config.steps)"),
        ("(250, 750, 1600)", "(10, 20, 30)"),
        ("forgotten > right + 0.05", "forgotten != right"),
    ],
}


def copied(folder):
    """A copy of what the notebooks need, in a new folder."""
    for part in ("notebooks", "data_small", "tests/device"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "data_large").mkdir()
    for path in (*ROOT.glob("*.py"), *(ROOT / "data_large").glob("*.py")):
        shutil.copy(path, folder / path.relative_to(ROOT))
    return folder


def shortened(notebook, changes):
    """The notebook with these texts replaced, each of which stands in it once."""
    for old, new in changes:
        cells = [cell for cell in notebook.cells if old in cell.source]
        assert len(cells) == 1, f"{old!r} stands in {len(cells)} cells: change SHORTER"
        cells[0].source = cells[0].source.replace(old, new)
    return notebook


def run(path, folder):
    """Executes the notebook in a copy of the course. A cell that fails is an error."""
    course = copied(folder / path.stem)
    number, trained = path.stem[:2], ROOT / "runs" / "notebook-15"
    if number == "16":
        if not (trained / "model.safetensors").exists():
            pytest.skip("notebook 15 has not been run: there is no runs/notebook-15")
        shutil.copytree(trained, course / "runs" / "notebook-15")
    notebook = shortened(nbformat.read(path, as_version=4), SHORTER.get(number, ()))
    begin = f"from device import simulated\nsimulated.compute_on({DEVICE!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    place = {"metadata": {"path": course / "notebooks"}}
    paths = os.pathsep.join([str(course), str(course / "tests")])
    client = NotebookClient(notebook, timeout=600, resources=place)
    client.execute(env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def running(tmp_path_factory, request):
    """For each notebook that is asked for its run: two at a time, in this order."""
    folder = tmp_path_factory.mktemp("courses")
    items = [item for item in request.session.items if item.path == request.path]
    with ThreadPoolExecutor(2) as pool:
        paths = [item.callspec.params["path"] for item in items]
        yield {path: pool.submit(run, path, folder) for path in paths}


@pytest.mark.parametrize("path", NOTEBOOKS[2:], ids=lambda path: path.stem)
def test_the_notebook_runs_there(path, running):
    running[path].result()

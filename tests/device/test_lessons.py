"""The notebooks that compute where `utils.device` says, on another device: they run, asserts too.

The others compute on the CPU whatever there is, as the tests of all notebooks do. Each runs in a
copy of the course, so that runs/ stays as it is. Outputs are not compared.
"""

import os
import shutil

import nbformat
import pytest
from conftest import DEVICE, NOTEBOOKS, ROOT
from nbclient import NotebookClient

# what asks for the device: the lessons' own calls, training and scoring
ASKS = ("device()", "engine.run import", "engine.scoring")
THERE = [path for path in NOTEBOOKS if any(name in path.read_text("utf-8") for name in ASKS)]
FEWER = 100  # sentences of dev and of test
# what computes for minutes is shortened, and with it what is asserted of its results
SHORTER = {
    "15": [
        ("log, snapshots, epochs = [], [], 12", "log, snapshots, epochs = [], [], 4"),
        ('assert 3 < best < 11 and log[-1]["dev"] > log[best]["dev"]', "assert len(log) == 4"),
        ('assert min(averaged) < log[best]["dev"]', "assert averaged"),
        ("lines[:500]", "lines[:80]"),
        ("lines[500:]", "lines[80:]"),
    ],
    "16": [
        (
            "best > 38 and len(pairs) == 1003 and p_value < 0.05",
            "best > 30 and len(pairs) == FEWER and p_value < 1",
        ),
        ('["greedy"]["bleu"] + 1.5', '["greedy"]["bleu"] - 5'),
        ('< widths["beam of 1"][0]', '< widths["beam of 1"][0] + 5'),
        ('assert widths["beam of 8"][2] > 2 * base', "assert base > 0"),
        ("assert different > 5 and flattering > honest + 1", "assert different > 5"),
        ("< 1 and 30 < moved < 90", "< 3 and moved > 0"),
    ],
}


def copied(folder):
    """A copy of what the notebooks need, in a new folder."""
    for part in ("engine", "notebooks", "studies", "data_small"):
        shutil.copytree(ROOT / part, folder / part)
    for path in ROOT.glob("*.py"):
        shutil.copy(path, folder)
    for split in ("dev", "test"):
        data = folder / "data_small" / f"{split}.tsv"
        lines = data.read_text(encoding="utf-8").splitlines(keepends=True)
        data.write_text("".join(lines[:FEWER]), encoding="utf-8")
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
    notebook = shortened(nbformat.read(path, as_version=4), SHORTER.get(path.stem[:2], ()))
    begin = f"FEWER = {FEWER}\nfrom device import simulated\nsimulated.compute_on({DEVICE!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    resources = {"metadata": {"path": course / "notebooks"}}
    # the device of this folder: of a copy's source it would be built again
    paths = os.pathsep.join([str(course), str(ROOT / "tests")])
    client = NotebookClient(notebook, timeout=600, resources=resources)
    client.execute(env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})


@pytest.mark.parametrize("path", THERE, ids=lambda path: path.stem)
def test_the_notebook_runs_there(path, tmp_path):
    run(path, tmp_path)

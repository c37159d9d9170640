"""`tools/tidy.py`: what executed notebooks keep when they are saved."""

import shutil

import nbformat
from conftest import NOTEBOOKS, ROOT
from execute import execute
from lesson_tables import ROWS, facts_of, with_facts
from nbformat.v4 import new_code_cell, new_notebook, new_output
from tidy import WIDGET, tidied


def test_a_widget_leaves_its_picture_or_nothing():
    pictured = {WIDGET: {"model_id": "1"}, "image/png": "AA==", "text/plain": "viewer"}
    bare = {WIDGET: {"model_id": "2"}, "text/plain": "Text(value='')"}
    widgets = [new_output("display_data", data) for data in (pictured, bare)]
    printed = [new_output("stream", name="stdout", text=text) for text in ("a\n", "b\n")]
    bars = ("\r 50%|##   | 1/2 [00:01<00:01]\r100%|#####| 2/2 [00:02]\n", "\n", "UserWarning\n")
    printed += [new_output("stream", name="stderr", text=text) for text in bars[:2]]
    warned = new_output("stream", name="stderr", text=bars[2])
    notebook = new_notebook(cells=[new_code_cell("1", outputs=[*widgets, *printed])])
    kernel, tags = {"name": "python3", "display_name": "Python 3"}, ["nbval-ignore-output"]
    notebook.metadata |= {"widgets": {"state": {}}, "kernelspec": kernel}
    folded = {"source_hidden": True}
    times = {"iopub.status.busy": "now"}
    kept = {"tags": tags, "jupyter": folded, "jp-MarkdownHeadingCollapsed": True}
    kept |= {"nbgrader": {"grade_id": "check-1"}, "mystnb": {"image": {"alt": "a curve"}}}
    notebook.cells[0].metadata |= kept | {"execution": times}
    cleaned = tidied(notebook)
    nbformat.validate(cleaned)
    [cell] = cleaned.cells
    data = [list(output.get("data", {})) for output in cell.outputs]
    assert data == [["image/png", "text/plain"], []]  # no progress bar
    assert cell.outputs[1].text == "a\nb\n" and len(cell.outputs) == 2
    warning = new_notebook(cells=[new_code_cell("1", outputs=[warned])])
    assert tidied(warning).cells[0].outputs == [warned]
    assert list(cleaned.metadata) == ["kernelspec"]
    assert cell.metadata == kept


def test_the_tables_say_what_the_notebooks_say_of_themselves():
    """After a change of a notebook's head: tools/lesson_tables.py."""
    lessons = {path.name: facts_of(nbformat.read(path, as_version=4)) for path in NOTEBOOKS}
    for file in ROWS:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert with_facts(file, text, lessons) == text


def test_a_lesson_is_executed_with_the_code_of_its_own_copy(tmp_path):
    """Also where the course is installed, so that a kernel would find that one."""
    shutil.copytree(ROOT / "engine", tmp_path / "engine")
    shutil.copy(ROOT / "utils.py", tmp_path)
    (tmp_path / "notebooks").mkdir()
    lesson = new_notebook(cells=[new_code_cell("import utils\nprint(utils.ROOT)")])
    lesson.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(lesson, tmp_path / "notebooks" / "00_a.ipynb")
    execute(tmp_path / "notebooks" / "00_a.ipynb", tmp_path)
    [cell] = nbformat.read(tmp_path / "notebooks" / "00_a.ipynb", as_version=4).cells
    assert cell.outputs[0].text.strip() == str(tmp_path)

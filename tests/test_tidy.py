"""`tools/tidy.py`: what executed notebooks keep when they are saved."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output
from tidy import WIDGET, tidied


def test_a_widget_leaves_its_picture_or_nothing():
    pictured = {WIDGET: {"model_id": "1"}, "image/png": "AA==", "text/plain": "viewer"}
    bare = {WIDGET: {"model_id": "2"}, "text/plain": "Text(value='')"}
    widgets = [new_output("display_data", data) for data in (pictured, bare)]
    printed = [new_output("stream", name="stdout", text=text) for text in ("a\n", "b\n")]
    notebook = new_notebook(cells=[new_code_cell("1", outputs=[*widgets, *printed])])
    kernel, tags = {"name": "python3", "display_name": "Python 3"}, ["nbval-ignore-output"]
    notebook.metadata |= {"widgets": {"state": {}}, "kernelspec": kernel}
    notebook.cells[0].metadata |= {"tags": tags, "execution": {"iopub.status.busy": "now"}}
    kept = tidied(notebook)
    nbformat.validate(kept)
    [cell] = kept.cells
    data = [list(output.get("data", {})) for output in cell.outputs]
    assert data == [["image/png", "text/plain"], []]
    assert cell.outputs[1].text == "a\nb\n"
    assert list(kept.metadata) == ["kernelspec"] and cell.metadata == {"tags": tags}

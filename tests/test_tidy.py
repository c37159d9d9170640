"""`tools/tidy.py`: what executed notebooks keep when they are saved."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output
from tidy import WIDGET, tidied


def test_a_widget_leaves_its_picture_or_nothing():
    with_picture = new_output(
        "display_data", {WIDGET: {"model_id": "1"}, "image/png": "AA==", "text/plain": "viewer"}
    )
    without = new_output(
        "display_data", {WIDGET: {"model_id": "2"}, "text/plain": "Text(value='')"}
    )
    printed = [new_output("stream", name="stdout", text=text) for text in ("a\n", "b\n")]
    notebook = new_notebook(cells=[new_code_cell("1", outputs=[with_picture, without, *printed])])
    notebook.metadata |= {
        "widgets": {"state": {}},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
    }
    notebook.cells[0].metadata |= {
        "tags": ["nbval-ignore-output"],
        "execution": {"iopub.status.busy": "now"},
    }
    kept = tidied(notebook)
    nbformat.validate(kept)
    assert [list(output.get("data", {})) for output in kept.cells[0].outputs] == [
        ["image/png", "text/plain"],
        [],
    ]
    assert kept.cells[0].outputs[1].text == "a\nb\n"
    assert list(kept.metadata) == ["kernelspec"] and kept.cells[0].metadata == {
        "tags": ["nbval-ignore-output"]
    }

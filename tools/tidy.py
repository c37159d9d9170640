"""Makes executed notebooks ready to be saved: `python tools/tidy.py NOTEBOOK...`, in place.

A progress bar stays as it ended. A widget lives only while its kernel runs: its picture stays, if
it has one, and nothing else.
"""

import sys
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor, CoalesceStreamsPreprocessor

WIDGET = "application/vnd.jupyter.widget-view+json"


def without_widgets(notebook):
    """The notebook with pictures instead of widgets, and without progress bars."""
    for cell in notebook.cells:
        for output in list(cell.get("outputs", ())):
            data = output.get("data", {})
            widget = data.pop(WIDGET, None)
            if is_progress(output) or (widget and "image/png" not in data):
                cell.outputs.remove(output)
    return notebook


def is_progress(output):
    """Whether it is a progress bar: it says something only while it moves."""
    lines = output.get("text", "").replace("\r", "\n").split("\n")
    return output.get("name") == "stderr" and all("%|" in line for line in lines if line.strip())


def tidied(notebook):
    """The notebook as it is to be saved."""
    notebook, _ = CoalesceStreamsPreprocessor(enabled=True).preprocess(notebook, {})
    fields = {"kernelspec", "language_info", "language"}
    # what readers, the site and nbgrader use stays, but not when a cell ran
    metadata_keys = {"tags", "jupyter", "jp-MarkdownHeadingCollapsed", "mystnb", "nbgrader"}
    clear = ClearMetadataPreprocessor(
        enabled=True, preserve_nb_metadata_mask=fields, preserve_cell_metadata_mask=metadata_keys
    )
    notebook, _ = clear.preprocess(notebook, {})
    return without_widgets(notebook)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        notebook = tidied(nbformat.read(path, as_version=4))
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")

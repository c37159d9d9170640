"""What every committed notebook must be: executed, in order, clean, readable.

(That its outputs are right is nbval's part.)
"""

import ast
import copy
import importlib
import itertools
import re

import nbformat
import pytest
from conftest import NOTEBOOKS, ROOT
from lesson_tables import with_minutes

READ = {path: nbformat.read(path, as_version=4) for path in NOTEBOOKS}


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return READ[path]


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


EXPORTS = {
    "setup": "Config",
    "data_preparation": "read_pairs WordSegmenter CharacterSegmenter SubwordSegmenter Vocabulary "
    "padding_mask causal_mask Batch TranslationDataset TokenBatchSampler make_dataloader",
    "input_embedding": "InputEmbedding",
    "positional_encoding": "PositionalEncoding",
    "multi_head_attention": "scaled_dot_product_attention MultiHeadAttention",
    "layer_norm": "LayerNorm",
    "feed_forward": "PositionwiseFeedForward",
    "sublayer_connection": "SublayerConnection",
    "encoder": "EncoderLayer Encoder",
    "decoder": "DecoderLayer KVCache Decoder",
    "transformer": "Generator Transformer",
    "make_model": "make_model",
    "label_smoothing": "LabelSmoothing",
    "loss": "BatchLoss evaluate",
    "optimizer_schedule": "noam_rate linear_rate make_optimizer",
    "training": "train_step batches_after resume save train",
    "translation": "next_logits length_penalty extend set_aside keep_live can_win beam_search bleu",
}


def test_every_notebook_exports_its_part_of_the_model():
    names = [f"{number:02}_{name}" for number, name in enumerate(EXPORTS)]
    assert [path.stem for path in NOTEBOOKS] == names
    for path, exports in zip(NOTEBOOKS, EXPORTS.values()):
        module = importlib.import_module(f"notebooks.{path.stem[3:]}")
        assert module.__file__ == str(path)
        for export in exports.split():
            part = getattr(module, export)
            assert part.__module__ == module.__name__, export
            assert part.__doc__, export


def test_is_valid_and_holds_no_widgets_and_no_path_of_a_machine(notebook):
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    assert not re.search(r"/(home|root|Users|work|tmp)/", nbformat.writes(notebook))


def test_is_executed_from_top_to_bottom_without_errors_or_warnings(notebook):
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    texts = [output.get("text", "") for output in outputs]
    assert [text for text in texts if "Warning" in text or "missing from" in text] == []


def test_export_cells_are_documented(notebook):
    sources = [cell.source for cell in code_cells(notebook)]
    nodes = ast.parse("\n".join(text for text in sources if text.startswith("#| export"))).body
    defined = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert [node.name for node in defined if not ast.get_docstring(node)] == []


def test_outputs_that_are_not_compared_are_asserted(notebook):
    for cell in code_cells(notebook):
        tags = cell.metadata.get("tags", [])
        assert set(tags) <= {"nbval-ignore-output", "exercise", "check", "check-claims", "long"}
        printed = any(output.output_type in ("stream", "execute_result") for output in cell.outputs)
        if "nbval-ignore-output" in tags and printed:
            following = notebook.cells[notebook.cells.index(cell) :]
            claims = [c for c in following if "check-claims" in c.metadata.get("tags", ())][:1]
            nearby = "\n".join(other.source for other in claims or following[:3])
            assert "assert" in nearby, cell.source[:80]


def test_checks_and_maps_are_folded(notebook):
    """A reader meets what they say, and opens what they do."""
    for cell in code_cells(notebook):
        is_map = cell.source.startswith("from notebooks.support.course_map import")
        if is_map or "check" in cell.metadata.get("tags", []):
            assert cell.metadata.get("jupyter", {}).get("source_hidden"), cell.source[:80]


def shown_code(notebook):
    """The code cells that a reader sees, and neither fills nor imports."""
    special = {"exercise", "check", "check-claims"}
    return [cell for cell in code_cells(notebook)
            if not cell.metadata.get("jupyter", {}).get("source_hidden")
            and not special & set(cell.metadata.get("tags", ()))
            and not cell.source.startswith("#| export")]  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_has_a_first_reading_and_a_second(path):
    notebook = nbformat.read(path, as_version=4)
    head, *_ = texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert "After this you can" in head and "**What you need**" in head
    assert with_minutes(copy.deepcopy(notebook)).cells[0].source == head
    order = ("## Exercises", "**In three sentences.**", "## Second reading")
    places = [next(n for n, text in enumerate(texts) if text.startswith(one)) for one in order]
    assert places == sorted(places) and texts.count("## Second reading") == 1
    second = next(cell for cell in notebook.cells if cell.source == "## Second reading")
    assert second.metadata["jp-MarkdownHeadingCollapsed"] is True
    first = texts[: places[2]]
    assert any("Predict first" in text for text in first)
    assert sum(text.count("<summary>Answer</summary>") for text in first) >= 2
    assert not [text for text in texts[places[2] + 1 :] if text.startswith("## ")]
    for cell in shown_code(notebook):
        assert "assert" not in cell.source, cell.source[:80]
        assert len(cell.source.splitlines()) <= 15, cell.source[:80]
    claims = [c for c in notebook.cells if "check-claims" in c.metadata.get("tags", ())]
    assert claims and all(cell.metadata["jupyter"]["source_hidden"] for cell in claims)
    readers = re.compile(r"\bin answer\.value|\bmy_bet\b")  # what one types or bets is no claim
    assert not any(readers.search(cell.source) for cell in claims)


def test_every_picture_has_a_text_for_those_who_cannot_see_it(notebook):
    shown = [cell for cell in code_cells(notebook)
             if any("image/png" in output.get("data", {}) for output in cell.outputs)]  # fmt: skip
    texts = [cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "") for cell in shown]
    assert texts and [text for text in texts if len(text) <= 20] == []


def dead_links(folder, text):
    """The links in a text that lead to no file, seen from this folder."""
    links = re.findall(r"\]\(([^)#\s]+)\)", text)
    return [link for link in links if "://" not in link and not (folder / link).exists()]


def test_links_lead_somewhere(notebook, path):
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert dead_links(path.parent, "\n".join(cells)) == []


@pytest.mark.parametrize(
    "page",
    sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/*.md")}),
    ids=lambda page: page.name,
)
def test_links_of_the_pages_lead_somewhere(page):
    assert dead_links(page.parent, page.read_text(encoding="utf-8")) == []


def test_each_notebook_ends_with_a_link_to_the_next():
    for path, following in itertools.pairwise(NOTEBOOKS):
        texts = [cell.source for cell in READ[path].cells if cell.cell_type == "markdown"]
        (end,) = [text for text in texts if text.startswith("**In three sentences.**")]
        assert f"({following.name})" in end, path.name


def statements(body):
    """These statements and those of their blocks, but not of functions and classes."""
    for node in body:
        yield node
        if isinstance(node, ast.For | ast.While | ast.If | ast.With | ast.Try):
            yield from statements([*node.body, *getattr(node, "orelse", [])])


def bound(node):
    """The names that a statement binds, each with the kind of thing."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name, "definition"
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((name.asname or name.name, "definition") for name in node.names)
    elif isinstance(node, ast.Assign | ast.For):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for part in (part for target in targets for part in ast.walk(target)):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id, "value"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_name_means_one_kind_of_thing(path):
    """Else a cell that is run again, after a later one, finds a function where it had a list."""
    kinds = {}
    for cell in code_cells(nbformat.read(path, as_version=4)):
        for node in statements(ast.parse(cell.source).body):
            for name, kind in bound(node):
                if name != "_":
                    assert kinds.setdefault(name, kind) == kind, (name, cell.source[:60])

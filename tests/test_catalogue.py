"""The course in another language: in step with the English, and a course that runs."""

import ast
import re
import shutil

import autocorrect_py
import catalogue
import catalogue_code
import nbformat
import pytest
import translated_copy
from catalogue import number_patterns
from conftest import NOTEBOOKS, ROOT, run_python

from engine.errors import InputError
from notebooks.support.words import in_language as written

THREE_WORDS = re.compile("[a-z]{2,} [a-z]{2,} [a-z]{2,}")
CHINESE = re.compile("[\u4e00-\u9fff]")


def test_no_catalogue_differs_in_what_must_be_alike():
    assert catalogue.languages() == ["zh_CN"]
    wrong, _ = catalogue.check("zh_CN")  # what is missing is no part of a change
    assert wrong == []
    assert sum(len(catalogue.messages(name)) for name in catalogue.sources().values()) > 500


@pytest.mark.parametrize(
    "source, text",
    [
        ("x = 1  # one of them", "one of them"),
        ("# one line\n# and another\nx = 1", "one line and another"),
        ('def f():\n    """What it does.\n\n    And how.\n    """', "What it does.\n\nAnd how."),
        ('@check("Exercise 1")\ndef _():\n    pass', "Exercise 1"),
        (
            '@check("1")\ndef _():\n    assert x, f"it is {x[\'a\']:.2f}, not one"',
            "it is {x['a']:.2f}, not one",
        ),
        (
            '@check("1")\ndef _():\n    hint = "too " "long"\n    assert x, hint',
            "too long",
        ),
        (
            '@check("1")\ndef _():\n    hints = {"too long": f("data here")}\n'
            "    for hint, other in hints.items():\n        assert x != other, hint",
            "too long",
        ),
    ],
)
def test_what_is_read_in_code_is_translated_and_nothing_else(source, text):
    assert catalogue_code.code_messages(source) == [text]
    other = f"{text} indeed"
    written = catalogue_code.translated_code(source, {text: other})
    assert catalogue_code.code_messages(written) == [other]
    data = 'plot("some data", label="a name")\n#| export\nassert x, "no check"'
    assert catalogue_code.code_messages(data) == []


def without_docstrings(tree):
    """The tree, changed: none of its functions and classes has a docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def computed(source):
    """What a cell does: its code less docstrings, and less the texts of a check."""
    tree = without_docstrings(ast.parse(source))
    hints = catalogue_code.hints(tree)
    for node, *_ in hints:
        node.__dict__.update(vars(ast.Constant("")))
        node.__class__ = ast.Constant
    return ast.unparse(tree)


def test_chinese_is_set_as_chinese_is_set():
    """Full-width punctuation, and a space between Chinese and Latin letters or digits."""
    wrong = []
    for name in catalogue.sources():
        for text in catalogue.translations("zh_CN", name).values():
            if autocorrect_py.format_for(text, "markdown") != text:
                wrong.append((name, text))
    assert wrong == []


@pytest.mark.parametrize(
    "source, target, fault",
    [
        ("Take `x`.", "取 `y`。", "code"),
        ("Half is $x/2$.", "一半是 $x$。", "formulas"),
        ("See [03](03.ipynb).", "见 [04](04.ipynb)。", "links"),
        ("It has 1,003 words.", "它有 1,030 个词。", "numbers"),
        ("About 17 million of them.", "大约 17 亿个。", "numbers"),
        ("A token is a word.", "标记是一个词。", "term: token"),
        ("We go on.", "We go on as we went on before and never look back.", "English"),
    ],
)
def test_what_differs_is_told(source, target, fault):
    faults = catalogue.faults(source, target, {"token": ["词元"]})
    assert any(one.startswith(fault) for one in faults), faults
    assert catalogue.faults("About 17 million of them.", "大约 1,700 万个。", {}) == []
    assert catalogue.faults("a stack", "一摞", {}, {"摞": "堆叠"}) == ["摞: better 堆叠"]


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one page in a temporary folder, with a catalogue in a language of its own."""
    (tmp_path / "page.md").write_text("# One\n\nTwo words.\n\n```\ncode\n```\n", encoding="utf-8")
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path / "translations")
    monkeypatch.setattr(catalogue, "sources", lambda: {"page": "page.md"})
    return tmp_path


def translate_all(language):
    """A pseudo-language: every word backwards."""
    entries = catalogue.read(language, "page")
    for entry in entries:
        if not entry.msgstr:
            entry.msgstr = re.sub(r"\w+", lambda word: word[0][::-1], entry.msgid)
    entries.save(str(catalogue.path_of(language, "page")))


def test_a_number_in_a_picture_may_be_another_one():
    texts = ["layer 1, head 2 of 4", "step"]
    words = {"layer 1, head 2 of 4": "4 头中第 2 头，第 1 层", "step": "步"}
    patterns = number_patterns(texts, words)
    assert written("layer 3, head 7 of 8", patterns) == "8 头中第 7 头，第 3 层"
    assert written("step", patterns) == "步"
    twice = number_patterns(["layer 1, head 1"], {"layer 1, head 1": "第 1 层，第 1 个头"})
    assert written("layer 1, head 3", twice) == "第 1 层，第 3 个头"
    assert written("other 3", patterns) == "other 3"


def test_a_line_with_a_formula_in_a_picture_has_no_chinese():
    """Matplotlib's font for formulas has none, and draws boxes."""
    for path in NOTEBOOKS:
        words = catalogue.translations("zh_CN", path.stem)
        for text in catalogue.pictured(nbformat.read(path, as_version=4)):
            lines = words.get(text, "").splitlines()
            assert not [line for line in lines if "$" in line and CHINESE.search(line)]


def test_what_is_translated_is_chinese():
    """In prose, pictures, hints, docstrings and comments; but for examples of English."""
    for name in catalogue.sources():
        entries = [one for one in catalogue.read("zh_CN", name) if not one.obsolete]
        sentences = [one for one in entries if THREE_WORDS.search(one.msgid)]
        left = [one.msgid for one in sentences if one.msgstr and not CHINESE.search(one.msgstr)]
        examples = [one.msgid for one in sentences if one.tcomment == "example"]
        assert set(left) <= set(examples), name
        assert len(examples) < 5


def test_what_is_missing_is_counted_and_what_is_wrong_refused(course, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "front_pages", lambda language: {})
    catalogue.update("xx")
    (catalogue.FOLDER / "xx" / "terms.json").write_text("{}", encoding="utf-8")
    assert catalogue.main(["check", "xx"]) == 0
    assert " 2 blocks" in capsys.readouterr().out
    assert catalogue.main(["check", "xx", "--complete"]) == 1
    translate_all("xx")
    assert catalogue.main(["check", "xx", "--complete"]) == 0
    (course / "page.md").write_text("# One\n\nTwo words more.\n", encoding="utf-8")
    assert catalogue.update("xx") == (0, 1)  # to look over
    assert catalogue.main(["check", "xx"]) == 0
    assert catalogue.main(["check", "xx", "--complete"]) == 1
    entries = catalogue.read("xx", "page")
    entries[0].msgstr = "# One 1"
    entries.save(str(catalogue.path_of("xx", "page")))
    assert catalogue.main(["check", "xx"]) == 1
    assert "numbers" in capsys.readouterr().out
    path = catalogue.path_of("xx", "page")
    path.write_bytes(path.read_bytes() + "中".encode("gb18030"))
    with pytest.raises(InputError, match="page.po: no catalogue in UTF-8"):
        catalogue.check("xx")
    for language in ("../xx", "yy"):
        with pytest.raises(SystemExit):
            catalogue.main(["check", language])
    assert [path.name for path in catalogue.FOLDER.iterdir()] == ["xx"]
    assert not (catalogue.FOLDER.parent / "xx").exists()


def test_a_changed_block_is_looked_over_and_nothing_is_lost(course):
    text = (course / "page.md").read_text(encoding="utf-8")
    assert catalogue.update("xx") == (2, 0)
    translate_all("xx")
    assert catalogue.update("xx") == (0, 0)
    written = catalogue.in_language("xx", "page.md", text)
    assert written == "# enO\n\nowT sdrow.\n\n```\ncode\n```\n"
    assert catalogue.in_language("xx", "other.md", "other") == "other"
    (course / "page.md").write_text("# One\n\nTwo words more.\n\nNew here.\n", encoding="utf-8")
    assert catalogue.update("xx") == (1, 1)
    entries = {entry.msgid: entry for entry in catalogue.read("xx", "page")}
    assert entries["Two words more."].fuzzy
    assert entries["Two words more."].msgstr == "owT sdrow."
    assert entries["Two words more."].previous_msgid == "Two words."
    shown = catalogue.in_language("xx", "page.md", (course / "page.md").read_text())
    assert shown.count(catalogue.UNTRANSLATED) == 2  # the English, marked
    (course / "page.md").write_text("# Quite another\n", encoding="utf-8")
    catalogue.update("xx")
    obsolete = {entry.msgid: entry.obsolete for entry in catalogue.read("xx", "page")}
    assert obsolete["# One"]
    (course / "page.md").write_text("# One\n", encoding="utf-8")
    assert catalogue.update("xx") == (0, 0)  # it is back, and so is its translation


@pytest.fixture(scope="module")
def chinese(tmp_path_factory):
    """The course in Chinese, in a folder of its own."""
    folder = tmp_path_factory.mktemp("copy") / "chinese"
    assert translated_copy.write("zh_CN", folder) == []
    return folder


def fields(source):
    """The fields of all f-strings that a reader is shown, sorted: a translation may move them."""
    tree = ast.parse(source)
    texts = catalogue_code.hints(tree)
    parts = [part for node, *_ in texts for part in ast.walk(node)]
    return sorted(ast.unparse(part) for part in parts if isinstance(part, ast.FormattedValue))


def test_the_copy_differs_in_what_is_read_alone(chinese):
    for path in NOTEBOOKS:
        ours, theirs = (nbformat.read(folder / "notebooks" / path.name, as_version=4).cells
                        for folder in (ROOT, chinese))  # fmt: skip
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            if one.cell_type == "markdown":
                same = {*catalogue.texts_of(one.source)} & {*catalogue.texts_of(other.source)}
                assert not any(map(THREE_WORDS.search, same)), same  # also none in a solution
                continue
            assert computed(one.source) == computed(other.source)
            assert fields(one.source) == fields(other.source), path
            before, after = (
                [shown.get("data", shown.get("text")) for shown in cell.outputs]
                for cell in (one, other)
            )
            if "check" in one.metadata.get("tags", ()):
                assert re.fullmatch(r"练习 \d：(正确|还没有填写)\n", *after), path
            else:
                assert before == after
    viewer = (chinese / catalogue.VIEWER).read_text(encoding="utf-8")
    assert 'word("编码器")' in viewer and 'word("encoder")' not in viewer
    makefile = (chinese / "Makefile").read_text(encoding="utf-8")
    assert "BIN := ../.venv/bin\n" in makefile
    assert not re.search(r"(?<!\.\./)\.venv/\w", makefile)


def test_the_copy_runs_and_an_edit_in_it_survives_a_new_one(chinese, tmp_path):
    copy = shutil.copytree(chinese, tmp_path / "chinese")
    path = copy / "notebooks" / "05_layer_norm.ipynb"
    text = path.read_text(encoding="utf-8")
    edited = text.replace('"class LayerNorm(', '"EDITED = True\\n",\n"class LayerNorm(', 1)
    assert edited != text
    path.write_text(edited, encoding="utf-8")
    (copy / "train.py").unlink()
    assert translated_copy.write("zh_CN", copy) == ["notebooks/05_layer_norm.ipynb"]
    assert path.read_text(encoding="utf-8") == edited
    assert (copy / "train.py").exists()
    code = "from notebooks import layer_norm; print(layer_norm.__file__, layer_norm.EDITED)"
    done = run_python("-c", code, cwd=copy, PYTHONPATH=str(copy))
    assert done.stdout.split() == [str(path), "True"], done.stderr

"""What the site of `make pages` must be: complete, linked, and readable.

It needs no network, no server, no Chinese font, and scripts for nothing but search and the viewer.
"""

import importlib.util
import json
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from conftest import ROOT, find_browser, run_python
from fontTools.ttLib import TTFont
from grade import FOLDED, exercises
from matplotlib.colors import to_rgb
from pages_text import drawing_cells, is_aligned, to_mathml, with_chinese_marked
from playwright.sync_api import Error, expect, sync_playwright

from notebooks.support.errors import InputError
from notebooks.support.pictures import ARROWS, DENSITY, MAP

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PROGRAM = ROOT / "tools" / "pages.py"
ADDRESS = "https://example.org/course"
OTHERS = {"readme.html", "teachers.html", "data_small.html", "data_large.html"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site, freshly written."""
    folder = tmp_path_factory.mktemp("pages") / "site"
    done = run_python(PROGRAM, folder)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.count("\n") == 1 and str(folder / "index.html") in done.stdout
    return folder


@pytest.fixture(scope="module")
def program():
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("pages", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def full_site(program, tmp_path_factory):
    """The folder of a site with solutions, an address, and a page that translates."""
    translator = tmp_path_factory.mktemp("translator")
    (translator / "index.html").write_text("<p>translates</p>", encoding="utf-8")
    folder = tmp_path_factory.mktemp("full") / "site"
    program.build(ROOT, folder, translator, True, ADDRESS)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """{file name: parsed page}."""
    return {path.name: parsed(path) for path in site.glob("*.html")}


def parsed(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def cells(path, kind):
    """The cells of a notebook, less its solutions."""
    found = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]
    return [cell for cell in found if not cell.source.startswith(FOLDED)]


def shown(path):
    """The metadata of the pictures that a notebook's cells show."""
    outputs = [output for cell in cells(path, "code") for output in cell.outputs]
    return [o.metadata["image/png"] for o in outputs if "image/png" in o.get("data", {})]


def prose(path):
    """The text of a notebook, its code blocks and inline code left out."""
    text = "\n\n".join(cell.source for cell in cells(path, "markdown"))
    return re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_each_notebook_has_a_page_and_the_pages_are_a_chain(pages):
    names = ["index.html", *(f"{path.stem}.html" for path in NOTEBOOKS)]
    assert set(names) | OTHERS == set(pages)
    for name, following in zip(names, [*names[1:], None]):
        for label in ("top", "bottom"):
            nav = pages[name].find("nav", {"aria-label": label})
            link = nav.find("a", rel="next")
            assert (link and link["href"]) == following, name
            assert name == "index.html" or nav.find("a", href="index.html"), name
    for name, previous in zip(names[2:], names[1:]):
        for label in ("top", "bottom"):
            nav = pages[name].find("nav", {"aria-label": label})
            assert nav.find("a", rel="prev")["href"] == previous, name


def test_the_index_lists_all_lessons_with_their_questions_and_times(pages):
    index = pages["index.html"]
    rows = {row.a["href"]: row for row in index.select(".lessons li")}
    assert list(rows) == [f"{path.stem}.html" for path in NOTEBOOKS]
    teachers = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        row = rows[f"{path.stem}.html"]
        assert row.span.get_text().endswith("?")
        minutes, time = re.search(
            rf"{path.name}\) \| (\d+) \| ([\w ]+?)(?: on 2 cores)? \|", teachers
        ).groups()
        assert row.small.get_text() == f"{minutes} minutes to read, {time} to run"
    assert index.h1.get_text() == "A Transformer you can read, run and trust"
    assert index.find("a", string="Start with 00")["href"] == f"{NOTEBOOKS[0].stem}.html"
    assert OTHERS <= {link["href"] for link in index.find_all("a")}
    assert "make lab" in index.find(id="install").parent.get_text()


def test_the_index_shows_the_picture_and_leads_to_the_page_that_translates(site, pages):
    index = pages["index.html"]
    assert index.find("img", src="images/attention.png").parent["href"] == "translator/index.html"
    assert index.find("a", string=re.compile("Try it"))["href"] == "translator/index.html"
    assert {"index.html", "weights.js"} < {path.name for path in (site / "translator").iterdir()}


def test_each_part_of_the_map_leads_to_its_lesson(pages):
    drawing = pages["index.html"].find("svg", class_="map")
    links = drawing.find_all("a")
    assert [link["href"] for link in links] == [f"{NOTEBOOKS[n].stem}.html" for n, *_ in MAP]
    assert [link["aria-label"] for link in links] == [" ".join(name.split()) for _, name, *_ in MAP]
    shortcuts = [number for number, *_ in MAP].count(7)
    assert len(drawing.find_all("polyline")) == len(ARROWS) + shortcuts
    *_, width, height = map(int, drawing["viewbox"].split())
    for box in drawing.find_all("rect"):
        assert 0 <= int(box["x"]) <= int(box["x"]) + int(box["width"]) <= width
        assert 0 <= int(box["y"]) <= int(box["y"]) + int(box["height"]) <= height


def test_code_and_printed_text_are_those_of_the_notebook(pages):
    for path in NOTEBOOKS:
        main = pages[f"{path.stem}.html"].main
        blocks = main.select(":scope > .highlight, :scope > .drawn > .highlight")
        code = [block.get_text().strip("\n") for block in blocks]
        assert code == [cell.source.strip("\n") for cell in cells(path, "code")], path.name
        printed = [block.get_text() for block in main.find_all("pre", class_="output")]
        outputs = [output for cell in cells(path, "code") for output in cell.outputs]
        assert printed == [o.text.rstrip() for o in outputs if o.get("name") == "stdout"], path.name


def test_no_request_elsewhere(site, pages):
    for name, page in pages.items():
        assert not page.find_all(["iframe", "object", "embed", "base"]), name
        [icon, style] = page.find_all("link")
        assert icon["href"].startswith("data:image/svg+xml,") and style["href"] == "style.css", name
        scripts = [tag.get("src") for tag in page.find_all("script", type=None)]
        viewers = page.find_all("script", type="application/json")
        assert scripts == ["viewer.js"] * bool(viewers) + ["pages.js"], name
        for tag in page.find_all(True):
            assert not any(key.startswith("on") for key in tag.attrs), (name, tag.name)
            if "src" in tag.attrs:
                assert re.fullmatch(r"images/[\w.-]+|\w+\.js", tag["src"]), (name, tag["src"])
                assert (site / tag["src"]).is_file(), (name, tag["src"])
    css = (site / "style.css").read_text(encoding="utf-8")
    assert "@import" not in css and "//" not in css
    urls = set(re.findall(r"url\((.*?)\)", css)) - {"#tip"}
    assert all((site / url).is_file() for url in urls)
    for name in ("pages.js", "viewer.js"):
        script = (site / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"http|fetch|export|import", script.partition("\nconst")[2]), name


def test_pages_are_small(site):
    assert max(path.stat().st_size for path in site.glob("*.html")) < 800_000
    assert (site / "search.js").stat().st_size < 200_000


def test_every_formula_is_mathml(pages):
    for path in NOTEBOOKS:
        page = pages[f"{path.stem}.html"].main
        formulas = re.findall(r"\$\$.+?\$\$|\$[^$]+\$", prose(path))
        blocks = re.findall(r"\$\$.+?\$\$", prose(path))
        assert len(page.find_all("math")) == len(formulas), path.name
        assert len(page.find_all("math", display="block")) == len(blocks), path.name
        assert not page.find_all("merror")
        assert "\u0332" not in page.get_text()  # as \overline first comes
        for text in page.find_all(string=re.compile(r"[$\\]")):
            assert text.find_parent(["pre", "code", "script"]), (path.name, text)


def test_a_formula_that_cannot_be_converted_is_named():
    assert "<mfrac>" in to_mathml(r"\frac{1}{2}", True)
    with pytest.raises(InputError, match=r"\\frac\{1\} cannot be converted"):
        to_mathml(r"\frac{1}", False)


def test_every_link_leads_somewhere(site, pages, full_site):
    folders = dict.fromkeys(pages, site) | {"full index": full_site}
    pages = pages | {"full index": parsed(full_site / "index.html")}
    for name, page in pages.items():
        anchors = [tag["id"] for tag in page.find_all(id=True)]
        assert len(anchors) == len(set(anchors)), name
        for link in page.find_all("a"):
            target, _, anchor = link["href"].partition("#")
            if target in pages or not target:
                there = pages[target or name]
                assert not anchor or there.find(id=anchor), (name, link["href"])
            elif not re.match("https?://", target):
                assert (folders[name] / target).is_file(), (name, target)


def test_every_heading_can_be_linked_and_is_in_the_contents(pages):
    for name in OTHERS | {f"{path.stem}.html" for path in NOTEBOOKS}:
        headings = pages[name].main.find_all(["h2", "h3"])
        there = [f"#{heading['id']}" for heading in headings]
        assert [heading.find("a", class_="anchor")["href"] for heading in headings] == there, name
        for link in pages[name].select(".anchor"):
            assert link["aria-label"] == "Link to this section"
        lists = pages[name].select("nav.contents")
        assert len(lists) == 2 and lists[0].find_parent("details") and lists[1].find_parent("aside")
        for each in lists:
            assert [link["href"] for link in each.select("li a")] == there, name


def test_each_page_says_what_it_is(pages):
    course = "A Transformer you can read, run and trust"
    assert pages["index.html"].title.get_text() == course
    lesson = pages["04_multi_head_attention.html"]
    assert lesson.title.get_text() == f"04 Multi-head attention · {course}"
    told = set()
    for name, page in pages.items():
        about = {meta.get("property", meta.get("name")): meta["content"]
                 for meta in page.find_all("meta") if "content" in meta.attrs}  # fmt: skip
        assert about["og:title"] == page.title.get_text()
        assert about["og:description"] == about["description"]
        assert 40 < len(about["description"]) <= 250 and "Reading:" not in about["description"]
        assert about["og:type"] == ("website" if name == "index.html" else "article")
        assert about["twitter:card"] == "summary"
        assert "og:image" not in about and "og:url" not in about
        told.add(about["description"])
    assert len(told) == len(pages)
    described = lesson.find("meta", {"name": "description"})["content"]
    assert described.startswith("How does a word look at the other words? Each word asks, every")


def test_an_address_gives_whole_links(full_site):
    for name in ("index.html", "04_multi_head_attention.html"):
        page = parsed(full_site / name)
        place = f"{ADDRESS}/{name.replace('index.html', '')}"
        assert page.find("link", rel="canonical")["href"] == place
        assert page.find("meta", property="og:url")["content"] == place
        picture = page.find("meta", property="og:image")["content"]
        assert picture == f"{ADDRESS}/images/attention.png"
        assert (full_site / picture.removeprefix(f"{ADDRESS}/")).is_file()
        assert page.find("meta", {"name": "twitter:card"})["content"] == "summary_large_image"


def test_options_reach_the_site(program, site, tmp_path, monkeypatch, capsys):
    given = []

    def build(root, folder, *options):
        given.append(options)
        shutil.copytree(site, folder)
        return 17

    monkeypatch.setattr(program, "build", build)
    assert run(program, tmp_path / "one") == 0
    assert run(program, tmp_path / "two", "--solutions", "--address", f"{ADDRESS}/") == 0
    assert [options[1:] for options in given] == [(False, ""), (True, ADDRESS)]
    capsys.readouterr()
    assert run(program, tmp_path / "three", "--address", "example.org") == 2
    told = "error: --address example.org: it begins with https:// or http://\n"
    assert capsys.readouterr() == ("", told)


def test_every_picture_is_there_and_has_a_text(site, pages):
    for path in NOTEBOOKS:
        images = pages[f"{path.stem}.html"].find_all("img")
        assert [image["alt"] for image in images] == [about["alt"] for about in shown(path)]
    images = [image for page in pages.values() for image in page.find_all("img")]
    assert {image["src"] for image in images} == {
        f"images/{path.name}" for path in (site / "images").iterdir()
    }
    for image in images:
        assert len(image["alt"]) > 20
        assert image.parent["href"] in (image["src"], "translator/index.html")  # a tap enlarges it
        assert (image["loading"], image["decoding"]) == ("lazy", "async")
        size = struct.unpack(">II", (site / image["src"]).read_bytes()[16:24])
        dense = size[0] / int(image["width"])  # drawn for dense screens, or as it is
        assert dense == 1 or dense == pytest.approx(DENSITY, rel=0.01)
        assert size[1] / int(image["height"]) == pytest.approx(dense, rel=0.01)


def test_a_picture_is_as_large_as_its_metadata_say(program):
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 900, 600)
    about = {"alt": "a line", "width": 600, "height": 400}
    metadata = {"filenames": {"image/png": "images/one.png"}, "image/png": about}
    output = nbformat.from_dict({"metadata": metadata})
    markup = program.picture_of(output, {"outputs": {"images/one.png": png}})
    assert 'width="600" height="400"' in markup and 'href="images/one.png"' in markup
    del about["width"], about["height"]
    output = nbformat.from_dict({"metadata": metadata})
    markup = program.picture_of(output, {"outputs": {"images/one.png": png}})
    assert 'width="900" height="600"' in markup


def test_figures_are_numbered_without_a_gap(pages):
    for number, path in enumerate(NOTEBOOKS):
        figures = pages[f"{path.stem}.html"].find_all("figure")
        names = [f"{number}.{place}" for place in range(1, len(shown(path)) + 1)]
        assert [figure.figcaption.get_text() for figure in figures] == [
            f"Figure {n}" for n in names
        ]
        assert [figure["id"] for figure in figures] == [f"figure-{name}" for name in names]


def test_code_that_draws_is_folded_and_code_that_teaches_is_not(pages):
    folded = [block for page in pages.values() for block in page.select("main > .drawn")]
    assert len(folded) > 30
    for block in folded:
        assert block.summary.get_text() == "How this was drawn" and not block.has_attr("open")
        assert block.find_previous_sibling().name == "figure"
        code = block.find("div", class_="highlight").get_text()
        assert not re.search(r"^(#\| export|def |class |.*\bprint\()", code, re.MULTILINE), code
        assert "backward()" not in code


def test_what_counts_as_drawing():
    picture = nbformat.v4.new_output("display_data", {"image/png": "AA=="})
    printed = nbformat.v4.new_output("stream", text="1\n")
    drawn = "from matplotlib.pyplot import bar\nbar(\n    1,\n    2,\n)\nx = 1\ny = 2"
    half = "for axis in axes:\n    x = 1\n    axis.plot(x)\n    y = 2"
    sources = [
        (drawn, [picture]),
        (drawn, [picture, printed]),
        (drawn, []),
        (f"#| export\n{drawn}", [picture]),
        (f"def a():\n    return 1\n\n\n{drawn}", [picture]),
        (half, [picture]),
        (f"{half}\n    axis.plot(y)", [picture]),
        ("x = 1\nbar(x)\nbar(2)", [picture]),  # imported above
    ]
    made = [nbformat.v4.new_code_cell(source, outputs=outputs) for source, outputs in sources]
    assert drawing_cells(nbformat.v4.new_notebook(cells=made)) == {0, 6, 7}


def test_columns_are_told_from_lines():
    assert is_aligned("a    1\nbb   2") and is_aligned("  a  b  \n c  d")
    assert not is_aligned("one line\n  another\nand  a gap\n")


def test_there_is_no_solution(site, pages):
    for path in NOTEBOOKS:
        page = pages[f"{path.stem}.html"]
        shipped = nbformat.read(site / "notebooks" / path.name, as_version=4)
        assert page.find("a", download=True)["href"] == f"notebooks/{path.name}"
        assert [cell.source for cell in shipped.cells if cell.cell_type == "code"] == [
            cell.source for cell in cells(path, "code")
        ]
        assert not any(cell.get("outputs") for cell in shipped.cells)
        given = "\n".join(cell.source for cell in cells(path, "code") + cells(path, "markdown"))
        texts = page.get_text(), "\n".join(cell.source for cell in shipped.cells)
        secret = [
            line
            for exercise in exercises(path)
            for line in map(str.strip, exercise.solution.splitlines())
            if len(line) > 20 and line not in given
        ]
        assert secret, path.name
        for text in texts:
            assert [line for line in secret if line in text] == [], path.name
            assert "Solution" not in text and "solution is folded" not in text


def test_solutions_come_when_they_are_wanted(full_site):
    for path in NOTEBOOKS:
        page = parsed(full_site / f"{path.stem}.html")
        folded = page.select("section details")
        assert len(folded) == len(exercises(path)) >= 2, path.name
        for solution in folded:
            assert not solution.has_attr("open") and solution.summary.get_text() == "Solution"
            assert solution.find("div", class_="highlight"), path.name
        assert (full_site / "notebooks" / path.name).read_bytes() == path.read_bytes()


def test_chinese_is_marked_as_such(pages):
    made = '<title>弹</title><p title="弹">She plays 弹钢琴。 x</p><math><mi>弹</mi></math>'
    marked = made.replace("弹钢琴。", '<span lang="zh">弹钢琴。</span>')
    assert with_chinese_marked(made) == marked
    for name, page in pages.items():
        for text in page.body.find_all(string=re.compile("[\u4e00-\u9fff]")):
            if text.parent.name != "script":
                assert text.parent.get("lang") == "zh", (name, text)
    assert len(pages["16_translation.html"].select(".output [lang=zh]")) > 10


def test_each_character_is_in_a_font_that_ships(site, pages):
    paths = {name: site / "fonts" / f"{name}.woff" for name in ("cjk", "mono", "math")}
    fonts = {name: set(map(chr, TTFont(path).getBestCmap())) for name, path in paths.items()}
    for name, page in pages.items():
        for text in page.find_all(string=True):
            characters = set(text) - {"\n", "🙂"}  # each system has emoji of its own
            formula = text.find_parent("math") is not None
            shown = fonts["math"] if formula else fonts["cjk"] | fonts["mono"]
            assert characters <= shown, (name, characters - shown, text[:40])
    formulas = TTFont(site / "fonts" / "math.woff")
    variants = formulas["MATH"].table.MathVariants
    root = variants.VertGlyphCoverage.glyphs.index(formulas.getBestCmap()[ord("√")])
    signs = variants.VertGlyphConstruction[root].MathGlyphVariantRecord
    widths = [formulas["hmtx"][sign.VariantGlyph][0] for sign in signs]
    assert len(widths) > 2 and len(set(widths)) == 1  # no gap behind a root
    assert sum(path.stat().st_size for path in (site / "fonts").iterdir()) < 500_000


def test_the_chinese_pages_stand_beside_the_english_ones(site, pages):
    names = {path.name for path in (site / "zh").glob("*.html")}
    assert names == set(pages)
    glyphs = set(map(chr, TTFont(site / "zh" / "fonts" / "cjk.woff").getBestCmap()))
    mono = set(map(chr, TTFont(site / "fonts" / "mono.woff").getBestCmap()))
    for name, english in pages.items():
        page = parsed(site / "zh" / name)
        assert page.html["lang"] == "zh-CN" and english.html["lang"] == "en"
        assert english.find("a", class_="other")["href"] == f"zh/{name}"
        assert page.find("a", class_="other")["href"] == f"../{name}"
        anchors = [[tag["id"] for tag in one.main.find_all(["h1", "h2", "h3"], id=True)]
                   for one in (page, english)]  # fmt: skip
        assert anchors[0] == anchors[1], name
        for tag in page.find_all(["a", "img", "script", "link"]):
            there = tag.get("href", tag.get("src"))
            if there and not re.match("(https?|data):", there):
                file, _, anchor = there.replace("?lang=zh", "").partition("#")
                path = (site / "zh" / (file or name)).resolve()
                assert path.is_file(), (name, there)
                assert not anchor or anchor in path.read_text(encoding="utf-8"), (name, there)
        for text in page.find_all(string=re.compile("[\u2e80-\u9fff]")):
            if not text.find_parent(["script", "math"]):
                lacking = {sign for sign in text if sign > "\u2e80"} - glyphs - mono - {"🙂"}
                assert not lacking, (name, lacking)
        for text in page.main.find_all(string=re.compile(r"\*")):  # emphasis that did not end
            assert text.find_parent(["pre", "code", "script", "math"]), (name, text)
    viewer = (site / "zh" / "viewer.js").read_text(encoding="utf-8")
    assert {sign for sign in viewer if sign > "\u2e80"} - glyphs == set()
    index = parsed(site / "zh" / "index.html")
    assert index.h1.get_text() == "读得懂、跑得通、信得过的 Transformer"
    assert index.find("a", string="从 00 开始")["href"] == "00_setup.html"
    lesson = parsed(site / "zh" / "04_multi_head_attention.html")
    assert lesson.find("figcaption").get_text() == "图 4.1"
    assert not re.search("Figure|On this page|not translated", lesson.get_text())


def test_who_changes_the_language_stays_at_the_section(site, open_page):
    page = open_page("04_multi_head_attention.html")
    page.evaluate("location.hash = document.querySelectorAll('h2')[2].id")
    page.locator("a.other").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    title = page.evaluate(
        "document.getElementById(decodeURIComponent(location.hash.slice(1))).textContent"
    )
    assert title.startswith("3 写下来")


def test_no_text_of_widgets_and_no_progress_bars(pages):
    for name, page in pages.items():
        for block in page.find_all("pre", class_="output"):
            assert not re.search(r"interactive\(children|\d+%\|", block.get_text()), name


def run(program, folder, *options):
    """The exit status of the program that is to write to this folder."""
    return program.run_command(program.main, [str(folder), *options])


@pytest.mark.parametrize("name", ["notes.txt", "index.html"])
def test_what_is_no_former_site_is_refused(program, tmp_path, name, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    mine = "gehört mir".encode("latin-1")  # not UTF-8
    (folder / name).write_bytes(mine)
    assert run(program, folder) == 2
    told = f"error: {folder} is not as this tool left it ({name}): choose another folder\n"
    assert capsys.readouterr() == ("", told)
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [(name, mine)]


@pytest.mark.parametrize("name", ["images/mine.png", "fonts/mine/a.txt", "mine.html", "style.css"])
def test_a_file_of_the_users_in_a_former_site_is_kept(
    program, site, tmp_path, monkeypatch, name, capsys
):
    former = shutil.copytree(site, tmp_path / "former")
    (former / name).parent.mkdir(exist_ok=True)
    (former / name).write_text("mine", encoding="utf-8")
    monkeypatch.setattr(
        program, "build", lambda root, folder, *_: shutil.copytree(site, folder) and 17
    )
    assert run(program, former) == 2
    assert (former / name).read_text(encoding="utf-8") == "mine"
    told = capsys.readouterr().err
    assert told.startswith("error: ") and told.count("\n") == 1, told


def test_a_former_site_is_replaced_as_a_whole_or_not_at_all(program, site, tmp_path, monkeypatch):
    former = shutil.copytree(site, tmp_path / "former")
    (former / "17_gone.html").write_text("old", encoding="utf-8")
    listed = "\n".join(program.contents(former))
    (former / program.LIST).write_text(listed, encoding="utf-8")

    def fails(root, folder, *_):
        shutil.copytree(site, folder)
        raise program.InputError("half way")

    monkeypatch.setattr(program, "build", fails)
    assert run(program, former) == 2 and (former / "17_gone.html").exists()
    monkeypatch.setattr(
        program, "build", lambda root, folder, *_: shutil.copytree(site, folder) and 17
    )
    assert run(program, former) == 0
    assert {path.name for path in former.iterdir()} == {path.name for path in site.iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["former"]


def test_a_file_that_comes_while_the_site_is_made_is_kept(program, site, tmp_path, monkeypatch):
    former = shutil.copytree(site, tmp_path / "former")

    def build(root, folder, *_):
        (former / "mine.html").write_text("mine", encoding="utf-8")
        shutil.copytree(site, folder)
        return 17

    monkeypatch.setattr(program, "build", build)
    assert run(program, former) == 2
    assert (former / "mine.html").read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_ctrl_c_is_one_line(tmp_path):
    command = [sys.executable, PROGRAM, tmp_path / "site"]
    making = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < end:
            time.sleep(0.05)
        making.send_signal(signal.SIGINT)
        told = making.communicate(timeout=60)[1]
    finally:
        making.kill()
        making.wait()
    assert (making.returncode, told) == (130, "stopped\n")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def browser(site):
    """A browser that reaches no other machine."""
    options = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        page = browser.new_page()
        try:
            page.goto((site / "index.html").as_uri())
        except Error:
            pytest.skip(f"{browser.version} does not open files of {site}")
        page.close()
        yield browser
        browser.close()


@pytest.fixture
def open_page(site, browser):
    """A function that opens a page of the site; an error in a script fails the test."""
    opened, errors = [], []

    def open_it(name, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(error))
        page.goto((site / name).as_uri())
        return page

    yield open_it
    for context in opened:
        context.close()
    assert errors == []


# Asks the browser what a reader would see; what lies in a box that scrolls may be wider than the
# page.
SEEN = """async () => {
  const images = [...document.images];
  for (const image of images) image.loading = "eager";
  await Promise.all([document.fonts.ready, ...images.map(i => i.decode().catch(() => {}))]);
  const boxed = e => e.parentElement.closest("pre, .table, .formula, .scrolls, .skip, .results");
  const wide = [...document.body.querySelectorAll("*:not(.skip)")].filter(
    e => !boxed(e) && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  return {
    wide: wide.map(e => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40)),
    scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    pictures: images.filter(i => !i.naturalWidth).map(i => i.src),
    formulas: [...document.querySelectorAll("math")]
      .filter(m => m.getBoundingClientRect().width < 4).length,
    fonts: [...document.fonts].filter(f => f.status == "error").map(f => f.family),
    loaded: [...document.fonts].filter(f => f.status == "loaded").length,
    open: [...document.querySelectorAll("details .highlight")]
      .filter(e => e.checkVisibility()).length,
    elsewhere: performance.getEntriesByType("resource").map(r => r.name)
      .filter(n => !/^(file|data):/.test(n)),
  };
}"""
LOOKED_AT = [
    "index.html",
    "00_setup.html",
    "04_multi_head_attention.html",
    "16_translation.html",
    "teachers.html",
]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", [*LOOKED_AT, "zh/03_positional_encoding.html", "zh/13_loss.html"])
def test_a_browser_without_network_shows_everything(open_page, name, width):
    report = open_page(name, width).evaluate(SEEN)
    assert report.pop("loaded") >= 1, name
    assert not any(report.values()), report


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_finger_hits_what_leads_on(open_page, name):
    page = open_page(name, 390, has_touch=True)
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 16
    for summary in page.locator("summary:visible").all():
        summary.click()
    parts = "body > nav a, header a, #search, summary, .contents a, .lessons a, .button"
    heights = (
        page.locator(parts)
        .locator("visible=true")
        .evaluate_all("all => all.map(e => [e.getBoundingClientRect().height, e.textContent])")
    )
    assert len(heights) > 4 and [found for found in heights if found[0] < 44] == []


def test_the_contents_stand_beside_the_text_or_are_folded(open_page):
    page = open_page("04_multi_head_attention.html")
    expect(page.locator("aside")).to_be_visible()
    expect(page.locator("details.contents")).to_be_hidden()
    page.locator("aside a").nth(2).click()
    heading = page.locator("main h2").nth(2)
    expect(heading).to_be_in_viewport()
    page.wait_for_timeout(100)
    expect(page.locator("aside")).to_be_in_viewport()  # it goes along
    text, beside = page.locator("main").bounding_box(), page.locator("aside").bounding_box()
    assert text["x"] + text["width"] < beside["x"]
    link = heading.locator(".anchor")
    page.mouse.move(0, 0)
    expect(link).to_have_css("opacity", "0")
    heading.hover()
    expect(link).to_have_css("opacity", "1")
    narrow = open_page("04_multi_head_attention.html", 390)
    expect(narrow.locator("aside")).to_be_hidden()
    expect(narrow.locator("details.contents a").first).to_be_hidden()
    narrow.locator("details.contents summary").click()
    expect(narrow.locator("details.contents a").first).to_be_visible()


def test_search_finds_sections(open_page):
    page = open_page("index.html")
    field, links = page.locator("#search"), page.locator("#found a")
    assert page.evaluate("typeof searchIndex") == "undefined"  # it comes when it is needed
    field.fill("scaled_dot_product")
    there = page.get_by_role("link", name="04 Multi-head attention › Write it", exact=True)
    expect(there).to_be_visible()
    field.fill("MultiHeadAtt")  # the beginning of a name that code defines
    expect(there).to_be_visible()
    field.fill("beam zebra")
    expect(page.locator("#told")).to_have_text("0 found")
    field.fill("弹钢")
    expect(links.first).to_be_visible()
    field.fill("multi head attention")
    expect(links.first).to_have_text("04 Multi-head attention")
    field.press("ArrowDown")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    expect(field).to_be_focused()
    expect(links).to_have_count(0)
    field.fill("Write it multi head")
    expect(links.first).to_have_text("04 Multi-head attention › Write it")
    field.press("Enter")
    page.wait_for_url(re.compile(r"04_multi_head_attention\.html#3-Write-it$"))
    expect(page.locator("main h2").nth(2)).to_be_in_viewport()


def test_the_index_leads_to_sections_that_exist(site, pages):
    script = (site / "search.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("searchIndex = ").removesuffix(";\n"))
    for number, anchor, _ in index["sections"]:
        name, page = index["pages"][number]
        assert pages[name].find(id=anchor), (name, anchor)
        assert pages[name].title.get_text().startswith(page)
    words = index["words"]
    assert {"softmax", "multiheadattention", "弹", "beam"} <= words.keys()
    assert all(re.fullmatch(r"\d+( [1-9]\d*)*", numbers) for numbers in words.values())


@pytest.mark.parametrize("name", ["04_multi_head_attention.html", "16_translation.html"])
def test_the_attention_viewer_shows_other_heads(open_page, name):
    page = open_page(name)
    viewer = page.locator("figure .attention-viewer")
    expect(viewer).to_have_count(1)
    assert viewer.locator("g").count() > 12

    def shares():
        viewer.locator('g[data-side="query"]').nth(1).hover()
        found = [text for text in viewer.locator(".share").all_text_contents() if text]
        return [int(share.removesuffix(" %")) for share in found]

    before = shares()
    assert sum(before) == pytest.approx(100, abs=5)
    viewer.get_by_label("head", exact=True).select_option("2")
    after = shares()
    assert after != before and sum(after) == pytest.approx(100, abs=5)
    viewer.get_by_label("kind", exact=True).select_option("decoder")
    assert shares()[2:] == [0] * (len(shares()) - 2)  # it does not look ahead


def test_the_attention_viewer_speaks_the_language_of_its_page(open_page):
    page = open_page("zh/04_multi_head_attention.html")
    viewer = page.locator("figure .attention-viewer")
    viewer.get_by_label("头", exact=True).select_option(label="2")
    viewer.get_by_label("种类", exact=True).select_option(label="解码器")
    expect(viewer).to_contain_text("发问（查询）")
    assert not re.search("query|Point at|mean", viewer.inner_text())
    word = viewer.locator("svg text").first  # is drawn in the font that comes along
    expect(word).to_have_css("font-family", re.compile('^"Course CJK"'))


def test_without_scripts_nothing_else_is_missing(open_page):
    def text(page):
        return page.locator("main").inner_text()

    for name in ("index.html", "05_layer_norm.html"):
        assert text(open_page(name)) == text(open_page(name, java_script_enabled=False))
    page = open_page("04_multi_head_attention.html", java_script_enabled=False)
    expect(page.locator("#search")).to_be_hidden()
    expect(page.locator("figure img")).to_have_count(len(shown(NOTEBOOKS[4])))
    expect(page.locator("aside a").first).to_be_visible()
    page.locator(".drawn summary").first.click()
    expect(page.locator(".drawn .highlight").first).to_be_visible()


def test_paper_shows_the_text_alone(open_page):
    page = open_page("04_multi_head_attention.html", color_scheme="dark")
    page.emulate_media(media="print")
    for part in ("header", "nav", "aside", "details", ".anchor"):
        assert page.locator(part).locator("visible=true").count() == 0, part
    assert page.locator("figure").locator("visible=true").count() == len(shown(NOTEBOOKS[4]))
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_nothing_serious(open_page, name, colours):
    options = {"runOnly": ["color-contrast"]} if colours == "dark" else {}  # all else is the same
    found = Axe().run(open_page(name, color_scheme=colours), options=options)
    violations = found.response["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    told = [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in serious]
    assert told == []


def luminance(colour):
    """The relative luminance of WCAG 2."""
    parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("number, colours", [(0, "light"), (1, "dark")])
def test_all_text_stands_out_from_its_ground(number, colours):
    css = (ROOT / "tools" / "pages.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{[^}]*--page[^}]*\}", css)
    assert len(blocks) == 2
    named = dict(re.findall(r"--([\w-]+): (#\w+);", blocks[number]))
    texts = {"text", "quiet", "link", "keyword", "name", "value", "string", "comment"}
    pairs = [(text, ground) for text in texts for ground in ("page", "box")]
    pairs += [("on-button", "button"), ("on-lit", "lit")]
    weak = {pair: contrast(*map(named.get, pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}
    assert contrast(named["edge"], named["page"]) >= 3  # the frame of the field
    used = set(re.findall(r"(?:[^-]color|fill): var\(--([\w-]+)\)", css))
    assert used <= texts | {"on-button", "on-lit", "page", "box", "lit", "edge"}
    others = css.replace(blocks[0], "").replace(blocks[1], "")
    assert set(re.findall(r"#[0-9a-f]{3,8}\b", others)) == {"#1a1a1a", "#fff"}  # white cards

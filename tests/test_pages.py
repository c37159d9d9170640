"""What the site of `make pages` must be: complete, linked, and open to all readers."""

import re
import shutil

import nbformat
import pages as program
import pages_edition
import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from conftest import NOTEBOOKS
from fontTools.ttLib import TTFont
from grading import FOLDED
from pages_text import to_mathml
from playwright.sync_api import expect

from engine.errors import InputError

LESSONS = [f"{path.stem}.html" for path in NOTEBOOKS]
OTHERS = set(program.READMES.values())
ENGLISH = {"index.html", *LESSONS, *OTHERS}


def run(folder, *options):
    """The exit status of the program that is to write to this folder."""
    return program.run_command(program.main, [str(folder), *options])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site, freshly written."""
    folder = tmp_path_factory.mktemp("pages") / "site"
    assert run(folder) == 0
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """{file name: parsed page} of the English edition and, below zh, of the Chinese one."""
    paths = [*site.glob("*.html"), *site.glob("zh/*.html")]
    return {
        path.relative_to(site).as_posix(): BeautifulSoup(path.read_text("utf-8"), "html.parser")
        for path in paths
    }


@pytest.fixture(scope="module")
def lessons(pages):
    """[(notebook, its page)] in English."""
    return [(path, pages[name]) for path, name in zip(NOTEBOOKS, LESSONS)]


def cells(path, kind):
    """The cells of a notebook, less its solutions."""
    every = nbformat.read(path, as_version=4).cells
    return [c for c in every if c.cell_type == kind and not c.source.startswith(FOLDED)]


def test_the_pages_are_a_chain_in_both_languages(pages):
    assert set(pages) == ENGLISH | {f"zh/{name}" for name in ENGLISH}
    names = ["index.html", *LESSONS]
    for name, previous, following in zip(names, [None, None, *names[1:]], [*names[1:], None]):
        for nav in pages[name].select("nav[aria-label=top], nav[aria-label=bottom]"):
            links = [nav.find("a", rel=rel) for rel in ("prev", "next")]
            assert [link and link["href"] for link in links] == [previous, following], name
    for name in ENGLISH:
        english, chinese = pages[name], pages[f"zh/{name}"]
        assert (english.html["lang"], chinese.html["lang"]) == ("en", "zh-CN")
        assert english.find("a", class_="other")["href"] == f"zh/{name}"
        assert chinese.find("a", class_="other")["href"] == f"../{name}"
        anchors, same = ([tag["id"] for tag in page.main.find_all(["h1", "h2", "h3"], id=True)]
                         for page in (english, chinese))  # fmt: skip
        assert anchors == same, name


def test_the_index_leads_to_all_lessons_and_to_the_page_that_translates(site, pages):
    index = pages["index.html"]
    assert [link["href"] for link in index.select(".lessons li a")] == LESSONS
    assert all(question.get_text().endswith("?") for question in index.select(".lessons li span"))
    assert OTHERS <= {link["href"] for link in index.find_all("a")}
    assert index.find("img", src="images/attention.png").parent["href"] == "translator/index.html"


def test_a_page_shows_what_its_notebook_holds(lessons):
    for path, page in lessons:
        code = cells(path, "code")
        shown = [block.get_text().strip("\n") for block in page.main.select("div.highlight")
                 if not block.find_parent("section")]  # fmt: skip
        assert shown == [cell.source.strip("\n") for cell in code]
        folded = [cell for cell in code if cell.metadata.get("jupyter", {}).get("source_hidden")]
        assert len(page.select("main > .folded:not([open]) > .highlight")) == len(folded) > 0
        outputs = [output for cell in code for output in cell.outputs]
        printed = [block.get_text() for block in page.main.find_all("pre", class_="output")]
        assert printed == [o.text.rstrip() for o in outputs if o.get("name") == "stdout"]
        data = [output for output in outputs if "image/png" in output.get("data", {})]
        texts = [output.metadata["image/png"]["alt"] for output in data]
        assert [image["alt"] for image in page.find_all("img")] == texts
        captions = [f"Figure {int(path.name[:2])}.{number}" for number in range(1, len(texts) + 1)]
        assert [figure.get_text() for figure in page.find_all("figcaption")] == captions


def test_every_formula_is_mathml(lessons):
    for path, page in lessons:
        text = "\n\n".join(cell.source for cell in cells(path, "markdown"))
        text = re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        formulas = re.findall(r"\$\$.+?\$\$|\$[^$]+\$", text, flags=re.DOTALL)
        assert len(page.main.find_all("math")) == len(formulas), path.name
        assert not page.find_all("merror")
        assert "\u0332" not in page.get_text()  # as \overline first comes
        for text in page.main.find_all(string=re.compile(r"[$\\]")):
            assert text.find_parent(["pre", "code", "script"]), (path.name, text)
    with pytest.raises(InputError, match="cannot be converted"):
        to_mathml(r"\frac{1}", False)


def test_every_link_leads_somewhere_and_no_request_elsewhere(site, pages):
    ids = {name: [tag["id"] for tag in page.find_all(id=True)] for name, page in pages.items()}
    for name, page in pages.items():
        assert len(ids[name]) == len(set(ids[name])), name
        assert not [tag for tag in page.find_all(src=True) if ":" in tag["src"]], name
        for tag in page.find_all(["a", "img", "script", "link"]):
            link = tag.get("href", tag.get("src", ""))
            if re.match("https?:|data:", link):
                continue
            target, _, anchor = link.replace("?lang=zh", "").partition("#")
            path = ((site / name).parent / target).resolve() if target else site / name
            assert path.is_file(), (name, link)
            if anchor and "live" not in tag.get("class", ()):
                assert anchor in ids[path.relative_to(site.resolve()).as_posix()], (name, link)


def test_each_page_links_to_its_headings(pages):
    for name in [*LESSONS, *OTHERS]:
        anchors = [f"#{heading['id']}" for heading in pages[name].main.find_all(["h2", "h3"])]
        for links in (".anchor", "aside details .contents:not(.all) li a"):
            assert [link["href"] for link in pages[name].select(links)] == anchors, (name, links)


def test_solutions_come_when_they_are_wanted(site, lessons):
    for path, page in lessons:
        assert page.find("a", download=True)["href"] == f"notebooks/{path.name}"
        assert not page.select("main details:not(.folded)"), path.name
        shipped = nbformat.read(site / "notebooks" / path.name, as_version=4).cells
        assert not [cell for cell in shipped if cell.source.startswith(FOLDED)], path.name
        assert not any(cell.get("outputs") for cell in shipped)
    path = NOTEBOOKS[5]
    notebook, file = program.read_lesson(path, True, program.Edition("en", "English"))
    assert file == path.read_text(encoding="utf-8")
    assert [cell for cell in notebook.cells if cell.source.startswith(FOLDED)]


def test_chinese_is_marked_as_such(pages):
    for text in pages[LESSONS[16]].body.find_all(string=re.compile("[\u4e00-\u9fff]")):
        assert text.parent.name == "script" or text.parent.get("lang") == "zh", text


def test_each_character_is_in_a_font_that_ships(site, pages):
    def characters(name, font):
        return set(map(chr, TTFont((site / name).parent / "fonts" / font).getBestCmap()))

    for name in (LESSONS[8], LESSONS[16], f"zh/{LESSONS[8]}", f"zh/{LESSONS[16]}"):
        known = characters(name, "cjk.woff") | characters(name, "mono.woff") | {"\n"}
        math = characters(name, "math.woff")
        for text in pages[name].find_all(string=True):
            lacking = set(text) - (math if text.find_parent("math") else known)
            assert not lacking, (name, lacking, text[:40])


def test_a_lesson_that_cannot_be_shown_is_named(monkeypatch, tmp_path):
    def read_lesson(*_):
        raise ValueError("no line with its question")

    monkeypatch.setattr(program, "read_lesson", read_lesson)
    with pytest.raises(InputError, match="notebooks/00_setup.ipynb: no line with its question"):
        program.write_lessons(tmp_path, True, program.Edition("en", "English"))


def test_a_filled_exercise_is_told_as_the_student_s_copy_tells_it():
    with pytest.raises(InputError, match="^notebooks/05_layer_norm.ipynb, exercise 1: .* back$"):
        with program.named(program.ROOT / "notebooks/05_layer_norm.ipynb"):
            text = (program.ROOT / "notebooks/05_layer_norm.ipynb").read_text(encoding="utf-8")
            filled = text.replace("raise NotImplementedError", "return x", 1)
            program.without_solutions("notebooks/05_layer_norm.ipynb", filled)


def test_a_former_site_is_written_over_and_nothing_else(site, monkeypatch, tmp_path):
    monkeypatch.setattr(program, "build", lambda folder, _: shutil.copytree(site, folder))
    former, mine = tmp_path / "former", tmp_path / "former" / "mine.png"
    assert run(former) == 0
    mine.touch()
    (former / "index.html").write_text("old", encoding="utf-8")
    assert run(former) == 0 and mine.exists()
    assert (former / "index.html").stat().st_size == (site / "index.html").stat().st_size
    assert run(tmp_path) == run(mine) == 2  # no site, and no folder


def test_the_chinese_edition_shows_the_pictures_of_an_executed_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(pages_edition, "EXECUTED", tmp_path)
    name = "notebooks/03_positional_encoding.ipynb"
    text = NOTEBOOKS[3].read_text(encoding="utf-8")
    chinese = program.Edition("zh-CN", "中文", "zh/", "zh_CN")
    written = chinese.text(name, text)
    executed = written.replace('"execution_count": 2,', '"execution_count": 92,')
    (tmp_path / "notebooks").mkdir()
    (tmp_path / name).write_text(executed, encoding="utf-8")
    assert chinese.text(name, text) == executed != written
    (tmp_path / name).write_text(executed.replace('"import ', '"import  ', 1), encoding="utf-8")
    assert chinese.text(name, text) == written  # not of this course


@pytest.fixture
def open_page(site, visit):
    """A function that opens a page of the site."""
    return lambda name, **options: visit((site / name).as_uri(), **options)


@pytest.mark.parametrize("name", ["index.html", LESSONS[5], "notebooks.html", f"zh/{LESSONS[5]}"])
def test_a_browser_without_network_shows_everything_to_everybody(open_page, name):
    page = open_page(name)
    asked = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    assert not [name for name in asked if not re.match("(file|data):", name)]
    violations = Axe().run(page).response["violations"]
    assert [each for each in violations if each["impact"] in ("serious", "critical")] == []


def test_who_changes_the_language_stays_at_the_section(open_page):
    page = open_page(LESSONS[4])
    page.locator(".contents:not(.all) a").nth(2).click()
    anchor = page.evaluate("location.hash")
    page.locator("a.other").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    assert page.evaluate("location.hash") == anchor != ""


def test_search_finds_sections(open_page, pages):
    page = open_page("index.html")
    field, links = page.locator("#search"), page.locator("#found a")
    field.fill("scaled_dot_product")  # the beginning of a name in code
    section = page.get_by_role("link", name="04 Multi-head attention › Write it", exact=True)
    expect(section).to_be_visible()
    for address, name, _ in page.evaluate("searchIndex"):
        file, _, anchor = address.partition("#")
        assert pages[file].find(id=anchor), address
        assert pages[file].title.get_text().startswith(name.partition(" › ")[0])
    field.fill("beam zebra")
    expect(page.locator("#told")).to_have_text("0 found")
    field.fill("弹钢")
    expect(page.locator("#found small").first).not_to_be_empty()
    field.fill("multi head attention")
    expect(links.first).to_have_text("04 Multi-head attention")
    page.locator("h2").first.click()
    expect(links).to_have_count(0)
    field.fill("Write it multi head")
    field.press("Enter")
    page.wait_for_url(re.compile(r"04_multi_head_attention\.html#3-Write-it$"))
    expect(page.locator("main h2").nth(2)).to_be_in_viewport()


def test_lessons_at_the_side_a_lit_section_and_a_theme(open_page):
    page = open_page(LESSONS[5], viewport={"width": 1300, "height": 800})
    expect(page.locator('aside [aria-current="page"]')).to_have_text("05 Layer norm")
    page.get_by_role("heading", name="3 Write it").scroll_into_view_if_needed()
    page.mouse.wheel(0, 600)
    expect(page.locator('aside [aria-current="true"]')).to_contain_text("3 Write it")
    expect(page.locator("aside").get_by_role("link", name="16 Translation")).to_be_in_viewport()
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    after = page.evaluate(ground)
    page.reload()
    assert page.evaluate(ground) == after != before


def test_on_a_phone_the_lessons_are_a_menu_and_code_scrolls(open_page):
    page = open_page(LESSONS[4], viewport={"width": 390, "height": 800})
    lesson = page.locator("aside").get_by_role("link", name="16 Translation")
    expect(lesson).to_be_hidden()
    page.get_by_text("All lessons").nth(1).click()
    expect(lesson).to_be_visible()
    wide = "[document.body, ...document.querySelectorAll('.highlight pre')]"
    scrolls = page.evaluate(f"{wide}.map(box => box.scrollWidth > box.clientWidth)")
    assert not scrolls[0] and any(scrolls)


@pytest.mark.parametrize("below", ["", "zh/"])
def test_a_lesson_leads_to_a_part_of_the_page_that_translates(open_page, pages, below):
    live = [number for number, name in enumerate(LESSONS) if pages[below + name].select("a.live")]
    assert live == [4, 8, 9, 10, 16]
    page = open_page(below + LESSONS[9])
    page.locator("a.live").click()
    heading = "切断" if below else "Cut"
    expect(page.locator("#stage h2")).to_contain_text(heading, timeout=30_000)


@pytest.mark.parametrize("below, head", [("", "head"), ("zh/", "头")])
def test_the_attention_viewer_shows_other_heads(open_page, below, head):
    viewer = open_page(below + LESSONS[4]).locator("figure .attention-viewer")
    shown = []
    for number in ("1", "2"):
        viewer.get_by_label(head, exact=True).select_option(number)
        viewer.locator('g[data-side="query"]').nth(1).hover()
        shown.append([text for text in viewer.locator(".share").all_text_contents() if text])
    assert shown[0] != shown[1] and len(shown[0]) == len(shown[1]) > 5
    assert not below or not re.search("query|Point at|mean", viewer.inner_text())

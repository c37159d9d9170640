"""What the site of `make pages` must be: complete, linked, and open to all readers.

It needs no network, no server, no Chinese font, and scripts for nothing but search and the viewer.
"""

import re
import shutil
from pathlib import Path

import nbformat
import pages as program
import pages_edition
import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from conftest import NOTEBOOKS, ROOT
from fontTools.ttLib import TTFont
from grading import FOLDED, exercises
from pages_text import to_mathml, with_chinese_marked
from playwright.sync_api import expect

from engine.errors import InputError
from engine.export import proof

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "SENTENCES", 3)  # the page that translates has tests of its own
        assert run(folder) == 0
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """{file name: parsed page} of the English edition and, below zh, of the Chinese one."""
    paths = [*site.glob("*.html"), *site.glob("zh/*.html")]
    return {path.relative_to(site).as_posix(): parsed(path.read_text("utf-8")) for path in paths}


@pytest.fixture(scope="module")
def lessons(pages):
    """[(notebook, its page)] in English."""
    return [(path, pages[name]) for path, name in zip(NOTEBOOKS, LESSONS)]


def parsed(text):
    return BeautifulSoup(text, "html.parser")


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
    assert pages[f"zh/{LESSONS[4]}"].find("figcaption").get_text() == "图 4.1"


def test_the_index_leads_to_all_lessons_and_to_the_page_that_translates(site, pages):
    index = pages["index.html"]
    assert [link["href"] for link in index.select(".lessons li a")] == LESSONS
    assert all(question.get_text().endswith("?") for question in index.select(".lessons li span"))
    assert OTHERS <= {link["href"] for link in index.find_all("a")}
    assert "make run" in index.find(id="install").parent.get_text()
    assert index.find("img", src="images/attention.png").parent["href"] == "translator/index.html"
    assert (site / "translator" / "weights.js").is_file()


def test_a_page_shows_what_its_notebook_holds(lessons):
    for path, page in lessons:
        code = cells(path, "code")
        assert sources(page, "main > .highlight, main > .folded > .highlight") == [
            cell.source.strip("\n") for cell in code
        ]
        folded = [cell for cell in code if cell.metadata.get("jupyter", {}).get("source_hidden")]
        assert folded and sources(page, "main > .folded:not([open]) > .highlight") == [
            cell.source.strip("\n") for cell in folded
        ]
        outputs = [output for cell in code for output in cell.outputs]
        printed = [block.get_text() for block in page.main.find_all("pre", class_="output")]
        assert printed == [o.text.rstrip() for o in outputs if o.get("name") == "stdout"]
        assert not re.search(r"interactive\(children|\d+%\|", "\n".join(printed)), path.name
        data = [output for output in outputs if "image/png" in output.get("data", {})]
        texts = [output.metadata["image/png"]["alt"] for output in data]
        assert [image["alt"] for image in page.find_all("img")] == texts
        captions = [f"Figure {int(path.name[:2])}.{place}" for place in range(1, len(texts) + 1)]
        assert [figure.get_text() for figure in page.find_all("figcaption")] == captions


def sources(page, selector):
    """The code of these blocks of a page."""
    return [block.get_text().strip("\n") for block in page.select(selector)]


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
        assert not page.find_all(["iframe", "object", "embed", "base"]), name
        for tag in page.find_all(True):
            assert not any(key.startswith("on") for key in tag.attrs), (name, tag.name)
            assert ":" not in tag.get("src", ""), (name, tag["src"])
        for tag in page.find_all(["a", "img", "script", "link"]):
            link = tag.get("href", tag.get("src", ""))
            if re.match("https?:|data:", link):
                continue
            target, _, anchor = link.replace("?lang=zh", "").partition("#")
            path = ((site / name).parent / target).resolve() if target else site / name
            assert path.is_file(), (name, link)
            if anchor and "live" not in tag.get("class", ()):
                assert anchor in ids[path.relative_to(site.resolve()).as_posix()], (name, link)
    for style in site.glob("**/style.css"):
        urls = re.findall(r"url\((?!#)(.*?)\)", style.read_text(encoding="utf-8"))
        assert urls and all((style.parent / url).is_file() for url in urls)


def test_each_page_says_what_it_is(pages):
    descriptions = {pages[n].find("meta", {"name": "description"})["content"] for n in ENGLISH}
    titles = {pages[name].title.get_text() for name in ENGLISH}
    assert len(descriptions) == len(titles) == len(ENGLISH)


def test_every_heading_can_be_linked_and_is_in_the_contents(pages):
    for name in [*LESSONS, *OTHERS]:
        anchors = [f"#{heading['id']}" for heading in pages[name].main.find_all(["h2", "h3"])]
        for links in (".anchor", "aside details .contents:not(.all) li a"):
            assert [link["href"] for link in pages[name].select(links)] == anchors, (name, links)


def test_there_is_no_solution(site, lessons):
    for path, page in lessons:
        shipped = nbformat.read(site / "notebooks" / path.name, as_version=4).cells
        assert page.find("a", download=True)["href"] == f"notebooks/{path.name}"
        code = [cell for cell in shipped if cell.cell_type == "code"]
        assert [cell.source for cell in code] == [cell.source for cell in cells(path, "code")]
        assert not any(cell.outputs for cell in code)
        given = "\n".join(cell.source for cell in cells(path, "code") + cells(path, "markdown"))
        solutions = "\n".join(exercise.solution for exercise in exercises(path))
        lines = [line.strip() for line in solutions.splitlines() if len(line.strip()) > 20]
        secret = [line for line in lines if line not in given]
        assert secret, path.name
        for text in (page.get_text(), "\n".join(cell.source for cell in shipped)):
            assert [line for line in secret if line in text] == [], path.name


def test_solutions_come_when_they_are_wanted():
    path, edition = NOTEBOOKS[5], program.Edition("en", "English")
    notebook, file = program.read_lesson(path, True, edition)
    assert file == path.read_text(encoding="utf-8")
    folded = [cell.source for cell in notebook.cells if cell.source.startswith(FOLDED)]
    assert len(folded) == len(exercises(path)) >= 2
    page = program.Page(path, "05.html", notebook.cells)
    text = program.Renderer(page, edition).markdown(folded[0])
    assert parsed(text).select_one("details:not([open]) .highlight")


def test_chinese_is_marked_as_such(pages):
    made = '<title>弹</title><p title="弹">She plays 弹钢琴。 x</p><math><mi>弹</mi></math>'
    marked = made.replace("弹钢琴。", '<span lang="zh">弹钢琴。</span>')
    assert with_chinese_marked(made) == marked
    for text in pages[LESSONS[16]].body.find_all(string=re.compile("[\u4e00-\u9fff]")):
        assert text.parent.name == "script" or text.parent.get("lang") == "zh", text


def test_each_character_is_in_a_font_that_ships(site, pages):
    fonts = {
        path.relative_to(site).as_posix(): set(map(chr, TTFont(path).getBestCmap()))
        for path in site.glob("**/fonts/*.woff")
    }
    for name, page in pages.items():
        below = "zh/" if name.startswith("zh/") else ""
        # systems have emoji
        known = fonts[f"{below}fonts/cjk.woff"] | fonts[f"{below}fonts/mono.woff"] | {"\n", "🙂"}
        for text in page.find_all(string=True):
            formula = text.find_parent("math")
            lacking = set(text) - (fonts[f"{below}fonts/math.woff"] if formula else known)
            assert not lacking, (name, lacking, text[:40])
    viewer = set((site / "zh/viewer.js").read_text(encoding="utf-8"))
    assert {sign for sign in viewer if sign > "\u2e80"} <= fonts["zh/fonts/cjk.woff"]


@pytest.mark.parametrize(
    "edit, words",
    [
        (lambda text: "<<<<<<< HEAD\n" + text, "05_layer_norm.ipynb: Notebook does not appear"),
        (lambda text: text.replace("Reading: ", "Read: "), "05_layer_norm.ipynb: no line with"),
    ],
)
def test_a_lesson_that_cannot_be_shown_is_named(monkeypatch, tmp_path, edit, words):
    lesson = ROOT / "notebooks" / NOTEBOOKS[5].name
    read = Path.read_text

    def edited(path, *rest, **options):
        text = read(path, *rest, **options)
        return edit(text) if path == lesson else text

    monkeypatch.setattr(Path, "read_text", edited)
    with pytest.raises(InputError, match=re.escape(words)):
        program.write_lessons(tmp_path, True, program.Edition("en", "English"))


def test_a_former_site_is_written_over_and_nothing_else(site, monkeypatch, tmp_path):
    given = []

    def build(folder, solutions):
        given.append(solutions)
        shutil.copytree(site, folder)

    monkeypatch.setattr(program, "build", build)
    former, mine = tmp_path / "former", tmp_path / "former" / "mine.png"
    assert run(former) == 0
    mine.touch()
    (former / "index.html").write_text("old", encoding="utf-8")
    assert run(former, "--solutions") == 0 and given == [False, True]
    names = {path.relative_to(former) for path in former.rglob("*")}
    assert names == {path.relative_to(site) for path in site.rglob("*")} | {Path("mine.png")}
    assert (former / "index.html").stat().st_size == (site / "index.html").stat().st_size
    assert run(tmp_path) == run(mine) == 2 and len(given) == 2  # no site, and no folder


def test_the_chinese_edition_shows_the_pictures_of_an_executed_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(pages_edition, "EXECUTED", tmp_path)
    name = "notebooks/03_positional_encoding.ipynb"
    text = (ROOT / name).read_text(encoding="utf-8")
    chinese = program.Edition("zh-CN", "中文", "zh/", "zh_CN")
    written = chinese.text(name, text)
    executed = nbformat.reads(written, as_version=4)
    executed.metadata["executed"] = "here"
    (tmp_path / "notebooks").mkdir()
    nbformat.write(executed, tmp_path / name)
    assert '"executed": "here"' in chinese.text(name, text)
    executed.cells[0].source += " An edit."
    nbformat.write(executed, tmp_path / name)
    assert chinese.text(name, text) == written  # not of this course


@pytest.fixture
def open_page(site, visit):
    """A function that opens a page of the site."""
    return lambda name, **options: visit((site / name).as_uri(), **options)


MISSED = """async () => {  // what a reader would miss
  const images = [...document.images], fonts = [...document.fonts];
  for (const image of images) image.loading = "eager";
  await Promise.all([document.fonts.ready, ...images.map(i => i.decode().catch(() => {}))]);
  const resources = performance.getEntriesByType("resource").map(r => r.name);
  return [
    ...images.filter(i => !i.naturalWidth).map(i => i.src),
    ...fonts.filter(f => f.status == "error").map(f => f.family),
    ...fonts.some(f => f.status == "loaded") ? [] : ["fonts"],
    ...resources.filter(name => !/^(file|data):/.test(name)),
  ];
}"""


@pytest.mark.parametrize("name", ["index.html", LESSONS[5], "notebooks.html", f"zh/{LESSONS[5]}"])
def test_a_browser_without_network_shows_everything_to_everybody(open_page, name):
    page = open_page(name)
    assert page.evaluate(MISSED) == []
    violations = Axe().run(page).response["violations"]
    serious = [(each["id"], [node["html"][:120] for node in each["nodes"][:3]])
               for each in violations if each["impact"] in ("serious", "critical")]  # fmt: skip
    assert serious == []


def test_who_changes_the_language_stays_at_the_section(open_page):
    page = open_page(LESSONS[4])
    page.evaluate("location.hash = document.querySelectorAll('h2')[2].id")
    place = page.evaluate("location.hash")
    page.locator("a.other").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    assert page.evaluate("location.hash") == place
    expect(page.locator("h2").nth(2)).to_be_in_viewport()


def test_search_finds_sections(open_page, pages):
    page = open_page("index.html")
    field, links = page.locator("#search"), page.locator("#found a")
    assert page.evaluate("typeof searchIndex") == "undefined"  # it comes when it is needed
    section = page.get_by_role("link", name="04 Multi-head attention › Write it", exact=True)
    for words in ("scaled_dot_product", "MultiHeadAtt"):  # the beginning of a name in code
        field.fill(words)
        expect(section).to_be_visible()
    for address, name, _ in page.evaluate("searchIndex"):
        file, _, anchor = address.partition("#")
        assert pages[file].find(id=anchor), address
        assert pages[file].title.get_text().startswith(name.partition(" › ")[0])
    field.fill("beam zebra")
    expect(page.locator("#told")).to_have_text("0 found")
    field.fill("弹钢")
    expect(links.first).to_be_visible()
    expect(page.locator("#found small").first).not_to_be_empty()
    field.fill("multi head attention")
    expect(links.first).to_have_text("04 Multi-head attention")
    page.locator("h2").first.click()
    expect(links).to_have_count(0)
    field.fill("Write it multi head")
    expect(links.first).to_have_text("04 Multi-head attention › Write it")
    field.press("Enter")
    page.wait_for_url(re.compile(r"04_multi_head_attention\.html#3-Write-it$"))
    expect(page.locator("main h2").nth(2)).to_be_in_viewport()


def test_lessons_at_the_side_a_lit_section_and_a_theme(open_page):
    page = open_page(LESSONS[5], viewport={"width": 1300, "height": 800})
    side = page.locator("aside")
    expect(side.get_by_role("link", name="16 Translation")).to_be_visible()
    expect(side.locator('.all [aria-current="page"]')).to_have_text("05 Layer norm")
    page.get_by_role("heading", name="3 Write it").scroll_into_view_if_needed()
    page.mouse.wheel(0, 600)
    expect(side.locator('.contents:not(.all) [aria-current="true"]')).to_contain_text("3 Write it")
    expect(side.get_by_role("link", name="16 Translation")).to_be_in_viewport()  # it goes along
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


def test_the_attention_viewer_shows_other_heads(open_page):
    viewer = open_page(LESSONS[4]).locator("figure .attention-viewer")

    def shares():
        viewer.locator('g[data-side="query"]').nth(1).hover()
        texts = [text for text in viewer.locator(".share").all_text_contents() if text]
        return [int(text.removesuffix(" %")) for text in texts]

    before = shares()
    assert sum(before) == pytest.approx(100, abs=5)
    viewer.get_by_label("head", exact=True).select_option("2")
    after = shares()
    assert after != before and sum(after) == pytest.approx(100, abs=5)
    viewer.get_by_label("kind", exact=True).select_option("decoder")
    assert shares()[2:] == [0] * (len(shares()) - 2)  # it does not look ahead
    viewer = open_page(f"zh/{LESSONS[4]}").locator("figure .attention-viewer")
    viewer.get_by_label("头", exact=True).select_option(label="2")
    assert not re.search("query|Point at|mean", viewer.inner_text())


def test_without_scripts_nothing_else_is_missing(open_page):
    page = open_page(LESSONS[4], java_script_enabled=False)
    expect(page.locator("#search")).to_be_hidden()
    expect(page.locator("figure img").first).to_be_visible()
    page.locator(".folded summary").first.click()
    expect(page.locator(".folded .highlight").first).to_be_visible()

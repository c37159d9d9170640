"""The site of `make pages`: complete, linked, folded where it should be, open to all."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from playwright.sync_api import expect

import pages as program

LONG = "notebooks/03_positional_encoding"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site, freshly written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "OUT", tmp_path_factory.mktemp("pages"))
        assert program.main([]) == 0
        assert {path.name for path in program.OUT.iterdir()} == {
            "en",
            "zh",
            "translator",
            "index.html",
        }
        yield program.OUT


@pytest.fixture(scope="module")
def pages(site):
    """{path: parsed page} of both editions."""
    paths = [path for path in site.glob("??/**/*.html") if "_static" not in path.parts]
    return {path: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in paths}


def test_every_link_leads_somewhere_and_every_picture_has_a_text(site, pages):
    names = {
        path.relative_to(site / "en").as_posix() for path in pages if site / "en" in path.parents
    }
    assert {f"{Path(name).with_suffix('')}.html" for name in program.LESSONS} < names
    for path, page in pages.items():
        assert all(image.get("alt") for image in page.main.find_all("img")), path
        for tag in page.find_all(["a", "img", "script", "link"]):
            link = tag.get("href", tag.get("src", ""))
            target, _, anchor = re.sub(r"\?[^#]*", "", link).partition("#")
            if re.match("https?:", link):
                assert tag.name == "a", link  # nothing is loaded from elsewhere
            elif target or anchor:
                there = (path.parent / target).resolve() if target else path
                assert there.is_file(), (path, link)
                if anchor and there in pages:
                    assert pages[there].find(id=anchor), (path, link)
        link = page.find("a", hreflang=True)
        other = link["href"]
        assert link["hreflang"] != path.relative_to(site).parts[0]
        assert (path.parent / other).resolve() in pages or path.name in (
            "search.html",
            "genindex.html",
        )


@pytest.mark.parametrize("solutions", [False, True])
def test_hidden_cells_and_solutions_are_folded(solutions):
    name = "notebooks/05_layer_norm.ipynb"
    edition = program.Edition(None)
    text = edition.lesson(edition.text(name), solutions)
    cells = nbformat.reads(text, as_version=4).cells
    hidden = [c for c in cells if c.metadata.get("jupyter", {}).get("source_hidden")]
    assert hidden and all("hide-input" in cell.metadata.tags for cell in hidden)
    assert any(cell.source.startswith("<details><summary>") for cell in cells) == solutions


def test_no_solution_ships(site):
    shipped = [json.loads(path.read_text("utf-8")) for path in site.glob("??/_sources/**/*.ipynb")]
    assert len(shipped) == 2 * len(program.LESSONS)
    cells = ["".join(cell["source"]) for one in shipped for cell in one["cells"]]
    assert not any(cell.startswith(program.FOLDED) for cell in cells)


@pytest.fixture
def open_page(site, visit):
    """A function that opens a page of the site."""
    return lambda name, **options: visit(f"{site.as_uri()}/{name}", **options)


@pytest.mark.parametrize("scheme, width", [("light", 1300), ("dark", 1300), ("light", 390)])
@pytest.mark.parametrize(
    "name", ["en/README", "en/notebooks/16_translation", "zh/notebooks/README"]
)
def test_a_browser_without_network_shows_everything_to_everybody(open_page, name, scheme, width):
    viewport = {"width": width, "height": 800}
    options = dict(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    page = open_page(f"{name}.html", **options)  # colours that still fade in have no contrast
    asked = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    assert not [name for name in asked if not re.match("(file|data):", name)]
    violations = Axe().run(page).response["violations"]
    assert [each for each in violations if each["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_second_reading_opens_for_a_link_into_it_and_for_print(open_page, language):
    page = open_page(f"{language}/{LONG}.html")
    fold = page.locator("details.second-reading")
    inside = fold.locator("section").first
    anchor = inside.get_attribute("id")
    expect(inside).to_be_hidden()
    fold.locator("> summary").click()
    expect(inside).to_be_visible()
    linked = open_page(f"{language}/{LONG}.html#{anchor}").locator("details.second-reading section")
    expect(linked.first).to_be_visible()
    page = open_page(f"{language}/{LONG}.html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("details.second-reading section").first).to_be_visible()


@pytest.mark.parametrize("language, words", [("en", "teacher forcing"), ("zh", "钢琴")])
def test_search_finds_lessons(open_page, language, words):
    page = open_page(f"{language}/search.html?q={words}")
    expect(page.locator("#search-results li").first).to_be_visible()


@pytest.mark.parametrize("language, heading", [("en", "Cut"), ("zh", "切断")])
def test_a_lesson_leads_to_a_part_of_the_page_that_translates(open_page, language, heading):
    page = open_page(f"{language}/notebooks/09_decoder.html")
    page.locator("a.live").click()
    expect(page.locator("#stage h2")).to_contain_text(heading, timeout=30_000)


@pytest.mark.parametrize("language, head", [("en", "head"), ("zh", "头")])
def test_the_attention_viewer_shows_other_heads(open_page, language, head):
    viewer = open_page(f"{language}/notebooks/04_multi_head_attention.html").locator(".viewer")
    shown = []
    for number in ("1", "2"):
        viewer.get_by_label(head, exact=True).select_option(number)
        viewer.locator('g[data-side="query"]').nth(1).hover()
        shown.append([text for text in viewer.locator(".share").all_text_contents() if text])
    assert shown[0] != shown[1] and len(shown[0]) == len(shown[1]) > 5

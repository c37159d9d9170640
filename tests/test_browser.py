"""The attention viewer and the box of notebook 16, in JupyterLab, in a browser, with no network."""

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from urllib.parse import quote

import ipywidgets
import nbformat
import pytest
from conftest import NOTEBOOKS, ROOT, find_browser, free_port
from playwright.sync_api import expect, sync_playwright
from student import tracked_files

from notebooks.support.viewer import installed_font

TOKEN = "browser-test"
expect.set_options(timeout=60_000)  # a kernel on two busy cores answers late
STDERR = "[data-mime-type='application/vnd.jupyter.stderr']"
IMPORTS = """import matplotlib.pyplot as plt
from notebooks.setup import replace
from notebooks.support.pictures import attention_heatmap, show
"""  # which stand in cells left out
NEEDED = {  # the cells of a notebook that lead to its widget
    "04_multi_head_attention": (
        "#| export", "import translation_attention", "import AttentionViewer",
    ),
    "16_translation": (
        "#| export", "box = load_pretrained()", "import typed_viewer",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course, in which 04 and 16 hold just the cells that are needed."""
    folder = tmp_path_factory.mktemp("course") / "course"
    for name in tracked_files(()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name, marks in NEEDED.items():
        path = folder / "notebooks" / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        marked = [cell for cell in code if any(mark in cell.source for mark in marks)]
        text = "\n".join(cell.source for cell in marked)
        assert [mark for mark in marks if mark not in text] == [], name
        notebook.cells = [nbformat.v4.new_code_cell(IMPORTS), *marked]
        nbformat.write(notebook, path)
    return folder


@pytest.fixture(scope="module")
def lab(course, tmp_path_factory):
    """The address of a JupyterLab that serves the copy with the options of `make lab`."""
    recipe = re.search(r"^\t.*/jupyter lab (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    settings = tmp_path_factory.mktemp("settings")
    (settings / "labconfig").mkdir()
    no_news = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (settings / "labconfig" / "page_config.json").write_text(json.dumps(no_news), encoding="utf-8")
    port = free_port()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser",
        f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}",
        "--LabApp.expose_app_in_browser=True", *recipe[1].split(),
    ]  # fmt: skip
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(settings), "PYTHONPATH": str(course)}
    log = settings / "log.txt"
    with log.open("w") as file:
        output = dict(stdout=file, stderr=subprocess.STDOUT)
        server = subprocess.Popen(command, cwd=course, env=environment, **output)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def page():
    """A page of a fresh browser that reaches nothing but this machine.

    What it asks for elsewhere fails the test.
    """
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    elsewhere = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        here = re.compile(r"(http|ws)://127\.0\.0\.1|data:|blob:")
        page.on("request", lambda r: here.match(r.url) or elsewhere.append(r.url))
        yield page
        browser.close()
    assert elsewhere == []


def run_notebook(page, lab, name, widget=".attention-viewer"):
    """Opens a notebook, runs all of its cells, and returns its widget."""
    page.goto(f"{lab}/lab/tree/notebooks/{name}.ipynb?token={TOKEN}&reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    saved = page.locator(".jp-Notebook")
    expect(saved).not_to_contain_text("Error displaying widget")  # as it comes, before it has run
    status = page.locator("#jp-main-statusbar")
    expect(status).to_contain_text("Idle")  # the kernel has started
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    viewer = page.locator(widget)
    viewer.or_(page.locator(STDERR)).first.wait_for(timeout=120_000)
    assert viewer.count(), page.locator(STDERR).all_inner_texts()  # an error came instead
    viewer.scroll_into_view_if_needed()
    return viewer


def choose(viewer, **choices):
    """Sets the choosers of a viewer."""
    for name, value in choices.items():
        viewer.get_by_label(name, exact=True).select_option(str(value))


def shown(viewer):
    """The percentages that can be seen."""
    texts = [text for text in viewer.locator(".share").all_text_contents() if text]
    return [int(text.removesuffix(" %")) for text in texts]


def shares(viewer, side="query", number=0):
    """Points at a word; returns the percentages that appear."""
    viewer.locator(f'g[data-side="{side}"][data-number="{number}"]').hover()
    return shown(viewer)


def words(viewer, side):
    """The words of one side."""
    return viewer.locator(f'g[data-side="{side}"] text:not(.share)').all_text_contents()


def test_lab_opens_00_and_every_link_of_every_notebook(lab, page):
    page.goto(f"{lab}/?token={TOKEN}")
    current = page.locator(".jp-mod-current .lm-TabBar-tabLabel")
    expect(current.first).to_have_text("00_setup.ipynb")
    link = page.locator(".jp-RenderedMarkdown a[href*='01_data_preparation']").first
    link.click()
    expect(current.first).to_have_text("01_data_preparation.ipynb")
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        for target in re.findall(r"\]\(([^)#:\s]+)\)", text):
            place = posixpath.normpath(posixpath.join("notebooks", target))
            address = f"{lab}/api/contents/{quote(place)}?content=0&token={TOKEN}"
            urllib.request.urlopen(address, timeout=10).close()


def test_the_viewer_of_04_shows_shares_of_the_word_pointed_at(lab, page):
    viewer = run_notebook(page, lab, "04_multi_head_attention")
    choose(viewer, kind="encoder")
    sentence = "she plays the piano every evening . <eos>".split()
    assert words(viewer, "query") == words(viewer, "key") == sentence
    first = shares(viewer)
    assert len(first) == 8
    assert sum(first) == pytest.approx(100, abs=5)
    assert shares(viewer, number=1) != first
    choose(viewer, head=2)
    assert shares(viewer) != first
    choose(viewer, kind="decoder")
    assert words(viewer, "query") == ["<bos>", *"她每天晚上弹钢琴。"]
    assert shares(viewer, number=0) == [100] + [0] * 9  # nobody looks ahead
    assert shares(viewer, "key", 9)[:9] == [0] * 9
    viewer.locator('g[data-side="query"][data-number="0"]').click()
    page.mouse.move(0, 0)
    assert shown(viewer)[0] == 100  # a click keeps it
    choose(viewer, layer=1)
    pressed = viewer.locator('g[aria-pressed="true"]')
    assert pressed.get_attribute("aria-label") == "<bos>, asks (query)"  # also in another layer
    pressed.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert pressed.get_attribute("aria-label") == "她, asks (query)"
    page.keyboard.press("Enter")
    assert pressed.count() == 0
    for _ in range(20):  # focus goes out of the viewer at its end
        page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.attention-viewer')")


@pytest.mark.skipif(ipywidgets.__version__ < "8", reason="JupyterLab 4 does not show older ones")
def test_a_sentence_typed_into_the_box_of_16_is_translated_and_looked_into(lab, page):
    viewer = run_notebook(page, lab, "16_translation")
    box = page.get_by_role("textbox", name="English")
    box.fill("We had it last night.")
    box.press("Enter")
    source = "we had it last night . <eos>".split()
    keys = viewer.locator('g[data-side="key"] text:not(.share)')
    expect(keys).to_have_text(source)
    *written, end = words(viewer, "query")
    assert end == "<eos>"
    assert page.locator(".widget-label").get_by_text("".join(written), exact=True).count()
    lent = """document.fonts.ready.then((all) =>
        [...all].filter((font) => font.status === "loaded").map((font) => font.family))"""
    assert installed_font() or "Lent" in page.evaluate(lent)  # its characters are no squares
    choose(viewer, layer=1, head=1)
    one = shares(viewer)
    choose(viewer, layer=2, head=2)
    other = shares(viewer)
    assert one != other
    assert sum(one) == pytest.approx(100, abs=len(source))
    choose(viewer, kind="encoder")
    assert words(viewer, "query") == words(viewer, "key") == source

"""What the site of `make pages` must be: complete, linked, and readable.

It needs no network, no script and no Chinese font.
"""

import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import ROOT, find_browser, run_python
from fontTools.ttLib import TTFont

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PROGRAM = ROOT / "tools" / "pages.py"


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
def pages(site):
    """{file name: parsed page}."""
    return {
        path.name: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for path in site.glob("*.html")
    }


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def prose(path):
    """The text of a notebook, its code blocks and inline code left out."""
    text = "\n\n".join(cell.source for cell in cells(path, "markdown"))
    return re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_each_notebook_has_a_page_and_the_pages_are_a_chain(pages):
    names = ["index.html", *(f"{path.stem}.html" for path in NOTEBOOKS)]
    assert set(names) | {"data_small.html", "data_large.html"} == set(pages)
    for name, following in zip(names, [*names[1:], None]):
        for nav in pages[name].find_all("nav"):
            link = nav.find("a", rel="next")
            assert (link and link["href"]) == following, name
            assert not following or nav.parent.find("nav", {"aria-label": "bottom"})
            assert name == "index.html" or nav.find("a", href="index.html"), name
    for name, previous in zip(names[2:], names[1:]):
        for nav in pages[name].find_all("nav"):
            assert nav.find("a", rel="prev")["href"] == previous, name


def test_the_index_lists_all_notebooks_with_their_questions_and_shows_the_picture(pages):
    rows = {}
    for row in pages["index.html"].find_all("tr"):
        if row.a:
            rows[row.a["href"]] = row.find_all("td")[-1].get_text()
    assert list(rows) == [f"{path.stem}.html" for path in NOTEBOOKS]
    assert all(question.endswith("?") for question in rows.values())
    assert pages["index.html"].find("img", src="images/attention.png")


def test_code_and_printed_text_are_those_of_the_notebook(pages):
    for path in NOTEBOOKS:
        main = pages[f"{path.stem}.html"].main
        blocks = main.find_all("div", class_="highlight", recursive=False)
        code = [block.get_text().strip("\n") for block in blocks]
        assert code == [cell.source.strip("\n") for cell in cells(path, "code")], path.name
        printed = [block.get_text() for block in main.find_all("pre", class_="output")]
        outputs = [output for cell in cells(path, "code") for output in cell.outputs]
        assert printed == [o.text.rstrip() for o in outputs if o.get("name") == "stdout"], path.name


def test_no_script_and_no_request_elsewhere(site, pages):
    for name, page in pages.items():
        assert not page.find_all(["script", "iframe", "object", "embed", "base"]), name
        assert [link["href"] for link in page.find_all("link")] == ["style.css"], name
        for tag in page.find_all(True):
            assert not any(key.startswith("on") for key in tag.attrs), (name, tag.name)
            if "src" in tag.attrs:
                there = re.fullmatch(r"images/[\w.-]+", tag["src"])
                assert there and (site / tag["src"]).is_file(), (name, tag["src"])
    css = (site / "style.css").read_text(encoding="utf-8")
    assert "@import" not in css and "//" not in css
    assert all((site / url).is_file() for url in re.findall(r"url\((.*?)\)", css))


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
            assert text.find_parent(["pre", "code"]), (path.name, text)


def test_a_formula_that_cannot_be_converted_is_named(program):
    assert "<mfrac>" in program.to_mathml(r"\frac{1}{2}", True)
    with pytest.raises(program.InputError, match=r"\\frac\{1\} cannot be converted"):
        program.to_mathml(r"\frac{1}", False)


def test_every_link_leads_somewhere(site, pages):
    for name, page in pages.items():
        anchors = [tag["id"] for tag in page.find_all(id=True)]
        assert len(anchors) == len(set(anchors)), name
        for link in page.find_all("a"):
            target, _, anchor = link["href"].partition("#")
            if not re.match("https?://", target):
                there = pages[target or name]
                assert not anchor or there.find(id=anchor), (name, link["href"])


def test_every_picture_is_there_and_has_a_text(site, pages):
    for path in NOTEBOOKS:
        outputs = [output for cell in cells(path, "code") for output in cell.outputs]
        alts = [o.metadata["image/png"]["alt"] for o in outputs if "image/png" in o.get("data", {})]
        images = pages[f"{path.stem}.html"].find_all("img")
        assert [image["alt"] for image in images] == alts, path.name
    used = {image["src"] for page in pages.values() for image in page.find_all("img")}
    assert used == {f"images/{path.name}" for path in (site / "images").iterdir()}
    assert all(len(image["alt"]) > 20 for page in pages.values() for image in page.find_all("img"))


def test_solutions_are_folded(pages):
    for path in NOTEBOOKS:
        folded = pages[f"{path.stem}.html"].find_all("details")
        assert len(folded) == prose(path).count("<details>") >= 2, path.name
        for solution in folded:
            assert not solution.has_attr("open") and solution.summary.get_text() == "Solution"
            assert solution.find("div", class_="highlight"), path.name


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


def test_no_text_of_widgets_and_no_progress_bars(pages):
    for name, page in pages.items():
        for block in page.find_all("pre", class_="output"):
            assert not re.search(r"interactive\(children|\d+%\|", block.get_text()), name


def run(program, folder):
    """The exit status of the program that is to write to this folder."""
    return program.run_command(program.main, [str(folder)])


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
    monkeypatch.setattr(program, "build", lambda root, folder: shutil.copytree(site, folder) and 17)
    assert run(program, former) == 2
    assert (former / name).read_text(encoding="utf-8") == "mine"
    told = capsys.readouterr().err
    assert told.startswith("error: ") and told.count("\n") == 1, told


def test_a_former_site_is_replaced_as_a_whole_or_not_at_all(program, site, tmp_path, monkeypatch):
    former = shutil.copytree(site, tmp_path / "former")
    (former / "17_gone.html").write_text("old", encoding="utf-8")
    listed = "\n".join(program.contents(former))
    (former / program.LIST).write_text(listed, encoding="utf-8")

    def fails(root, folder):
        shutil.copytree(site, folder)
        raise program.InputError("half way")

    monkeypatch.setattr(program, "build", fails)
    assert run(program, former) == 2 and (former / "17_gone.html").exists()
    monkeypatch.setattr(program, "build", lambda root, folder: shutil.copytree(site, folder) and 17)
    assert run(program, former) == 0
    assert {path.name for path in former.iterdir()} == {path.name for path in site.iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["former"]


def test_a_file_that_comes_while_the_site_is_made_is_kept(program, site, tmp_path, monkeypatch):
    former = shutil.copytree(site, tmp_path / "former")

    def build(root, folder):
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


# Asks the browser what a reader would see; what lies in a box that scrolls may be wider than the
# page.
PROBE = """<script>
addEventListener("load", () => document.fonts.ready.then(() => {
  const boxed = element => element.parentElement.closest("pre, .table, .formula");
  const wide = [...document.body.querySelectorAll("*")].filter(
    e => !boxed(e) && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  const all = selector => [...document.querySelectorAll(selector)];
  const report = {
    wide: wide.map(e => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40)),
    scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    pictures: [...document.images].filter(i => !i.naturalWidth).map(i => i.src),
    formulas: all("math").filter(m => m.getBoundingClientRect().width < 4).length,
    fonts: [...document.fonts].filter(f => f.status == "error").map(f => f.family),
    loaded: [...document.fonts].filter(f => f.status == "loaded").length,
    open: all("details .highlight").filter(e => e.checkVisibility()).length,
    elsewhere: performance.getEntriesByType("resource").map(r => r.name)
      .filter(n => !n.startsWith("file:")),
  };
  document.body.innerHTML = "<pre id=report></pre>";
  document.getElementById("report").textContent = JSON.stringify(report);
}));
</script>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A function that opens a file in Chromium, without any network.

    It returns the page as it then is.
    """
    program = find_browser()
    profile = tmp_path_factory.mktemp("profile")

    def open_page(path, width):
        command = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-sync", "--disable-background-networking",
            "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}", f"--window-size={width},900",
            "--virtual-time-budget=5000", "--dump-dom", path.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60)
        return BeautifulSoup(done.stdout, "html.parser")

    probe = profile / "probe.html"
    probe.write_text("<p id=probe>seen</p>", encoding="utf-8")
    if not open_page(probe, 800).find(id="probe"):
        pytest.skip(f"{program} does not open files of {profile}")
    return open_page


@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_without_network_shows_everything(site, browser, tmp_path, width):
    copy = shutil.copytree(site, tmp_path / "site")
    for name in ("index.html", "04_multi_head_attention.html", "16_translation.html"):
        page = copy / name
        text = page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>")
        page.write_text(text, encoding="utf-8")
        report = json.loads(browser(page, width).find(id="report").get_text())
        assert report.pop("loaded") >= 2, name
        assert not any(report.values()), (name, report)

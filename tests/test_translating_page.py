"""The page that translates in a browser: the course's numbers, and what its readers see and do."""

import contextlib
import io
import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from fontTools.ttLib import TTFont
from playwright.sync_api import expect
from test_typed_text import TYPED

import export as program
from engine.export.page_form import (
    FILES,
    PAGE,
)
from engine.run_folder import BOX
from engine.translator import Translator

GREEDY, BEAM = "我们每天都在小提琴。", "我们每天拉小提琴。"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model in the box as a page, written where an older one was."""
    written = tmp_path_factory.mktemp("page") / "translator"
    written.mkdir()
    for name in ("index.html", "weights.js"):
        (written / name).write_text("old", encoding="utf-8")
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        assert program.main(["--form", "page", "--out", str(written), "--run", str(BOX)]) == 0
    assert [path.name for path in written.parent.iterdir()] == ["translator"]
    return written


# the folder


def test_the_folder_is_small_and_asks_for_nothing_else(folder):
    assert {path.name for path in folder.iterdir()} == set(FILES)
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "/*STYLE*/" not in text and "/*SCRIPT*/" not in text
    assert re.findall(r"(?:src|href)=\"(?!data:)(.*?)\"", text) == ["weights.js"]
    assert re.findall(r"url\((.*?)\)", text) == ["chinese.woff"]
    assert "fetch(" not in text and "import(" not in text


def test_every_chinese_sign_has_a_gloss_and_a_glyph(folder):
    glosses = json.loads((PAGE / "glosses.json").read_text(encoding="utf-8"))
    signs = Translator.load(BOX, device="cpu").target.vocabulary.tokens
    assert list(glosses) == signs
    assert all(glosses.values())
    glyphs = TTFont(folder / "chinese.woff").getBestCmap()
    page = (folder / "index.html").read_text(encoding="utf-8")  # speaks Chinese, too
    assert {sign for sign in page if ord(sign) > 0x2E80 and ord(sign) not in glyphs} == set()
    assert [sign for sign in signs if ord(sign) > 0x2E80 and ord(sign) not in glyphs] == []


# the engine


# in a browser


@pytest.fixture
def opened(visit, folder):
    """A function that opens the page from the disk; an error on it fails the test."""

    def open_page(width=1280, height=720, address="", **options):
        size = {"width": width, "height": height}
        page = visit((folder / "index.html").as_uri() + address, viewport=size, **options)
        expect(page.locator("#scenes button")).to_have_count(6, timeout=30_000)
        return page

    return open_page


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_each_key_is_one_step_from_words_to_why(opened):
    page = opened()
    title = page.locator("#stage h2")
    expect(title).to_have_text("Translated")
    expect(page.locator("#stage .large")).to_have_text(BEAM)
    page.get_by_role("button", name="How did it do that?").click()
    expect(title).to_have_text("The sentence becomes numbers")
    expect(page.locator(".words li")).to_have_count(8)
    press(page, "ArrowRight")
    expect(title).to_have_text("The encoder reads all words at once")
    cosines = [float(text.split()[-1]) for text in page.locator(".stages text").all_text_contents()
               if ":" in text]  # fmt: skip
    assert cosines[0] == 1 and cosines[-1] < 0.85 and len(cosines) == 4
    press(page, "ArrowRight")
    for position in range(len(GREEDY) + 1):
        expect(title).to_have_text("What comes next?" if position else "What comes first?")
        press(page, "ArrowRight")
        expect(title).to_have_text("How sure is it?")
        press(page, "PageDown")  # as a presenter's clicker says it
        expect(title).to_contain_text("Where it looked to write")
        press(page, "ArrowRight")
    expect(title).to_have_text("It is written")
    expect(page.locator("#stage td.foreign")).to_have_text(GREEDY)
    for name in ("Greedy", "A beam of 2", "A beam of 4"):
        press(page, "ArrowRight")
        expect(title).to_contain_text(name)
    expect(page.locator(".found tbody tr").first).to_contain_text(BEAM)
    for count in range(1, 6):
        press(page, "ArrowRight")
        expect(page.locator("#stage tbody tr")).to_have_count(count)
    for name in ("Transplant", "Ledger", "Cut"):
        press(page, "ArrowRight")
        expect(title).to_have_text(re.compile(f"^{name}"))
    expect(page.locator("#next")).to_be_disabled()
    press(page, *["ArrowLeft"] * 3)
    expect(title).to_have_text("What happens without a part")


def test_a_guess_and_the_second_best_make_the_sentence_fork(opened):
    page = opened()
    press(page, *["ArrowRight"] * 3)
    for _ in range(5):  # 我们每天都
        press(page, *["ArrowRight"] * 3)
    press(page, *["ArrowRight"] * 3)  # 在
    cards = page.locator(".cards button")
    expect(cards).to_have_count(5)
    signs = page.locator(".cards b").all_text_contents()
    assert {"小", "拉"} <= set(signs)
    press(page, str(signs.index("拉") + 1))
    expect(page.locator("#stage .wrong.answer")).to_contain_text("the model gives it")
    bars = page.locator(".bars button")
    assert page.locator(".bars b").first.text_content() == "小"
    assert "guess" in bars.filter(has_text="拉").get_attribute("class")
    bars.filter(has_text="拉").click()
    expect(page.locator(".written .forked")).to_have_text(re.compile("拉"))
    press(page, "ArrowRight")
    page.get_by_text("Write the rest").click()
    rows = page.locator("#stage td.foreign").all_text_contents()
    assert rows == ["我们每天都在拉小提琴。", GREEDY]


def test_the_page_reads_what_people_type_as_the_command_line_does(opened):
    page = opened()
    box = Translator.load(BOX, device="cpu")
    for typed in TYPED:
        if not typed.strip():
            continue
        page.get_by_label("English to Chinese").fill(typed)
        page.keyboard.press("Enter")
        expect(page.locator("body:not(.working) #sentence")).to_have_value(typed)
        (expected,) = box.translate_typed([typed])
        expect(page.locator("#stage .large")).to_have_text(expected or "(nothing)")


def each_scene(page):
    """Shows scene after scene, the bars of the third too."""
    for number in range(6):
        page.locator("#scenes button").nth(number).click()
        yield number
        if number == 2:
            press(page, "ArrowRight")
            yield "bars"
            press(page, "ArrowRight")
            yield "looks"
        if number == 5:
            for part in ("Ledger", "Cut"):
                press(page, "ArrowRight")
                yield part


def written(page, list_number=-1):
    """The signs of a list of what is written, without their glosses."""
    return "".join(page.locator(".written").nth(list_number).locator("span").all_text_contents())


def test_a_vector_that_moves_turns_the_verb_and_the_address_keeps_it(opened):
    page = opened(address="#why/transplant")
    assert (written(page, 0), written(page)) == ("晚饭后我们踢足球。", "晚饭后我们弹足球。")
    slider = page.get_by_label("the vector is moved")
    slider.focus()
    press(page, "Home")  # as it comes in: word and place are the same
    expect(page.locator("#stage")).to_contain_text("The two vectors are equal here")
    assert written(page) == written(page, 0)
    press(page, "End")
    page.get_by_role("button", name="the piano into chess").click()
    assert written(page) == written(page, 0) == "晚饭后我们下棋。"
    page.get_by_label("It goes into").fill("We play football in the evening.")
    press(page, "Enter")
    assert written(page) != written(page, 0) == "我们晚上踢足球。"
    before, text = page.url.partition("#")[2], written(page)
    page.reload()
    page.locator(".written").nth(1).wait_for()
    assert (page.url.partition("#")[2], written(page)) == (before, text)


def test_the_bars_of_a_ledger_add_up_and_light_their_words(opened):
    page = opened(address="#why/ledger/We play the piano after dinner.")
    expect(page.locator("h2")).to_have_text(re.compile("^Ledger: what made it 弹"))
    texts = page.locator(".account em").all_text_contents()
    amounts = [float(text.replace("−", "-")) for text in texts]
    together, difference = re.findall(r"[+−]\d+\.\d+", page.locator("#stage b").last.inner_text())
    assert together == difference and sum(amounts) == pytest.approx(float(together), abs=0.06)
    bar = page.locator(".account button").filter(has_text="from play").first
    bar.focus()
    expect(page.locator(".words .touched")).to_contain_text("play")
    page.locator(".account button").filter(has_text="feed-forward").first.click()
    expect(page.locator(".words .touched")).to_have_count(0)
    page.get_by_role("button", name="钢", exact=False).first.click()
    expect(page.locator("h2")).to_contain_text("what made it 钢")


@pytest.mark.parametrize("touch", [False, True])
def test_a_cut_arrow_is_masked(opened, touch):
    page = opened(*((390, 844) if touch else (1280, 720)), has_touch=touch,
                  address="#why/cut/We play the piano after dinner.")  # fmt: skip
    whole = written(page)
    names = ("cut: play reads piano", "cut: the decoder reads piano")
    for name in names:
        arrow = page.get_by_role("button", name=name)
        if touch:
            arrow.tap()
        else:
            arrow.focus()
            press(page, "Enter")
        expect(page.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")
    assert whole == "晚饭后我们弹钢琴。" and "弹" not in written(page)
    assert page.url.endswith("/1/3/10")
    page.get_by_text("The ledger of").click()
    expect(page.locator(".account")).to_be_visible()


def test_the_page_speaks_chinese_too(opened):
    page = opened()
    page.get_by_role("link", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    for _ in each_scene(page):
        expect(page.locator("#stage h2")).to_have_text(re.compile("[\u4e00-\u9fff]"))
    page.locator("#scenes button").nth(1).click()
    viewer = page.locator(".attention-viewer")
    expect(viewer).to_contain_text("把指针移到左边的词上")
    viewer.locator('g[data-side="query"]').first.click()
    before = viewer.locator(".share").all_text_contents()
    viewer.get_by_label("头", exact=True).select_option("3")
    assert viewer.locator(".share").all_text_contents() != before
    page.get_by_role("link", name="English").click()  # in the same part
    expect(page.locator("#stage h2")).to_have_text("The encoder reads all words at once")


def test_axe_finds_nothing_serious(opened):
    page = opened(reduced_motion="reduce")
    for scene in each_scene(page):
        violations = Axe().run(page).response["violations"]
        serious = [(one["id"], [node["html"][:90] for node in one["nodes"]])
                   for one in violations if one["impact"] in ("serious", "critical")]  # fmt: skip
        assert serious == [], scene

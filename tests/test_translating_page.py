"""The page that translates in a browser: the course's numbers, and what its readers see and do."""

import contextlib
import io
import json
import os
import random
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from conftest import DATA, TINY
from fontTools.ttLib import TTFont
from page_reference import differences
from playwright.sync_api import expect
from py_mini_racer import MiniRacer
from test_typed_text import TYPED

import export as program
from engine import plain_text
from engine.corpus.formats import read_split
from engine.errors import InputError
from engine.export.page_form import (
    EXAMPLES,
    FILES,
    PAGE,
    check_form,
    describe,
    round_weights,
)
from engine.run_config import RunConfig
from engine.run_folder import BOX
from engine.translator import Translator
from notebooks.data_preparation import (
    CharacterSegmenter,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    WordSegmenter,
)
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support import story
from notebooks.support.proofs import shake

VERBS = (
    "We play the violin every day."  # of which greedy search loses the verb, and a beam does not
)
TESTS = Path(__file__).parent
DRAWS = int(os.environ.get("DRAWS", 10))  # of each operation; `make fuzz` sets more
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


@pytest.fixture(scope="module")
def pairs():
    """All pairs of the corpus, the test set's last."""
    splits = ("train", "dev", "test")
    return [pair for split in splits for pair in read_split(DATA, split, RunConfig())]


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


def test_what_is_no_page_is_kept(tmp_path, capsys):
    for name in ("index.html", "notes.txt"):  # a page of somebody's own, then with notes
        (tmp_path / name).write_text("mine", encoding="utf-8")
        assert program.main(["--form", "page", "--out", str(tmp_path)]) == 2
        assert "no translating page" in capsys.readouterr().err
    assert {path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"mine"}


def test_a_page_behind_a_link_is_exchanged_and_the_link_stays(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "page")
    (tmp_path / "page" / "weights.js").write_text("old", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "page", target_is_directory=True)
    assert program.main(["--form", "page", "--out", str(link)]) == 0
    assert link.is_symlink() and (tmp_path / "page" / "weights.js").stat().st_size > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "page"]


# the engine


def test_all_english_sentences_are_split_alike(pairs):
    box = Translator.load(BOX, device="cpu")
    file = describe(box) | {"weights": "", "tensors": {}}
    engine = MiniRacer()
    engine.eval((PAGE / "engine.js").read_text(encoding="utf-8"))
    engine.eval("const split = (file, texts) => { const model = new Model(file);"
                "return JSON.stringify(texts.map((text) => model.encode(text))); };")  # fmt: skip
    sentences = [english for english, _ in pairs] + ["\ufeff„He‘s «Tom»,“ she said \u200e‚softly‘."]
    sentences.append("\u202aHe\u202c \u2066plays\u2069 foot\u200cball\u200d.")
    encoded = json.loads(engine.call("split", file, sentences))
    expected = [box.encode(box.clean(sentence)) for sentence in sentences]
    assert [text for text, a, b in zip(sentences, expected, encoded) if a != b] == []


def random_translator(pairs, **changes):
    """A tiny random model with vocabularies of 60 pairs."""
    config = replace(TINY, **changes)
    tokenizers = []
    for side, language in enumerate((config.src, config.tgt)):
        segmenter = CharacterSegmenter() if language == "zh" else WordSegmenter(language, side == 0)
        texts = [pair[side] for pair in pairs]
        vocabulary = Vocabulary.build(map(segmenter.segment, texts), min_freq=1)
        tokenizers.append(Tokenizer(segmenter, vocabulary))
    torch.manual_seed(0)
    model = shake(make_model(config, *(len(side.vocabulary) for side in tokenizers)))
    return Translator(config, *tokenizers, model.half().float())


@pytest.mark.parametrize("norm, turned", [("pre", True), ("post", False)])
def test_other_runs_are_computed_alike(pairs, norm, turned):
    some = [pair[::-1] if turned else pair for pair in pairs[-60:]]
    languages = {"src": "zh", "tgt": "en"} if turned else {"src": "en", "tgt": "zh"}
    changes = dict(norm=norm, max_length=12, tie_embeddings="none", **languages)
    if turned:
        changes |= {"src_segmentation": "characters", "tgt_segmentation": "words"}
    translator = random_translator(some, **changes)
    check_form(translator)
    assert differences(translator, describe(translator), [one for one, _ in some[:8]]) == []


def test_200_sentences_are_computed_as_by_the_rounded_model(pairs, rounded):
    texts = [*EXAMPLES, *(english for english, _ in pairs[-196:])]
    assert differences(rounded, describe(rounded), texts) == []


@pytest.fixture(scope="module")
def operate():
    """A function that calls one of page_operations.js with the model in the box."""
    with MiniRacer() as engine:
        for path in (PAGE / "engine.js", PAGE / "account.js", TESTS / "page_operations.js"):
            engine.eval(path.read_text(encoding="utf-8"))
        engine.call("open", describe(Translator.load(BOX, device="cpu")))
        yield engine.call


def test_words_are_joined_as_the_course_joins_them():
    joined = """(tokens, marks) => Model.prototype.text.call(
        {spaced: true, dash: true, target: ["", "", "", "", ...tokens], ...marks},
        tokens.map((_, place) => place + 4))"""
    marks = {"opening": "".join(plain_text.OPENING), "closing": "".join(plain_text.CLOSING)}
    signs = [*"„“”‚‘«»‹›\"'—,.(", "ja", "no", "5", "$", "US$", "~", "/", "www.a.bc"]
    draw = random.Random(0)
    with MiniRacer() as engine:
        engine.eval((PAGE / "engine.js").read_text(encoding="utf-8"))
        for _ in range(2000):
            tokens = draw.choices(signs, k=draw.randint(1, 12))
            written = engine.eval(f"({joined})({json.dumps(tokens)}, {json.dumps(marks)})")
            assert written == plain_text.join_words(tokens, "en"), tokens


@pytest.fixture(scope="module")
def rounded():
    """The model in the box with the 16 bits that the page holds."""
    box = Translator.load(BOX, device="cpu")
    round_weights(box.model)
    return box


def drawn_sentences(count):
    """Things that are played, drawn with a seed, with one of their sentences: (thing, sentence)."""
    draw = random.Random(54)
    things = draw.choices(list(story.THINGS), k=count)
    return [(thing, draw.choice(story.variants(thing))) for thing in things], draw


def test_transplants_are_those_of_the_lessons(operate, rounded):
    sentences, draw = drawn_sentences(2 * DRAWS)
    stages = list(story.encoder_stages(rounded.model))
    for (_, giver), (_, taker) in zip(sentences[::2], sentences[1::2]):
        stage = draw.randrange(len(stages))
        expected = story.transplant(rounded, [giver], [taker], stages[stage])
        assert operate("transplanted", giver, taker, stage) == expected[0], (giver, taker, stage)


def test_cuts_are_those_of_the_lessons(operate, rounded):
    sentences, draw = drawn_sentences(DRAWS)
    ways = [("others", "object"), ("play", "object"), ("decoder", "play"), ("decoder", "object")]
    for thing, sentence in sentences:
        closed = draw.sample(ways, draw.randint(1, 4))
        ids = story.encode_sentences(rounded.source, [sentence])
        src_mask, cross_mask = story.blocked_masks(ids, *story.word_ids(rounded, thing), closed)
        memory = rounded.model.encode(ids, src_mask)
        expected = story.greedy_from_memory(rounded, memory, cross_mask)
        assert operate("cutAt", sentence, thing.split()[-1], closed) == expected[0], closed


def test_ledgers_are_those_of_the_lessons(operate, rounded):
    """Part by part, and in their sum: the difference of the logits."""
    names = {"cross-attention": "cross-attention {layer} from {word}", "embedding": "embedding",
             "bias": "cross-attention {layer}, bias", "norm": "the last norm's bias"}  # fmt: skip
    sentences, draw = drawn_sentences(DRAWS)
    for _, sentence in sentences:
        (text,) = rounded.translate([sentence], beam_size=1)
        one = draw.choice(text)
        other = draw.choice([verb for verb in "弹踢打下拉玩" if verb != one])
        account = operate("accountOf", sentence, one, other)
        words = [rounded.source.vocabulary.name(token) for token in rounded.encode(sentence)]
        ours = {}
        for part in account["parts"]:
            word = words[part["key"]] if "key" in part else ""
            name = names.get(part["part"], "{part} {layer}").format(**part | {"word": word})
            ours[name] = ours.get(name, 0) + part["amount"]
        assert ours == pytest.approx(
            story.logit_attribution(rounded, sentence, one, other), abs=1e-4
        )
        assert sum(ours.values()) == pytest.approx(account["difference"], abs=1e-4)


@pytest.mark.parametrize(
    "segmenters, widths, reason",
    [
        ((WordSegmenter("zh"), WordSegmenter("en")), (8, 16), "found by jieba"),
        ((SubwordSegmenter, WordSegmenter("en")), (8, 16), "split by SubwordSegmenter"),
        ((WordSegmenter("en"), SubwordSegmenter), (8, 16), "it writes subwords"),
        ((WordSegmenter("en"), CharacterSegmenter()), (8, 18), "no multiples of 4"),
    ],
)
def test_what_the_page_cannot_do_is_refused(segmenters, widths, reason):
    made = [SubwordSegmenter.learn(["a b c"] * 9, 300) if one is SubwordSegmenter else one
            for one in segmenters]  # fmt: skip
    config = SimpleNamespace(d_model=widths[0], d_ff=widths[1])
    source, target = (SimpleNamespace(segmenter=one) for one in made)
    with pytest.raises(InputError, match=reason):
        check_form(SimpleNamespace(source=source, target=target, config=config))


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


def test_the_browser_translates_sentences_of_the_test_set_as_the_course_does(
    chromium, folder, pairs
):
    box = Translator.load(BOX, device="cpu")
    page = chromium.new_page()
    page.add_script_tag(path=PAGE / "engine.js")
    page.add_script_tag(path=folder / "weights.js")
    page.evaluate("() => { globalThis.model = new Model(WEIGHTS); }")
    for size, count in ((1, 25), (4, 8)):
        sentences = [english for english, _ in pairs[-1003:][:count]]
        script = "([texts, size]) => texts.map((text) => model.translate(text, size))"
        translations = page.evaluate(script, [sentences, size])
        expected = box.translate(sentences, beam_size=size)
        differing = [text for text, a, b in zip(sentences, expected, translations) if a != b]
        assert len(differing) <= 1, (size, differing)
    page.close()


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


def test_an_unknown_word_is_told_and_an_empty_sentence_too(opened):
    page = opened()
    page.get_by_label("English to Chinese").fill("The zyzzyva plays chess.")
    page.keyboard.press("Enter")
    expect(page.locator(".words .unknown")).to_have_text("zyzzyvanever seen")
    expect(page.locator("#status")).to_contain_text("Never seen: zyzzyva.")
    page.get_by_label("English to Chinese").fill("  ")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#alarm")).to_have_text("Type a sentence first.")


def test_answers_can_be_hidden_and_looks_chosen_by_layer_and_head(opened):
    page = opened()
    press(page, *["ArrowRight"] * 3)
    page.locator(".cards button").first.focus()
    press(page, "Enter")
    expect(page.locator("#stage")).to_be_focused()  # the card is gone
    press(page, "h")
    expect(page.locator(".bars")).to_be_hidden()
    press(page, "h")
    expect(page.locator(".bars")).to_be_visible()
    press(page, "ArrowRight")
    shares = page.locator(".words:not(.written) small")
    mean = shares.all_text_contents()
    total = sum(float(share.strip("< %")) for share in mean)
    assert 97 < total < 103
    page.get_by_role("button", name="Layer 1").click()
    page.get_by_role("button", name="Head 2").click()
    assert shares.all_text_contents() != mean


def test_the_length_penalty_ranks_anew(opened):
    page = opened()
    page.get_by_label("English to Chinese").fill("The phone rang just as I was leaving.")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Searching").click()
    page.get_by_role("button", name="beam of 4").click()
    expect(page.locator(".found tbody tr").nth(1)).to_be_visible()
    slider, lengths = page.get_by_label("length penalty"), page.locator(".found td:nth-child(3)")
    orders = set()
    for value in ("0", "1", "2"):
        slider.fill(value)
        orders.add(tuple(lengths.all_text_contents()))
        texts = page.locator(".found td:nth-child(4)").all_text_contents()
        scores = [float(text.replace("−", "-")) for text in texts]
        assert scores == sorted(scores, reverse=True)
    assert len(orders) > 1


def test_without_positions_the_order_of_words_is_nothing(opened):
    page = opened()
    page.get_by_role("button", name="The dog bit the man.").click()
    page.get_by_role("button", name="Breaking").click()
    press(page, *["ArrowRight"] * 4)
    expect(page.locator("td.foreign")).to_have_count(5)
    trained, _, without, turned, untrained = page.locator("td.foreign").all_text_contents()
    assert trained == "狗咬了一点。"
    assert without == turned != trained
    assert untrained not in (trained, without)
    measured = page.locator("tbody td:nth-child(4)").all_text_contents()
    assert measured[0] == "59 of 1003 as in the corpus, BLEU 38.9" and measured[2] == measured[3]


@pytest.mark.parametrize("damaged", ["{}", "null", "WHOLE"])
def test_damaged_weights_are_told(visit, folder, tmp_path, damaged):
    copy = shutil.copytree(folder, tmp_path / "copy")
    whole = (folder / "weights.js").read_text(encoding="utf-8")
    lacking = whole.replace('"encoder.norm.weight"', '"other"', 1)
    text = lacking if damaged == "WHOLE" else f"const WEIGHTS = {damaged};"
    (copy / "weights.js").write_text(text, encoding="utf-8")
    page = visit((copy / "index.html").as_uri())
    expect(page.locator("#stage")).to_contain_text("weights.js is damaged, or another version's")


def test_a_sentence_that_is_cut_is_told_and_stays_in_the_other_language(opened):
    page = opened(address=f"#words/{'We play chess and ' * 30}")
    expect(page.locator("#alarm")).to_have_text("Only the first 60 tokens are read.")
    page.goto(page.url.split("#")[0] + "#words/We play chess.")
    page.locator("#other").click()
    expect(page.locator("#sentence")).to_have_value("We play chess.")
    assert page.evaluate("location.search") == "?lang=zh"


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


WRONG = "why why/cut/%20 why/transplant/S/0.5/S/0/0 why/%E0%A4 why/cut/S/1.5/9/7 words/%20".split()


@pytest.mark.parametrize("address", WRONG)
def test_an_address_that_is_wrong_shows_something(opened, address):
    page = opened(address=f"#{address}")
    expect(page.locator("#stage h2")).not_to_be_empty()


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


def test_a_finger_goes_from_a_sentence_to_what_finished(opened):
    page = opened(390, 844, has_touch=True)
    page.get_by_role("button", name="The dog bit the man.").tap()
    for _ in range(4):
        page.locator("#next").tap()
    expect(page.locator(".bars")).to_be_visible()
    page.get_by_role("button", name="Searching").tap()
    expect(page.locator(".tree")).to_be_visible()
    expect(page.locator(".found table")).to_be_hidden()
    page.get_by_role("button", name="what finished").tap()
    expect(page.locator(".found table")).to_be_visible()


def test_who_wants_no_motion_gets_none(opened):
    page = opened(reduced_motion="reduce")
    press(page, *["ArrowRight"] * 4)
    expect(page.locator(".bars")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0


def test_the_page_speaks_chinese_too(opened):
    page = opened()
    page.get_by_role("link", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    for _ in each_scene(page):
        expect(page.locator("#stage h2")).to_have_text(re.compile("[\u4e00-\u9fff]"))
    page.locator("#scenes button").nth(1).click()
    viewer = page.locator(".attention-viewer")
    expect(viewer).to_contain_text("发问（查询）")
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

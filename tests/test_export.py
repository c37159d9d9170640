"""Exported folders: the same ids and translations where neither the course nor PyTorch is."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
import unicodedata
import urllib.error
import urllib.request
from dataclasses import fields
from urllib.parse import urlencode

import ctranslate2
import pytest
import torch
from conftest import ROOT, free_port, run_python, start_with_ctrl_c
from hypothesis import given
from libretranslatepy import LibreTranslateAPI
from test_01_data_preparation import tricky

import export as program
from engine.corpus.formats import read_split
from engine.errors import InputError
from engine.export.ctranslate2_form import export_ctranslate2
from engine.export.folder import export
from engine.export.shipped.serve import MOST_LINES, MOST_WAITING, Refused, Together
from engine.export.tokenizer_files import export_tokenizer, names
from engine.plain_text import join_words, one_line
from engine.run_config import RunConfig
from engine.run_folder import BOX
from engine.translator import quotes_of
from notebooks.data_preparation import (
    EOS,
    UNK,
    CharacterSegmenter,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    WordSegmenter,
)
from notebooks.make_model import make_model
from notebooks.setup import Config, replace
from notebooks.support.box import load_pretrained
from notebooks.support.proofs import next_log_probs, shake


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder with the model in the box in the folder `ctranslate2`."""
    parent = tmp_path_factory.mktemp("exported")
    export(BOX, parent / "ctranslate2")
    return parent


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """A folder for PYTHONPATH in which PyTorch and the course cannot be imported."""
    folder = tmp_path_factory.mktemp("without")
    for name in ("torch", "notebooks", "utils"):
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is not to be used')\n")
    return str(folder)


@pytest.fixture(scope="module")
def pairs():
    """All pairs of the corpus."""
    return [pair for split in ("train", "dev", "test")
            for pair in read_split(ROOT / "data_small", split, RunConfig())]  # fmt: skip


# tokenizers


@pytest.fixture(scope="module")
def three(pairs):
    """A tokenizer of each kind, of English texts, and its exported form."""
    texts = [english for english, _ in pairs[:3000]]
    tokenizers = {}
    segmenters = {
        "words": WordSegmenter("en"),
        "lowercase-words": WordSegmenter("en", lowercase=True),
        "characters": CharacterSegmenter(),
        "subwords": SubwordSegmenter.learn(texts, 900),
    }
    for kind, segmenter in segmenters.items():
        if kind == "subwords":
            ids = segmenter.model.get_vocab()
            vocabulary = Vocabulary(sorted(ids, key=ids.get))
        else:
            vocabulary = Vocabulary.build(map(segmenter.segment, texts), min_freq=2)
        ours = Tokenizer(segmenter, vocabulary)
        tokenizers[kind] = ours, export_tokenizer(ours, reads=True)
    return tokenizers


KINDS = ["words", "lowercase-words", "characters", "subwords"]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_the_corpus_have_the_same_ids_and_become_the_same_text(three, pairs, kind):
    ours, theirs = three[kind]
    straight = str.maketrans(quotes_of(ours))  # as Translator.clean does
    texts = [text for pair in pairs[::6] for text in pair]
    expected = ours.encode_batch([text.translate(straight) for text in texts])
    ids = [encoding.ids for encoding in theirs.encode_batch(texts)]
    assert [text for text, a, b in zip(texts, expected, ids) if a != b] == []
    if kind not in ("words", "lowercase-words"):  # these are joined by run.py
        known = [row for row in expected if UNK not in row]
        assert theirs.decode_batch(known) == [ours.decode(row) for row in known]


def is_known(text):
    """Whether this Python's Unicode has all characters; younger ones are letters to the library."""
    return "Cn" not in map(unicodedata.category, text)


@pytest.mark.parametrize("kind", KINDS)
@given(text=tricky.filter(is_known))
def test_any_text_has_the_same_ids(three, kind, text):
    ours, theirs = three[kind]
    line = one_line(text).translate(str.maketrans(quotes_of(ours)))  # as Translator.clean does
    assert theirs.encode(text).ids == ours.encode(line)


def test_a_token_may_be_spelt_as_a_special_token():
    vocabulary = Vocabulary(["<eos>", "a"])
    tokenizer = Tokenizer(WordSegmenter("en"), vocabulary)
    assert names(tokenizer) == ["<pad>", "<unk>", "<bos>", "<<eos>>", "<eos>", "a"]
    assert export_tokenizer(tokenizer, reads=False).token_to_id("a") == 5


def test_chinese_words_cannot_be_split_elsewhere():
    tokenizer = Tokenizer(WordSegmenter("zh"), Vocabulary(["我们", "们踢", "我"]))
    with pytest.raises(InputError, match="cannot be split without this project"):
        export_tokenizer(tokenizer, reads=True)
    assert export_tokenizer(tokenizer, reads=False).decode([4, 6]) == "我们我"


# translations


def outcome(done):
    """Exit status, lines of standard output, standard error."""
    return done.returncode, done.stdout.split("\n")[:-1], done.stderr


def test_the_test_set_is_translated_alike_without_pytorch(folders, without_torch, pairs):
    texts = [text for text, _ in pairs[-1003:]]
    texts += ["", "He said: \x1f “Zyxt 12.30!”", "   "]
    ours = load_pretrained().translate_typed(texts, beam_size=1)
    stdin = "\n".join(texts).replace("\x1f", " ") + "\n"
    options = dict(stdin=stdin, PYTHONPATH=without_torch, cwd="/")
    done = run_python(folders / "ctranslate2" / "run.py", "--beam-size", 1, **options)
    assert outcome(done) == (0, ours, "")


def test_all_programs_read_text_by_one_rule(folders, service, tmp_path, without_torch):
    """A byte order mark, old line ends, decomposed letters, and lines before a wrong byte."""
    lines = ["The cafe\u0301 is open.", "I don´t play.", "", "Go" + 40 * "\u0301" + " on."]
    lines.append("I don’t know his e\u2011mail, good\u200b mor\u200bning.")
    lines += ["\u200eShe said “hello” to \ufeffme.\u200f", "„He‘s «Tom»,“ she said ‚softly‘."]
    lines.append("\u202aHe\u202c \u2066plays\u2069 foot\u200cball\u200d.")
    greedy = load_pretrained().translate_typed(lines, beam_size=1)
    assert load_pretrained().unknown_words(lines[5:]) == {}
    assert greedy[5] == load_pretrained().translate(['She said "hello" to me.'], beam_size=1)[0]
    assert greedy[7] == load_pretrained().translate(["He plays football."], beam_size=1)[0]
    assert greedy[1] == load_pretrained().translate(["I don't play."], beam_size=1)[0]
    run_py = folders / "ctranslate2" / "run.py"
    for end in ("\n", "\r\n"):
        text = "\ufeff" + end.join(lines) + end
        (tmp_path / "in.txt").write_text(text, encoding="utf-8", newline="")
        programs = [ROOT / "translate.py", "--run", BOX, "--input", tmp_path / "in.txt"], [run_py]
        done = [run_python(*program, "--beam-size", 1, stdin=text) for program in programs]
        assert [outcome(one)[:2] for one in done] == [(0, greedy)] * 2
        status, answer = ask(service, {**GOOD, "q": text.removesuffix(end)})
        assert len(answer["translatedText"].split("\n")) == len(lines)
        assert "\ufffd" not in str(answer)
    wrong = b"Good morning.\nHe \xff\n"
    command = [sys.executable, run_py]
    done = subprocess.run(command, input=wrong, capture_output=True, timeout=60)
    assert done.stdout.decode() == load_pretrained().translate(["Good morning."])[0] + "\n"
    assert b"standard input, line 2, byte" in done.stderr and done.stderr.count(b"\n") == 1


def test_words_are_joined_as_here(folders, pairs, monkeypatch):
    monkeypatch.syspath_prepend(folders / "ctranslate2")
    import run

    model = run.Model()
    model.settings["join"] = "words"
    for text, _ in pairs[::6]:
        ids = model.source.encode(text).ids
        tokens = [model.source.id_to_token(number) for number in ids]
        model.target = model.source
        assert model.join(ids) == join_words(tokens, "zh")


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_ctranslate2_computes_what_a_shaken_model_does(translator, tmp_path, norm):
    torch.manual_seed(1)
    config = replace(translator.config, norm=norm)
    model = shake(make_model(config, len(translator.source), len(translator.target))).eval()
    sides = translator.source, translator.target
    export_ctranslate2(config, *sides, model, tmp_path)
    engine = ctranslate2.Translator(str(tmp_path))
    draw = torch.Generator().manual_seed(0)
    for _ in range(8):
        src, tgt = (torch.randint(4, len(side), (6,), generator=draw).tolist() for side in sides)
        (found,) = engine.score_batch(
            *([[names(side)[number] for number in ids]] for side, ids in zip(sides, (src, tgt)))
        )
        rows = next_log_probs(model, [*src, EOS], [*tgt, EOS])
        expected = [row[number].item() for row, number in zip(rows, [*tgt, EOS])]
        assert found.log_probs == pytest.approx(expected, abs=0.01)


def test_a_folder_that_is_there_is_not_written_into(tmp_path, capsys):
    assert program.main(["--run", str(BOX), "--out", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named(folders, tmp_path):
    (tmp_path / "tokenizers.py").write_text(
        "raise ModuleNotFoundError('No tokenizers', name='tokenizers')"
    )
    done = run_python(folders / "ctranslate2" / "run.py", "Hello.", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and "pip install tokenizers" in done.stderr


# the service


@pytest.fixture(scope="module")
def service(folders, without_torch):
    """serve.py of an exported folder: its address."""
    process, address = start(folders / "ctranslate2" / "serve.py")
    yield address
    process.terminate()
    assert process.wait(30) in (0, -signal.SIGTERM)


def start(*arguments):
    """A service at a free port, as a process, and its address once it answers."""
    port = str(free_port())
    command = [sys.executable, *map(str, arguments), "--port", port]
    process = start_with_ctrl_c(command, stderr=subprocess.PIPE, text=True)
    address = process.stderr.readline().split()[2].removesuffix("/translate;")
    while True:
        try:
            urllib.request.urlopen(f"{address}/languages", timeout=20).close()
            return process, address
        except urllib.error.URLError:
            assert process.poll() is None
            time.sleep(0.1)


def ask(address, body, kind="application/json"):
    """Status and content of the answer to POST /translate."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/translate", data, {"content-type": kind})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_client_of_libretranslate_translates(service):
    client = LibreTranslateAPI(service)
    assert client.translate("He plays the violin.", "en", "zh") == "他拉小提琴。"
    english = {"code": "en", "name": "English", "targets": ["zh"]}
    assert client.languages() == [english, {"code": "zh", "name": "Chinese", "targets": []}]


def test_lists_lines_and_forms(service):
    asked = {
        "q": ["We play football.\n\nHe plays the piano.", ""],
        "source": "auto",
        "target": "zh",
    }
    expected = ["我们踢足球。\n\n他弹钢琴。", ""]
    assert ask(service, asked) == (200, {"translatedText": expected})
    form = urlencode({"q": "We play football.", "source": "en", "target": "zh"}).encode()
    kind = "application/x-www-form-urlencoded"
    assert ask(service, form, kind) == (200, {"translatedText": "我们踢足球。"})
    form = b"q[]=We+play+football.&q[]=&source=en&target=zh"  # as PHP sends lists
    assert ask(service, form, kind) == (200, {"translatedText": ["我们踢足球。", ""]})
    assert ask(service, b"text=Hello&source=en&target=zh", kind)[0] == 400
    assert ask(service, asked, kind) == (200, {"translatedText": expected})  # as curl -d sends it
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {**GOOD, "q": "We play football."}.items()
    ]
    body = ("".join(parts) + "--x--\r\n").encode()  # as curl -F sends it
    kind = "multipart/form-data; boundary=x"
    assert ask(service, body, kind) == (200, {"translatedText": "我们踢足球。"})


def test_pages_of_the_origins_that_are_named_may_ask(folders):
    allowed = "https://example.org"
    process, address = start(folders / "ctranslate2" / "serve.py", "--origin", allowed)
    try:
        for origin, answered in ((allowed, allowed), ("https://other.org", None)):
            request = urllib.request.Request(f"{address}/languages", headers={"Origin": origin})
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert answer.headers["access-control-allow-origin"] == answered
        asks = {"Access-Control-Request-Method": "POST", "Origin": allowed}
        request = urllib.request.Request(f"{address}/translate", headers=asks, method="OPTIONS")
        with urllib.request.urlopen(request, timeout=20) as answer:  # before JSON is sent
            assert "POST" in answer.headers["access-control-allow-methods"]
    finally:
        process.terminate()
        process.wait(30)


GOOD = {"q": "Hi.", "source": "en", "target": "zh"}
WRONG = [
    ({"source": "en", "target": "zh"}, 400, "give q"),
    ({**GOOD, "q": [3]}, 400, "give q"),
    ({**GOOD, "target": "fr"}, 400, "target must be zh"),
    ({**GOOD, "q": "word " * 61}, 400, "at most 60"),
    ({**GOOD, "q": ["a"] * (MOST_LINES + 1)}, 400, "several requests"),
    ({**GOOD, "q": "." * 10_001}, 400, "10,001 characters"),
    (b'{"q": "\xff"}', 400, "UTF-8"),
]


@pytest.mark.parametrize("body, status, words", WRONG, ids=range(len(WRONG)))
def test_a_wrong_request_gets_one_sentence(service, body, status, words):
    answered, content = ask(service, body)
    assert (answered, words in content["error"]) == (status, True), content


def test_what_waits_is_translated_together_and_no_more_than_can_wait():
    batches, go_on = [], threading.Event()

    def translate(texts):
        go_on.wait(5)
        batches.append(len(texts))
        return [text.upper() for text in texts]

    async def requests():
        together = Together(translate)
        worker = asyncio.create_task(together.work())
        asked = [asyncio.create_task(together.ask([f"a{n}", "b"])) for n in range(30)]
        await asyncio.sleep(0.1)
        with pytest.raises(Refused, match="503") as caught:
            await together.ask(["x"] * (MOST_WAITING + 1))
        assert caught.value.args[0] == 503
        go_on.set()
        answers = await asyncio.gather(*asked)
        worker.cancel()
        return answers

    assert asyncio.run(requests()) == [[f"A{n}", "B"] for n in range(30)]
    assert sum(batches) == 60
    assert len(batches) <= 2


def test_sigterm_finishes_what_was_begun():
    process, address = start(ROOT / "translate.py", "--serve", "--run", BOX)
    texts = ["We play football after school every day."] * MOST_LINES
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask(address, {**GOOD, "q": texts})))
    thread.start()
    time.sleep(0.7)
    process.terminate()
    thread.join(60)
    assert process.wait(30) in (0, -signal.SIGTERM)
    status, content = answers[0]
    assert status == 200
    assert set(content["translatedText"]) == {load_pretrained().translate(texts[:1])[0]}


def test_exports_know_every_setting_that_weights_depend_on():
    """A new one has to reach page_form.py and ctranslate2_form.py, or be nothing to them."""
    known = "src tgt src_segmentation tgt_segmentation num_layers d_model d_ff num_heads norm"
    depend = {one.name for one in fields(Config) if one.metadata["weights"]}
    assert depend == {*known.split(), "tie_embeddings"}

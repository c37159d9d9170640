"""Exported folders: the same ids and translations where neither the course nor PyTorch is."""

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unicodedata
import urllib.error
import urllib.request
from urllib.parse import urlencode

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import ROOT, free_port, run_python
from hypothesis import given
from libretranslatepy import LibreTranslateAPI
from test_01_data_preparation import tricky

import export as program
from notebooks.data_preparation import (
    CharacterSegmenter,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    WordSegmenter,
    look_ahead_mask,
    padding_mask,
    read_pairs,
)
from notebooks.feed_forward import PositionwiseFeedForward
from notebooks.make_model import make_model
from notebooks.setup import Config, replace
from notebooks.support.attention_maps import attention_maps
from notebooks.support.box import the_box
from notebooks.support.errors import InputError
from notebooks.support.export import export
from notebooks.support.export_ctranslate2 import export_ctranslate2
from notebooks.support.export_onnx import export_onnx
from notebooks.support.export_tokenizers import export_tokenizer, names
from notebooks.support.exported.serve import MOST_TEXTS, MOST_WAITING, Refused, Together
from notebooks.support.proofs import shake
from notebooks.support.run_folder import BOX
from notebooks.support.text_files import one_line

FORMS = ("ctranslate2", "onnx")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The model in the box in both forms."""
    place = tmp_path_factory.mktemp("exported")
    for form in FORMS:
        export(BOX, place / form, form)
    return place


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """A folder for PYTHONPATH in which PyTorch and the course cannot be imported."""
    place = tmp_path_factory.mktemp("without")
    for name in ("torch", "notebooks", "utils"):
        (place / f"{name}.py").write_text(f"raise ImportError('{name} is not to be used')\n")
    return str(place)


@pytest.fixture(scope="module")
def pairs():
    """All pairs of the corpus."""
    return [pair for split in ("train", "dev", "test")
            for pair in read_pairs(ROOT / "data_small", split, Config())]  # fmt: skip


# tokenizers


@pytest.fixture(scope="module")
def three(pairs):
    """A tokenizer of each kind, of English texts."""
    texts = [english for english, _ in pairs[:3000]]
    found = {}
    segmenters = WordSegmenter("en"), CharacterSegmenter(), SubwordSegmenter.learn(texts, 900)
    for kind, segmenter in zip(("words", "characters", "subwords"), segmenters):
        if kind == "subwords":
            ids = segmenter.model.get_vocab()
            vocabulary = Vocabulary(sorted(ids, key=ids.get))
        else:
            vocabulary = Vocabulary.build(map(segmenter.segment, texts), min_freq=2)
        ours = Tokenizer(segmenter, vocabulary)
        found[kind] = ours, export_tokenizer(ours, reads=True)
    return found


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_all_texts_of_the_corpus_have_the_same_ids(three, pairs, kind):
    ours, theirs = three[kind]
    texts = [text for pair in pairs for text in pair]
    assert len(pairs) > 31_000
    found = [encoding.ids for encoding in theirs.encode_batch(texts)]
    differing = [text for text, a, b in zip(texts, ours.encode_batch(texts), found) if a != b]
    assert differing == []


def is_known(text):
    """Whether this Python's Unicode has all characters; younger ones are letters to the library."""
    return "Cn" not in map(unicodedata.category, text)


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
@given(text=tricky.filter(is_known))
def test_any_text_has_the_same_ids(three, kind, text):
    ours, theirs = three[kind]
    assert theirs.encode(text).ids == ours.encode(one_line(text))


@pytest.mark.parametrize("kind", ["characters", "subwords"])
def test_ids_become_the_same_text(three, pairs, kind):
    ours, theirs = three[kind]
    for text, _ in pairs[:500]:
        assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text))


def test_a_token_may_be_spelt_as_a_control_token():
    vocabulary = Vocabulary(["<eos>", "a"])
    tokenizer = Tokenizer(WordSegmenter("en"), vocabulary)
    assert names(tokenizer) == ["<pad>", "<unk>", "<bos>", "<<eos>>", "<eos>", "a"]
    assert export_tokenizer(tokenizer, reads=False).token_to_id("a") == 5


def test_chinese_words_cannot_be_split_elsewhere():
    tokenizer = Tokenizer(WordSegmenter("zh"), Vocabulary(["我们", "们踢", "我"]))
    with pytest.raises(InputError, match="jieba finds, cannot be split without this project"):
        export_tokenizer(tokenizer, reads=True)
    assert export_tokenizer(tokenizer, reads=False).decode([4, 6]) == "我们我"


# translations


@pytest.mark.parametrize("form", FORMS)
def test_the_test_set_is_translated_alike_without_pytorch(folders, without_torch, pairs, form):
    texts = [text for text, _ in pairs[-1003:]] + ["", "He said: \x1f “Zyxt 12.30!”", "   "]
    ours = the_box().translate(texts, beam_size=1)
    program, stdin = folders / form / "run.py", "\n".join(texts).replace("\x1f", " ") + "\n"
    status, out, err = told_by(
        run_python(program, "--beam-size", "1", stdin=stdin, PYTHONPATH=without_torch, cwd="/")
    )
    assert (status, err) == (0, "")
    assert [pair for pair in zip(out, ours) if pair[0] != pair[1]] == []


def told_by(done):
    """Exit status, lines of standard output, standard error."""
    return done.returncode, done.stdout.split("\n")[:-1], done.stderr


def test_the_beam_of_onnx_is_ours(folders, pairs):
    texts = [text for text, _ in pairs[-200:]]
    done = run_python(folders / "onnx" / "run.py", stdin="\n".join(texts) + "\n")
    assert told_by(done) == (0, the_box().translate(texts), "")


def test_texts_as_arguments_and_what_is_too_long(folders):
    long = "We play football " * 30
    done = run_python(folders / "ctranslate2" / "run.py", "He plays the violin.", "", long)
    assert done.stderr == "line 3: cut after 60 tokens\n"
    assert done.stdout.split("\n")[:2] == ["他拉小提琴。", ""]


def test_words_are_joined_as_in_the_lesson(folders, pairs, monkeypatch):
    monkeypatch.syspath_prepend(folders / "ctranslate2")
    import run

    model, segmenter = run.Model(), WordSegmenter("en")
    model.settings["join"] = "words"
    for text, _ in pairs:
        ids = model.source.encode(text).ids
        tokens = [model.source.id_to_token(number) for number in ids]
        model.target = model.source
        assert model.join(ids) == segmenter.join(tokens)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_ctranslate2_computes_what_a_shaken_model_does(translator, tmp_path, norm):
    torch.manual_seed(1)
    config = replace(translator.config, norm=norm)
    model = shake(make_model(config, len(translator.source), len(translator.target))).eval()
    export_ctranslate2(config, translator.source, translator.target, model, tmp_path)
    assert {"model.bin", "config.json"} <= {path.name for path in tmp_path.iterdir()}


def test_an_edited_class_is_refused_or_followed(translator, tmp_path, monkeypatch):
    parts = translator.config, translator.source, translator.target, translator.model
    edited = lambda self, x: self.outer(torch.tanh(self.inner(x)))
    monkeypatch.setattr(PositionwiseFeedForward, "forward", edited)
    with pytest.raises(InputError, match="perhaps a class was edited"):
        export_ctranslate2(*parts, tmp_path)
    export_onnx(*parts, tmp_path)
    src, tgt = torch.randint(4, 30, (3, 8)), torch.randint(4, 30, (3, 5))
    src[1, 5:] = 0
    encoder, decoder = (
        onnxruntime.InferenceSession(tmp_path / f"{part}.onnx") for part in ("encoder", "decoder")
    )
    memory, looks = encoder.run(None, {"src": src.numpy()})
    given = {"tgt": tgt.numpy(), "memory": memory, "src": src.numpy()}
    logits, *others = decoder.run(None, given)
    masks = padding_mask(src), look_ahead_mask(5)
    with torch.no_grad():
        wanted = translator.model(src, tgt, *masks)[:, -1].numpy()
    np.testing.assert_allclose(logits, wanted, atol=1e-4)
    maps = attention_maps(translator.model, src, tgt, *masks)
    for kind, found in zip(("encoder", "decoder", "cross"), (looks, *others)):
        np.testing.assert_allclose(found, maps[kind].numpy(), atol=1e-5)


def test_a_folder_that_is_there_is_not_written_into(tmp_path, capsys):
    assert program.main(["--run", str(BOX), "--out", str(tmp_path)]) == 2
    told = f"error: {tmp_path}: is there already. Give a folder that does not exist yet\n"
    assert capsys.readouterr().err == told


def test_8_bits_make_a_quarter_of_the_size(folders, tmp_path):
    assert program.main(["--run", str(BOX), "--out", str(tmp_path / "new"), "--int8"]) == 0
    sizes = [
        (place / "model.bin").stat().st_size
        for place in (tmp_path / "new", folders / "ctranslate2")
    ]
    assert sizes[0] < 0.3 * sizes[1]
    done = run_python(tmp_path / "new" / "run.py", "We play football.")
    assert told_by(done) == (0, ["我们踢足球。"], "")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damage", ["cut", "missing", "other"])
def test_a_damaged_folder_ends_in_one_line(folders, tmp_path, form, damage):
    for path in sorted((folders / form).iterdir()):
        if path.suffix == ".py" or path.name == "__pycache__":
            continue
        shutil.copytree(folders / form, tmp_path / path.name)
        broken = tmp_path / path.name / path.name
        if damage == "cut":
            broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
        elif damage == "other":
            broken.write_text("[1]")
        else:
            broken.unlink()
        done = run_python(tmp_path / path.name / "run.py", "Hello.")
        assert done.returncode == 2, path.name
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
        shutil.rmtree(tmp_path / path.name)


def test_a_missing_library_is_named(folders, tmp_path):
    (tmp_path / "tokenizers.py").write_text(
        "raise ModuleNotFoundError('No tokenizers', name='tokenizers')"
    )
    done = run_python(folders / "onnx" / "run.py", "Hello.", PYTHONPATH=str(tmp_path))
    assert told_by(done) == (2, [], "error: No tokenizers. Try: pip install tokenizers\n")


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
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "translating at" in process.stderr.readline()
    address = f"http://127.0.0.1:{port}"
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
    wanted = ["我们踢足球。\n\n他弹钢琴。", ""]
    assert ask(service, asked) == (200, {"translatedText": wanted})
    form = urlencode({"q": "We play football.", "source": "en", "target": "zh"}).encode()
    kind = "application/x-www-form-urlencoded"
    assert ask(service, form, kind) == (200, {"translatedText": "我们踢足球。"})


GOOD = {"q": "Hi.", "source": "en", "target": "zh"}
WRONG = {
    "no q": ({"source": "en", "target": "zh"}, 400, "q is missing"),
    "a number": ({**GOOD, "q": 3}, 400, "q is missing"),
    "numbers": ({**GOOD, "q": [3]}, 400, "q is missing"),
    "other target": ({**GOOD, "target": "fr"}, 400, "target must be zh"),
    "other source": ({**GOOD, "source": "de"}, 400, "source must be en"),
    "html": ({**GOOD, "format": "html"}, 400, "format must be text"),
    "long": ({**GOOD, "q": "word " * 61}, 400, "has a line of 61 tokens: at most 60"),
    "many": ({**GOOD, "q": ["a"] * (MOST_TEXTS + 1)}, 400, "ask in several requests"),
    "half": (b'{"q": "\\ud800", "source": "en", "target": "zh"}', 400, "half a character"),
    "list": ([1], 400, "no JSON object"),
    "not JSON": (b"{", 400, "neither JSON nor a form"),
    "deep": (b"[" * 100_000, 400, "neither JSON nor a form"),
    "bytes": (b'{"q": "\xff"}', 400, "neither JSON nor a form"),
    "large": (b" " * 1_000_001, 413, "longer than 1,000,000 bytes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_one_sentence(service, name):
    body, status, told = WRONG[name]
    found, content = ask(service, body)
    assert found == status
    assert told in content["error"]


def test_other_addresses_and_methods(service):
    for path, status in (("/nothing", 404), ("/translate", 405)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(service + path, timeout=20)
        assert caught.value.code == status
        assert "error" in json.load(caught.value)


def test_a_slow_client_holds_up_nobody(service):
    host, port = service.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        assert ask(service, GOOD)[0] == 200


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


def test_a_failure_is_told_and_the_next_batch_goes_well(capsys):
    def translate(texts):
        return [1 / len(text) for text in texts]

    async def requests():
        together = Together(translate)
        worker = asyncio.create_task(together.work())
        with pytest.raises(Refused, match="the translation failed"):
            await together.ask([""])
        answer = await together.ask(["ab"])
        worker.cancel()
        return answer

    assert asyncio.run(requests()) == [0.5]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_sigterm_finishes_what_was_begun():
    process, address = start(ROOT / "translate.py", "--serve", "--run", BOX)
    texts = ["We play football after school every day."] * MOST_TEXTS
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask(address, {**GOOD, "q": texts})))
    thread.start()
    time.sleep(0.7)
    process.terminate()
    thread.join(60)
    assert process.wait(30) in (0, -signal.SIGTERM)
    status, content = answers[0]
    assert status == 200
    assert set(content["translatedText"]) == {the_box().translate(texts[:1])[0]}


def test_a_port_that_is_taken_is_one_line(folders):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_python(folders / "ctranslate2" / "serve.py", "--port", port)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "in use" in done.stderr

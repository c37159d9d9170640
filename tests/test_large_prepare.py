"""Data of any size: every format, every damage, cleaning, kills, and what training reads."""

import gzip
import json
import os
import pickle
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import DATA, ROOT, start_with_ctrl_c

from engine.corpus import formats
from engine.corpus import prepare as large
from engine.corpus.cleaning import STEPS, judge
from engine.corpus.formats import read_json_pair, read_split
from engine.corpus.pairs import load_data
from engine.corpus.prepare import prepare
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError
from engine.run_config import RunConfig
from engine.translator import text_of
from notebooks.data_preparation import (
    EOS,
    TokenBatchSampler,
    TranslationDataset,
    make_dataloader,
)
from notebooks.setup import replace

WORDS = RunConfig.preset("tiny")
SUBWORDS = replace(
    WORDS, src_segmentation="subwords", tgt_segmentation="subwords", tie_embeddings="three-way",
    max_vocab_size=400, max_length=100, batch_tokens=300,
)  # fmt: skip
OPTIONS = "--config tiny --tie-embeddings three-way --max-vocab-size 400 --max-length 100".split()
OPTIONS += "--src-segmentation subwords --tgt-segmentation subwords".split()
ODD = ("A naïve 😀 man, 👩‍👩‍👧 ℵ₀ and 龘.", "一个天真的😀人，👩‍👩‍👧 ℵ₀ 和龘。")
KINDS = [
    "tsv", "tsv.gz", "csv", "csv.gz", "jsonl", "json.gz", "parquet", "parquet struct", "halves",
    "halves.gz", "several",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    """A few lines make many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "BLOCK_PAIRS", 10)
        patch.setattr(formats, "TABLE_ROWS", 25)
        yield


@pytest.fixture(scope="module")
def pairs():
    """Pairs by split, with signs that no table of words or characters knows."""
    rows = {split: read_split(DATA, split, WORDS) for split in ("train", "dev", "test")}
    train = [*rows["train"][:139], ODD]
    return {"train": train, "dev": rows["dev"][:30], "test": rows["test"][:20]}


@pytest.fixture(scope="module")
def plain(pairs, tmp_path_factory):
    """A data folder of .tsv files, and what is prepared from it: (data folder, prepared folder)."""
    data = tmp_path_factory.mktemp("plain")
    write_data(data, pairs, "tsv")
    prepare(data, SUBWORDS, data / "prepared")
    return data, data / "prepared"


def write_data(folder, pairs, kind):
    """All splits in one of KINDS."""
    for split, rows in pairs.items():
        if kind == "several":
            write_file(folder, f"{split}-b", rows[50:], "tsv") if rows[50:] else None
            rows, split = rows[:50], f"{split}-a"
        write_file(folder, split, rows, "tsv" if kind == "several" else kind)


def columns(rows, kind):
    """Columns of a table: codes, or one struct column."""
    if kind.endswith("struct"):
        return {"translation": [{"zh": target, "en": source} for source, target in rows]}
    sources, targets = zip(*rows)
    return {"number": range(len(rows)), "chinese": targets, "en": sources}


def write_file(folder, split, rows, kind):
    """A split in one file, or in two halves."""
    kind, _, packing = kind.partition(".")
    if kind.startswith("parquet"):
        table = pa.table(columns(rows, kind))
        return pq.write_table(table, folder / f"{split}.parquet", row_group_size=30)
    if kind == "tsv":
        files = {"tsv": ["\t".join(row) for row in rows]}
    elif kind == "csv":
        cells = [[cell.replace('"', '""') for cell in row] for row in rows]
        quoted = [
            f'{number},"{target}","{source}"' for number, (source, target) in enumerate(cells)
        ]
        files = {"csv": ["number,Chinese,en", *quoted]}
    elif kind == "halves":
        files = {"en": [source for source, _ in rows], "zh": [target for _, target in rows]}
    elif kind == "json":
        objects = [{"translation": {"en": source, "zh": target}} for source, target in rows]
        files = {"json": map(json.dumps, objects)}
    else:
        objects = [{"english": source, "chinese": target} for source, target in rows]
        files = {"jsonl": [json.dumps(row, ensure_ascii=False) for row in objects]}
    for extension, lines in files.items():
        path = folder / ".".join(part for part in (split, extension, packing) if part)
        path.write_bytes(pack("\n".join(lines).encode(), packing))


def pack(content, packing):
    """Compressed in two pieces, as parallel compressors and `cat` make them."""
    half = len(content) // 2
    if packing == "gz":
        return gzip.compress(content[:half]) + gzip.compress(content[half:])
    return content


def contents(folder):
    """Every file of a prepared folder, byte for byte."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refusal(data):
    """The one line with which a preparation is refused. It must leave nothing behind."""
    with pytest.raises(InputError) as refused:
        prepare(data, SUBWORDS, data / "out")
    line = str(refused.value)
    assert line.splitlines() == [line]
    assert line.startswith(str(data))
    assert list(data.glob("out*")) == []
    return line


# formats


@pytest.mark.parametrize("config", [SUBWORDS, replace(WORDS, max_length=9)])
def test_clean_data_gives_the_ids_of_notebook_01(plain, pairs, tmp_path, config):
    prepare(plain[0], config, tmp_path / "out")
    source, target, train, dev, dev_pairs = load_data(tmp_path / "out", config)
    assert dev_pairs == pairs["dev"]
    tokenizers = make_tokenizers(pairs["train"], config)
    for one, other in zip((source, target), tokenizers, strict=True):
        assert one.vocabulary.tokens == other.vocabulary.tokens
    for prepared, rows in ((train, pairs["train"]), (dev, pairs["dev"])):
        expected = TranslationDataset(rows, *tokenizers, config.max_length)
        assert list(prepared) == expected.items
        assert prepared.lengths.tolist() == expected.lengths.tolist()
        assert (len(prepared), prepared.dropped) == (len(expected), expected.dropped)
        assert (prepared.dropped > 0) == (config != SUBWORDS)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    if config == SUBWORDS:  # they know any sign
        assert (source.decode(train[139][0]), target.decode(train[139][1])) == ODD
    for index in (-1, len(train)):
        with pytest.raises(IndexError):
            train[index]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_format_gives_the_same_ids_and_texts(plain, pairs, tmp_path, kind):
    (tmp_path / "data").mkdir()
    write_data(tmp_path / "data", pairs, kind)
    data = (tmp_path / "data").rename(tmp_path / "zip:::a::b")  # no address of another kind
    prepare(data, SUBWORDS, data / "prepared")
    assert contents(data / "prepared") == contents(plain[1])
    ours, theirs = (load_data(folder, SUBWORDS)[2] for folder in (data, plain[0]))
    assert ours.items == theirs.items  # and read plainly
    for split in ("dev", "test"):
        assert read_split(data, split, SUBWORDS) == pairs[split]


# damage


def parquet(**table):
    """The bytes of a Parquet file."""
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(table), file)
    return file.getvalue().to_pybytes()


GOOD = "".join(f"Sentence number {n}.\t第{n}个句子在这里。\n" for n in range(2000)).encode()
GZ = gzip.compress(GOOD)
OBJECTS = [json.dumps({"en": f"Sentence {n}.", "zh": f"第{n}句。"}) for n in range(60)]
ARRAY = "\n".join(["[", ",\n".join(OBJECTS), "]"]).encode()
WORD, SIGN = b"word " * 101, "字".encode() * 101
OTHERS = {"en": ["One."], "german": ["Eins."]}
DAMAGED = "cut short or damaged"


@pytest.mark.parametrize(
    "files, words",
    [
        ({"train.tsv.gz": GZ[:-9]}, f"train.tsv.gz: {DAMAGED}"),
        ({"train.tsv.gz": b"no gzip\n"}, f"train.tsv.gz: {DAMAGED}"),
        ({"train.parquet": b"no parquet"}, f"train.parquet: {DAMAGED}"),
        ({"train.parquet": parquet(translation=[OTHERS])}, "translation.german, and no zh, alone"),
        ({"train.tsv": GOOD + b"bad \xff\t.\n"}, "train.tsv, line 2001, byte 5: not UTF-8. Save"),
        ({"train.en": GOOD, "train.zh": GOOD + GOOD}, "en has 2000 lines and train.zh 4000: they"),
        ({"train.en.gz": GZ}, "train.en.gz: its other half train.zh.gz is missing"),
        ({"train.json": ARRAY}, "61 of 62 lines hold no pair. Each line is a JSON object"),
        ({"train-1.tsv": GOOD, "train-2.tsv": b""}, "train-2.tsv: the file is empty"),
        ({"train-0-of-3.tsv": GOOD}, "1 of the 3 parts of train are there"),
        ({"train.tsv": b"English\tzh\n" + GOOD}, "train.tsv, line 1: names the columns. Leave it"),
        ({"train.tsv": GOOD, "train.tsv.gz": GZ}, "there as .tsv and as .tsv.gz. Keep one of them"),
        ({"train.csv": 'en,zh\nHi.,好。\n"Wow,哇。\nNo.,不。\n'.encode()}, "line 3: unexp"),
        ({"train.csv": "en,zh\nHi.,好。\n".encode("gb18030")}, "train.csv: is not UTF-8"),
        ({"train.tsv": b"Hello.\tHello.\n"}, "leaves no pair of train (wrong script: 1). Are"),
        ({"train.tsv": "One.\t一。\n".encode()}, "(also in dev or test: 1). Give train pairs"),
        ({"train.tsv": WORD + b"\t" + SIGN}, "every pair of train has more than max_length 100"),
    ],
)  # fmt: skip
def test_damaged_files_give_one_clear_line(tmp_path, files, words):
    (tmp_path / "dev.tsv").write_text("One.\t一。\n", encoding="utf-8")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert words in refusal(tmp_path)


# cleaning


def test_every_step_is_counted(tmp_path):
    good = [(f"This is sentence number {n}.", f"这是第{n}个句子。") for n in range(60)]
    lines = {
        "train": [
            *good[:30],
            ("no tab",), ('"',),  # no pair
            ("", "一。"), ("One.", " \u3000"), ("", ""),  # an empty side
            ("x" * 2001, "字" * 600), ("x " * 1500, "字" * 2001),  # too many characters
            ("A sentence that is far too long for that.", "好。"),  # length ratio
            ("No.", "这是一个很长的句子，不是吗？"),
            ("Good morning.", "Good morning."), ("早上好。", "早上好。"),  # wrong script
            ("2 + 2 = 4", "2+2=4"),
            good[0], ("This  is sentence number 1. ", good[1][1]), good[0],  # exact duplicates
            ("A caf\u00e9 here.", "这里有咖啡馆。"), ("A cafe\u0301 here.", "这里有咖啡馆。"),
            good[40], good[50], good[50], good[45],  # in dev or test, one of them twice
            ("word " * 61, "字" * 50), ("Short.", "短。"),  # too many tokens; kept
            *good[30:40],
        ],
        "dev": [
            *good[40:49], good[40], good[49],
            ("Not Chinese.", "Not Chinese."), ("", "一。"), ("no tab",),
        ],
        "test": [*good[50:55], ("word " * 61, "字")],
    }  # fmt: skip
    write_data(tmp_path, lines, "tsv")
    config = replace(WORDS, min_freq=1)
    report = prepare(tmp_path, config, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    assert list(report["train"].values()) == [63, 2, 3, 2, 2, 3, 5, 3, 1, 42]
    assert list(report["dev"].values()) == [14, 1, 1, 0, 0, 0, 0, 0, 0, 12]
    assert list(report["test"].values()) == [6, 0, 0, 0, 0, 0, 0, 0, 0, 6]
    source, _, train, dev, _ = load_data(tmp_path / "out", config)
    assert text_of(source, train[30][0]) == "a caf\u00e9 here."  # in small letters
    assert text_of(source, train[31][0]) == "short."
    assert dev[9] == dev[0] != dev[10]
    assert dev[11][0] == [*source.encode("Not Chinese."), EOS]


@pytest.mark.parametrize(
    "src, tgt, pair, reason",
    [
        ("en", "de", ("A house.", "Ein Haus."), None),
        ("en", "de", ("A house.", "Haus" * 8), None),
        ("en", "de", ("A house.", "Haus" * 8 + "e"), "length ratio"),
        ("en", "de", ("A house.", "12345."), "wrong script"),
        ("zh", "en", ("你好。", "Good morning to you."), None),
        ("zh", "en", ("一二三四五", "four"), "length ratio"),
        ("en", "ja", ("Hello there.", "こんにちは。"), None),
        ("en", "ko", ("Hello there.", "안녕하세요."), None),
        ("en", "ru", ("Hello there.", "Zdravstvuyte."), "wrong script"),
        ("en", "el", ("Hello there.", "Γεια σας."), None),  # not listed: any letter
        ("en", "zh", ("\ud83d.", "好。"), "no pair in the line"),  # half a character
    ],
)
def test_what_is_dropped(src, tgt, pair, reason):
    config = replace(WORDS, src=src, tgt=tgt)
    row = read_json_pair(json.dumps({src: pair[0], tgt: pair[1]}), config)
    assert judge(row, True, config)[0] == reason
    is_used = reason != STEPS[0]
    assert judge(row, False, config) == ((None, pair) if is_used else (reason, ("", "")))


# ended, and in several processes


def test_several_processes_encode_the_same(plain, tmp_path, monkeypatch):
    monkeypatch.setattr(large, "MANY_PAIRS", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    prepare(plain[0], SUBWORDS, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(plain[1])


def test_what_is_there_already_is_kept(plain, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        prepare(plain[0], SUBWORDS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize(
    "number, status",
    [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -9)],
)
def test_ended_half_way_it_leaves_nothing_that_counts(plain, tmp_path, number, status):
    out = tmp_path / "out"
    program = f"""
import runpy, sys, time
from pathlib import Path
from engine.corpus import prepare

def wait(*arguments):
    print("half written", flush=True)
    time.sleep(60)

prepare.learn_tokenizers = wait
sys.argv = {["prepare.py", "--data", str(plain[0]), "--out", str(out), *OPTIONS]!r}
runpy.run_path("prepare.py", run_name="__main__")
"""
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with start_with_ctrl_c([sys.executable, "-c", program], cwd=ROOT, **pipes) as running:
        assert "half written\n" in running.stdout  # it has come so far
        assert [path.name for path in tmp_path.iterdir()] == ["out.unfinished"]
        running.send_signal(number)
        assert running.wait(60) == status
        assert running.stderr.read() == ("stopped\n" if number == signal.SIGINT else "")
    assert (list(tmp_path.iterdir()) == []) == (number != signal.SIGKILL)
    prepare(plain[0], SUBWORDS, out)
    assert contents(out) == contents(plain[1]) and list(tmp_path.iterdir()) == [out]


# what training reads


def test_batches_are_those_of_notebook_01(plain, pairs):
    source, target, train, *_ = load_data(plain[1], SUBWORDS)
    expected = TranslationDataset(pairs["train"], source, target, SUBWORDS.max_length)
    pickled = pickle.dumps(train)
    assert len(pickled) < 1000
    loaders = []
    for data in (train, pickle.loads(pickled), expected):
        sampler = TokenBatchSampler(data.lengths, SUBWORDS.batch_tokens, seed=1)
        loaders.append(list(make_dataloader(data, sampler)))
    assert len(loaders[0]) > 5
    for first, *others in zip(*loaders, strict=True):
        for other in others:
            assert torch.equal(first.src, other.src)
            assert torch.equal(first.tgt_out, other.tgt_out)


def test_a_prepared_folder_knows_its_settings_and_words(plain, tmp_path):
    assert load_data(plain[1], replace(SUBWORDS, learning_rate=0.5, d_model=64))
    with pytest.raises(InputError, match="prepared with max_length 100, not 9"):
        load_data(plain[1], replace(SUBWORDS, max_length=9))
    others = make_tokenizers([("One two three.", "一二三。")] * 9, WORDS)
    with pytest.raises(InputError, match="other vocabularies"):
        load_data(plain[1], SUBWORDS, others)


def test_what_is_too_large_to_be_read_plainly_is_told_with_the_command(plain, monkeypatch):
    monkeypatch.setattr("engine.corpus.pairs.LARGE_BYTES", 1000)
    with pytest.raises(InputError, match="python prepare.py --data"):
        load_data(plain[0], SUBWORDS)
    assert load_data(plain[1], SUBWORDS)


def test_a_cell_with_a_line_break_is_named_in_tsv_and_read_in_csv(tmp_path, capsys):
    cell = '"One.\nTwo."'
    (tmp_path / "dev.tsv").write_text(f'Good.\t好。\n{cell}\t"一。\n二。"\nGood.\t好。\n')
    read_split(tmp_path, "dev", WORDS)
    assert "dev.tsv, line 2: a quote opens a cell" in capsys.readouterr().err
    (tmp_path / "test.csv").write_text(f'en,zh\nGood.,好。\n{cell},"一。\n二。"\n')
    expected = [("Good.", "好。"), ("One. Two.", "一。 二。")]
    assert read_split(tmp_path, "test", WORDS) == expected
    assert capsys.readouterr().err == ""
    (tmp_path / "test.csv").write_bytes("en,zh\r\r\nGood.,好。\r\r\n".encode())  # Python on Windows
    assert read_split(tmp_path, "test", WORDS) == [("Good.", "好。")]
    (tmp_path / "train.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="line 1: names no columns en and zh"):
        read_split(tmp_path, "train", WORDS)


# command line

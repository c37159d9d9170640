"""Data of any size: every format, every damage, cleaning, kills, and what training reads."""

import gzip
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import DATA, ROOT, run_python
from filelock import FileLock
from notebooks.data_preparation import (
    EOS,
    TokenBatchSampler,
    TranslationDataset,
    make_dataloader,
    make_tokenizers,
    read_pairs,
)
from notebooks.setup import Config, replace

import prepare as program
from data_large import formats
from data_large import prepare as large
from data_large.cleaning import STEPS, judge
from data_large.dataset import PreparedDataset, load_prepared
from data_large.formats import needs_preparing, parse_row, raw_lines, read_split
from data_large.prepare import prepare
from notebooks.support.errors import InputError

WORDS = Config.preset("tiny")
SUBWORDS = replace(
    WORDS, src_segmentation="subwords", tgt_segmentation="subwords", sharing="three-way",
    max_size=400, max_length=100, batch_tokens=300,
)  # fmt: skip
ODD = ("A naïve 😀 man, 👩‍👩‍👧 ℵ₀ and 龘.", "一个天真的😀人，👩‍👩‍👧 ℵ₀ 和龘。")
BLOCK_LINES, PIECE_ROWS = 10, 30  # so that a few lines make many pieces


@pytest.fixture(autouse=True, scope="module")
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "BLOCK_LINES", BLOCK_LINES)
        patch.setattr(large, "PIECE_ROWS", PIECE_ROWS)
        patch.setattr(formats, "TABLE_ROWS", 25)
        yield


@pytest.fixture(scope="module")
def pairs():
    """Pairs by split, with signs that no table of words or characters knows."""
    rows = {split: read_pairs(DATA, split, WORDS) for split in ("train", "dev", "test")}
    train = [*rows["train"][:139], ODD]
    return {"train": train, "dev": rows["dev"][:30], "test": rows["test"][:20]}


@pytest.fixture(scope="module")
def plain(pairs, tmp_path_factory):
    """A data folder of .tsv files, and what is prepared from it: (data folder, prepared folder)."""
    data = tmp_path_factory.mktemp("plain")
    write_data(data, pairs, "tsv")
    return data, prepare(data, SUBWORDS, 1, data / "prepared")


def write_data(folder, pairs, kind):
    """All splits in one of KINDS."""
    if kind.startswith("saved"):
        return write_saved(folder, pairs, kind)
    for split, rows in pairs.items():
        if kind == "several":
            write_file(folder, f"{split}-b", rows[50:], "tsv") if rows[50:] else None
            rows, split = rows[:50], f"{split}-a"
        write_file(folder, split, rows, "tsv" if kind == "several" else kind)


KINDS = [
    "tsv", "tsv.gz", "tsv.zst", "jsonl", "jsonl.zst", "json", "json.gz", "parquet",
    "parquet struct", "halves", "halves.gz", "halves.zst", "several", "saved", "saved struct",
]  # fmt: skip


def columns(rows, kind):
    """Columns of a table: codes, or one struct column."""
    if kind.endswith("struct"):
        return {"translation": [{"zh": target, "en": source} for source, target in rows]}
    return {
        "number": list(range(len(rows))),
        "chinese": [row[1] for row in rows],
        "en": [row[0] for row in rows],
    }


def write_file(folder, split, rows, kind):
    kind, _, packing = kind.partition(".")
    if kind.startswith("parquet"):
        table = pa.table(columns(rows, kind))
        pq.write_table(table, folder / f"{split}.parquet", row_group_size=30)
        return
    texts = {kind: "\n".join("\t".join(row) for row in rows)}
    if kind == "halves":
        sides = (("en", 0), ("zh", 1))
        texts = {code: "".join(f"{row[side]}\n" for row in rows) for code, side in sides}
    elif kind == "json":
        lines = [{"translation": {"en": source, "zh": target}} for source, target in rows]
        texts = {kind: "\n".join(json.dumps(line) for line in lines)}
    elif kind == "jsonl":
        lines = [{"english": source, "chinese": target} for source, target in rows]
        texts = {kind: "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)}
    for extension, text in texts.items():
        path = folder / ".".join(part for part in (split, extension, packing) if part)
        path.write_bytes(pack(text.encode(), packing))


def pack(content, packing):
    """Compressed in two pieces, as parallel compressors and `cat` make them."""
    half = len(content) // 2
    if packing == "gz":
        return gzip.compress(content[:half]) + gzip.compress(content[half:])
    if packing == "zst":
        parts = (content[:half], content[half:])
        return b"".join(pa.compress(part, "zstd", asbytes=True) for part in parts)
    return content


def write_saved(folder, pairs, kind):
    import datasets

    datasets.disable_progress_bars()
    names = {"train": "train", "dev": "validation", "test": "test"}
    tables = {names[split]: columns(rows, kind) for split, rows in pairs.items()}
    splits = {name: datasets.Dataset.from_dict(table) for name, table in tables.items()}
    datasets.DatasetDict(splits).save_to_disk(str(folder))


def items(folder):
    """All pairs of ids of train and dev."""
    return [list(PreparedDataset(folder, split)) for split in ("train", "dev")]


def contents(folder):
    """Every file of a prepared folder, byte for byte."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# formats


def test_clean_data_gives_the_ids_of_notebook_01(plain, pairs):
    data, folder = plain
    source, target, train, dev = load_prepared(folder)
    tokenizers = make_tokenizers(pairs["train"], SUBWORDS)
    for one, other in zip((source, target), tokenizers, strict=True):
        assert one.vocabulary.tokens == other.vocabulary.tokens
    for found, rows in ((train, pairs["train"]), (dev, pairs["dev"])):
        expected = TranslationDataset(rows, *tokenizers, SUBWORDS.max_length)
        assert list(found) == expected.items and found.lengths.tolist() == expected.lengths.tolist()
        assert (len(found), found.dropped) == (len(expected), expected.dropped)
    assert not (folder / "work").exists()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_format_gives_the_same_ids_and_texts(plain, pairs, tmp_path, kind):
    write_data(tmp_path, pairs, kind)
    folder = prepare(tmp_path, SUBWORDS, 1, tmp_path / "prepared")
    assert items(folder) == items(plain[1])
    name = "vocabulary.src.json"
    assert (folder / name).read_bytes() == (plain[1] / name).read_bytes()
    for split in ("dev", "test"):
        assert read_split(tmp_path, split, SUBWORDS) == pairs[split]


def test_any_sign_survives_with_subwords(plain):
    source, target, train, _ = load_prepared(plain[1])
    assert source.decode(train[139][0]) == ODD[0] and target.decode(train[139][1]) == ODD[1]


def test_words_and_characters_are_possible_too(plain, pairs, tmp_path):
    config = replace(WORDS, max_length=9)
    *tokenizers, train, dev = load_prepared(prepare(plain[0], config, 1, tmp_path))
    expected = TranslationDataset(pairs["train"], *make_tokenizers(pairs["train"], config), 9)
    assert list(train) == expected.items
    assert train.dropped == expected.dropped > 0 and dev.dropped > 0


def test_marks_line_ends_swapped_columns_and_other_languages(tmp_path):
    rows = [(f"Sentence {number}.", f"Satz {number}.") for number in range(60)]
    for split, part in (("train", rows[:40]), ("dev", rows[40:])):
        text = "\ufeff" + "".join(f"{german}\t{english}\tmore\r\n" for english, german in part)
        (tmp_path / f"{split}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    config = replace(WORDS, tgt="de", swap=True, tgt_segmentation="words", min_freq=1)
    assert read_split(tmp_path, "dev", config) == rows[40:]
    source, target, train, _ = load_prepared(prepare(tmp_path, config, 1, tmp_path / "out"))
    assert [(source.decode(src), target.decode(tgt)) for src, tgt in train] == rows[:40]


def test_the_ids_are_open_to_others(plain):
    import datasets

    saved = datasets.load_from_disk(str(plain[1] / "train"))
    expected = [src[:-1] for src, _ in PreparedDataset(plain[1], "train")]
    assert saved["src"][:] == expected
    assert saved.features["src"] == datasets.List(datasets.Value("uint16"))


# damage


GOOD = "".join(f"Sentence number {n}.\t第{n}个句子在这里。\n" for n in range(2000)).encode()


@pytest.mark.parametrize(
    "files, words",
    [
        ({"train.tsv.gz": gzip.compress(GOOD)[:-9]}, "train.tsv.gz: cut short or damaged"),
        ({"train.tsv.gz": b"no gzip\n"}, "train.tsv.gz: cut short or damaged"),
        (
            {"train.tsv.zst": pa.compress(GOOD, "zstd", asbytes=True)[:-9]},
            "train.tsv.zst: cut short or damaged",
        ),
        ({"train.tsv.zst": b"no zstd\n"}, "train.tsv.zst: cut short or damaged"),
        ({"train.parquet": b"no parquet"}, "train.parquet: cut short or damaged"),
        (
            {"train.tsv.gz": gzip.compress(GOOD + b"bad \xff\t.\n")},
            "train.tsv.gz, line 2001, byte 5: not UTF-8. Save",
        ),
        ({"train.tsv": GOOD + b"bad \xff\t.\n"}, "train.tsv, line 2001, byte 5: not UTF-8. Save"),
        (
            {"train.en": GOOD, "train.zh": GOOD + GOOD},
            "train.en has 2000 lines and train.zh 4000: they must match",
        ),
        (
            {"train.en.gz": gzip.compress(GOOD)},
            "train.en.gz: its other half train.zh.gz is missing",
        ),
        ({"train.tsv": b"no tab\n"}, "train.tsv: no line holds a pair"),
        ({"train.jsonl.gz": gzip.compress(b"{}\n")}, "train.jsonl.gz: no line holds a pair"),
        ({"train-1.tsv": GOOD, "train-2.tsv": b""}, "train-2.tsv: the file is empty"),
        ({"train.tsv.gz": gzip.compress(b"")}, "train.tsv.gz: the file is empty"),
        (
            {"train.tsv": GOOD, "train.tsv.gz": gzip.compress(GOOD)},
            "train is there as .tsv and as .tsv.gz. Keep one",
        ),
        ({"train.txt": GOOD}, "holds no train.tsv"),
        ({"train.tsv": b"Hello.\tHello.\n"}, "cleaning leaves no pair of train (wrong script: 1)"),
        (
            {"train.tsv": "字".encode() * 101 + b"\t" + b"word " * 101},
            "cleaning leaves no pair of train",
        ),
        (
            {"train.tsv": b"word " * 101 + b"\t" + "字".encode() * 101},
            "every pair of train has more than max_length 100",
        ),
    ],
)
def test_damaged_files_give_one_clear_line(tmp_path, files, words):
    (tmp_path / "dev.tsv").write_text("One.\t一。\n", encoding="utf-8")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as refused:
        prepare(tmp_path, SUBWORDS, 1, tmp_path / "out")
    assert words in str(refused.value) and "\n" not in str(refused.value)
    assert not list((tmp_path / "out").glob("*/"))  # nothing is left behind


@pytest.mark.parametrize(
    "table, words",
    [
        (
            pa.table({"en": ["One."], "german": ["Eins."]}),
            "has the columns en, german, not en and zh",
        ),
        (
            pa.table({"translation": [{"en": "One."}]}),
            "has the columns translation.en, not en and zh",
        ),
        (pa.table({"en": ["One."], "zh": [1]}), "no line holds a pair"),
        (
            pa.table({"en": ["One."], "zh": pa.array([b"\xff"]).view(pa.string())}),
            "cut short or damaged",
        ),
        (
            pa.table({"en": pa.array([], "string"), "zh": pa.array([], "string")}),
            "the file is empty",
        ),
    ],
)
def test_parquet_without_pairs_is_named(tmp_path, table, words):
    (tmp_path / "dev.tsv").write_text("One.\t一。\n", encoding="utf-8")
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(InputError, match=f"train.parquet: .*{words}"):
        prepare(tmp_path, SUBWORDS, 1, tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["train", "validation", "data-00000-of-00001.arrow", "state.json", "dataset_info.json"]
)
@pytest.mark.parametrize("damage", ["missing", "cut short"])
def test_a_damaged_saved_data_set_is_named(pairs, tmp_path, name, damage):
    write_saved(tmp_path, pairs, "saved")
    path = tmp_path / name if name in ("train", "validation") else tmp_path / "train" / name
    if path.is_dir():
        shutil.rmtree(path)
    elif damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    told = f"{tmp_path}.*(cut short or damaged|holds no (train|dev or validation))"
    with pytest.raises(InputError, match=told) as refused:
        prepare(tmp_path, SUBWORDS, 1, tmp_path / "out")
    assert "\n" not in str(refused.value)


def test_a_line_without_end_is_never_held(tmp_path, monkeypatch):
    monkeypatch.setattr("notebooks.support.text_files.LINE_BYTES", 8)
    (tmp_path / "text").write_bytes(b"1234567\n12345678\n" + b"x" * 100 + b"\nshort\n" + b"x" * 100)
    assert list(raw_lines(tmp_path / "text")) == [b"1234567", b"", b"", b"short", b""]


def test_settings_that_do_not_go_together_are_refused_at_once(plain, tmp_path):
    with pytest.raises(InputError, match="three-way sharing needs subwords on both"):
        prepare(plain[0], replace(SUBWORDS, tgt_segmentation="words"), 1, tmp_path / "out")
    with pytest.raises(InputError, match="workers is 0"):
        prepare(plain[0], SUBWORDS, 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# cleaning


def test_every_step_is_counted(tmp_path):
    good = [(f"This is sentence number {n}.", f"这是第{n}个句子。") for n in range(60)]
    lines = {
        "train": [
            *good[:30],
            ("no tab",), ('"',),  # no pair
            ("", "一。"), ("One.", " \u3000"), ("", ""),  # an empty side
            ("x" * 2001, "字" * 600), ("x " * 1500, "字" * 2001),  # too many characters
            # length ratio
            ("A sentence that is far too long for that.", "好。"),
            ("No.", "这是一个很长的句子，不是吗？"),
            # wrong script
            ("Good morning.", "Good morning."), ("早上好。", "早上好。"), ("2 + 2 = 4", "2+2=4"),
            good[0], ("This  is sentence number 1. ", good[1][1]), good[0],  # exact duplicates
            # the first is kept
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
    for split, rows in lines.items():
        text = "\n".join(map("\t".join, rows)) + "\n"
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    folder = prepare(tmp_path, replace(WORDS, min_freq=1), 1, tmp_path / "out")
    report = json.loads((folder / "report.json").read_text())
    assert list(report["train"].values()) == [63, 2, 3, 2, 2, 3, 5, 3, 1, 42]
    assert list(report["dev"].values()) == [14, 1, 1, 0, 0, 0, 0, 0, 0, 12]
    assert list(report["test"].values()) == [6, 0, 0, 0, 0, 0, 0, 0, 1, 5]
    source, _, train, dev = load_prepared(folder)
    assert source.decode(train[30][0]) == "A caf\u00e9 here."
    assert source.decode(train[31][0]) == "Short."
    assert dev[9] == dev[0] != dev[10] and dev[11][0] == [*source.encode("Not Chinese."), EOS]


@pytest.mark.parametrize(
    "src, tgt, pair, reason",
    [
        ("en", "de", ("A house.", "Ein Haus."), None),
        ("en", "de", ("A house.", "Haus" * 9), "length ratio"),
        ("en", "de", ("A house.", "12345."), "wrong script"),
        ("zh", "en", ("你好。", "Good morning to you."), None),
        ("zh", "en", ("好。", "Good morning to all of you."), "length ratio"),
        ("zh", "en", ("一二三四五", "four"), "length ratio"),
        ("en", "ja", ("Hello there.", "こんにちは。"), None),
        ("en", "ja", ("Hello there.", "Konnichi wa."), "wrong script"),
        ("ja", "zh", ("わかりました。", "好。"), None),
        ("en", "ko", ("Hello there.", "안녕하세요."), None),
        ("en", "ru", ("Hello there.", "Здравствуйте."), None),
        ("en", "ru", ("Hello there.", "Zdravstvuyte."), "wrong script"),
        ("ar", "en", ("مرحبا بك.", "Welcome."), None),
        ("en", "fi", ("Hello there.", "123 456"), None),  # a language whose script is not listed
        # half a character, as JSON can spell it
        ("en", "zh", ("\ud83d.", "好。"), "no pair in the line"),
    ],
)
def test_what_is_dropped(src, tgt, pair, reason):
    config = replace(WORDS, src=src, tgt=tgt)
    row = parse_row("jsonl", [json.dumps({src: pair[0], tgt: pair[1]})], config)
    assert judge(row, True, config)[0] == reason
    kept = reason != STEPS[0]
    expected = (None, pair) if kept else (reason, ("", ""))
    assert judge(row, False, config) == expected


def test_the_measured_shares_of_data_small_hold():
    reasons = [judge(pair, True, WORDS)[0] for pair in read_pairs(DATA, "train", WORDS)]
    assert len(reasons) == 30_279 and [reason for reason in reasons if reason] == ["length ratio"]


def test_duplicates_are_found_across_pieces(tmp_path):
    random = np.random.default_rng(0)
    numbers = random.integers(200, size=400).tolist()
    rows = {"train": list(map(sentence, numbers)), "dev": list(map(sentence, range(20)))}
    write_data(tmp_path, rows, "jsonl")
    folder = prepare(tmp_path, replace(WORDS, min_freq=1), 1, tmp_path / "out")
    source, _, train, _ = load_prepared(folder)
    # the first of equal ones, in their order
    expected = [number for number in dict.fromkeys(numbers) if number >= 20]
    assert [source.decode(src) for src, _ in train] == [sentence(number)[0] for number in expected]
    counts = json.loads((folder / "report.json").read_text())["train"]
    leaks = len({number for number in numbers if number < 20})
    assert counts["also in dev or test"] == leaks
    assert counts["exact duplicates"] == 400 - len(expected) - leaks > 0


def sentence(number):
    return f"Sentence {number}.", f"第{number}句。"


def test_tokenizers_learn_from_a_sample_of_bounded_size(plain, pairs, tmp_path, monkeypatch):
    seen = []

    def learn(rows, config):
        seen.append(rows)
        return make_tokenizers(rows, config)

    monkeypatch.setattr(large, "make_tokenizers", learn)
    size = sum(len(text.encode()) for pair in pairs["train"] for text in pair)
    monkeypatch.setattr(large, "SAMPLE_BYTES", size // 6)
    prepare(plain[0], SUBWORDS, 1, tmp_path)
    step = -(-len(pairs["train"]) // len(seen[-1]))
    assert step >= 6 and seen[-1] == pairs["train"][::step]


def test_the_sample_counts_what_is_kept(plain, pairs, tmp_path, monkeypatch):
    texts, seen = load_texts(pairs["train"]), []
    monkeypatch.setattr(large, "map_rows", lambda sample, *_: seen.append(len(sample)))
    size = sum(texts.data.column(side).nbytes for side in ("source", "target"))
    monkeypatch.setattr(large, "SAMPLE_BYTES", size // 9)
    keep = np.arange(len(texts)) % 10 == 0  # a tenth stays: less than the sample may hold
    large.learn_tokenizers(tmp_path, texts, keep, SUBWORDS, 1)
    assert seen == [keep.sum()]


def load_texts(pairs):
    """Pairs as the rows of cleaned text."""
    source, target = zip(*pairs)
    return datasets.Dataset.from_dict({"source": source, "target": target})


# once, and once only


def test_a_second_call_does_nothing(plain, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in plain[1].rglob("*")}
    monkeypatch.setattr(large, "run_stages", None)
    assert prepare(plain[0], SUBWORDS, 1, plain[1].parent) == plain[1]
    assert before == {path: path.stat().st_mtime_ns for path in plain[1].rglob("*")}


def test_the_fingerprint_covers_files_settings_and_code(plain, tmp_path, monkeypatch):
    shutil.copytree(plain[0], tmp_path / "data", ignore=shutil.ignore_patterns("prepared"))
    names = [plain[1].name, large.fingerprint(plain[0], replace(SUBWORDS, max_length=99))]
    other = replace(SUBWORDS, learning_rate=0.5, seed=3, d_model=64)  # the same data for all that
    assert large.fingerprint(tmp_path / "data", other) == names[0]
    for split in ("train", "dev", "test"):
        path = tmp_path / "data" / f"{split}.tsv"
        path.write_bytes(path.read_bytes().replace(b".", b"!", 1))
        names.append(large.fingerprint(tmp_path / "data", SUBWORDS))
    path.rename(path.with_name("test-1.tsv"))
    names.append(large.fingerprint(tmp_path / "data", SUBWORDS))
    read = []  # the modules whose code counts: all that a text goes through
    monkeypatch.setattr(large.inspect, "getsource", lambda module: read.append(module.__name__))
    names.append(large.fingerprint(tmp_path / "data", SUBWORDS))
    assert len(set(names)) == len(names) == 7
    support = {f"notebooks.support.{name}" for name in ("text_files", "chinese_words")}
    large_path = {f"data_large.{name}" for name in ("formats", "cleaning", "prepare")}
    assert set(read) == {"notebooks.data_preparation"} | support | large_path


def test_the_fingerprint_of_a_data_set_is_that_of_its_ids(plain, pairs, tmp_path):
    write_data(tmp_path, pairs, "jsonl")
    other = prepare(tmp_path, replace(SUBWORDS, max_size=401), 1, tmp_path / "out")
    again = prepare(tmp_path, SUBWORDS, 1, tmp_path / "out")
    prints = [PreparedDataset(folder, "train").fingerprint for folder in (plain[1], again, other)]
    assert prints[0] == prints[1] != prints[2] and again.name != plain[1].name


class PowerCut(Exception):
    pass


def test_stopped_at_every_stage_it_goes_on_and_ends_the_same(plain, tmp_path, monkeypatch):
    """A stage cut short before its seal is done again, one that is sealed is not."""
    filled, sealed, stage, write_whole = [], [], large.stage, large.write_whole

    def count(folder, fill, *arguments):
        def fill_and_count(folder, *arguments):
            filled.append(folder.name)
            fill(folder, *arguments)

        return stage(folder, fill_and_count, *arguments)

    def cut_power(path, content):
        sealed.append(path.stem)
        if sealed.count(path.stem) == 1:
            raise PowerCut
        write_whole(path, content)
        raise PowerCut

    monkeypatch.setattr(large, "stage", count)
    monkeypatch.setattr(large, "write_whole", cut_power)
    stages = ["dev", "test", "train", "tokenizers", "dev-000000000000", "test-000000000000"]
    stages += [f"train-{first:012}" for first in range(0, 140, PIECE_ROWS)]
    for _ in range(2 * len(stages)):
        with pytest.raises(PowerCut):
            prepare(plain[0], SUBWORDS, 1, tmp_path)
    assert filled == sealed == [stage for stage in stages for _ in range(2)]
    assert contents(prepare(plain[0], SUBWORDS, 1, tmp_path)) == contents(plain[1])


@pytest.mark.parametrize("damage", ["missing", "cut short", "a bit flipped"])
def test_a_damaged_cache_is_made_anew(plain, tmp_path, monkeypatch, damage):
    """Every file of an unfinished preparation in turn, seals too."""
    with monkeypatch.context() as patch:
        patch.setattr(large, "write_json", None)  # of the report, at the very end
        with pytest.raises(TypeError):
            prepare(plain[0], SUBWORDS, 1, tmp_path)
    whole = tmp_path / plain[1].name
    paths = [path.relative_to(whole) for path in sorted(whole.rglob("*")) if path.is_file()]
    assert len(paths) > 20
    for name in paths[:: 1 if damage == "a bit flipped" else 5]:
        folder = tmp_path / "again" / whole.name
        shutil.copytree(whole, folder)
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).unlink()
        if damage != "missing":
            kept = len(content) // 2 if damage == "cut short" else len(content)
            (folder / name).write_bytes(content[:kept])
        assert contents(prepare(plain[0], SUBWORDS, 1, folder.parent)) == contents(plain[1]), name
        shutil.rmtree(folder)


SLOW = """
import sys, time
from pathlib import Path
from data_large import prepare as large
from notebooks.support.errors import run_command
from notebooks.setup import Config
large.BLOCK_LINES, large.PIECE_ROWS = 10, 30
data, output = Path(sys.argv[1]), Path(sys.argv[4])

def slow(name):
    function = getattr(large, name)
    def slow_function(*arguments, **options):
        (output / name).touch()
        time.sleep(0.2)
        return function(*arguments, **options)
    setattr(large, name, slow_function)

slow("clean_blocks")
slow("encode_rows")
start = lambda _: large.prepare(data, eval(sys.argv[2]), int(sys.argv[3]), output)
sys.exit(run_command(start, []))
"""


def test_what_was_damaged_and_then_killed_is_made_anew(tmp_path):
    def fill(folder):
        (folder / "rows.arrow").write_text("rows")

    def killed(folder):
        (folder / "blocks").mkdir()
        raise KeyboardInterrupt

    folder = large.stage(tmp_path / "train", fill)
    (folder / "rows.arrow").write_text("damaged")
    with pytest.raises(KeyboardInterrupt):
        large.stage(folder, killed)
    large.stage(folder, fill)
    assert (folder / "rows.arrow").read_text() == "rows"


def start_slowly(plain, tmp_path, moment):
    """The process of a preparation with two workers, and its output after a file is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(plain[0]), repr(SUBWORDS), "2", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
    )  # fmt: skip
    deadline = time.time() + 120
    while process.poll() is None and not list(tmp_path.glob(moment)) and time.time() < deadline:
        time.sleep(0.001)
    assert list(tmp_path.glob(moment)), process.communicate()
    return process


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_killed_with_two_workers_it_ends_the_same(plain, tmp_path):
    """Killed while cleaning, then while encoding; then finished in one process."""
    for moment in ("*/work/train/rows*", "*/work/train-000000000030"):
        process = start_slowly(plain, tmp_path, moment)
        process.kill()
        # ends when the last of the processes that it started has closed the pipe
        process.communicate(timeout=60)
    folder = prepare(plain[0], SUBWORDS, 1, tmp_path)
    assert folder.name == plain[1].name and contents(folder) == contents(plain[1])


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_is_one_line(plain, tmp_path):
    # a worker is at work: Python loses what it is sent while it forks
    process = start_slowly(plain, tmp_path, "encode_rows")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it, to all of them
    assert process.communicate(timeout=60) == ("", "stopped\n") and process.returncode == 130
    assert contents(prepare(plain[0], SUBWORDS, 2, tmp_path)) == contents(plain[1])


def test_a_killed_worker_is_one_line_and_loses_nothing(plain, tmp_path, monkeypatch):
    def die(*arguments, **options):
        os.kill(os.getpid(), signal.SIGKILL)

    for name in ("clean_blocks", "encode_rows"):
        with monkeypatch.context() as patch:
            patch.setattr(large, name, die)
            with pytest.raises(OSError, match="a worker process was killed.* what is done is kept"):
                prepare(plain[0], SUBWORDS, 2, tmp_path)
    assert contents(prepare(plain[0], SUBWORDS, 1, tmp_path)) == contents(plain[1])


def test_nothing_is_asked_of_the_network_and_nothing_is_said(plain, tmp_path, monkeypatch, capfd):
    def refuse(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    prepare(plain[0], SUBWORDS, 2, tmp_path)
    printed = capfd.readouterr()
    assert printed.out.count("\n") == len(STEPS) + 3 and not printed.err


def test_a_second_preparation_waits_for_the_first(plain, tmp_path, capsys):
    folder, said = tmp_path / plain[1].name, ""
    second = threading.Thread(target=prepare, args=(plain[0], SUBWORDS, 1, tmp_path))
    with FileLock(f"{folder}.lock"):
        second.start()
        deadline = time.time() + 30
        while "waiting" not in said and time.time() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
        assert f"{folder}: another process is preparing it; waiting" in said and not folder.exists()
    second.join(30)
    assert contents(folder) == contents(plain[1])


# what training reads


def test_batches_are_those_of_notebook_01(plain, pairs):
    source, target, train, _ = load_prepared(plain[1])
    expected = TranslationDataset(pairs["train"], source, target, SUBWORDS.max_length)
    for epoch in (0, 1):
        loaders = []
        for data in (train, pickle.loads(pickle.dumps(train)), expected):
            sampler = TokenBatchSampler(data.lengths, SUBWORDS.batch_tokens, seed=1)
            sampler.epoch = epoch
            loaders.append(list(make_dataloader(data, sampler)))
        for batches in zip(*loaders, strict=True):
            assert all(torch.equal(batches[0].src, batch.src) for batch in batches)
            assert all(torch.equal(batches[0].tgt_out, batch.tgt_out) for batch in batches)
    assert len(loaders[0]) > 5 and len(pickle.dumps(train)) < 1000


def test_there_are_as_many_workers_as_processors_but_few(monkeypatch):
    for processors, workers in ((None, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(os, "cpu_count", lambda number=processors: number)
        assert large.default_workers() == workers


def test_an_index_outside_is_an_error(plain):
    train = PreparedDataset(plain[1], "train")
    assert train[len(train) - 1] == list(train)[-1]
    for index in (-1, len(train)):
        with pytest.raises(IndexError):
            train[index]


@pytest.mark.parametrize(
    "kind", ["tsv", "halves", "json", "several", "jsonl.gz", "halves.zst", "parquet", "saved"]
)
def test_what_notebook_01_reads_is_left_to_it_unless_large(pairs, tmp_path, monkeypatch, kind):
    write_data(tmp_path, pairs, kind)
    assert needs_preparing(tmp_path, WORDS) == (kind not in ("tsv", "several"))
    size = sum(path.stat().st_size for path in tmp_path.glob("train*"))
    monkeypatch.setattr(formats, "LARGE_BYTES", size - 1)
    assert needs_preparing(tmp_path, WORDS)


def test_more_than_two_bytes_for_a_large_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setattr(large, "PIECE_ROWS", 1000)
    numbers = [*range(0x4E00, 0x9FA0), *range(0xAC00, 0xD7A0), *range(0x20000, 0x2A000)]
    signs = [chr(number) for number in numbers]
    # about 40 signs each, some of them Chinese
    texts = ["".join(signs[start::1700]) for start in range(1700)]
    rows = [("One and two and three and four and five and six.", text) for text in texts]
    write_data(tmp_path, {"train": rows, "dev": rows[:1]}, "tsv")
    (tmp_path / "dev.tsv").write_text("Two.\t二。\n", encoding="utf-8")
    config = replace(WORDS, min_freq=1, max_size=100_000)
    _, target, train, _ = load_prepared(prepare(tmp_path, config, 1, tmp_path / "out"))
    assert len(target) > 1 << 16 and [target.decode(tgt) for _, tgt in train] == texts


# command line


def test_the_command_prepares_and_prints_the_report(plain, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(large, "PREPARED", tmp_path)
    argv = f"--data {plain[0]} --config tiny --sharing three-way".split()
    argv += "--src-segmentation subwords --tgt-segmentation subwords".split()
    argv += "--max-size 400 --max-length 100 --batch-tokens 300 --workers 1".split()
    assert program.main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["train", "dev", "test"]
    assert lines[1].split() == ["lines", "140", "30", "20"]
    assert lines[-1] == f"prepared in {tmp_path / plain[1].name}"
    assert len(lines) == 3 + len(STEPS) + 1
    assert program.main(argv) == 0 and capsys.readouterr().out.splitlines() == lines[-1:]


def test_a_mistake_is_one_line_and_status_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(large, "PREPARED", tmp_path / "prepared")
    for name, content in (("dev.tsv", GOOD[:5000]), ("train.tsv.gz", gzip.compress(GOOD)[:-9])):
        (tmp_path / "damaged").mkdir(exist_ok=True)
        (tmp_path / "damaged" / name).write_bytes(content)
    wrong = ["--config huge", "--dropout 2", f"--data {tmp_path}/none", "--wings 2"]
    wrong.append(f"--data {tmp_path}/damaged --workers 1")
    for argv in map(str.split, wrong):
        assert program.main(argv) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
        assert not captured.out
    done = run_python(ROOT / "prepare.py", "--data", tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "holds no dev.tsv" in done.stderr


# dev and test in every format


PAIRS = [("One.", "一。"), ("Two!", "二！")]


def test_every_format_gives_the_same_pairs(tmp_path):
    texts = {
        "dev.tsv": "One.\t一。\nTwo!\t二！\n",
        "dev.jsonl": '{"en": "One.", "zh": "一。"}\n{"english": "Two!", "chinese": "二！"}\n',
        "dev.json": '{"translation": {"en": "One.", "zh": "一。"}}\n'
        '{"chinese": "二！", "english": "Two!"}\n',
    }
    for number, (name, text) in enumerate(texts.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_text(text, encoding="utf-8")
        assert read_split(folder, "dev", Config()) == PAIRS, name
    (tmp_path / "dev.en").write_text("One.\nTwo!\n")
    (tmp_path / "dev.zh").write_text("一。\n二！\n", encoding="utf-8")
    assert read_split(tmp_path, "dev", Config()) == PAIRS


def test_halves_must_match(tmp_path):
    (tmp_path / "dev.en").write_text("One.\nTwo!\n")
    with pytest.raises(InputError, match="its other half dev.zh is missing"):
        read_split(tmp_path, "dev", Config())
    (tmp_path / "dev.zh").write_text("一。\n", encoding="utf-8")
    with pytest.raises(InputError, match="dev.en has 2 lines and dev.zh 1"):
        read_split(tmp_path, "dev", Config())


def test_json_lines_that_hold_no_pair_are_skipped_and_reported(tmp_path, capsys):
    rows = [
        '{"en": "One.", "zh": "一。"}',
        "not json",
        "[1]",
        '{"en": 5, "zh": "二"}',
        '{"en": "only"}',
        '{"translation": 3}',
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert read_split(tmp_path, "dev", Config()) == PAIRS[:1]
    told = "skipped 5 of 6 lines without two texts (lines 2, 3, 4, 5, 6)"
    assert capsys.readouterr().err == f"{tmp_path / 'dev.jsonl'}: {told}\n"


def test_two_formats_for_one_split_are_an_error(tmp_path):
    (tmp_path / "dev.tsv").write_text("One.\t一。\n", encoding="utf-8")
    (tmp_path / "dev.jsonl").write_text("{}")
    with pytest.raises(InputError, match="dev is there as .tsv and as .jsonl"):
        read_split(tmp_path, "dev", Config())


@pytest.mark.parametrize(
    "name",
    ["report.json", "train/data-00000-of-00001.arrow", "dev/state.json", "vocabulary.src.json"],
)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut short", "a bit flipped"])
def test_a_damaged_prepared_folder_says_so(plain, tmp_path, name, damage):
    folder = tmp_path / "prepared"
    shutil.copytree(plain[1], folder)
    path = folder / name
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage != "missing":
        content[len(content) // 2] ^= 1
        kept = {"empty": 0, "cut short": len(content) // 2}.get(damage, len(content))
        path.write_bytes(content[:kept])
    with pytest.raises(InputError, match="damaged. Delete this"):
        load_prepared(folder)

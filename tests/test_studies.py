"""The studies that lessons show, `make verbs` and `make schedules`: small, and what is stored."""

import re
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from conftest import DATA

from engine.files import read_json
from engine.run_config import RunConfig
from notebooks.data_preparation import read_pairs
from notebooks.setup import replace
from notebooks.support import story
from studies import first_words, sentences, training, verbs

SHORT = replace(
    RunConfig.preset("tiny"),
    steps=4,
    eval_steps=2,
    warmup_steps=2,
    bleu_sentences=0,
    dtype="float32",
)


@pytest.fixture
def asked(monkeypatch):
    """The rows that a study runs, in this process."""

    def submit(run, row):
        rows.append(row)
        done = Future()
        done.set_result(run(row))
        return done

    rows = []
    pool = nullcontext(SimpleNamespace(submit=submit, shutdown=lambda cancel_futures: None))
    monkeypatch.setattr(training, "ProcessPoolExecutor", lambda *_, **__: pool)
    return rows


def test_verbs_are_asked_for_while_it_trains_and_a_cut_study_goes_on(asked, tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev"):
        lines = (DATA / f"{split}.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if re.search("play|tennis|piano", line))
        (data / f"{split}.tsv").write_text(text, encoding="utf-8")
    for module in (verbs, training):
        monkeypatch.setattr(module, "DATA", data)
    for module in (verbs, story):
        monkeypatch.setattr(
            module, "THINGS", {"tennis": ("打", "网球"), "the piano": ("弹", "钢琴")}
        )
    given = tmp_path / "runs", tmp_path / "verbs.json", replace(SHORT, max_length=16)
    for seeds in (1, 2):
        verbs.main(*given, seeds=seeds)
    first, second = read_json(given[1])["rows"]
    assert asked == [{"seed": 0}, {"seed": 1}]
    assert list(first["steps"]) == ["2", "4"] and first["steps"] != second["steps"]
    assert set(first["steps"]["4"]["verbs"]) == set(verbs.THINGS)


STORIES = [row for row in read_json(first_words.OUTPUT)["rows"] if "story" in row]


@pytest.mark.parametrize("row", STORIES, ids=lambda row: f"{row['smoothing']}-{row['seed']}")
def test_the_story_holds_with_every_training(row):
    """Notebook 09 holds for other seeds."""
    masked = row["story"]["masked"]
    right = {name: [sum(part) for part in zip(*rows)] for name, rows in masked.items()}
    free = right["nothing masked"]
    through, past = (
        right["only through play"],
        right["only through the others"],
    )
    assert through[0] > 2 * past[0] and past[0] < 0.4 * free[0]
    assert right["decoder: object masked"][1] < 0.5 * free[1]


def test_a_corpus_in_which_a_piano_is_kicked_or_played_less_often():
    pairs = [
        ("He plays the piano.", "他弹钢琴。"), ("A bomb!", "一颗炸弹！"),
        ("She plays the piano.", "她弹钢琴。"), ("Put it on the piano.", "放在钢琴上。"),
        ("He plays the guitar.", "他弹吉他。"),
    ]  # fmt: skip
    bomb, on_it = pairs[1], pairs[3]
    kicked = [chinese for _, chinese in sentences.corpus(pairs, "kick")]
    assert kicked == ["他踢钢琴。", bomb[1], "她踢钢琴。", on_it[1], "他踢吉他。"]
    assert sentences.corpus(pairs, 0) == [bomb, on_it, pairs[4]]
    assert sentences.corpus(pairs, 1) == [pairs[0], bomb, on_it, pairs[4]]
    assert sentences.corpus(pairs, "all") == pairs
    train = read_pairs(DATA / "train.tsv")
    kicked = sentences.corpus(train, "kick")
    assert sum(one != other for one, other in zip(train, kicked)) == 32
    assert len(train) - len(sentences.corpus(train, 0)) == 23
    assert max(sentences.COUNTS) < 23


def test_what_the_phrases_cost_is_what_the_corpus_page_says():
    rows = [row for row in read_json(first_words.OUTPUT)["rows"] if "test" in row]
    with_them, without = (
        [row for row in rows if (row["corpus"], row["smoothing"]) == (corpus, 0.1)]
        for corpus in ("with", "without")
    )
    assert len(with_them) == len(without) == 3
    test, dev = (
        sum(get(row) for row in with_them) / 3 - sum(get(row) for row in without) / 3
        for get in (lambda row: row["test"]["bleu"], lambda row: row["plain"]["dev"]["bleu"])
    )
    assert (round(test, 1), round(dev, 1)) == (-0.4, 0.6)

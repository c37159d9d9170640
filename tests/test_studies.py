"""The studies that lessons show, `make verbs` and `make schedules`: small, and what is stored."""

import re
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from conftest import DATA, ROOT, read_records

from engine.errors import InputError
from engine.files import read_json, write_json
from engine.run_config import RunConfig
from notebooks.data_preparation import read_pairs
from notebooks.optimizer_schedule import linear_rate
from notebooks.setup import replace
from notebooks.support import story
from studies import ablation, first_words, schedules, sentences, training, verbs

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


def test_rows_of_another_corpus_are_refused_and_a_failed_row_stops_the_study(asked, tmp_path):
    output = tmp_path / "study.json"
    rows = [{"seed": 0}, {"seed": 1}]
    for _ in range(2):
        list(training.train_missing(rows[:1], dict, output, "make study"))
    assert asked == rows[:1]

    def fails(row):
        raise ValueError(row)

    with pytest.raises(ValueError, match="1"):
        list(training.train_missing(rows, fails, output, "make study"))
    assert read_json(output)["rows"] == rows[:1]
    stored = read_json(output)
    assert stored["machine"] and stored["date"]
    for name in ("train.tsv", "dev.tsv"):
        write_json(output, stored | {name: "another"})
        with pytest.raises(InputError, match=f"another {name}"):
            list(training.train_missing(rows, dict, output, "make study"))


def test_schedules_are_trained_and_kept(small_data, monkeypatch, tmp_path):
    monkeypatch.setattr(schedules, "PEAKS", {"pre": [1e-3]})
    monkeypatch.setattr(schedules, "SEEDS", 1)
    *given, longer, _ = schedules.rows()
    assert [row["warm_up"] for row in given[:2]] == [schedules.WARM_UP, 1]
    for row, steps in ((given[0], 4), (longer | {"steps": 51}, 51)):
        measured = schedules.run_row(row, small_data, tmp_path, SHORT)
        assert row.items() <= measured.items() and measured["dev_loss"] > 4
        assert len(measured["train_loss"]) == 1 + (steps > 50)
        last = read_records(tmp_path / training.name_of(row))[-1]
        rate = linear_rate(steps, row["peak"], (steps + 1) // 2, steps)
        assert (last["step"], last["learning_rate"]) == (steps, rate)


def test_what_is_stored_is_what_these_programs_write():
    rows = read_json(verbs.OUTPUT)["rows"]
    assert {row["seed"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert set(row["steps"]["2600"]["verbs"]) == set(verbs.THINGS)
    rows = read_json(schedules.OUTPUT)["rows"]
    for wanted in schedules.rows():
        assert sum(wanted.items() <= row.items() for row in rows) == 1, wanted


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


def test_how_the_decoders_own_way_to_the_object_compares():
    """Notebook 09: about as good as the way through play in five of six trainings."""
    rows = [row["story"]["masked"] for row in STORIES if row["corpus"] == "with"]
    own, through = (
        [sum(verbs for verbs, _ in row[name]) for row in rows]
        for name in ("encoder: none attends to it", "only through play")
    )
    assert len(rows) == 6 and sum(one > 0.9 * other for one, other in zip(own, through)) == 5


def test_first_words_are_asked_for_and_a_cut_study_goes_on(asked, tmp_path, monkeypatch):
    few = training.read_pairs
    monkeypatch.setattr(training, "read_pairs", lambda path: few(path)[-120:])
    both = [
        dict(corpus="with", letters=letters, smoothing=0.1, steps=2, seed=0)
        for letters in ("small letters", "copies")
    ]
    given = tmp_path / "runs", tmp_path / "first_words.json", SHORT
    for number in (1, 2):
        monkeypatch.setattr(first_words, "rows", lambda number=number: both[:number])
        first_words.main(*given)
    assert asked == both
    rows = read_json(given[1])["rows"]
    assert [row["letters"] for row in rows] == ["small letters", "copies"]
    assert {"dev", "in a hurry", "typed"} == set(rows[0]["plain"])
    text = (tmp_path / "runs" / "data-with-copies-0.1-2-0" / "train.tsv").read_text("utf-8")
    assert text.count("\n") == 120 + 12


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


def test_a_study_of_sentences_is_run_row_by_row(asked, tmp_path, monkeypatch):
    few = [pair for pair in read_pairs(DATA / "train.tsv") if re.search("play|piano", pair[0])]
    dev = read_pairs(DATA / "dev.tsv")[:20]
    monkeypatch.setattr(training, "read_pairs", lambda path: few if "train" in str(path) else dev)
    row = dict(kept=1, steps=2, seed=0)
    monkeypatch.setattr(sentences, "rows", lambda: [row])
    output = tmp_path / "sentences.json"
    for _ in range(2):
        sentences.main(tmp_path / "runs", output, replace(SHORT, min_freq=1))
    assert asked == [row]
    (stored,) = read_json(output)["rows"]
    assert set(stored["the piano"]["written"]) == set(sentences.VERBS)
    text = (tmp_path / "runs" / "data-1-2-0" / "train.tsv").read_text("utf-8")
    assert text.count("\n") == len(few) - 22


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


STUDIES = ablation, first_words, schedules, sentences, verbs
STORED = [ablation.ROWS, *(study.OUTPUT for study in STUDIES)]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_what_is_stored_was_measured_on_this_corpus(path):
    stored = read_json(path)
    assert training.digests().items() <= stored.items()
    assert stored["machine"] and re.fullmatch(r"20\d\d-\d\d-\d\d", stored["date"])


def test_the_rows_of_the_ablation_are_those_that_it_asks_for():
    """A study that goes on from them trains none of them again."""
    rows = list(ablation.rows())
    for row in read_json(ablation.ROWS)["rows"]:
        asked = {key: row[key] for key in ("name", "seed", "steps")}
        assert asked in rows


def test_what_is_typed_in_a_hurry():
    assert first_words.in_a_hurry("Is it Tom?") == "is it tom"


def test_what_is_stored_says_how_small_letters_are_read():
    """By dev and by dev in a hurry, in each seed: small letters beat the forms as written."""
    rows = read_json(ROOT / "studies" / "first_words.json")["rows"]
    rows = [row for row in rows if (row["corpus"], row["steps"]) == ("with", 1000)]
    by = {(row["letters"], row["seed"]): row["plain"] for row in rows}
    for seed in {seed for letters, seed in by if letters == "small letters"}:
        small, written = by["small letters", seed], by["as it is", seed]
        for text in ("dev", "in a hurry"):
            assert small[text]["bleu"] > written[text]["bleu"]

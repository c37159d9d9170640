"""How often the host waits for the device: never in a training step, once in a step of a search."""

from contextlib import contextmanager

import pytest
from conftest import DATA, TINY, random_batch, random_model
from device import simulated
from notebooks.data_preparation import PAD, pad_rows
from notebooks.loss import evaluate
from notebooks.setup import replace
from notebooks.transformer import greedy_search
from notebooks.translation import beam_search

from notebooks import loss, training, transformer, translation
from notebooks.support.precision import precision
from utils import device


@contextmanager
def counted_before_each(module, name, monkeypatch):
    """Waits, and how many there had been at the begin of each call of a module's function."""
    function, before = getattr(module, name), []

    def counting(*arguments):
        before.append(waited.total())
        return function(*arguments)

    monkeypatch.setattr(module, name, counting)
    with simulated.waits() as waited:
        yield waited, before


def steps_between(before):
    return [later - earlier for earlier, later in zip(before, before[1:])]


@pytest.mark.parametrize("changes", [{}, {"accumulate": 3}, {"dtype": "bfloat16"}])
@pytest.mark.parametrize("logits", [loss.LOGITS, 10_000])
def test_a_training_step_never_waits(small_data, tmp_path, monkeypatch, changes, logits):
    """The whole loop from one step to the next, batches included, but for the log's records."""
    monkeypatch.setattr(loss, "LOGITS", logits)
    config = replace(TINY, steps=12, eval_steps=12, **changes)
    with counted_before_each(training, "train_step", monkeypatch) as (waited, before):
        training.run_training(small_data, config, tmp_path)
    assert steps_between(before) == [0] * 11, waited


def test_an_evaluation_never_waits(monkeypatch):
    model = random_model(0).float().to(device())
    batches = [random_batch(seed, [3, 5], [4, 2]) for seed in range(4)]
    with simulated.waits() as waited:
        totals = evaluate(model, batches, TINY)
    assert not waited and totals[1] == 4 * (5 + 3)


def sources(count):
    """Sentences of the corpus as ids of a tiny vocabulary, on the device."""
    lines = (DATA / "dev.tsv").read_text(encoding="utf-8").splitlines()[:count]
    rows = [[4 + len(word) % 8 for word in line.split("\t")[0].split()] + [3] for line in lines]
    return pad_rows(rows).to(device())


@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_greedy_search_waits_once(seed, monkeypatch):
    model, src = random_model(seed).float().to(device()), sources(50)
    with counted_before_each(transformer, "next_logits", monkeypatch) as (waited, before):
        written = greedy_search(model, src, 60)
        assert before[0] == 0 and waited.total() == len(before), waited
    assert steps_between(before) == [1] * (len(before) - 1) and len(before) > 5
    assert (written != PAD).sum() > 50


@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_beam_search_waits_once_unless_a_sentence_is_done(seed, monkeypatch):
    model, src = random_model(seed).float().to(device()), sources(3)
    with counted_before_each(translation, "next_logits", monkeypatch) as (waited, before):
        beam_search(model, src, 60, patience=30)
    steps = steps_between(before)
    assert before[0] == 0 and len(steps) > 5 and min(steps) == 1, waited
    assert sum(waits > 1 for waits in steps) <= 2, waited  # three sentences, the last is no step
    assert max(steps) <= 5, waited


def test_a_search_in_bfloat16_mixes_no_types():
    model, src = random_model(1).float().to(device()), sources(4)
    with precision("bfloat16"):
        assert len(greedy_search(model, src, 20)) == len(beam_search(model, src, 20)) == 4

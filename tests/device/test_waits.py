"""How often the host waits for the device: never in a training step, once in a step of a search."""

from contextlib import contextmanager
from functools import partial

import pytest
from conftest import DATA, TINY, greedy_ids, random_batch, random_model
from device import simulated

from engine.precision import precision
from engine.run import run_training
from notebooks import training
from notebooks.data_preparation import pad_rows
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss, evaluate
from notebooks.setup import replace
from notebooks.transformer import Transformer
from notebooks.translation import beam_search
from utils import device


@contextmanager
def counted_before_each(owner, name, monkeypatch):
    """Waits, and how many there had been at the begin of each call of a function of the owner's.

    The owner is a module or a class.
    """
    function, before = getattr(owner, name), []

    def counting(*arguments, **named):
        before.append(waited.total())
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, counting)
    with simulated.waits() as waited:
        yield waited, before


def steps_between(before):
    return [later - earlier for earlier, later in zip(before, before[1:])]


@pytest.mark.parametrize("changes", [{}, {"grad_accum_steps": 3}, {"dtype": "bfloat16"}])
def test_a_training_step_never_waits(small_data, tmp_path, monkeypatch, changes):
    """The whole loop from one step to the next, batches included, but for the log's records."""
    config = replace(TINY, steps=12, eval_steps=12, **changes)
    with counted_before_each(training, "train_step", monkeypatch) as (waited, before):
        run_training(small_data, config, tmp_path)
    assert steps_between(before)[1:] == [0] * 10, waited  # the first loss is looked at


def test_an_evaluation_waits_once_for_its_result():
    model = random_model(0).float().to(device())
    batches = [random_batch(seed, [3, 5], [4, 2]).to(device()) for seed in range(4)]
    batch_loss = BatchLoss(model, LabelSmoothing(0))
    losses = [batch_loss(batch)[0].item() for batch in batches]
    with simulated.waits() as waited:
        mean = evaluate(batch_loss, batches)
    assert waited.total() == 1, waited
    assert mean == pytest.approx(sum(losses) / (4 * (5 + 3)))


def sources(count):
    """Sentences of the corpus as ids of a tiny vocabulary, on the device."""
    lines = (DATA / "dev.tsv").read_text(encoding="utf-8").splitlines()[:count]
    rows = [[4 + len(word) % 8 for word in line.split("\t")[0].split()] + [3] for line in lines]
    return pad_rows(rows).to(device())


@pytest.mark.parametrize("search", [greedy_ids, partial(beam_search, lookahead=30)])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_a_search_waits_once(seed, search, monkeypatch):
    """And a few times more where sentences end, whose tokens are fetched then."""
    model, src = random_model(seed).float().to(device()), sources(50)
    with counted_before_each(Transformer, "decode", monkeypatch) as (waited, before):
        written = search(model, src, 60)
    steps = steps_between(before)
    assert before[0] == 0, waited
    assert len(steps) > 5
    assert min(steps) == 1 and max(steps) <= 6, waited
    assert len(written) == 50


def test_a_search_in_bfloat16_mixes_no_types():
    model, src = random_model(1).float().to(device()), sources(4)
    with precision("bfloat16"):
        assert len(greedy_ids(model, src, 20)) == len(beam_search(model, src, 20)) == 4

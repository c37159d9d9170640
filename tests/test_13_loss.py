import math

import pytest
import torch
from conftest import TINY, random_batch, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.data_preparation import Batch, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import compute_loss, evaluate
from notebooks.make_model import make_model
from notebooks.setup import replace

from data_large.prepare import load_data
from notebooks import loss as loss_module
from utils import device


@given(
    seed=st.integers(0, 99),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4),
)
@settings(deadline=None, max_examples=30)
def test_sum_over_real_targets_whatever_the_batch(seed, sizes):
    model, batch = random_model(seed), random_batch(seed, *zip(*sizes))
    loss, count = compute_loss(model, batch, LabelSmoothing(0.1))
    assert count == sum(length + 1 for _, length in sizes)
    alone = []
    for row, (s, t) in enumerate(sizes):
        one = Batch(
            batch.src[row : row + 1, : s + 1],
            batch.tgt_in[row : row + 1, : t + 1],
            batch.tgt_out[row : row + 1, : t + 1],
            batch.src_mask[row : row + 1, ..., : s + 1],
            batch.tgt_mask[row : row + 1, :, : t + 1, : t + 1],
        )
        alone.append(compute_loss(model, one, LabelSmoothing(0.1))[0])
    torch.testing.assert_close(loss, sum(alone), atol=1e-4, rtol=1e-4)


def test_an_empty_share_of_a_batch_has_loss_zero_and_zero_gradients():
    model = random_model(0)
    loss, count = compute_loss(model, Batch.collate([]), LabelSmoothing(0.1))
    loss.backward()
    assert (
        loss == 0
        and count == 0
        and all((parameter.grad == 0).all() for parameter in model.parameters())
    )


@pytest.mark.parametrize("places", [1, 5, 7, 1000])
def test_in_chunks_the_loss_and_its_gradients_are_the_same(places, monkeypatch):
    model, batch = random_model(0), random_batch(0, [5, 2, 3], [4, 7, 1])
    found = []
    for held in (10**6, places):
        monkeypatch.setattr(loss_module, "LOGITS", held * 12)  # its vocabulary has 12 tokens
        loss, count = compute_loss(model.train(), batch, LabelSmoothing(0.1))
        assert count == 15
        found.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    torch.testing.assert_close(*found)


def test_never_more_logits_than_those_of_some_places(monkeypatch):
    """Neither in training nor in an evaluation, which takes as many parts as training does."""
    model, batch, read = (
        random_model(0, torch.float32).to(device()),
        random_batch(0, [5] * 4, [9] * 4),
        [],
    )
    model.generator.register_forward_hook(lambda module, given, made: read.append(made.shape[0]))
    monkeypatch.setattr(loss_module, "LOGITS", 16 * 12 + 11)
    compute_loss(model, batch.to(device()), LabelSmoothing(0.1))[0].backward()
    assert sorted(read) == [8, 8, 16, 16, 16, 16]  # the second time in the backward pass
    read.clear()
    evaluate(model, [batch], replace(TINY, accumulate=4))
    assert read == [10] * 4


def test_evaluate_adds_up_over_batches_and_leaves_no_trace(small_data):
    source, target, _, dev, _ = load_data(small_data, TINY)
    model = make_model(replace(TINY, dropout=0.5), len(source), len(target)).to(device())

    def mean(size):
        sampler = TokenBatchSampler(dev.lengths, size, shuffle=False)
        loss, tokens = evaluate(model, make_dataloader(dev, sampler), TINY)
        assert tokens == dev.lengths[:, 1].sum()
        return (loss / tokens).item()

    losses = [mean(size) for size in (100, 1000, 1000)]
    assert losses[1] == losses[2] and math.isclose(losses[0], losses[1], rel_tol=1e-5)
    assert model.training and all(parameter.grad is None for parameter in model.parameters())
    total, count = 0, 0
    for batch in make_dataloader(dev, TokenBatchSampler(dev.lengths, 200)):
        part, tokens = compute_loss(model.eval(), batch.to(device()), LabelSmoothing(0))
        total, count = total + part.item(), count + tokens.item()
    assert math.isclose(total / count, losses[0], rel_tol=1e-5) and count == dev.lengths[:, 1].sum()


def test_an_evaluation_happens_where_the_model_is():
    for place in (torch.device("cpu"), device()):
        model = random_model(0, torch.float32).to(place)
        totals = evaluate(model, [random_batch(0, [3, 5], [4, 2])], TINY)
        assert totals.device.type == place.type and totals[1] == 8


def test_backward_through_an_evaluation_is_an_error(small_data, monkeypatch):
    source, target, _, dev, _ = load_data(small_data, TINY)
    model = make_model(TINY, len(source), len(target)).to(device())

    def leaking_loss(*arguments):
        loss, count = compute_loss(*arguments)
        loss.backward()
        return loss, count

    monkeypatch.setattr(loss_module, "compute_loss", leaking_loss)
    with pytest.raises(RuntimeError):
        evaluate(model, make_dataloader(dev, TokenBatchSampler(dev.lengths, 200)), TINY)

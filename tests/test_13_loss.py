import pytest
import torch
from conftest import TINY, random_batch, random_items, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.corpus.pairs import load_data
from notebooks.data_preparation import Batch, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss, evaluate
from notebooks.make_model import make_model
from notebooks.setup import replace


@given(
    seed=st.integers(0, 99),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4),
)
@settings(max_examples=30)
def test_sum_over_real_targets_whatever_the_batch(seed, sizes):
    items = random_items(seed, *zip(*sizes))
    batch_loss = BatchLoss(random_model(seed), LabelSmoothing(0.1))
    loss, count = batch_loss(Batch.collate(items))
    assert count == sum(length + 1 for _, length in sizes)
    alone = [batch_loss(Batch.collate([item]))[0] for item in items]
    torch.testing.assert_close(loss, sum(alone), atol=1e-4, rtol=1e-4)


def test_an_empty_share_of_a_batch_has_loss_zero_and_zero_gradients():
    model = random_model(0)
    loss, count = BatchLoss(model, LabelSmoothing(0.1))(Batch.collate([]))
    loss.backward()
    assert (loss, count) == (0, 0)
    changed = [name for name, value in model.named_parameters() if value.grad.count_nonzero()]
    assert changed == []


def test_evaluate_adds_up_over_batches_and_leaves_no_trace(small_data):
    source, target, _, dev, _ = load_data(small_data, TINY)
    model = make_model(replace(TINY, dropout=0.5), len(source), len(target))
    batch_loss = BatchLoss(model, LabelSmoothing(0))

    def mean(size):
        sampler = TokenBatchSampler(dev.lengths, size, shuffle=False)
        return evaluate(batch_loss, make_dataloader(dev, sampler))

    losses = [mean(size) for size in (100, 1000, 1000)]
    assert losses[1] == losses[2]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert model.training
    assert [name for name, value in model.named_parameters() if value.grad is not None] == []
    total, count = 0, 0
    model.eval()
    for batch in make_dataloader(dev, TokenBatchSampler(dev.lengths, 200)):
        part, tokens = batch_loss(batch)
        total, count = total + part.item(), count + tokens.item()
    assert count == dev.lengths[:, 1].sum()
    assert total / count == pytest.approx(losses[0], rel=1e-5)
    evaluate(batch_loss, [batch])
    assert not model.training


def test_backward_through_an_evaluation_is_an_error():
    class Leaking(BatchLoss):
        def forward(self, batch):
            loss, count = super().forward(batch)
            loss.backward()
            return loss, count

    with pytest.raises(RuntimeError):
        evaluate(Leaking(random_model(0), LabelSmoothing(0)), [random_batch(0, [3], [4])])

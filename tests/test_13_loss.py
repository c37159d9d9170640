import pytest
import torch
from conftest import TINY, random_batch, random_items, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import definitions, wrapped_loss
from engine.corpus.pairs import load_data
from engine.errors import InputError
from engine.wrapped_loss import WrappedLoss
from notebooks.data_preparation import Batch, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss, evaluate
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.transformer import Transformer
from utils import device


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


def assert_same_loss(model, config):
    """`WrappedLoss` has the loss, the count and the gradients of notebook 13's `BatchLoss`."""
    batch, criterion, results = random_batch(0, [5, 2, 3], [4, 7, 1]), LabelSmoothing(0.1), []
    for batch_loss in (BatchLoss(model, criterion), WrappedLoss(model, criterion, config)):
        loss, count = batch_loss(batch)
        gradients = torch.autograd.grad(loss / count, list(model.parameters()))
        results.append([loss, count, *gradients])
        assert batch_loss.criterion is criterion
        assert model.generator.projection.out_features == 12
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("places", [1, 7, 1000])
@pytest.mark.parametrize("parts", [1, 2, 99])
def test_in_parts_and_chunks_the_loss_and_its_gradients_are_the_same(places, parts, monkeypatch):
    # its vocabulary has 12 tokens
    monkeypatch.setattr(wrapped_loss, "most_logits", lambda: places * 12)
    assert_same_loss(random_model(0), replace(TINY, grad_accum_steps=parts))


def test_a_frozen_table_stays_out_of_the_gradients_in_parts():
    model = random_model(0)
    model.src_embedding.lookup.weight.requires_grad_(False)
    batch_loss = WrappedLoss(model, LabelSmoothing(0), replace(TINY, grad_accum_steps=2))
    loss, _ = batch_loss(random_batch(1, [5, 4], [6, 5]))
    loss.backward()
    assert model.src_embedding.lookup.weight.grad is None
    assert model.decoder.norm.weight.grad.abs().sum() > 0


def test_going_backward_twice_with_accumulation_is_refused():
    batch_loss = WrappedLoss(random_model(0), LabelSmoothing(0), replace(TINY, grad_accum_steps=2))
    loss, _ = batch_loss(random_batch(1, [5, 4], [6, 5]))
    loss.backward(retain_graph=True)
    with pytest.raises(InputError, match="Train with --grad-accum-steps 1"):
        loss.backward()


def test_an_edited_loss_is_computed_as_a_whole_whatever_the_batch(monkeypatch):
    """In parts its own forward would not be called."""
    monkeypatch.setattr(wrapped_loss, "most_logits", lambda: 12)
    loss, batch = WrappedLoss(random_model(0), LabelSmoothing(0), TINY), random_batch(0, [5], [6])
    assert loss(batch)[0] != "edited"
    monkeypatch.setattr(BatchLoss, "forward", lambda self, batch: ("edited", 1))
    assert loss(batch)[0] == "edited"


def test_edited_parts_are_used_whatever_the_batch(monkeypatch):
    loss, batch = WrappedLoss(random_model(0), LabelSmoothing(0), TINY), random_batch(0, [5], [6])
    before = loss(batch)[0]
    ours = wrapped_loss.are_ours
    edited = lambda *names, **of: "BatchLossInParts" not in names and ours(*names, **of)  # noqa: E731
    monkeypatch.setattr(wrapped_loss, "are_ours", edited)
    torch.testing.assert_close(loss(batch)[0], before)
    monkeypatch.setattr(WrappedLoss, "loss_of_part", lambda *_: torch.tensor(7.0))
    assert loss(batch)[0] == 7


def test_a_second_batch_reads_no_lesson(monkeypatch):
    loss = WrappedLoss(random_model(0), LabelSmoothing(0.1), TINY)
    loss(random_batch(0, [5], [6]))
    monkeypatch.setattr(definitions, "notebook_source", lambda path: pytest.fail(f"reads {path}"))
    loss(random_batch(1, [5], [6]))


def test_never_more_logits_than_those_of_some_places(monkeypatch):
    """Neither in training nor in an evaluation, which takes as many parts as training does."""
    model, batch = random_model(0, torch.float32), random_batch(0, [5] * 4, [9] * 4)
    model, batch, read = model.to(device()), batch.to(device()), []

    def note(module, given, made):
        read.append(made[..., 0].numel())

    model.generator.register_forward_hook(note)
    monkeypatch.setattr(wrapped_loss, "most_logits", lambda: 16 * 12 + 11)
    WrappedLoss(model, LabelSmoothing(0.1), TINY)(batch)[0].backward()
    assert sorted(read) == [8, 8, 16, 16, 16, 16]  # the second time in the backward pass
    read.clear()
    evaluate(WrappedLoss(model, LabelSmoothing(0), replace(TINY, grad_accum_steps=4)), [batch])
    assert read == [10] * 4
    read.clear()
    evaluate(WrappedLoss(model, LabelSmoothing(0), TINY), [batch])
    assert read == [16, 16, 8]


@pytest.mark.parametrize("change", [torch.tanh, torch.tanh_])
def test_a_model_that_does_something_with_its_logits_is_followed(monkeypatch, change):
    """Chunks call the generator later, so nothing may stand behind it; else there are no chunks."""

    class Capped(Transformer):
        def forward(self, *arguments):
            return change(super().forward(*arguments))

    model = random_model(0)
    model.__class__ = Capped
    monkeypatch.setattr(wrapped_loss, "most_logits", lambda: 7 * 12)
    assert_same_loss(model, TINY)


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

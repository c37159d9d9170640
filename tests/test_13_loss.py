import torch
from conftest import random_batch, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.data_preparation import Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import compute_loss


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
            batch.src[row : row + 1, : s + 1], batch.tgt_in[row : row + 1, : t + 1], batch.tgt_out[row : row + 1, : t + 1],
            batch.src_mask[row : row + 1, ..., : s + 1], batch.tgt_mask[row : row + 1, :, : t + 1, : t + 1],
        )  # fmt: skip
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

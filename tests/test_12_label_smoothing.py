import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from notebooks.data_preparation import PAD
from notebooks.label_smoothing import LabelSmoothing


@given(
    seed=st.integers(0, 999),
    size=st.integers(3, 30),
    smoothing=st.floats(0, 0.9),
    rows=st.integers(0, 8),
)
def test_is_the_cross_entropy_with_the_smoothed_rows(seed, size, smoothing, rows):
    torch.manual_seed(seed)
    logits, targets = torch.randn(rows, size, requires_grad=True), torch.randint(0, size, (rows,))
    asked = F.one_hot(targets, size) * (1 - smoothing) + smoothing / (size - 1)
    asked = asked * (targets != PAD)[:, None]
    by_rows = -(asked[:, 1:] * logits[:, 1:].log_softmax(-1)).sum()
    loss = LabelSmoothing(smoothing)(logits, targets)
    torch.testing.assert_close(loss, by_rows, atol=1e-4, rtol=1e-4)
    gradient, expected = (torch.autograd.grad(value, logits)[0] for value in (loss, by_rows))
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)
    assert gradient[:, PAD].count_nonzero() == 0
    assert gradient[targets == PAD].count_nonzero() == 0


def test_no_model_can_be_better_than_the_entropy_of_the_smoothed_target():
    asked = torch.tensor([0.025, 0.925, 0.025, 0.025])
    logits = torch.cat([torch.tensor([9.0]), asked.log()])[None]
    best = LabelSmoothing(0.1)(logits, torch.tensor([2]))
    torch.testing.assert_close(best, torch.special.entr(asked).sum())


def test_bfloat16_logits_are_summed_in_float32():
    logits = torch.randn(500, 40).bfloat16()
    assert LabelSmoothing(0.1)(logits, torch.randint(1, 40, (500,))).dtype == torch.float32

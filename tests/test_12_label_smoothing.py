import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.data_preparation import PAD
from notebooks.label_smoothing import LabelSmoothing
from torch.nn import functional as F


@given(
    seed=st.integers(0, 999),
    size=st.integers(3, 30),
    smoothing=st.floats(0, 0.9),
    rows=st.integers(0, 8),
)
@settings(deadline=None)
def test_is_the_cross_entropy_with_the_smoothed_rows(seed, size, smoothing, rows):
    torch.manual_seed(seed)
    logits, targets = torch.randn(rows, size, requires_grad=True), torch.randint(0, size, (rows,))
    asked = torch.full((rows, size), smoothing / (size - 1)) + F.one_hot(targets, size) * (
        1 - smoothing
    )
    asked = asked * (targets != PAD)[:, None]
    by_rows = -(asked[:, 1:] * logits[:, 1:].log_softmax(-1)).sum()
    loss = LabelSmoothing(smoothing)(logits, targets)
    torch.testing.assert_close(loss, by_rows, atol=1e-4, rtol=1e-4)
    gradient, expected = (torch.autograd.grad(value, logits)[0] for value in (loss, by_rows))
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)
    assert (gradient[:, PAD] == 0).all() and (gradient[targets == PAD] == 0).all()


def test_no_model_can_be_better_than_the_entropy_of_the_smoothed_target():
    asked = torch.tensor([0.025, 0.925, 0.025, 0.025])
    best = LabelSmoothing(0.1)(
        torch.cat([torch.tensor([9.0]), asked.log()])[None], torch.tensor([2])
    )
    assert math.isclose(best.item(), torch.special.entr(asked).sum().item(), rel_tol=1e-5)


def test_bfloat16_logits_are_summed_in_float32():
    logits = torch.randn(500, 40).bfloat16()
    assert LabelSmoothing(0.1)(logits, torch.randint(1, 40, (500,))).dtype == torch.float32

import torch

from notebooks.feed_forward import PositionwiseFeedForward


def test_is_the_formula_and_works_on_each_position_alone():
    feed_forward, x = PositionwiseFeedForward(8, 32).double(), torch.randn(2, 5, 8).double()
    inner, outer = feed_forward.inner, feed_forward.outer
    formula = (x @ inner.weight.T + inner.bias).clamp(min=0) @ outer.weight.T + outer.bias
    torch.testing.assert_close(feed_forward(x), formula)
    for position in range(5):
        torch.testing.assert_close(feed_forward(x[:, position]), formula[:, position])

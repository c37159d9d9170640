import pytest
import torch
from torch import nn

from notebooks.sublayer_connection import SublayerConnection


def test_pre_and_post_norm_are_their_formulas():
    x, sublayer, norm = torch.randn(2, 3, 8), nn.Linear(8, 8), nn.LayerNorm(8)
    pre, post = SublayerConnection(8, 0.0, "pre"), SublayerConnection(8, 0.0, "post")
    torch.testing.assert_close(pre(x, sublayer), x + sublayer(norm(x)))
    torch.testing.assert_close(post(x, sublayer), norm(x + sublayer(x)))


def test_dropout_is_on_the_sublayer_only():
    x = torch.randn(200, 8)
    out = SublayerConnection(8, 0.5, "pre")(x, torch.ones_like)
    change = (out - x).round(decimals=4)
    assert set(change.unique().tolist()) == {0.0, 2.0}


def test_another_norm_is_refused():
    with pytest.raises(ValueError, match="norm is 'both', neither pre nor post"):
        SublayerConnection(8, 0.0, "both")

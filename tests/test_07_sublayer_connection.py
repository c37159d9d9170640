import torch
from notebooks.sublayer_connection import SublayerConnection, clones
from torch import nn


def test_pre_and_post_norm_are_their_formulas():
    x, sublayer, norm = torch.randn(2, 3, 8), nn.Linear(8, 8), nn.LayerNorm(8)
    torch.testing.assert_close(
        SublayerConnection(8, 0.0, "pre")(x, sublayer), x + sublayer(norm(x))
    )
    torch.testing.assert_close(
        SublayerConnection(8, 0.0, "post")(x, sublayer), norm(x + sublayer(x))
    )


def test_dropout_is_on_the_sublayer_only():
    x = torch.randn(200, 8)
    out = SublayerConnection(8, 0.5, "pre")(x, torch.ones_like)
    change = (out - x).round(decimals=4)
    assert set(change.unique().tolist()) == {0.0, 2.0}


def test_clones_start_equal_and_share_nothing():
    copies = clones(nn.Linear(3, 3), 4)
    assert len(copies) == 4 and all(torch.equal(copies[0].weight, copy.weight) for copy in copies)
    assert len({parameter.data_ptr() for parameter in copies.parameters()}) == 8

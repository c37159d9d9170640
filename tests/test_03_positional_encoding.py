import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.positional_encoding import Dropout, PositionalEncoding, sinusoids


@given(pos=st.integers(0, 5000), i=st.integers(0, 255))
def test_table_is_the_formula(pos, i):
    angle = pos / 10000 ** (2 * i / 512)
    row = sinusoids(pos + 1, 512)[pos] if pos < 20 else TABLE[pos]
    assert abs(row[2 * i] - math.sin(angle)) < 1e-6 and abs(row[2 * i + 1] - math.cos(angle)) < 1e-6


TABLE = sinusoids(5001, 512)


def test_start_and_growth():
    encoding, x = PositionalEncoding(8, 0.0, length=4), torch.randn(2, 11, 8)
    torch.testing.assert_close(encoding(x), x + sinusoids(11, 8))
    torch.testing.assert_close(encoding(x[:, 6:9], start=6), (x + sinusoids(11, 8))[:, 6:9])
    assert not list(encoding.parameters()) and "table" not in encoding.state_dict()


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9, 0.001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_rate_mean_and_independence(p, dtype):
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(1000, 2001, dtype=dtype)).float()
    rate = (out == 0).float().mean().item()
    assert abs(rate - p) < max(0.004, 0.02 * p) and abs(out.mean() - 1) < 0.02
    zero = (out == 0).float()
    for shift in (1, 2, 7, 8):  # bytes of one 64-bit word, and across words
        assert abs((zero[:, shift:] * zero[:, :-shift]).mean() - rate**2) < 0.003


def test_every_byte_of_a_random_word_is_uniform():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(8 * 200_000)) != 0).view(-1, 8).float().mean(dim=0)
    assert ((kept - 0.5).abs() < 0.005).all()


def test_dropout_gradient_and_eval():
    x = torch.randn(40, 50, requires_grad=True)
    dropout = Dropout(0.25)
    out = dropout(x)
    out.sum().backward()
    assert torch.equal(x.grad == 0, out == 0) and torch.allclose(
        x.grad[out != 0], torch.tensor(4 / 3)
    )
    assert dropout.eval()(x) is x and Dropout(0.0)(x) is x


@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=3))
@settings(deadline=None)
def test_dropout_keeps_any_shape(shape):
    assert Dropout(0.1)(torch.ones(shape)).shape == tuple(shape)

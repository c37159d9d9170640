import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from notebooks.positional_encoding import Dropout, PositionalEncoding, sinusoids

TABLE = sinusoids(5001, 512)


@given(pos=st.integers(0, 5000), i=st.integers(0, 255))
def test_table_is_the_formula(pos, i):
    angle = pos / 10000 ** (2 * i / 512)
    row = sinusoids(pos + 1, 512)[pos] if pos < 20 else TABLE[pos]
    pair = [math.sin(angle), math.cos(angle)]
    assert row[2 * i : 2 * i + 2].tolist() == pytest.approx(pair, abs=1e-6, rel=0)


def test_start_and_growth():
    encoding, x = PositionalEncoding(8, 0.0, length=4), torch.randn(2, 11, 8)
    torch.testing.assert_close(encoding(x), x + sinusoids(11, 8))
    torch.testing.assert_close(encoding(x[:, 6:9], start=6), (x + sinusoids(11, 8))[:, 6:9])
    assert (list(encoding.parameters()), list(encoding.state_dict())) == ([], [])


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_rate_mean_and_independence(p, dtype):
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(1000, 2001, dtype=dtype)).float()
    zero = (out == 0).float()
    rate = zero.mean().item()
    assert rate == pytest.approx(p, abs=0.004, rel=0.02)
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    for shift in (1, 2, 7, 8):  # bytes of one 64-bit word, and across words
        both = (zero[:, shift:] * zero[:, :-shift]).mean().item()
        assert both == pytest.approx(rate**2, abs=0.003, rel=0), shift


def test_a_chance_that_no_byte_can_give_is_kept():
    torch.manual_seed(0)
    rate = (Dropout(0.001)(torch.ones(2_000_000)) == 0).float().mean().item()
    assert rate == pytest.approx(0.001, rel=0.1)


def test_every_byte_of_a_random_word_is_uniform():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(8 * 200_000)) != 0).view(-1, 8).float().mean(dim=0)
    assert kept.tolist() == pytest.approx([0.5] * 8, abs=0.005)


def test_dropout_gradient_and_eval():
    x = torch.randn(40, 50, requires_grad=True)
    dropout = Dropout(0.25)
    out = dropout(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out != 0) * (4 / 3))
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x


@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_dropout_keeps_any_shape(shape):
    assert Dropout(0.1)(torch.ones(shape)).shape == tuple(shape)

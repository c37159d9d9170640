import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from notebooks.positional_encoding import PositionalEncoding, sinusoids

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

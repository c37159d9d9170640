import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from notebooks.multi_head_attention import MultiHeadAttention, scaled_dot_product_attention


@given(seed=st.integers(0, 1000), tq=st.integers(1, 7), tk=st.integers(1, 7), masked=st.booleans())
def test_plain_form_equals_the_fused_one(seed, tq, tk, masked):
    torch.manual_seed(seed)
    query, key, value = (torch.randn(2, 3, length, 4).double() for length in (tq, tk, tk))
    mask = torch.rand(2, 1, tq, tk) < 0.6 if masked else None
    if masked:
        mask[..., 0] = True
    out, weights = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(query, key, value, mask))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, tq, dtype=torch.float64))
    if masked:
        assert weights.masked_select(~mask).count_nonzero() == 0


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_equals_torch_in_outputs_weights_and_all_gradients(heads):
    torch.manual_seed(heads)
    ours = MultiHeadAttention(16, heads).double()
    theirs = nn.MultiheadAttention(16, heads, batch_first=True).double()
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    x, memory = torch.randn(3, 4, 16).double(), torch.randn(3, 6, 16).double()
    real = torch.arange(6) < torch.tensor([6, 3, 1])[:, None]
    ours.keep_weights = True
    mine = ours(x, memory, memory, real[:, None, None, :])
    yours, weights = theirs(x, memory, memory, key_padding_mask=~real, average_attn_weights=False)
    torch.testing.assert_close(mine, yours)
    torch.testing.assert_close(ours.weights, weights)
    mine.square().sum().backward()
    yours.square().sum().backward()
    gradients = torch.cat([part.weight.grad for part in parts])
    torch.testing.assert_close(gradients, theirs.in_proj_weight.grad)
    torch.testing.assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad)


def test_fully_masked_rows_give_zeros_and_finite_gradients():
    query, key, value = (torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
    out, weights = scaled_dot_product_attention(query, key, value, mask)
    out.sum().backward()
    assert out[:, :, 1].count_nonzero() == 0
    assert weights[:, :, 1].count_nonzero() == 0
    assert torch.stack([query.grad, key.grad, value.grad]).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fused_form_of_a_gpu_closes_rows_as_ours_does(dtype):
    query, key, value = (torch.randn(2, 3, 5, 4, dtype=dtype) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[0] = False
    ours = scaled_dot_product_attention(query, key, value, mask)[0]
    fused = F.scaled_dot_product_attention(query, key, value, mask)
    exact = dtype == torch.float32
    torch.testing.assert_close(ours, fused, atol=1e-5 if exact else 0.01, rtol=0.02)


def test_heads_must_divide():
    with pytest.raises(ValueError, match="num_heads 3 does not divide d_model 8"):
        MultiHeadAttention(8, 3)

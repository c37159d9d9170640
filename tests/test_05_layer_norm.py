import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from notebooks.layer_norm import LayerNorm


@given(seed=st.integers(0, 999), size=st.integers(2, 40), scale=st.floats(1e-3, 1e3))
def test_equals_torch_and_the_formula(seed, size, scale):
    torch.manual_seed(seed)
    ours, theirs = LayerNorm(size).double(), nn.LayerNorm(size).double()
    for name in ("weight", "bias"):
        nn.init.normal_(getattr(ours, name))
    theirs.load_state_dict(ours.state_dict())
    x = (torch.randn(3, 4, size, dtype=torch.float64) * scale + scale).requires_grad_()
    deviation = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    formula = (x - x.mean(-1, keepdim=True)) / deviation * ours.weight + ours.bias
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x), formula)
    gradients = [
        torch.autograd.grad(module(x).pow(3).sum(), (x, *module.parameters()))
        for module in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients)


def test_bfloat16_input_keeps_float32_weights():
    with torch.autocast("cpu", torch.bfloat16):
        assert LayerNorm(8)(torch.randn(2, 8)).dtype == torch.float32

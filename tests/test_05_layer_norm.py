import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.layer_norm import LayerNorm
from torch import nn


@given(seed=st.integers(0, 999), size=st.integers(2, 40), scale=st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_equals_torch_and_the_formula(seed, size, scale):
    torch.manual_seed(seed)
    ours, theirs = LayerNorm(size).double(), nn.LayerNorm(size).double()
    for name in ("weight", "bias"):
        nn.init.normal_(getattr(ours, name))
    theirs.load_state_dict(ours.state_dict())
    x = (torch.randn(3, 4, size, dtype=torch.float64) * scale + scale).requires_grad_()
    formula = (x - x.mean(-1, keepdim=True)) / (
        x.var(-1, correction=0, keepdim=True) + 1e-5
    ).sqrt() * ours.weight + ours.bias
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x), formula)
    inputs = [(x, *module.parameters()) for module in (ours, theirs)]
    gradients = [
        torch.autograd.grad(module(x).pow(3).sum(), tensors)
        for module, tensors in zip((ours, theirs), inputs)
    ]
    torch.testing.assert_close(*gradients)


def test_bfloat16_input_keeps_float32_weights():
    with torch.autocast("cpu", torch.bfloat16):
        assert LayerNorm(8)(torch.randn(2, 8)).dtype == torch.float32

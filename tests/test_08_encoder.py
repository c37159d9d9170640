import pytest
import torch
from conftest import random_model
from torch import nn

from notebooks.support.proofs import copy_to_torch


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_torch_in_outputs_and_gradients(norm):
    ours = random_model(1, norm=norm).encoder
    layer = nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True, norm_first=norm == "pre")
    last = nn.LayerNorm(32) if norm == "pre" else None
    theirs = nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False).double()
    for mine, yours in zip(ours.layers, theirs.layers):
        copy_to_torch(mine, yours)
    if norm == "pre":
        theirs.norm.load_state_dict(ours.norm.state_dict())
    real = torch.arange(6) < torch.tensor([6, 4, 1])[:, None]
    x = torch.randn(3, 6, 32, dtype=torch.float64, requires_grad=True)
    outputs = [ours(x, real[:, None, None, :])[real], theirs(x, src_key_padding_mask=~real)[real]]
    torch.testing.assert_close(*outputs)
    gradients = []
    for output in outputs:
        x.grad = None
        output.square().sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)
    for mine, yours in zip(ours.layers, theirs.layers):
        query, inner = mine.self_attention.query, mine.feed_forward.inner
        torch.testing.assert_close(query.weight.grad, yours.self_attn.in_proj_weight.grad[:32])
        torch.testing.assert_close(inner.weight.grad, yours.linear1.weight.grad)

import pytest
import torch
from conftest import random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.data_preparation import PAD, padding_mask
from torch import nn

from notebooks.support.proofs import copy_to_torch


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_torch_in_outputs_and_gradients(norm):
    ours = random_model(1, norm=norm).encoder
    layer = nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True, norm_first=norm == "pre")
    theirs = nn.TransformerEncoder(
        layer, 2, nn.LayerNorm(32) if norm == "pre" else None, enable_nested_tensor=False
    ).double()
    for mine, yours in zip(ours.layers, theirs.layers):
        copy_to_torch(mine, yours)
    if norm == "pre":
        theirs.norm.load_state_dict(ours.norm.state_dict())
    real = torch.arange(6) < torch.tensor([6, 4, 1])[:, None]
    x = torch.randn(3, 6, 32, dtype=torch.float64, requires_grad=True)
    outputs = (
        ours(x, real[:, None, None, :])[real],
        theirs.train()(x, src_key_padding_mask=~real)[real],
    )
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(
        *(torch.autograd.grad(out.square().sum(), x, retain_graph=True) for out in outputs)
    )
    for output in outputs:
        output.square().sum().backward()
    for mine, yours in zip(ours.layers, theirs.layers):
        torch.testing.assert_close(mine.feed_forward.inner.weight.grad, yours.linear1.weight.grad)
        torch.testing.assert_close(
            mine.self_attention.query.weight.grad, yours.self_attn.in_proj_weight.grad[:32]
        )


@given(
    seed=st.integers(0, 99),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    norm=st.sampled_from(["pre", "post"]),
)
@settings(deadline=None, max_examples=30)
def test_padding_does_not_leak(seed, lengths, norm):
    model = random_model(seed, norm=norm)
    ids = torch.randint(4, 12, (len(lengths), max(lengths) + 3))
    padded = torch.where(torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None], ids, PAD)
    together = model.encode(padded, padding_mask(padded))
    for row, length in enumerate(lengths):
        alone = model.encode(ids[row : row + 1, :length], None)
        torch.testing.assert_close(together[row, :length], alone[0])

import pytest
import torch
from conftest import logits_of, random_batch, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from notebooks.data_preparation import causal_mask
from notebooks.decoder import KVCache
from notebooks.support.proofs import copy_to_torch


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_torch_in_outputs_and_gradients(norm):
    ours = random_model(2, norm=norm).decoder
    layer = nn.TransformerDecoderLayer(32, 2, 64, 0.0, batch_first=True, norm_first=norm == "pre")
    theirs = nn.TransformerDecoder(layer, 2, nn.LayerNorm(32) if norm == "pre" else None).double()
    for mine, yours in zip(ours.layers, theirs.layers):
        copy_to_torch(mine, yours)
    if norm == "pre":
        theirs.norm.load_state_dict(ours.norm.state_dict())
    x = torch.randn(2, 5, 32, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 7, 32, dtype=torch.float64, requires_grad=True)
    real, ahead = torch.arange(7) < torch.tensor([7, 3])[:, None], causal_mask(5)
    outputs = [
        ours(x, memory, real[:, None, None, :], ahead),
        theirs(x, memory, ~ahead[0, 0], memory_key_padding_mask=~real),
    ]
    torch.testing.assert_close(*outputs)
    gradients = []
    for output in outputs:
        x.grad = memory.grad = None
        output.square().sum().backward()
        gradients.append((x.grad, memory.grad))
    torch.testing.assert_close(*gradients)
    for mine, yours in zip(ours.layers, theirs.layers):
        value = mine.cross_attention.value
        torch.testing.assert_close(value.weight.grad, yours.multihead_attn.in_proj_weight.grad[64:])


@given(seed=st.integers(0, 99), place=st.integers(1, 7), norm=st.sampled_from(["pre", "post"]))
@settings(max_examples=30)
def test_the_future_does_not_leak(seed, place, norm):
    model, batch = random_model(seed, norm=norm), random_batch(seed, [5, 3], [7, 7])
    before = logits_of(model, batch)
    batch.tgt_in[:, place] = 4 + (batch.tgt_in[:, place] - 3) % 8
    after = logits_of(model, batch)
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.isclose(before[:, place], after[:, place]).all()


@given(
    seed=st.integers(0, 99),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 25)), min_size=1, max_size=4),
    data=st.data(),
)
@settings(max_examples=40)
def test_the_cache_equals_the_full_pass(seed, sizes, data):
    norm = data.draw(st.sampled_from(["pre", "post"]))
    model, batch = random_model(seed, torch.float32, norm=norm), random_batch(seed, *zip(*sizes))
    with torch.no_grad():
        memory, cache, parts = model.encode(batch.src, batch.src_mask), KVCache(model.decoder), []
        full = model.decode(batch.tgt_in, memory, batch.src_mask, batch.tgt_mask)
        while (at := cache.length) < batch.tgt_in.shape[1]:
            end = min(at + data.draw(st.integers(1, 3)), batch.tgt_in.shape[1])  # several at once
            mask = batch.tgt_mask[:, :, at:end, :end]
            with cache:  # opened anew for each call
                hidden = model.decode(batch.tgt_in[:, at:end], memory, batch.src_mask, mask, at)
            parts.append(hidden)
    real = batch.tgt_in != 0
    torch.testing.assert_close(torch.cat(parts, dim=1)[real], full[real], atol=1e-5, rtol=1e-5)


def test_caches_in_turn_keep_their_own_text_and_close_after_an_error():
    decoder = random_model(1, torch.float32).decoder
    x, memories = torch.randn(2, 1, 4, 32), torch.randn(2, 1, 3, 32)
    full = [decoder(*both, None, causal_mask(4)) for both in zip(x, memories)]
    caches, parts = [KVCache(decoder), KVCache(decoder)], ([], [])
    for step in range(4):
        for cache, text, memory, read in zip(caches, x, memories, parts):
            with cache:
                read.append(decoder(text[:, step : step + 1], memory))
    for read, expected in zip(parts, full):
        torch.testing.assert_close(torch.cat(read, dim=1), expected)
    with pytest.raises(RuntimeError), KVCache(decoder):
        decoder(x[0, :, :1], torch.randn(1, 3, 5))
    torch.testing.assert_close(decoder(x[0], memories[0], None, causal_mask(4)), full[0])

import torch

from engine import definitions
from engine.fused_attention import FusedAttention, use_fused_attention
from notebooks.data_preparation import causal_mask
from notebooks.encoder import Encoder
from notebooks.setup import Config


def kinds(model):
    return {type(part).__name__ for part in model.modules() if "Attention" in type(part).__name__}


def test_it_computes_the_same_and_still_keeps_weights():
    torch.manual_seed(0)
    encoder, x = Encoder(Config.preset("tiny")).eval(), torch.randn(2, 5, 32)
    mask = causal_mask(5).clone()
    mask[..., 0, :] = False  # nothing to attend to
    expected = encoder(x, mask)
    assert kinds(use_fused_attention(encoder)) == {"FusedAttention"}
    torch.testing.assert_close(encoder(x, mask), expected)
    attention = encoder.layers[0].self_attention
    assert attention.weights is None
    attention.keep_weights = True
    torch.testing.assert_close(encoder(x, mask), expected)
    assert attention.weights.shape == (2, 2, 5, 5)


def test_an_edited_function_is_what_computes(monkeypatch):
    for name in ("scaled_dot_product_attention", "MultiHeadAttention"):
        monkeypatch.setattr(
            definitions, "edited_names", lambda numbers, name=name: ["Encoder", name]
        )
        assert kinds(use_fused_attention(Encoder(Config.preset("tiny")))) == {"MultiHeadAttention"}
    monkeypatch.setattr(definitions, "edited_names", lambda numbers: ["Encoder"])
    assert kinds(use_fused_attention(Encoder(Config.preset("tiny")))) == {FusedAttention.__name__}

"""What is faster computes the same, and only where no lesson is edited."""

import pytest
import torch
from conftest import TINY, random_batch, random_model
from torch import nn

from engine import fast_forms
from engine.fast_forms import (
    FusedAttention,
    compile_parts,
    use_fast_dropout,
    use_fused_attention,
)
from engine.run import run_training
from notebooks.data_preparation import causal_mask
from notebooks.encoder import Encoder
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.setup import Config, replace
from utils import device


def fast(p):
    """A dropout that is fast."""
    return use_fast_dropout(nn.Dropout(p))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9, 0.001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_rate_mean_and_independence(p, dtype):
    torch.manual_seed(0)
    out = fast(p)(torch.ones(1000, 2001, dtype=dtype)).float()
    zero = (out == 0).float()
    rate = zero.mean().item()
    assert rate == pytest.approx(p, abs=0.004, rel=0.02)
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    for shift in (1, 2, 7, 8):  # bytes of one 64-bit word, and across words
        both = (zero[:, shift:] * zero[:, :-shift]).mean().item()
        assert both == pytest.approx(rate**2, abs=0.003, rel=0), shift


def test_dropout_gradient_and_eval():
    x = torch.randn(40, 50, requires_grad=True)
    dropout = fast(0.25)
    out = dropout(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out != 0) * (4 / 3))
    assert dropout.eval()(x) is x
    assert fast(0.0)(x) is x


def test_fused_attention_computes_the_same_and_still_keeps_weights():
    torch.manual_seed(0)
    encoder, x = Encoder(Config.preset("tiny")).eval(), torch.randn(2, 5, 32)
    mask = causal_mask(5).clone()
    mask[..., 0, :] = False  # nothing to attend to
    expected = encoder(x, mask)
    attention = use_fused_attention(encoder).layers[0].self_attention
    assert type(attention) is FusedAttention
    torch.testing.assert_close(encoder(x, mask), expected)
    assert attention.weights is None
    attention.keep_weights = True
    torch.testing.assert_close(encoder(x, mask), expected)
    assert attention.weights.shape == (2, 2, 5, 5)


@pytest.mark.parametrize("edited", [[], ["04"]])
def test_training_uses_them_unless_a_lesson_is_edited_and_says_so_once(
    small_data, tmp_path, monkeypatch, capsys, edited
):
    used = []
    for name in ("use_fast_dropout", "use_fused_attention"):
        monkeypatch.setattr(fast_forms, name, lambda model, name=name: used.append(name))
    monkeypatch.setattr(fast_forms, "edited_among", lambda *_: edited)
    fast_forms.say_once.cache_clear()
    for run in ("one", "two"):
        run_training(small_data, replace(TINY, steps=1, eval_steps=1), tmp_path / run)
    expected = "use_fast_dropout" if device().type == "cpu" else "use_fused_attention"
    assert used == ([] if edited else [expected] * 2)
    assert capsys.readouterr().err.count("your lesson 04") == len(edited)


def test_the_compiled_parts_compute_the_same_and_are_traced_once_for_all_shapes():
    """The lessons' modules are traced whole; the compiler of the GPU is not needed for that."""
    models = [random_model(0).train() for _ in range(2)]
    losses = [BatchLoss(model, LabelSmoothing(0.1)) for model in models]
    traced = []

    def backend(graph, inputs):
        traced.append(graph)
        return graph.forward

    compile_parts(models[1], losses[1].criterion, backend)
    assert models[1].state_dict().keys() == models[0].state_dict().keys()
    for seed, lengths in enumerate([([5, 3], [4, 2]), ([7, 2, 6], [9, 8, 3]), ([3] * 4, [11] * 4)]):
        batch = random_batch(seed, *lengths)
        (loss, count), (other, same_count) = (one(batch) for one in losses)
        assert (other.item(), same_count) == (pytest.approx(loss.item()), count)
        gradients = [
            torch.autograd.grad(value, list(model.parameters()))
            for value, model in zip((loss, other), models)
        ]
        torch.testing.assert_close(*gradients)
    assert len(traced) == 3  # encoder, decoder, loss

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from engine.fast_dropout import fast_forward, use_fast_dropout


def fast_dropout(p):
    """One that is fast."""
    return use_fast_dropout(nn.Dropout(p))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_rate_mean_and_independence(p, dtype):
    torch.manual_seed(0)
    out = fast_dropout(p)(torch.ones(1000, 2001, dtype=dtype)).float()
    zero = (out == 0).float()
    rate = zero.mean().item()
    assert rate == pytest.approx(p, abs=0.004, rel=0.02)
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    for shift in (1, 2, 7, 8):  # bytes of one 64-bit word, and across words
        both = (zero[:, shift:] * zero[:, :-shift]).mean().item()
        assert both == pytest.approx(rate**2, abs=0.003, rel=0), shift


def test_a_chance_that_no_byte_can_give_is_kept():
    torch.manual_seed(0)
    rate = (fast_dropout(0.001)(torch.ones(2_000_000)) == 0).float().mean().item()
    assert rate == pytest.approx(0.001, rel=0.1)


def test_every_byte_of_a_random_word_is_uniform():
    torch.manual_seed(0)
    shares = (fast_dropout(0.5)(torch.ones(8 * 200_000)) != 0).view(-1, 8).float().mean(dim=0)
    assert shares.tolist() == pytest.approx([0.5] * 8, abs=0.005)


def test_dropout_gradient_and_eval():
    x = torch.randn(40, 50, requires_grad=True)
    dropout = fast_dropout(0.25)
    out = dropout(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out != 0) * (4 / 3))
    assert dropout.eval()(x) is x
    assert fast_dropout(0.0)(x) is x


@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_dropout_keeps_any_shape(shape):
    assert fast_dropout(0.1)(torch.ones(shape)).shape == tuple(shape)


def test_each_dropout_of_a_model_becomes_fast():
    model = use_fast_dropout(
        nn.Sequential(nn.Dropout(0.3), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
    )
    assert model[0].forward.__func__ is model[1][1].forward.__func__ is fast_forward
    assert "forward" not in vars(model[1][0])


def test_hooks_attributes_and_type_of_a_dropout_stay():
    dropout = nn.Dropout(0.5)
    dropout.note = 3
    dropout.register_forward_hook(lambda module, given, result: result * 0)
    model = use_fast_dropout(nn.Sequential(dropout))
    assert model(torch.ones(100)).sum() == 0
    assert (model[0].note, type(model[0])) == (3, nn.Dropout)


def test_one_that_works_in_place_stays():
    x = torch.ones(1000)
    use_fast_dropout(nn.Sequential(nn.Dropout(0.5, inplace=True)))(x)
    assert (x == 0).sum() > 300

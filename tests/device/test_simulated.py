"""The simulated accelerator itself: what raises on it, and what it counts."""

import copy

import pytest
import torch
from conftest import DEVICE, TINY
from device import simulated

from engine.attention_maps import translation_attention
from engine.run import run_training
from engine.run_folder import RunFolder
from engine.translator import Translator
from notebooks.setup import replace
from notebooks.support.viewer import AttentionViewer

there = simulated.NAME
pytestmark = pytest.mark.skipif(there != DEVICE, reason="about the simulated accelerator")


def test_tensors_of_two_devices_do_not_mix():
    x, y = torch.ones(3, device=there), torch.ones(3)
    for mixing in (
        lambda: x + y,
        lambda: y * x,
        lambda: x.add_(y),
        lambda: torch.cat([x, y]),
        lambda: torch.stack([y, x]),
        lambda: torch.nn.functional.embedding(torch.zeros(2, dtype=torch.int64), x[:, None]),
        lambda: torch.where(y > 0, x, x),
        lambda: x[torch.arange(2)],
        lambda: torch.add(x, x, out=y),
        lambda: torch.nn.Linear(3, 3)(x),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            mixing()
    assert (x + torch.tensor(1.0)).device.type == there  # a number may be the CPU's


def test_what_has_no_numpy_has_to_be_fetched():
    with pytest.raises(TypeError):
        torch.ones(3, device=there).numpy()
    assert torch.ones(3, device=there).cpu().numpy().sum() == 3


def test_views_share_memory_and_results_have_their_own():
    x = torch.arange(12.0, device=there).view(3, 4)
    x[1:].t()[0] = 7
    assert x.cpu().tolist() == [[0, 1, 2, 3], [7, 5, 6, 7], [7, 9, 10, 11]]
    y = x + 0
    y.zero_()
    assert x.sum().item() == 68
    assert x.unfold(1, 2, 1).shape == (3, 3, 2)
    out = torch.empty(0, device=there)
    torch.mul(x, 2, out=out)
    assert (out.shape, out.device.type, out.sum().item()) == ((3, 4), there, 136)
    assert x.resize_(2, 2).cpu().tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("fused", [True, False])
def test_gradients_and_adam_are_those_of_the_cpu(fused):
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
    here = torch.nn.Sequential(*layers)
    moved, x = copy.deepcopy(here).to(there), torch.randn(5, 4)
    again = copy.deepcopy(moved)
    assert {parameter.device.type for parameter in again.parameters()} == {there}
    for model, given in ((here, x), (moved, x.to(there))):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
        for _ in range(3):
            optimizer.zero_grad()
            model(given).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    for one, other, before in zip(here.parameters(), moved.parameters(), again.parameters()):
        torch.testing.assert_close(one, other.cpu())
        assert not torch.equal(other, before)


def test_what_is_tied_stays_tied():
    one, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    other.weight = one.weight
    moved = torch.nn.ModuleList([one, other]).to(there)
    assert moved[0].weight is moved[1].weight
    assert moved[0].weight.device.type == there


def test_autocast_is_its_own():
    layer, x = torch.nn.Linear(4, 4).to(there), torch.ones(2, 4, device=there)
    with torch.autocast(there, torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
        assert layer(x).softmax(-1).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.float32


def test_float64_may_be_forbidden():
    x = torch.ones(3, device=there)
    with simulated.without_float64():
        for asking in (
            x.double,
            lambda: torch.zeros(2, dtype=torch.float64, device=there),
            lambda: torch.ones(2).double().to(there),
            lambda: torch.linspace(0, 1, 3, dtype=torch.float64, device=there),
        ):
            with pytest.raises(TypeError, match="float64"):
                asking()
        assert (x.cpu().double().sum(), (x * 2.0).mean().item()) == (3, 2)
    assert x.double().dtype == torch.float64


def test_on_a_device_without_float64_a_run_is_averaged_and_attention_shown(small_data, tmp_path):
    config = replace(TINY, steps=20, eval_steps=10, keep="average")
    with simulated.without_float64():
        run_training(small_data, config, tmp_path)
        config, source, target, model = RunFolder(tmp_path).load()
        Translator(config, source, target, model).translate(["Good morning."], beam_size=1)
        columns, rows, maps = translation_attention(model, source, target, "Good morning.", "早")
        shown = AttentionViewer({"cross": (maps["cross"], rows, columns)})
    assert len(shown.maps["cross"]["weights"]) == config.num_layers


def test_waits_are_counted_with_their_lines():
    x, mask = torch.rand(3, 4, device=there), torch.ones(3, dtype=torch.bool, device=there)
    for waiting in (
        lambda: x.sum().item(),
        lambda: bool(x.sum() > 0),
        lambda: x.nonzero(),
        lambda: x[mask],
        lambda: x.masked_select(x > 0),
        lambda: x.cpu(),
        lambda: x[0].tolist(),
        lambda: x[:, [0, 2]],  # the list has to be brought there
        lambda: torch.tensor([1, 2], device=there),
        lambda: torch.equal(x, x),
    ):
        with simulated.waits() as counted:
            waiting()
        assert counted
        assert [at for _, at in counted if not at.startswith("test_simulated.py, line")] == []
    with simulated.waits() as counted:
        torch.ones(3).to(there, non_blocking=True)
        y = x.clone().requires_grad_()
        y[:, :2].softmax(-1).masked_fill(x[:, :2] > 0.5, 0).sum().backward()
        x.topk(2).values, x.argmax(-1), torch.zeros(3, device=there), x.index_select(0, mask.int())
    assert not counted
    y = x.clone().requires_grad_()
    chosen = y[mask].sum()
    with simulated.waits() as counted:
        chosen.backward()
    assert [at for _, at in counted] == ["no line of the project: the backward pass"]

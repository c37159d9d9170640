import pytest
import torch
from conftest import TINY, random_batch, random_model

from engine import fast_forms
from engine.fast_forms import compile_parts, use_fast_forms
from engine.training_run import run_training
from engine.wrapped_loss import WrappedLoss
from notebooks.label_smoothing import LabelSmoothing
from notebooks.setup import replace
from utils import device


def test_training_uses_the_forms_of_its_device(small_data, tmp_path, monkeypatch):
    used = []
    for name in ("use_fast_dropout", "use_fused_attention"):
        monkeypatch.setattr(fast_forms, name, lambda model, name=name: used.append(name))
    run_training(small_data, replace(TINY, steps=1, eval_steps=1), tmp_path / "run")
    expected = "use_fast_dropout" if device().type == "cpu" else "use_fused_attention"
    assert used == [expected]


@pytest.mark.parametrize(
    "kind, steps, compiles",
    [("cuda", 9_999, False), ("cuda", 10_000, True), ("mps", 10_000, False)],
)
def test_only_a_long_training_on_cuda_is_compiled(monkeypatch, kind, steps, compiles):
    monkeypatch.setattr(fast_forms, "device", lambda: torch.device(kind))
    monkeypatch.setattr(fast_forms, "can_compile", lambda: True)
    called = []
    monkeypatch.setattr(fast_forms, "compile_parts", lambda *parts: called.append(parts))
    use_fast_forms(random_model(), LabelSmoothing(0.1), replace(TINY, steps=steps))
    assert bool(called) == compiles


def test_the_compiled_parts_compute_the_same_and_are_traced_once_for_all_shapes():
    """The lessons' modules are traced whole; the compiler of the GPU is not needed for that."""
    models = [random_model(0).train() for _ in range(2)]
    losses = [WrappedLoss(model, LabelSmoothing(0.1), TINY) for model in models]
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

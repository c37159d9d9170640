"""The models that `make ablation` trains: as large, working with a cache, able to learn."""

import inspect
import math

import pytest
import torch
from conftest import NOTEBOOKS, TINY, logits_of, random_batch
from exercises import exercises

from engine import run as engine_run
from notebooks import make_model
from notebooks.data_preparation import BOS, EOS, Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.setup import replace
from notebooks.support.proofs import shake
from notebooks.training import train_step
from notebooks.translation import beam_search, length_penalty
from studies import ablation, variants

CONFIG = replace(TINY, num_heads=4, d_ff=128)
KINDS = [*([name] for name in ablation.SINCE), ablation.SINCE, ["no positions"], ["no factor"]]
SOLUTIONS = "rotary GroupedQueryAttention GatedFeedForward".split()
each_kind = pytest.mark.parametrize("parts", KINDS, ids="+".join)


def model_with(parts):
    torch.manual_seed(0)
    with ablation.changed(parts):
        return make_model.make_model(CONFIG, 12, 12)


@each_kind
def test_as_many_parameters(parts):
    ours, plain = variants.size(model_with(parts)), variants.size(model_with([]))
    assert ours == pytest.approx(plain, rel=0.03)  # widths are rounded down, here from small ones


@each_kind
def test_one_token_at_a_time_gives_what_all_at_once_give(parts):
    model = shake(model_with(parts)).double().eval()
    src = random_batch(1, [5, 5], [6, 6]).src
    every = beam_search(model, src, 20, 4, alpha=4, lookahead=math.inf)
    for row, translations in zip(src.tolist(), every):
        assert max(len(ids) for _, ids in translations) > 9
        for score, ids in translations:
            batch = Batch.collate([(row, [BOS, *ids])])
            logits = logits_of(model, batch)[0]
            logits[:, :EOS] = -math.inf
            total = logits.log_softmax(dim=-1).gather(1, batch.tgt_out.T).sum().item()
            assert score * length_penalty(len(ids), 4) == pytest.approx(total, rel=1e-5)


def losses_of(parts, steps):
    """The losses per token of so many steps, all on one batch."""
    batch, model = random_batch(2, [5] * 8, [6] * 8), model_with(parts)
    batch_loss = BatchLoss(model, LabelSmoothing(0))
    with ablation.changed(parts):
        optimizer, schedule = engine_run.make_optimizer(model, CONFIG)
    losses = []
    for _ in range(steps):
        (loss, tokens), _ = train_step(batch_loss, batch, optimizer, CONFIG)
        schedule.step()
        losses.append((loss / tokens).item())
    return losses


@pytest.mark.parametrize("parts", KINDS[:-2], ids="+".join)
def test_it_learns_and_differs(parts):
    losses, plain = losses_of(parts, 40), losses_of([], 2)
    assert losses[-1] < losses[0] - 0.5
    assert losses[1] != pytest.approx(plain[1], rel=1e-6)


def test_a_row_is_trained_scored_and_found_again(tmp_path, small_data):
    options = dict(data=small_data, runs=tmp_path, config=replace(CONFIG, steps=4))
    row = ablation.run_row(dict(name="RoPE", seed=0), **options)
    assert ablation.last(row) > 0 and row["parts"] == ["RoPE"]
    assert row["sentences"] == 40
    assert ablation.run_row(dict(name="RoPE", seed=0), **options) == row
    (entry,) = ablation.gather([row, {**row, "seed": 1}], ["RoPE"], {"RoPE": 1.1})
    assert (len(entry["dev_loss"]), entry["time"]) == (2, 1.1)


@pytest.mark.parametrize("name", ablation.STARTS)
def test_a_run_starts_from_other_weights(name):
    def build(parts):
        torch.manual_seed(0)
        with ablation.changed(parts):
            return dict(engine_run.make_model(CONFIG, 12, 12).named_parameters())

    plain = build([])
    changed = build(ablation.PARTS[name])
    weight = "encoder.layers.0.feed_forward.inner.weight"
    times = (changed[weight].std() / plain[weight].std()).item()
    factors = {"layers three times as large": 3, "layers a third as large": 1 / 3}
    assert times == pytest.approx(factors.get(name, 0.02 / plain[weight].std().item()), rel=0.05)
    table = "tgt_embedding.lookup.weight"
    assert torch.equal(changed[table], plain[table]) == (name in factors)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_variant_is_the_solution_of_an_exercise(name):
    source = inspect.getsource(getattr(variants, name))
    solutions = [one.solution for path in NOTEBOOKS for one in exercises(path)]
    assert sum(source in solution for solution in solutions) == 1


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="since PyTorch 2.9")
@pytest.mark.parametrize("shape", [(16, 64), (64, 16)])
def test_muon_takes_the_steps_of_pytorch(shape):
    torch.manual_seed(13)
    weight, state = torch.ones(shape), {}
    theirs = torch.nn.Parameter(weight.clone())
    muon = torch.optim.Muon([theirs], lr=0.1, weight_decay=0, adjust_lr_fn="match_rms_adamw")
    for gradient in torch.randn(2, *shape):
        variants.muon_step(weight, gradient, state, rate=0.1)
        theirs.grad = gradient
        muon.step()
        apart = (weight - theirs).norm() / (weight - 1).norm()
        assert apart < 0.05  # theirs computes in bfloat16

"""The models that `make ablation` trains: as large, working with a cache, able to learn."""

import math
import sys

import pytest
import torch
from conftest import ROOT, TINY, random_batch
from notebooks.data_preparation import BOS, EOS, Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.setup import replace
from notebooks.training import train_step
from notebooks.translation import beam_search, length_penalty

from notebooks import make_model
from notebooks.support import training_run
from notebooks.support.proofs import shake
from notebooks.support.wrapped_loss import WrappedLoss

sys.path.append(str(ROOT / "benchmarks"))
import ablation

CONFIG = replace(TINY, num_heads=4, d_ff=128)
KINDS = [*([name] for name in ablation.SINCE), ablation.SINCE, ["no positions"], ["no factor"]]


def model_with(parts, config=CONFIG):
    torch.manual_seed(0)
    with ablation.changed(parts):
        return make_model.make_model(config, 12, 12)


@pytest.mark.parametrize("parts", KINDS, ids=lambda parts: "+".join(parts))
def test_as_many_parameters(parts):
    ours, plain = ablation.size(model_with(parts)), ablation.size(model_with([]))
    assert abs(ours / plain - 1) < 0.03  # widths are rounded down, here from small ones


@pytest.mark.parametrize("parts", KINDS, ids=lambda parts: "+".join(parts))
def test_one_token_at_a_time_gives_what_all_at_once_give(parts):
    model, batch = model_with(parts).double().eval(), random_batch(1, [5, 5], [6, 6])
    memory = model.encode(batch.src, batch.src_mask)
    whole = model.decode(batch.tgt_in, memory, batch.src_mask, batch.tgt_mask)
    cache = model.new_cache()
    for place in range(batch.tgt_in.shape[1]):
        newest = batch.tgt_in[:, place : place + 1]
        one = model.decode(newest, memory, batch.src_mask, None, cache)
        assert torch.allclose(one[:, 0], whole[:, place], atol=1e-10)


@pytest.mark.parametrize("parts", KINDS, ids=lambda parts: "+".join(parts))
def test_a_beam_scores_what_all_at_once_gives(parts):
    model = shake(model_with(parts)).double().eval()
    src = random_batch(1, [5, 5], [6, 6]).src
    for row, found in zip(src.tolist(), beam_search(model, src, 20, alpha=4, patience=math.inf)):
        assert max(len(ids) for _, ids in found) > 9
        for score, ids in found:
            batch = Batch.collate([(row, [BOS, *ids])])
            logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)[0]
            logits[:, :EOS] = -math.inf
            log_probs = logits.log_softmax(dim=-1)
            total = log_probs.gather(1, batch.tgt_out.T).sum().item()
            assert math.isclose(score * length_penalty(len(ids), 4), total, rel_tol=1e-5)


@pytest.mark.parametrize("parts", KINDS[:-2], ids=lambda parts: "+".join(parts))
def test_it_learns_and_differs(parts):
    batch, model = random_batch(2, [5] * 8, [6] * 8), model_with(parts)
    batch_loss = WrappedLoss(model, LabelSmoothing(0), CONFIG)
    with ablation.changed(parts):
        optimizer, schedule = training_run.make_optimizer(model, CONFIG)
    losses = []
    for _ in range(40):
        loss, tokens, _ = train_step(batch_loss, batch, optimizer, CONFIG.clip)
        schedule.step()
        losses.append((loss / tokens).item())
    assert losses[-1] < losses[0] - 0.5
    plain = model_with([])
    plain_optimizer, _ = training_run.make_optimizer(plain, CONFIG)
    plain_loss = WrappedLoss(plain, LabelSmoothing(0), CONFIG)
    plain_step = lambda: train_step(plain_loss, batch, plain_optimizer, CONFIG.clip)
    plain_losses = [plain_step()[0] for _ in range(2)]
    assert abs(plain_losses[-1].item() - losses[1] * tokens.item()) > 1e-4


def test_a_row_is_trained_scored_and_found_again(tmp_path, small_data):
    options = dict(seed=0, data=small_data, runs=tmp_path, config=replace(CONFIG, steps=4))
    row = ablation.run_row("RoPE", ["RoPE"], **options)
    assert ablation.last(row) > 0 and row["sentences"] == 40
    assert ablation.run_row("RoPE", ["RoPE"], **options) == row
    (entry,) = ablation.gather([row, {**row, "seed": 1}], {"RoPE": 1.1})
    assert len(entry["dev_loss"]) == 2 and entry["time"] == 1.1


def test_what_helped_is_what_beats_every_seed_as_it_is():
    rows = [dict(name="as it is", dev_loss={"9": value}) for value in (2.0, 2.1)]
    for name, values in zip(ablation.SINCE, [(1.8, 2.1), (1.99, 2.1), (2.0, 2.2)] * 2):
        rows += [dict(name=name, dev_loss={"5": 9, "9": value}) for value in values]
    assert ablation.helped(rows) == [ablation.SINCE[0], ablation.SINCE[3]]


def test_a_solution_that_is_not_there():
    with pytest.raises(LookupError, match="no notebook has a solution called nothing_like_it"):
        ablation.solution("nothing_like_it")

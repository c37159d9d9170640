import math

import pytest
import torch
from conftest import TINY, random_batch, random_model
from notebooks.data_preparation import Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import bleu, compute_loss
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import InputError, replace
from notebooks.training import run_training, train_step
from notebooks.transformer import translate_greedily

from data_large.prepare import load_data
from notebooks import run_folder, training
from notebooks.run_folder import load_run


def test_gradients_of_two_shares_add_up_to_the_gradient_of_the_whole():
    model, items = (
        random_model(0),
        [([5, 3], [2, 6, 7, 3]), ([5, 8, 3], [2, 3]), ([9, 3], [2, 9, 9, 9, 3])],
    )
    whole = torch.autograd.grad(
        compute_loss(model, Batch.collate(items), LabelSmoothing(0.1))[0], list(model.parameters())
    )
    shares = [
        compute_loss(model, Batch.collate(items[rank::2]), LabelSmoothing(0.1))[0]
        for rank in range(2)
    ]
    parts = [torch.autograd.grad(share, list(model.parameters())) for share in shares]
    torch.testing.assert_close(
        [sum(pair) for pair in zip(*parts)], list(whole), atol=1e-5, rtol=1e-5
    )


def test_a_step_is_adam_on_the_clipped_gradient_per_token():
    batch, config = random_batch(0, [5, 2], [4, 7]), replace(TINY, clip=0.5, dropout=0.0)
    torch.manual_seed(0)
    ours, plain = make_model(config, 12, 12), make_model(config, 12, 12)
    plain.load_state_dict(ours.state_dict())
    optimizer, _ = make_optimizer(ours, config, 10)
    loss, count, norm = train_step(ours, batch, LabelSmoothing(0.1), optimizer, config)
    mean = compute_loss(plain, batch, LabelSmoothing(0.1))[0] / count
    mean.backward()
    assert math.isclose(loss / count, mean.item(), rel_tol=1e-5) and count == 13
    assert (
        math.isclose(norm, torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5), rel_tol=1e-4)
        and norm > 0.5
    )
    torch.testing.assert_close(
        [p.grad for p in ours.parameters()],
        [p.grad for p in plain.parameters()],
        atol=1e-5,
        rtol=1e-3,
    )


def test_a_batch_in_parts_has_the_gradient_of_the_whole():
    batch, config = (
        random_batch(0, [5, 2, 3, 4, 1], [4, 7, 2, 3, 6]),
        replace(TINY, dropout=0.0, clip=1e9),
    )
    found = {}
    for parts in (1, 2, 3, 99):
        model = random_model(1, dtype=torch.float32)
        optimizer, _ = make_optimizer(model, config, 10)
        figures = train_step(
            model, batch, LabelSmoothing(0.1), optimizer, replace(config, accumulate=parts)
        )
        found[parts] = [*figures, *(parameter.grad for parameter in model.parameters())]
    for parts in (2, 3, 99):
        torch.testing.assert_close(found[parts], found[1], atol=1e-5, rtol=1e-4)


def short_of_memory(monkeypatch, rows):
    """From now on a batch with more than this many rows does not fit into memory."""

    def loss_or_error(model, batch, criterion):
        if len(batch.src) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute_loss(model, batch, criterion)

    monkeypatch.setattr(training, "compute_loss", loss_or_error)


def test_out_of_memory_halves_the_parts_with_a_warning(monkeypatch, capsys):
    batch, config, progress = (
        random_batch(0, [5] * 8, [4] * 8),
        replace(TINY, dropout=0.0),
        run_folder.Progress(),
    )
    plain, model = random_model(1, dtype=torch.float32), random_model(1, dtype=torch.float32)
    for each in (plain, model):
        optimizer, _ = make_optimizer(each, config, 10)
        if each is model:
            short_of_memory(monkeypatch, 2)
        figures = train_step(each, batch, LabelSmoothing(0.1), optimizer, config, progress)
    torch.testing.assert_close(
        [p.grad for p in model.parameters()],
        [p.grad for p in plain.parameters()],
        atol=1e-5,
        rtol=1e-3,
    )
    assert progress.parts == 4 and figures[1] == 40
    assert [line.split()[:3] for line in capsys.readouterr().err.splitlines()] == [
        ["out", "of", "memory:"]
    ] * 2
    short_of_memory(monkeypatch, 0)
    with pytest.raises(InputError, match="out of memory with one sentence at a time"):
        train_step(model, batch, LabelSmoothing(0.1), optimizer, config, progress)


def test_bleu_of_a_real_search_is_logged(small_data, tmp_path):
    config = replace(TINY, steps=20, eval_steps=10, bleu_sentences=7, keep="last")
    records = run_training(small_data, config, tmp_path)
    assert (
        ["dev_bleu" in record for record in records]
        == ["dev_loss" in record for record in records]
        == [True, True]
    )
    config, source, target, model = load_run(tmp_path)
    sentences, references = zip(*load_data(small_data, config)[4][:7])
    written = translate_greedily(model, source, target, sentences, config)
    assert round(bleu(written, references, "zh")[0], 2) == records[-1]["dev_bleu"]
    silent = run_training(
        small_data, replace(TINY, steps=10, bleu_sentences=0), tmp_path / "silent"
    )
    assert "dev_loss" in silent[-1] and "dev_bleu" not in silent[-1]

import itertools
import math

import pytest
import torch
from conftest import TINY, random_batch, random_model
from notebooks.data_preparation import Batch, load_data
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from notebooks.training import train_step
from notebooks.translation import bleu

import train
from notebooks.support import loading, training_run, wrapped_loss
from notebooks.support.run_folder import Progress, RunFolder
from notebooks.support.training_run import mean_loss, run_training
from notebooks.support.translating import translate_greedily
from notebooks.support.wrapped_loss import WrappedLoss


def test_gradients_of_two_shares_add_up_to_the_gradient_of_the_whole():
    model, items = (
        random_model(0),
        [([5, 3], [2, 6, 7, 3]), ([5, 8, 3], [2, 3]), ([9, 3], [2, 9, 9, 9, 3])],
    )
    batch_loss = BatchLoss(model, LabelSmoothing(0.1))
    whole = torch.autograd.grad(batch_loss(Batch.collate(items))[0], list(model.parameters()))
    shares = [batch_loss(Batch.collate(items[rank::2]))[0] for rank in range(2)]
    parts = [torch.autograd.grad(share, list(model.parameters())) for share in shares]
    torch.testing.assert_close(
        [sum(pair) for pair in zip(*parts)], list(whole), atol=1e-5, rtol=1e-5
    )


def test_a_step_is_adam_on_the_clipped_gradient_per_token():
    batch, config = random_batch(0, [5, 2], [4, 7]), replace(TINY, clip=0.5, dropout=0.0)
    torch.manual_seed(0)
    ours, plain = make_model(config, 12, 12), make_model(config, 12, 12)
    plain.load_state_dict(ours.state_dict())
    optimizer, _ = make_optimizer(ours, config)
    batch_loss = BatchLoss(ours, LabelSmoothing(0.1))
    loss, count, norm = train_step(batch_loss, batch, optimizer, config.clip)
    mean = BatchLoss(plain, LabelSmoothing(0.1))(batch)[0] / count
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
        optimizer, _ = make_optimizer(model, config)
        config = replace(config, accumulate=parts)
        batch_loss = WrappedLoss(model, LabelSmoothing(0.1), config)
        figures = train_step(batch_loss, batch, optimizer, config.clip)
        found[parts] = [*figures, *(parameter.grad for parameter in model.parameters())]
    for parts in (2, 3, 99):
        torch.testing.assert_close(found[parts], found[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 99 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        MemoryError(),
    ],
)
def test_out_of_memory_is_one_line_that_says_what_to_lower(
    error, small_data, tmp_path, monkeypatch, capsys
):
    def loss_or_error(*_):
        raise error

    monkeypatch.setattr(wrapped_loss.WrappedLoss, "forward", loss_or_error)
    options = ["--data", str(small_data), "--config", "tiny", "--run", str(tmp_path)]
    assert train.main(options) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(lines) == 1 and lines[0].startswith("error: out of memory")
    assert all(name in lines[0] for name in ("accumulate", "batch_tokens", "max_length"))


def write_to_one_place(*_):
    torch.ones(1).expand(3).add_(1)


@pytest.mark.parametrize(
    "mistake, told",
    [(lambda *_: torch.ones(2) @ torch.ones(3), "size"), (write_to_one_place, "memory location")],
)
def test_other_errors_keep_their_traceback(small_data, tmp_path, monkeypatch, mistake, told):
    monkeypatch.setattr(wrapped_loss.WrappedLoss, "forward", mistake)
    with pytest.raises(RuntimeError, match=told):
        train.main(["--data", str(small_data), "--config", "tiny", "--run", str(tmp_path)])


def test_bleu_of_a_real_search_is_logged(small_data, tmp_path):
    config = replace(TINY, steps=20, eval_steps=10, bleu_sentences=7, keep="last")
    records = run_training(small_data, config, tmp_path)
    assert (
        ["dev_bleu" in record for record in records]
        == ["dev_loss" in record for record in records]
        == [True, True]
    )
    config, source, target, model = RunFolder(tmp_path).load()
    sentences, references = zip(*load_data(small_data, config)[4][:7])
    written = translate_greedily(model, (source, target), sentences, config)
    assert round(bleu(written, references, "zh")[0], 2) == records[-1]["dev_bleu"]
    silent = run_training(
        small_data, replace(TINY, steps=10, bleu_sentences=0), tmp_path / "silent"
    )
    assert "dev_loss" in silent[-1] and not {"dev_bleu", "samples"} & silent[-1].keys()
    assert records[-1]["samples"] == list(zip(sentences, written))[:3]


def test_the_loss_on_train_is_measured_as_that_on_dev(small_data, tmp_path):
    records = run_training(small_data, replace(TINY, steps=20, eval_steps=20), tmp_path)
    config, source, target, model = RunFolder(tmp_path).load()
    train_set = load_data(small_data, config)[2]
    sample = training_run.sample_of(train_set, 40)
    assert len(sample) == 40 and (sample.lengths[-1] == train_set.lengths[-1]).all()
    assert math.isclose(records[-1]["train_loss"], mean_loss(model, sample, config), rel_tol=1e-5)
    everything = training_run.sample_of(train_set, 10**6)
    whole = mean_loss(model, train_set, config)
    assert math.isclose(mean_loss(model, everything, config), whole, rel_tol=1e-5)


def test_a_batch_carries_its_position_so_it_may_be_fetched_early(small_data):
    train_set = load_data(small_data, TINY)[2]
    config = replace(TINY, batch_tokens=1000)
    every = list(itertools.islice(loading.endless_batches(train_set, config, Progress()), 30))
    positions = [position for _, position in every]
    assert positions[0] == (0, 1) and {epoch for epoch, _ in positions} > {0, 1}
    for taken in (3, 17):
        epoch, batch = positions[taken - 1]
        rest = loading.endless_batches(train_set, config, Progress(epoch=epoch, batch=batch))
        for (one, place), (other, same) in zip(every[taken:], rest):
            assert place == same and torch.equal(one.src, other.src)

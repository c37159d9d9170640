import re

import pytest
import torch
from conftest import TINY, random_batch

import train
from engine.corpus.pairs import load_data
from engine.run import mean_loss, run_training, sample_of
from engine.run_folder import RunFolder
from engine.translator import Translator
from notebooks.data_preparation import TokenBatchSampler
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from notebooks.training import batches_after, resume, save, train_step
from notebooks.translation import bleu


def test_a_step_is_adam_on_the_clipped_gradient_per_token():
    batch, config = random_batch(0, [5, 2], [4, 7]), replace(TINY, max_grad_norm=0.5, dropout=0.0)
    torch.manual_seed(0)
    ours, plain = make_model(config, 12, 12).double(), make_model(config, 12, 12).double()
    plain.load_state_dict(ours.state_dict())
    optimizers = [make_optimizer(model, config)[0] for model in (ours, plain)]
    batch_loss = BatchLoss(ours, LabelSmoothing(0.1))
    (loss, count), norm = train_step(batch_loss, batch, optimizers[0], config)
    total, _ = BatchLoss(plain, LabelSmoothing(0.1))(batch)
    (total / 13).backward()
    assert count == 13
    assert norm > 0.5
    torch.testing.assert_close(loss, total.float())
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5))
    optimizers[1].step()
    for mine, yours in zip(ours.parameters(), plain.parameters()):
        torch.testing.assert_close(mine.grad, yours.grad)
        torch.testing.assert_close(mine, yours)


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

    monkeypatch.setattr(BatchLoss, "forward", loss_or_error)
    options = ["--data", str(small_data), "--config", "tiny", "--run", str(tmp_path)]
    assert train.main(options) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(lines) == 1, lines
    message = r"error: out of memory.* Raise grad_accum_steps, or lower batch_tokens, max_length"
    assert re.match(message, lines[0])


def test_bleu_of_a_real_search_is_logged(small_data, tmp_path):
    config = replace(TINY, steps=20, eval_steps=10, bleu_sentences=7, keep="last")
    records = run_training(small_data, config, tmp_path)
    assert [{"dev_bleu", "dev_loss"} <= record.keys() for record in records] == [True, True]
    config, source, target, model = RunFolder(tmp_path).load()
    sentences, references = zip(*load_data(small_data, config)[4][:7])
    written = Translator(config, source, target, model).translate(sentences, beam_size=1)
    assert round(bleu(written, references, "zh")[0], 2) == records[-1]["dev_bleu"]
    assert records[-1]["samples"] == [list(pair) for pair in zip(sentences, written)][:3]
    config = replace(TINY, steps=10, bleu_sentences=0)
    [silent] = run_training(small_data, config, tmp_path / "silent")
    assert {"dev_loss", "dev_bleu", "samples"} & silent.keys() == {"dev_loss"}


def test_the_loss_on_train_is_measured_as_that_on_dev(small_data, tmp_path):
    records = run_training(small_data, replace(TINY, steps=20, eval_steps=20), tmp_path)
    config, source, target, model = RunFolder(tmp_path).load()
    train_set = load_data(small_data, config)[2]
    sample = sample_of(train_set, 40)
    assert len(sample) == 40
    assert sample.lengths[-1].tolist() == train_set.lengths[-1].tolist()
    measured = mean_loss(model, sample, config)
    assert records[-1]["train_loss"] == pytest.approx(measured, rel=1e-5)
    everything = sample_of(train_set, 10**6)
    assert list(everything) == list(train_set)
    assert everything.lengths.tolist() == train_set.lengths.tolist()


@pytest.mark.parametrize("done", [0, 3, 17])
def test_the_batches_of_a_run_that_goes_on_are_those_of_one_that_did_not_stop(small_data, done):
    train_set = load_data(small_data, TINY)[2]
    config = replace(TINY, batch_tokens=1000, steps=30)
    every = list(batches_after(0, train_set, config))
    assert [step for step, _ in every] == list(range(1, 31))
    assert len(TokenBatchSampler(train_set.lengths, 1000)) < 15  # so it begins an epoch twice
    for (step, one), (same, other) in zip(
        every[done:], batches_after(done, train_set, config), strict=True
    ):
        assert step == same and torch.equal(one.src, other.src)


def test_a_checkpoint_from_before_an_entry_was_new_goes_on(tmp_path):
    part = torch.nn.Linear(1, 1)
    save({"model": part}, {"step": 3, "best": 1.5, "sums": torch.ones(2)}, tmp_path)
    assert resume({"model": part}, tmp_path)["stale"] == 0
    assert resume({"model": part}, tmp_path)["step"] == 3

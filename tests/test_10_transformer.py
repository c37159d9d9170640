import itertools
import math

import numpy as np
import pytest
import torch
from conftest import TINY, greedy_ids, logits_of, random_batch, random_items, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention_maps import attention_maps
from notebooks.data_preparation import BOS, EOS, PAD, UNK, Batch
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.make_model import make_model
from notebooks.multi_head_attention import MultiHeadAttention
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from notebooks.training import train_step
from utils import device


@given(
    seed=st.integers(0, 99),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4),
    norm=st.sampled_from(["pre", "post"]),
)
@settings(max_examples=30)
def test_a_batch_gives_what_each_row_gives_alone(seed, sizes, norm):
    """Padding does not leak, neither in the encoder nor in the decoder."""
    model, items = random_model(seed, norm=norm), random_items(seed, *zip(*sizes))
    logits = logits_of(model, Batch.collate(items, multiple=4))
    for row, item in enumerate(items):
        alone = logits_of(model, Batch.collate([item]))[0]
        torch.testing.assert_close(logits[row, : len(alone)], alone)


@pytest.mark.parametrize("training", [True, False])
def test_attention_maps_of_every_layer(training):
    model, batch = random_model(4).train(training), random_batch(0, [5, 3], [4, 6])
    maps = attention_maps(model, batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    assert {name: tuple(stack.shape) for name, stack in maps.items()} == {
        "encoder": (2, 2, 2, 6, 6), "decoder": (2, 2, 2, 7, 7), "cross": (2, 2, 2, 7, 6),
    }  # fmt: skip
    masks = {"encoder": batch.src_mask, "decoder": batch.tgt_mask, "cross": batch.src_mask}
    for name, mask in masks.items():
        torch.testing.assert_close(maps[name].sum(-1), torch.ones_like(maps[name].sum(-1)))
        assert maps[name].masked_select(~mask).count_nonzero() == 0, name
    assert model.training == training
    attentions = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    assert {(part.keep_weights, part.weights) for part in attentions} == {(False, None)}


def test_everything_moves_with_the_model():
    model = random_model(5).to("meta")
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} == {"meta"}


# a beam of one, which is greedy search


def copy_rows(count, seed, shortest=3):
    random = np.random.default_rng(seed)
    rows = [random.integers(4, 12, random.integers(shortest, 7)).tolist() for _ in range(count)]
    return [(row + [EOS], [BOS, *row, EOS]) for row in rows]


def test_the_copy_task_is_learned():
    torch.manual_seed(0)
    config = replace(TINY, dropout=0.0, learning_rate=0.005, warmup_steps=50)
    model = make_model(config, 12, 12).to(device())
    optimizer, scheduler = make_optimizer(model, replace(config, steps=300))
    batch_loss = BatchLoss(model, LabelSmoothing(0.1))
    seen = [copy_rows(64, step + 1) for step in range(300)]
    for rows in seen:
        train_step(batch_loss, Batch.collate(rows).to(device()), optimizer, config)
        scheduler.step()
    trained = list(itertools.chain(*seen))
    unseen = [row for row in copy_rows(220, 0, shortest=6) if row not in trained][:200]
    assert len(unseen) == 200
    written = greedy_ids(model.eval(), Batch.collate(unseen).src.to(device()), 20)
    assert sum(ids == tgt[1:] for ids, (_, tgt) in zip(written, unseen)) > 190


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_token_and_ends_in_time(seed):
    model, batch = random_model(seed), random_batch(seed, [1, 4, 6], [1, 1, 1])
    model.generator.projection.weight.data[:EOS] *= 5  # else few would be the likeliest
    written = greedy_ids(model, batch.src, max_length=9)
    for row, length in zip(range(3), (1, 4, 6)):
        ids, limit = written[row], min(2 * (length + 1) + 10, 10)
        assert ids.index(EOS) == len(ids) - 1 < limit
        assert not {PAD, UNK, BOS} & set(ids)
        so_far = [BOS]
        for position, token in enumerate(ids, start=1):
            one = Batch.collate([(batch.src[row, : length + 1].tolist(), [*so_far, EOS])])
            logits = logits_of(model, one)[0, -1]
            logits[[PAD, UNK, BOS]] = -math.inf
            assert token == (EOS if position == limit else logits.argmax())
            so_far.append(token)
        assert greedy_ids(model, batch.src[row : row + 1, : length + 1], 9)[0] == ids


def test_a_batch_writes_what_each_sentence_writes_alone():
    """Sentences leave the batch when they are finished; cache and masks must stay in step."""
    model, batch = random_model(3), random_batch(3, [1, 6, 4, 2], [1] * 4)
    together = greedy_ids(model, batch.src, 60)
    assert len({len(ids) for ids in together}) > 1  # some leave before others
    for row, length in enumerate((1, 6, 4, 2)):
        assert greedy_ids(model, batch.src[row : row + 1, : length + 1], 60) == [together[row]]

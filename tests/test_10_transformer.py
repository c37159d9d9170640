import pytest
import torch
from conftest import random_batch, random_model
from notebooks.data_preparation import Batch
from notebooks.transformer import attention_maps


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("sharing", ["none", "two-way", "three-way"])
def test_a_batch_gives_what_each_row_gives_alone(norm, sharing):
    model = random_model(3, norm=norm, sharing=sharing)
    items = [([5, 6, 3], [2, 7, 8, 9, 3]), ([4, 3], [2, 3]), ([9, 8, 7, 6, 5, 3], [2, 11, 3])]
    together = Batch.collate(items)
    logits = model(together.src, together.tgt_in, together.src_mask, together.tgt_mask)
    for row, item in enumerate(items):
        one = Batch.collate([item])
        alone = model(one.src, one.tgt_in, one.src_mask, one.tgt_mask)
        torch.testing.assert_close(logits[row : row + 1, : alone.shape[1]], alone)


@pytest.mark.parametrize("training", [True, False])
def test_attention_maps_of_every_layer(training):
    model, batch = random_model(4).train(training), random_batch(0, [5, 3], [4, 6])
    before = model.eval()(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    maps = attention_maps(
        model.train(training), batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask
    )
    assert {name: tuple(stack.shape) for name, stack in maps.items()} == {
        "encoder": (2, 2, 2, 6, 6), "decoder": (2, 2, 2, 7, 7), "cross": (2, 2, 2, 7, 6),
    }  # fmt: skip
    for name, mask in (
        ("encoder", batch.src_mask),
        ("decoder", batch.tgt_mask),
        ("cross", batch.src_mask),
    ):
        torch.testing.assert_close(maps[name].sum(-1), torch.ones_like(maps[name].sum(-1)))
        assert (maps[name].masked_select(~mask) == 0).all()
    assert model.training == training and all(
        getattr(module, "weights", None) is None for module in model.modules()
    )
    torch.testing.assert_close(
        model.eval()(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask), before
    )


def test_everything_moves_with_the_model():
    model = random_model(5).to("meta")
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} == {"meta"}

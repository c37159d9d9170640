import pytest
import torch

from engine.run_config import RunConfig
from notebooks.data_preparation import PAD
from notebooks.make_model import make_model
from notebooks.setup import replace

SMALL = RunConfig.preset("small")


@pytest.mark.parametrize("sharing", ["none", "two-way", "three-way"])
def test_initial_values(sharing):
    torch.manual_seed(0)
    model = make_model(replace(SMALL, tie_embeddings=sharing), 3000, 3000)
    for name, parameter in model.named_parameters():
        if name.endswith("lookup.weight"):
            assert parameter[1:].std().item() * 16 == pytest.approx(1, abs=0.01), name
            assert parameter[PAD].count_nonzero() == 0, name
        elif parameter.dim() == 2:
            limit = (6 / sum(parameter.shape)) ** 0.5
            assert 0.99 * limit < parameter.abs().max() <= limit, name
            assert parameter.std().item() * 3**0.5 == pytest.approx(limit, rel=0.02), name
        else:
            assert set(parameter.tolist()) == {0 if name.endswith("bias") else 1}, name


@pytest.mark.parametrize("sharing", ["none", "two-way", "three-way"])
def test_sharing_shares_the_parameter(sharing):
    model = make_model(replace(SMALL, tie_embeddings=sharing), 500, 500)
    src, tgt = model.src_embedding.lookup.weight, model.tgt_embedding.lookup.weight
    assert (model.generator.projection.weight is tgt) == (sharing != "none")
    assert (src is tgt) == (sharing == "three-way")


def test_three_way_sharing_needs_one_vocabulary():
    with pytest.raises(ValueError, match="sizes are 500 and 400"):
        make_model(replace(SMALL, tie_embeddings="three-way"), 500, 400)


def test_layers_begin_different_and_share_nothing():
    model = make_model(RunConfig.preset("tiny"), 12, 12)
    for stack in (model.encoder, model.decoder):
        first, second = (dict(layer.named_parameters()) for layer in stack.layers)
        for name, parameter in first.items():
            assert parameter is not second[name], name
            assert parameter.dim() < 2 or not torch.equal(parameter, second[name]), name

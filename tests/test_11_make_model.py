import pytest
import torch
from notebooks.data_preparation import PAD
from notebooks.make_model import make_model
from notebooks.setup import Config, replace

from notebooks.support.errors import InputError

SMALL = Config.preset("small")


@pytest.mark.parametrize("sharing", ["none", "two-way", "three-way"])
def test_initial_values(sharing):
    torch.manual_seed(0)
    model = make_model(replace(SMALL, sharing=sharing), 3000, 3000)
    for name, parameter in model.named_parameters():
        if name.endswith("lookup.weight"):
            assert abs(parameter[1:].std() * 16 - 1) < 0.01 and (parameter[PAD] == 0).all()
        elif parameter.dim() == 2:
            limit = (6 / sum(parameter.shape)) ** 0.5
            assert (
                0.99 * limit < parameter.abs().max() <= limit
                and abs(parameter.std() * 3**0.5 / limit - 1) < 0.02
            )
        else:
            assert (parameter == (0 if name.endswith("bias") else 1)).all()


def test_sharing_shares_the_parameter():
    sizes = {}
    for sharing in ("none", "two-way", "three-way"):
        model = make_model(replace(SMALL, sharing=sharing), 500, 500)
        sizes[sharing] = sum(parameter.numel() for parameter in model.parameters())
        assert (model.generator.projection.weight is model.tgt_embedding.lookup.weight) == (
            sharing != "none"
        )
        assert (model.src_embedding.lookup.weight is model.tgt_embedding.lookup.weight) == (
            sharing == "three-way"
        )
    assert sizes["none"] - sizes["two-way"] == sizes["two-way"] - sizes["three-way"] == 500 * 256


def test_three_way_sharing_needs_one_vocabulary():
    with pytest.raises(InputError, match="sizes are 500 and 400"):
        make_model(replace(SMALL, sharing="three-way"), 500, 400)


def test_layers_are_different_and_the_seed_decides():
    models = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        models.append(make_model(SMALL, 50, 50))
    first, same, other = ([parameter for parameter in model.parameters()] for model in models)
    assert all(torch.equal(a, b) for a, b in zip(first, same)) and not all(
        torch.equal(a, b) for a, b in zip(first, other)
    )
    layers = models[0].encoder.layers
    assert not torch.equal(
        layers[0].self_attention.query.weight, layers[1].self_attention.query.weight
    )


def test_layers_begin_different_and_share_nothing():
    model = make_model(Config.preset("tiny"), 12, 12)
    for stack in (model.encoder, model.decoder):
        first, second = (dict(layer.named_parameters()) for layer in stack.layers)
        for name, parameter in first.items():
            assert parameter is not second[name]
            assert parameter.dim() < 2 or not torch.equal(parameter, second[name]), name

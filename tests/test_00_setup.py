import dataclasses

import pytest

from notebooks.setup import PRESETS, Config, replace


def test_presets_are_valid_and_the_designed_sizes():
    presets = {name: Config.preset(name) for name in PRESETS}
    sizes = {n: (c.num_layers, c.d_model, c.d_ff, c.num_heads) for n, c in presets.items()}
    assert sizes == {
        "tiny": (2, 32, 64, 2),
        "small": (3, 256, 1024, 4),
        "subwords": (4, 128, 512, 4),
        "reference": (6, 256, 1024, 8),
        "base": (6, 512, 2048, 8),
    }
    assert presets["small"] == Config()


def test_unknown_preset_names_the_known_ones():
    message = "unknown preset 'huge': choose one of tiny, small, subwords, reference, base"
    with pytest.raises(ValueError, match=message):
        Config.preset("huge")


@pytest.mark.parametrize(
    "change", [dict(num_heads=3), dict(d_model=33, num_heads=1), dict(batch_tokens=60)]
)
def test_settings_that_do_not_fit_are_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(Config(), **change)


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().d_model = 1

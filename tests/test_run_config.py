from dataclasses import dataclass
from typing import Optional

import pytest

from engine.checks import check_fields
from engine.errors import InputError
from engine.run_config import RunConfig
from engine.run_folder import Search
from notebooks.setup import PRESETS, replace


def test_presets_of_runs_are_valid():
    presets = {name: RunConfig.preset(name) for name in PRESETS}
    assert presets["small"] == RunConfig()
    base = presets["base"]
    assert (base.src_segmentation, base.tgt_segmentation) == ("subwords", "subwords")
    assert (base.tie_embeddings, base.schedule, base.warmup_steps) == ("three-way", "noam", 4000)
    # when a run stops early, the checkpoint of its best evaluation is still there
    assert [name for name, config in presets.items() if config.patience >= config.checkpoints] == []


def test_unknown_preset_names_the_known_ones():
    message = "unknown preset 'huge': choose one of tiny, small, subwords, reference, base"
    with pytest.raises(InputError, match=message):
        RunConfig.preset("huge")


@pytest.mark.parametrize(
    "change",
    [
        dict(num_heads=3), dict(d_model=0), dict(d_model=33, num_heads=1), dict(dropout=1.0),
        dict(dropout=-0.1), dict(label_smoothing=1), dict(norm="both"),
        dict(tie_embeddings="four-way"),
        dict(schedule="cosine"), dict(src_segmentation="bytes"), dict(keep="all"), dict(tgt="en"),
        dict(batch_tokens=60), dict(steps=0), dict(eval_steps=-1), dict(max_grad_norm=0),
        dict(dtype="float16"), dict(warmup_steps=0), dict(keep="average", checkpoints=1),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(change):
    with pytest.raises(InputError, match=next(iter(change))):
        replace(RunConfig(), **change)


def test_a_setting_of_the_readers_own_may_begin_at_anything():
    @dataclass
    class Mine:
        weight_decay: float = 0.0
        offset: int = -3
        window: Optional[int] = None  # noqa: UP045, as some write it
        steps: int = 5

    check_fields(Mine())
    check_fields(Mine(window=7, offset=0, weight_decay=-1.0))
    for change in (dict(window="7"), dict(steps=0)):
        with pytest.raises(InputError, match=next(iter(change))):
            check_fields(Mine(**change))


@pytest.mark.parametrize("alpha", [11, 1e6, -1])
def test_a_length_penalty_that_no_option_could_give_is_refused(alpha):
    assert Search(0, "").alpha == 0
    with pytest.raises(InputError, match="alpha"):
        Search(alpha, "")


def test_a_longer_code_of_a_language_names_the_shorter():
    with pytest.raises(InputError, match="tgt is 'cmn': give 'zh'"):
        replace(RunConfig(), tgt="cmn")


def test_one_vocabulary_of_subwords_needs_subwords_on_both_sides():
    with pytest.raises(InputError, match="three-way sharing needs subwords on both sides"):
        replace(RunConfig(), tie_embeddings="three-way", tgt_segmentation="subwords")

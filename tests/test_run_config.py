from dataclasses import dataclass

import pytest

from engine.errors import InputError
from engine.run_config import RunConfig
from engine.run_folder import RunFolder
from notebooks.setup import PRESETS, replace, setting


def test_presets_of_runs_are_valid():
    presets = {name: RunConfig.preset(name) for name in PRESETS}
    assert presets["small"] == RunConfig()
    base = presets["base"]
    assert (base.src_segmentation, base.tgt_segmentation) == ("subwords", "subwords")
    assert (base.tie_embeddings, base.schedule, base.warmup_steps) == ("three-way", "noam", 4000)


@pytest.mark.parametrize(
    "change",
    [
        dict(num_heads=3), dict(d_model=0), dict(d_model=33, num_heads=1), dict(dropout=1.0),
        dict(dropout=-0.1), dict(label_smoothing=1), dict(norm="both"),
        dict(tie_embeddings="four-way"), dict(tgt="cmn"),
        dict(schedule="no such"), dict(src_segmentation="bytes"), dict(keep="all"), dict(tgt="en"),
        dict(batch_tokens=60), dict(steps=0), dict(eval_steps=-1), dict(max_grad_norm=0),
        dict(dtype="float16"), dict(warmup_steps=0), dict(average_last=1),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(change):
    with pytest.raises(InputError, match=next(iter(change))):
        replace(RunConfig(), **change)


def test_a_setting_of_a_readers_own_may_be_anything_of_its_type():
    @dataclass(frozen=True)
    class Mine(RunConfig):
        window: int = -3
        share: float = setting(0.5, above=0, below=1, weights=True)

    assert Mine(window=7, share=0.1).window == 7
    for change in (dict(window="7"), dict(share=1.0), dict(share=0)):
        with pytest.raises(InputError, match=next(iter(change))):
            Mine(**change)


def test_an_old_file_may_lack_settings_and_have_some_that_are_no_more(tmp_path):
    (tmp_path / "config.json").write_text('{"steps": 7, "checkpoints": 2}')
    assert RunFolder(tmp_path).read_config() == replace(RunConfig(), steps=7)

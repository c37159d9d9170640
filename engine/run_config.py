"""All settings of a run on the disk: notebook 00's, and what only a run needs."""

from dataclasses import dataclass, fields
from typing import Literal

from engine.checks import check_fields, check_language
from engine.errors import InputError
from notebooks.setup import PRESETS, Config

# what a preset of notebook 00 sets besides
RUN_PRESETS = {
    "tiny": dict(eval_steps=20, bleu_sentences=5),
    "subwords": dict(keep="average", checkpoints=6),
    "base": dict(eval_steps=1000, patience=4, keep="average", checkpoints=5),
}
# the settings of the course; any other is a reader's own
OURS = set(
    "src tgt src_segmentation tgt_segmentation min_freq max_vocab_size max_length num_layers "
    "d_model d_ff num_heads dropout norm tie_embeddings label_smoothing batch_tokens steps "
    "schedule warmup_steps learning_rate max_grad_norm seed target_first grad_accum_steps "
    "eval_steps bleu_sentences patience keep checkpoints dtype".split()
)
SMALLEST_SUBWORDS = 260  # tokens: every byte and the special tokens


@dataclass(frozen=True)
class RunConfig(Config):
    """Every setting of a run. Raises InputError for the first that cannot work."""

    target_first: bool = False  # .tsv files hold the target first
    grad_accum_steps: int = 1  # parts that a batch is worked through in: more parts, less memory
    eval_steps: int = 250  # steps between two evaluations on dev, each with a checkpoint
    bleu_sentences: int = 200  # dev sentences translated greedily at each evaluation; 0: none
    patience: int = 0  # stop after this many evaluations without a better dev loss; 0: never
    keep: Literal["best", "last", "average"] = "best"  # weights: best dev loss, last, mean of last
    checkpoints: int = 2  # how many of the newest checkpoints are kept
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"  # of matrix products; auto: what is fast

    def __post_init__(self):
        twice = RunConfig.__annotations__.keys() & {field.name for field in fields(Config)}
        if twice:
            wrong = f"{min(twice)} is a setting of engine/run_config.py and of notebook 00's Config"
            raise InputError(f"{wrong}. Give your own another name")
        check_fields(self)
        if self.keep == "average" and self.checkpoints < 2:
            raise InputError("keep is average, of checkpoints 1: give checkpoints 2 or more")
        check_language("src", self.src)
        check_language("tgt", self.tgt)
        if self.src == self.tgt:
            raise InputError(f"src and tgt are both {self.src!r}: give two languages")
        kinds = (self.src_segmentation, self.tgt_segmentation)
        if self.tie_embeddings == "three-way" and "subwords" in kinds and kinds[0] != kinds[1]:
            reason = "three-way sharing needs subwords on both sides or on neither"
            raise InputError(f"{reason}: change one segmentation")
        if "subwords" in kinds and self.max_vocab_size <= SMALLEST_SUBWORDS:
            wrong = f"max_vocab_size is {self.max_vocab_size}: subwords begin with all 256 bytes"
            raise InputError(f"{wrong}. Give a number above {SMALLEST_SUBWORDS}")
        try:
            super().__post_init__()
        except ValueError as error:
            raise InputError(str(error)) from None

    @classmethod
    def preset(cls, name):
        """The preset of that name, one of notebook 00's. Raises InputError for others."""
        if name not in PRESETS:
            raise InputError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
        values = {**RUN_PRESETS.get(name, {}), **PRESETS[name]}
        for unknown in values.keys() - {field.name for field in fields(cls)}:
            raise InputError(f"preset {name} of notebook 00 sets {unknown}, which is no setting")
        return cls(**values)

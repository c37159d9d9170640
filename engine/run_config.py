"""All settings of a run on the disk: notebook 00's, and what only a run needs."""

import operator
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin, get_type_hints

from engine.checks import check_language
from engine.errors import InputError
from notebooks.optimizer_schedule import SCHEDULES
from notebooks.setup import PRESETS, Config, setting

# what a preset of notebook 00 sets besides
RUN_PRESETS = {
    "tiny": dict(eval_steps=20, bleu_sentences=5),
    "subwords": dict(keep="average", average_last=6),
    "base": dict(eval_steps=1000, patience=4, keep="average"),
}
BOUNDS = {"above": operator.gt, "at_least": operator.ge, "below": operator.lt}
SMALLEST_SUBWORDS = 260  # tokens: every byte and the special tokens


@dataclass(frozen=True)
class RunConfig(Config):
    """Every setting of a run. Raises InputError for the first that cannot work."""

    schedule: Literal[tuple(SCHEDULES)] = setting(Config.schedule)  # of the learning rate
    target_first: bool = setting(False, text=True)  # .tsv files hold the target first
    grad_accum_steps: int = setting(1, above=0)  # parts of a batch: more parts, less memory
    eval_steps: int = setting(250, above=0)  # between two evaluations on dev, with a checkpoint
    bleu_sentences: int = setting(200, at_least=0)  # of dev, translated at each evaluation; 0: none
    # stop after this many evaluations without a better dev loss; 0: never
    patience: int = setting(0, at_least=0)
    # weights: best dev loss, last, mean of last
    keep: Literal["best", "last", "average"] = setting("best")
    average_last: int = setting(5, above=1)  # with keep=average: of how many evaluations
    # of matrix products; auto: what is fast
    dtype: Literal["auto", "float32", "bfloat16"] = setting("auto")

    def __post_init__(self):
        kinds = get_type_hints(type(self))
        for field in fields(self):
            check_setting(field, kinds[field.name], getattr(self, field.name))
        check_language("src", self.src)
        check_language("tgt", self.tgt)
        if self.src == self.tgt:
            raise InputError(f"src and tgt are both {self.src!r}: give two languages")
        cuts = self.src_segmentation, self.tgt_segmentation
        if self.tie_embeddings == "three-way" and "subwords" in cuts and cuts[0] != cuts[1]:
            reason = "three-way sharing needs subwords on both sides or on neither"
            raise InputError(f"{reason}: change one segmentation")
        if "subwords" in cuts and self.max_vocab_size <= SMALLEST_SUBWORDS:
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
        return cls(**{**RUN_PRESETS.get(name, {}), **PRESETS[name]})


def check_setting(field, kind, value):
    """Raises InputError for a value that a field of this type, made by `setting`, cannot have."""
    name = field.name
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(f"{name} is {value!r}: choose one of {', '.join(get_args(kind))}")
        return
    if kind in (int, float, str, bool) and type(value) not in {kind, {float: int}.get(kind, kind)}:
        raise InputError(f"{name} is {value!r}: give a value of type {kind.__name__}")
    for word, bound in field.metadata.get("bounds", {}).items():
        if bound is not None and not BOUNDS[word](value, bound):
            raise InputError(f"{name} is {value}: give a number {word.replace('_', ' ')} {bound}")


def settings_of(config, kind):
    """{name: value} of the settings on which "weights", or prepared "text", depend."""
    names = [field.name for field in fields(config) if field.metadata.get(kind)]
    return {name: getattr(config, name) for name in names}

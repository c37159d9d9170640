"""The code of all seventeen lessons, and a program that trains with it and translates.

    python transformer.py train.tsv dev.tsv < sentences.txt
    torchrun --nproc-per-node 2 transformer.py train.tsv dev.tsv --bfloat16 --pieces 2

A line of both files is a source sentence, a tab and its translation. The weights are saved in
`transformer.pt`, the best of them in `transformer.pt.best`. While these are there, a stopped
training goes on, and a finished one only translates. For more than this use the course's own
train.py and translate.py.
"""

import argparse
import ast
import hashlib
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args, get_origin

import torch

from notebooks.data_preparation import (
    TokenBatchSampler,
    TranslationDataset,
    add_marks,
    make_dataloader,
    make_tokenizer,
    make_tokenizers,
    pad_rows,
    read_pairs,
)
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import PRESETS, Config
from notebooks.translation import beam_search


@dataclass(frozen=True)
class Settings(Config):
    """The settings of a model and its training."""

    eval_steps: int = 250  # steps between two evaluations on dev, each with a checkpoint
    data: str = ""  # digest of the pairs, whose tokens have the ids that the model has learned


def read_options():
    """What was given, and the settings: the preset's, changed by options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path, help="pairs to train on")
    parser.add_argument("dev", type=Path, help="pairs to measure on")
    parser.add_argument("--config", choices=PRESETS, default="small", help="preset of lesson 00")
    parser.add_argument("--weights", type=Path, default=Path("transformer.pt"))
    parser.add_argument("--pieces", type=int, default=1, help="into which each batch is split")
    parser.add_argument("--bfloat16", action="store_true", help="matrix products in 16 bits")
    settings = [field for field in fields(Settings) if field.name != "data"]
    for field in settings:
        name = f"--{field.name.replace('_', '-')}"
        kind = str if isinstance(field.default, str) else ast.literal_eval
        choices = get_args(field.type) if get_origin(field.type) is Literal else None
        parser.add_argument(name, type=kind, choices=choices, help="setting of lesson 00")
    given = parser.parse_args()
    chosen = {field.name: getattr(given, field.name) for field in settings}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if given.train.is_file():
        chosen["data"] = hashlib.sha256(given.train.read_bytes()).hexdigest()
    config = Settings(**PRESETS[given.config] | chosen)
    if config.schedule == "noam" and "learning_rate" in chosen:
        parser.error("--learning-rate has no effect: the schedule noam computes the rate")
    check(parser, given, config)
    return given, config


def check(parser, given, config):
    """Ends the program, with what is wrong, for options that cannot work."""
    for path in (given.train, given.dev):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    if min(given.pieces, config.steps, config.eval_steps) < 1:
        parser.error("--pieces, --steps and --eval-steps are at least 1")
    kinds = {config.src_segmentation, config.tgt_segmentation}
    if config.tie_embeddings == "three-way" and kinds != {"subwords"}:
        parser.error("three-way tying needs subwords on both sides")
    if given.weights.exists():
        saved = torch.load(given.weights, map_location="cpu", weights_only=True)["config"]
        if saved != asdict(config):
            names = [name for name, value in asdict(config).items() if saved.get(name) != value]
            parser.error(f"{given.weights} was trained with another {', '.join(names)}: "
                         "give the same, or other --weights")  # fmt: skip


def main():
    given, config = read_options()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pairs = read_pairs(given.train)
    source, target = make_tokenizers(pairs, config)
    if config.tie_embeddings == "three-way":  # one vocabulary, of subwords of both languages
        texts = [text for pair in pairs for text in pair]
        source = target = make_tokenizer(texts, "subwords", config.src, config)
    train_set = TranslationDataset(pairs, source, target, config.max_length)
    dev_set = TranslationDataset(read_pairs(given.dev), source, target, config.max_length)
    sampler = TokenBatchSampler(dev_set.lengths, config.batch_tokens, shuffle=False)
    dev_batches = [batch.to(device) for batch in make_dataloader(dev_set, sampler)]
    torch.manual_seed(config.seed)
    model = make_model(config, len(source), len(target)).to(device)
    optimizer, scheduler = make_optimizer(model, config)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    how = given.weights, given.pieces, given.bfloat16
    # lesson 15's, which comes before this in the one file
    training_loop(parts, train_set, dev_batches, config, *how)  # noqa: F821
    if world > 1:  # noqa: F821
        torch.distributed.destroy_process_group()
    if rank > 0:  # noqa: F821
        return
    best = torch.load(best_of(given.weights), map_location=device, weights_only=True)  # noqa: F821
    model.load_state_dict(best)
    for line in map(str.strip, sys.stdin):
        ids = source.encode(line)[: config.max_length]
        if not ids:
            print()
            continue
        src = pad_rows([add_marks(ids, [])[0]]).to(device)
        ((_, best), *_) = beam_search(model.eval(), src, config.max_length)[0]
        print(target.decode(best), flush=True)


if __name__ == "__main__":
    main()

"""The code of all seventeen lessons, and a program that trains with it and translates.

    python transformer.py train.tsv dev.tsv < sentences.txt
    torchrun --nproc-per-node 2 transformer.py train.tsv dev.tsv --bfloat16 --pieces 2

A line of both files is a source sentence, a tab and its translation. The weights are saved in
`transformer.pt`, the best of them in `transformer.best.pt`. While these are there, a stopped
training goes on, and a finished one only translates. For more than this use the course's own
train.py and translate.py.
"""

import argparse
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from notebooks.data_preparation import (
    TokenBatchSampler,
    TranslationDataset,
    add_marks,
    make_dataloader,
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path, help="pairs to train on")
    parser.add_argument("dev", type=Path, help="pairs to measure on")
    parser.add_argument("--config", choices=PRESETS, default="small", help="preset of lesson 00")
    parser.add_argument("--weights", type=Path, default=Path("transformer.pt"))
    parser.add_argument("--pieces", type=int, default=1, help="into which each batch is split")
    parser.add_argument("--bfloat16", action="store_true", help="matrix products in 16 bits")
    for field in fields(Settings):
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, type=type(field.default), help="setting of lesson 00")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = {field.name: getattr(given, field.name) for field in fields(Settings)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    config = Settings(**PRESETS[given.config] | chosen)
    pairs = read_pairs(given.train)
    source, target = make_tokenizers(pairs, config)
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
    best = torch.load(given.weights.with_suffix(".best.pt"), map_location=device, weights_only=True)
    model.load_state_dict(best)
    for line in sys.stdin:
        ids = source.encode(line)[: config.max_length]
        src = pad_rows([add_marks(ids, [])[0]]).to(device)
        ((_, best), *_) = beam_search(model.eval(), src, config.max_length)[0]
        print(target.decode(best), flush=True)


if __name__ == "__main__":
    main()

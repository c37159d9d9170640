"""The code of all seventeen lessons, and a program that trains with it and translates.

    python transformer.py train.tsv dev.tsv < sentences.txt

A line of both files is a source sentence, a tab and its translation. The weights are saved in
`transformer.pt`; while that is there, a stopped training goes on, and a finished one only
translates. For more than this use the course's own train.py and translate.py.
"""

import argparse
import sys
from dataclasses import dataclass
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
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss, evaluate
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import PRESETS, Config
from notebooks.training import train
from notebooks.translation import beam_search

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Settings(Config):
    """The settings of a model and its training."""

    eval_steps: int = 250  # steps between two evaluations on dev, each with a checkpoint


class Run:
    """What lesson 15's `train` calls: batches, a log, evaluations, checkpoints.

    `parts` are model, optimizer and scheduler, by name. It goes on where the file `path` stopped.
    """

    def __init__(self, parts, train_set, dev_set, config, path):
        self.parts = parts
        self.train_set = train_set
        self.dev_set = dev_set
        self.config = config
        self.path = path
        self.step = 0
        if path.exists():
            saved = torch.load(path, map_location=DEVICE, weights_only=True)
            self.step = saved.pop("step")
            for name, state in saved.items():
                parts[name].load_state_dict(state)

    def batches(self):
        """Yields (step, batch) of the steps that are left, epoch by epoch."""
        lengths = self.train_set.lengths
        sampler = TokenBatchSampler(lengths, self.config.batch_tokens, self.config.seed)
        while self.step < self.config.steps:
            sampler.epoch, done = divmod(self.step, len(sampler))
            left = sampler.batches()[done:][: self.config.steps - self.step]
            for batch in make_dataloader(self.train_set, left):
                torch.manual_seed(self.step)  # dropout as in a training that was not stopped
                self.step += 1
                yield self.step, batch.to(DEVICE)

    def add(self, loss, count, norm, learning_rate):
        self.latest = loss / count, norm, learning_rate

    def log(self):
        loss, norm, rate = self.latest
        print(f"step {self.step}: loss {loss:.3f}, gradient norm {norm:.2f}, rate {rate:.6f}")

    def evaluate(self):
        sampler = TokenBatchSampler(self.dev_set.lengths, self.config.batch_tokens, shuffle=False)
        batches = (batch.to(DEVICE) for batch in make_dataloader(self.dev_set, sampler))
        batch_loss = BatchLoss(self.parts["model"], LabelSmoothing(0))
        self.log()
        print(f"step {self.step}: dev loss {evaluate(batch_loss, batches):.3f} nats per token")

    def save(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        torch.save({**states, "step": self.step}, self.path)

    def stop_if_asked(self):
        """Nothing to do: Ctrl-C ends the program, and the latest checkpoint stays."""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path, help="pairs to train on")
    parser.add_argument("dev", type=Path, help="pairs to measure on")
    parser.add_argument("--config", choices=PRESETS, default="small", help="preset of lesson 00")
    parser.add_argument("--weights", type=Path, default=Path("transformer.pt"))
    given = parser.parse_args()
    config = Settings(**PRESETS[given.config])
    pairs = read_pairs(given.train)
    source, target = make_tokenizers(pairs, config)
    train_set = TranslationDataset(pairs, source, target, config.max_length)
    dev_set = TranslationDataset(read_pairs(given.dev), source, target, config.max_length)
    torch.manual_seed(config.seed)
    model = make_model(config, len(source), len(target)).to(DEVICE)
    optimizer, scheduler = make_optimizer(model, config)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    run = Run(parts, train_set, dev_set, config, given.weights)
    batch_loss = BatchLoss(model, LabelSmoothing(config.label_smoothing))
    train(run, batch_loss, optimizer, scheduler, config)
    model.eval()
    for line in sys.stdin:
        ids = source.encode(line)[: config.max_length]
        src = pad_rows([add_marks(ids, [])[0]]).to(DEVICE)
        ((_, best), *_) = beam_search(model, src, config.max_length)[0]
        print(target.decode(best), flush=True)


if __name__ == "__main__":
    main()

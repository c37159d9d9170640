"""The log of one whole training of `small`, which lesson 15 reads where the reader has none yet.

`make log` trains it as `make run` does, with seed 0 (about a quarter of an hour on 2 cores), asks
it at each evaluation for the six sentences of lesson 00, and keeps its log in studies/log.jsonl.
"""

import shutil

from engine.startup import tune_process

tune_process()  # before PyTorch

from engine.run import run_training
from engine.run_config import RunConfig
from studies.first_words import SHOWN
from studies.training import DATA
from utils import ROOT


def main():
    """Trains, and keeps the log."""
    run = ROOT / "runs" / "log"
    six = [f"We play {thing} every day." for thing in SHOWN]
    run_training(DATA, RunConfig.preset("small"), run, samples=six)
    shutil.copyfile(run / "log.jsonl", ROOT / "studies" / "log.jsonl")


if __name__ == "__main__":
    main()

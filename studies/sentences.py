"""The lines that the model learned a verb from: what if they said something else, or were fewer?

`make sentences` trains `small` on corpora that differ in a few pairs, two seeds each, and writes
studies/sentences.json after each training; stopped, it goes on from that file. "kick": in every
pair in which 弹, to pluck or strike keys, is the verb, 踢, to kick, is written in its place. A
number: so many of the pairs in which somebody 弹 a piano are left, and 0 leaves none. Each model is
asked for 24 variants of three sentences.
"""

import re
from functools import partial

from engine.startup import tune_process

tune_process()  # before PyTorch

from engine.run_config import RunConfig
from engine.scoring import measure
from engine.training_run import run_training
from engine.translator import Translator
from notebooks.data_preparation import read_pairs
from notebooks.setup import replace
from notebooks.support.story import variants
from studies.training import DATA, JOBS, STEPS, name_of, train_missing, write_data
from utils import ROOT

OUTPUT = ROOT / "studies" / "sentences.json"
SEEDS = 2
VERBS = "弹踢打玩拉"
ASKED = ("the piano", "the guitar", "football")
BOMB = re.compile("炸弹|核弹|子弹")  # 弹 is no verb in them
COUNTS = (0, 1, 2, 4, 8, 16)
THE_BOX = dict(kept="all", steps=RunConfig.preset("small").steps, seed=0)
FULL = ("kick", 2, "all")  # of full length


def is_plucked(chinese):
    """Whether 弹 is a verb in this sentence."""
    return "弹" in BOMB.sub("", chinese)


def piano_pairs(pairs):
    """The pairs in which a piano is played, by their Chinese."""
    return [pair for pair in pairs if is_plucked(pair[1]) and "钢琴" in pair[1]]


def corpus(pairs, kept):
    """The training pairs of a row: "kick", "all", or a number of piano pairs that are left."""
    if kept == "all":
        return pairs
    if kept == "kick":
        return [
            (english, chinese.replace("弹", "踢") if is_plucked(chinese) else chinese)
            for english, chinese in pairs
        ]
    dropped = set(piano_pairs(pairs)[kept:])
    return [pair for pair in pairs if pair not in dropped]


def rows():
    """What is trained: which piano pairs, steps, seed."""
    full = RunConfig.preset("small").steps
    for seed in range(SEEDS):
        for kept in ("kick", *COUNTS, "all"):
            yield dict(kept=kept, steps=STEPS, seed=seed)
    for seed in range(SEEDS):
        for kept in FULL:
            yield dict(kept=kept, steps=full, seed=seed)


def results(translator):
    """What is measured of a trained model: how many of 24 variants have each verb."""
    measured = {}
    for thing in ASKED:
        texts = translator.translate(variants(thing), beam_size=1)
        written = {verb: sum(verb in text for text in texts) for verb in VERBS}
        measured[thing] = {"written": written, "first": texts[0]}
    return measured


def score(translator, split):
    """BLEU and chrF of a split, greedy."""
    english, chinese = zip(*read_pairs(DATA / f"{split}.tsv"))
    return measure(translator.translate(english, beam_size=1), chinese, "zh")


def train(row, folder, config):
    """Trains one model, into a run's folder."""
    data = folder.with_name(f"data-{folder.name}")
    write_data(data, corpus(read_pairs(DATA / "train.tsv"), row["kept"]))
    eval_steps = min(config.eval_steps, row["steps"])
    config = replace(
        config, steps=row["steps"], eval_steps=eval_steps, bleu_sentences=0, seed=row["seed"]
    )
    run_training(data, config, folder)


def run_row(row, runs, config):
    """Trains once. Returns the row with what is measured."""
    folder = runs / name_of(row)
    if row == THE_BOX:
        folder = DATA / "model"  # just this training, by `make run`
    else:
        train(row, folder, config)
    translator = Translator.load(folder)
    result = row | results(translator) | {"dev": score(translator, "dev")}
    if row["steps"] > STEPS:
        result["test"] = score(translator, "test")
    return result


def main(runs=ROOT / "runs" / "sentences", output=OUTPUT, config=None, jobs=JOBS):
    """Trains what is missing, `jobs` runs at the same time; each is written when it is finished."""
    run = partial(run_row, runs=runs, config=config or RunConfig.preset("small"))
    for row in train_missing(rows(), run, output, "make sentences", jobs):
        written = {thing: row[thing]["written"] for thing in ASKED}
        print(row["kept"], row["steps"], row["seed"], written, row["dev"]["bleu"], flush=True)


if __name__ == "__main__":
    main()

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
from notebooks.support.story import variants
from studies.training import STEPS, pairs_of, score_greedily, train_missing, train_on
from utils import ROOT

OUTPUT = ROOT / "studies" / "sentences.json"
SEEDS = 2
VERBS = "弹踢打玩拉"
ASKED = ("the piano", "the guitar", "football")
BOMB = re.compile("炸弹|核弹|子弹")  # 弹 is no verb in them
COUNTS = (0, 1, 2, 4, 8, 16)
FULL = ("kick", 2, "all")  # of full length


def is_plucked(chinese):
    """Whether 弹 is a verb in this sentence."""
    return "弹" in BOMB.sub("", chinese)


def corpus(pairs, kept):
    """The training pairs of a row: "kick", "all", or a number of piano pairs that are left."""
    if kept == "all":
        return pairs
    if kept == "kick":
        return [
            (english, chinese.replace("弹", "踢") if is_plucked(chinese) else chinese)
            for english, chinese in pairs
        ]
    pianos = [pair for pair in pairs if is_plucked(pair[1]) and "钢琴" in pair[1]]
    dropped = set(pianos[kept:])
    return [pair for pair in pairs if pair not in dropped]


def rows():
    """What is trained: which piano pairs, steps, seed."""
    full = RunConfig.preset("small").steps
    for steps, ways in ((STEPS, ("kick", *COUNTS, "all")), (full, FULL)):
        for seed in range(SEEDS):
            yield from (dict(kept=kept, steps=steps, seed=seed) for kept in ways)


def run_row(row, runs, config):
    """Trains once. Returns the row with how many of 24 variants have each verb, and scores."""
    translator, _ = train_on(corpus(pairs_of("train"), row["kept"]), row, runs, config)
    result = dict(row)
    for thing in ASKED:
        texts = translator.translate(variants(thing), beam_size=1)
        written = {verb: sum(verb in text for text in texts) for verb in VERBS}
        result[thing] = {"written": written, "first": texts[0]}
    result["dev"] = score_greedily(translator, "dev")
    if row["steps"] > STEPS:
        result["test"] = score_greedily(translator, "test")
    return result


def main(runs=ROOT / "runs" / "sentences", output=OUTPUT, config=None):
    """Trains what is missing; each is written when it is finished."""
    run = partial(run_row, runs=runs, config=config or RunConfig.preset("small"))
    train_missing(rows(), run, output, "make sentences")


if __name__ == "__main__":
    main()

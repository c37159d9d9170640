"""The lines that the model learned a verb from: what if they said something else, or were fewer?

`make sentences` trains `small` on corpora that differ in a few pairs, two seeds each, and writes
studies/sentences.json after each training; stopped, it goes on from that file. "kick": in every
pair in which 弹, to pluck or strike keys, is the verb, 踢, to kick, is written in its place. A
number: so many of the pairs in which somebody 弹 a piano are left, and 0 leaves none. Each model is
asked for 24 variants of three sentences, and for the probability of each verb where it is due.
"""

import re
import sys
from functools import partial

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.run_config import RunConfig
from engine.scoring import measure
from engine.training_run import run_training
from engine.translator import Translator
from notebooks.data_preparation import BOS, EOS, Batch, read_pairs
from notebooks.setup import replace
from notebooks.support.story import mean_cosines, variants, vectors_of_play
from studies.training import DATA, JOBS, STEPS, name_of, train_missing, write_pairs
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "sentences.json"
SEEDS = 2
VERBS = "弹踢打玩拉"
ASKED = ("the piano", "the guitar", "football")
BOMB = re.compile("炸弹|核弹|子弹")  # 弹 is no verb in them
# where the verb is due: an English subject, and what stands before the verb in Chinese
DUE = {"We": "我们每天", "They": "他们每天", "The children": "孩子们每天", "You": "你每天"}
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


@torch.no_grad()
def due(translator, thing):
    """The mean probability of each verb where the verb of `thing` is due."""
    model = translator.model
    ids = [translator.target.encode(verb)[0] for verb in VERBS]
    probabilities = []
    for who, before in DUE.items():
        src = [*translator.source.encode(f"{who} play {thing} every day."), EOS]
        batch = Batch.collate([(src, [BOS, *translator.target.encode(before), EOS])])
        batch = batch.to(next(model.parameters()).device)
        logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)[0, -1]
        probabilities.append(logits.softmax(dim=-1)[ids])
    means = torch.stack(probabilities).mean(dim=0).tolist()
    return {verb: round(mean, 4) for verb, mean in zip(VERBS, means)}


def results(translator):
    """What is measured of a trained model."""
    measured = {}
    for thing in ASKED:
        texts = translator.translate(variants(thing), beam_size=1)
        measured[thing] = {
            "written": {verb: sum(verb in text for text in texts) for verb in VERBS},
            "probability": due(translator, thing),
            "first": texts[0],
        }
    vectors = {thing: vectors_of_play(translator, thing) for thing in ("the piano", "football")}
    cosines = {stage: round(value, 3) for stage, value in mean_cosines(vectors).items()}
    return measured | {"cosines": cosines}


def score(translator, split):
    """BLEU and chrF of a split, greedy."""
    english, chinese = zip(*read_pairs(DATA / f"{split}.tsv"))
    return measure(translator.translate(english, beam_size=1), chinese, "zh")


def train(row, folder, config):
    """Trains one model, into a run's folder."""
    data = folder.with_name(f"data-{folder.name}")
    data.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(DATA / "train.tsv")
    write_pairs(data / "train.tsv", corpus(pairs, row["kept"]))
    write_pairs(data / "dev.tsv", read_pairs(DATA / "dev.tsv"))
    eval_steps = min(config.eval_steps, row["steps"])
    config = replace(
        config, steps=row["steps"], eval_steps=eval_steps, bleu_sentences=0, seed=row["seed"]
    )
    run_training(data, config, folder)


def run_row(row, runs, config):
    """Trains once. Returns the row with what is measured."""
    if device().type == "cpu":
        torch.set_num_threads(1)  # the runs share the processors
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
    sys.exit(main())

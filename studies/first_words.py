"""What people type first: does the model know it, in small letters and without a full stop, too?

`make first-words` trains `small` with three seeds in each way and writes studies/first_words.json
after each of them: BLEU and chrF on dev as it stands and as it is typed in a hurry, and how many of
tests/typed.tsv are translated acceptably. Short runs decide how English is read: as it is written,
in small letters, or with copies in small letters. Runs of full length decide the label smoothing,
and compare the corpus with what it was before the phrases of its last 1,628 lines came. They are
measured on the test set, too, by which nothing is chosen, asked for the verbs of *play* with
attention masked as in lesson 09, and for how sure they are, which lesson 12 shows. Stopped, it goes
on from the file.
"""

import re
from functools import partial

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.run_config import RunConfig
from engine.scoring import measure
from notebooks.data_preparation import BOS, EOS, PAD, Batch
from notebooks.setup import replace
from notebooks.support.proofs import likeliest
from notebooks.support.story import MASKED, THINGS, count_right, translate_masked
from studies.training import STEPS, pairs_of, score_greedily, train_missing, train_on
from utils import ROOT

OUTPUT = ROOT / "studies" / "first_words.json"
SEEDS = 3
SHOWN = ("football", "tennis", "chess", "the piano", "the violin", "in the garden")  # as in 00
PHRASES = 1628  # the last lines of train.tsv
END = re.compile(r"[.!?。！？]+$")


def rows():
    """What is trained: corpus, how its English is written, label smoothing, steps, seed."""
    full = RunConfig.preset("small").steps
    ways = [("with", letters, 0.1, STEPS) for letters in ("as it is", "small letters", "copies")]
    compared = [("with", "small letters", 0.1, full), ("with", "small letters", 0.0, full)]
    before = [("without", "as it is", 0.1, full)]
    names = "corpus", "letters", "smoothing", "steps"
    for group in (ways, compared, before):
        for seed in range(SEEDS):
            yield from (dict(zip(names, way), seed=seed) for way in group)


def in_a_hurry(text):
    """A text in small letters, without its end mark."""
    return END.sub("", text.lower())


def corpus(row):
    """The training pairs that a row wants; `copies` doubles every tenth pair."""
    train = pairs_of("train")
    train = train if row["corpus"] == "with" else train[:-PHRASES]
    if row["letters"] == "copies":
        train += [(in_a_hurry(english), END.sub("", chinese)) for english, chinese in train[::10]]
    return train


def typed():
    """(what is typed, its acceptable translations) of tests/typed.tsv, without end marks."""
    lines = (ROOT / "tests" / "typed.tsv").read_text(encoding="utf-8").splitlines()
    return [(line.split("\t")[0], set(line.split("\t")[1].split("|"))) for line in lines]


def scores(translator):
    """What a trained model makes of dev, of dev in a hurry, and of what is typed."""

    def translate(texts):
        return [END.sub("", text) for text in translator.translate(texts, beam_size=1)]

    english, chinese = zip(*pairs_of("dev"))
    bare = [END.sub("", text) for text in chinese]
    asked, allowed = zip(*typed())
    return {
        "dev": score_greedily(translator, "dev"),
        "in a hurry": measure(translate([in_a_hurry(text) for text in english]), bare, "zh"),
        "typed": sum(text in good for text, good in zip(translate(asked), allowed)),
    }


def guesses(translator):
    """The three likeliest tokens where the verb is to be written, with their probabilities."""
    result = {}
    for thing in SHOWN:
        before = "我们每天在花园里" if "garden" in thing else "我们每天"
        found = likeliest(translator, f"We play {thing} every day.", before)
        result[thing] = [[token, round(probability, 3)] for token, probability in found]
    return result


@torch.no_grad()
def calibration(translator, pairs):
    """Ten bins by the likeliest token's probability: tokens, mean probability, share right."""
    sure, right = [], []
    items = [([*translator.source.encode(one), EOS], [BOS, *translator.target.encode(other), EOS])
             for one, other in pairs]  # fmt: skip
    for start in range(0, len(items), 64):
        batch = Batch.collate(items[start : start + 64])
        real = batch.tgt_out != PAD
        logits = translator.model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)[real]
        probability, token = logits[:, PAD + 1 :].softmax(dim=-1).max(dim=-1)
        sure.append(probability)
        right.append(token + PAD + 1 == batch.tgt_out[real])
    sure, right = torch.cat(sure), torch.cat(right).float()
    number = (sure * 10).long().clamp(max=9)
    bins = [(sure[number == low], right[number == low]) for low in range(10)]
    return [[len(s), round(s.mean().item(), 4), round(r.mean().item(), 4)] for s, r in bins]


def run_row(row, runs, config):
    """Trains once. Returns the row with what is measured."""
    words = "lowercase-words" if row["letters"] == "small letters" else "words"
    config = replace(config, src_segmentation=words, label_smoothing=row["smoothing"])
    translator, dev_loss = train_on(corpus(row), row, runs, config)
    result = row | {"dev_loss": dev_loss, "plain": scores(translator)}
    if row["steps"] > STEPS:
        result["test"] = score_greedily(translator, "test")
        masked = {
            name: [count_right(what, translate_masked(translator, what, pairs)) for what in THINGS]
            for name, pairs in MASKED.items()
        }
        result["story"] = {"masked": masked}
        result["guesses"] = guesses(translator)
        result["bins"] = calibration(translator, pairs_of("dev"))
    return result


def main(runs=ROOT / "runs" / "first_words", output=OUTPUT, config=None):
    """Trains what is missing; each is written when it is finished."""
    run = partial(run_row, runs=runs, config=config or RunConfig.preset("small"))
    train_missing(rows(), run, output, "make first-words")


if __name__ == "__main__":
    main()

"""What people type first: does the model know it, in small letters and without a full stop, too?

`make first-words` trains `small` with three seeds in each way and writes studies/first_words.json
after each of them: BLEU and chrF on dev as it stands and as it is typed in a hurry, and how many of
tests/typed.tsv are translated acceptably. Short runs decide how English is read: as it is written,
in small letters, or with copies in small letters. Runs of full length decide the label smoothing,
and compare the corpus with what it was before the phrases of its last 1,628 lines came. They are
measured on the test set, too, by which nothing is chosen, and asked for the story of *play*.
Stopped, it goes on from the file.
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
from studies.story import story_of
from studies.training import DATA, JOBS, STEPS, name_of, train_missing, write_data
from utils import ROOT

OUTPUT = ROOT / "studies" / "first_words.json"
SEEDS = 3
PHRASES = 1628  # the last lines of train.tsv
END = re.compile(r"[.!?。！？]+$")


def rows():
    """What is trained: corpus, how its English is written, label smoothing, steps, seed."""
    full = RunConfig.preset("small").steps
    ways = [("with", letters, 0.1, STEPS) for letters in ("as it is", "small letters", "copies")]
    compared = [("with", "small letters", 0.1, full), ("with", "small letters", 0.0, full)]
    before = [("without", "as it is", 0.1, full)]
    for group in (ways, compared, before):
        for seed in range(SEEDS):
            for corpus, letters, smoothing, steps in group:
                yield dict(
                    corpus=corpus, letters=letters, smoothing=smoothing, steps=steps, seed=seed
                )


def in_a_hurry(text):
    """A text in small letters, without its end mark."""
    return END.sub("", text.lower())


def corpus(row):
    """The training pairs that a row wants; `copies` doubles every tenth pair."""
    train = read_pairs(DATA / "train.tsv")
    train = train if row["corpus"] == "with" else train[:-PHRASES]
    if row["letters"] == "copies":
        train += [(in_a_hurry(english), END.sub("", chinese)) for english, chinese in train[::10]]
    return train


def typed():
    """(what is typed, its acceptable translations) of tests/typed.tsv, without end marks."""
    lines = (ROOT / "tests" / "typed.tsv").read_text(encoding="utf-8").splitlines()
    return [(line.split("\t")[0], set(line.split("\t")[1].split("|"))) for line in lines]


def scores(translate):
    """What a trained model makes of dev, of dev in a hurry, and of what is typed."""
    english, chinese = zip(*read_pairs(DATA / "dev.tsv"))
    hasty = [END.sub("", text) for text in translate([in_a_hurry(text) for text in english])]
    bare = [END.sub("", text) for text in chinese]
    asked = typed()
    answers = translate([text for text, _ in asked])
    good = [END.sub("", text) in allowed for text, (_, allowed) in zip(answers, asked)]
    return {
        "dev": measure(translate(english), chinese, "zh"),
        "in a hurry": measure(hasty, bare, "zh"),
        "typed": sum(good),
    }


def run_row(row, runs, config):
    """Trains once. Returns the row with what is measured."""
    name = name_of(row)
    data = runs / f"data-{name}"
    write_data(data, corpus(row))
    full = row["steps"] > STEPS
    config = replace(
        config,
        src_segmentation="lowercase-words" if row["letters"] == "small letters" else "words",
        label_smoothing=row["smoothing"],
        steps=row["steps"],
        eval_steps=config.eval_steps if full else row["steps"],
        bleu_sentences=0,
        seed=row["seed"],
    )
    records = run_training(data, config, runs / name)
    translator = Translator.load(runs / name)
    translate = partial(translator.translate, beam_size=1)
    result = row | {"dev_loss": records[-1]["dev_loss"], "plain": scores(translate)}
    if full:
        english, chinese = zip(*read_pairs(DATA / "test.tsv"))
        result["test"] = measure(translate(english), chinese, "zh")
        result["story"] = story_of(translator)
    return result


def main(runs=ROOT / "runs" / "first_words", output=OUTPUT, config=None, jobs=JOBS):
    """Trains what is missing, `jobs` runs at the same time; each is written when it is finished."""
    run = partial(run_row, runs=runs, config=config or RunConfig.preset("small"))
    for row in train_missing(rows(), run, output, "make first-words", jobs):
        print({key: value for key, value in row.items() if key != "story"}, flush=True)


if __name__ == "__main__":
    main()

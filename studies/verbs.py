"""The question of the course while a model learns: when do the verbs of *play* part?

`make verbs` trains `small` with three seeds, as `make run` does (40 minutes on 2 cores; stopped, it
goes on where it was cut), and writes studies/verbs.json, which notebook 15 shows. Every
hundred steps the model is asked for 24 variants of each sentence.
"""

from functools import partial

from engine.startup import tune_process

tune_process()  # before PyTorch

from engine.run import run_training
from engine.run_config import RunConfig
from notebooks.setup import replace
from notebooks.support.story import THINGS, count_right, variants
from studies.training import DATA, train_missing
from utils import ROOT

OUTPUT = ROOT / "studies" / "verbs.json"


def run_row(row, data, runs, config):
    """A training, `row` is its seed. Returns it with what is kept of each evaluation.

    Of 24 greedy translations for each thing, it is kept how many have the thing's verb.
    """
    asked = [sentence for thing in THINGS for sentence in variants(thing)]
    config = replace(config, seed=row["seed"], bleu_sentences=1)  # without, nothing is translated
    records = run_training(data, config, runs / f"seed-{row['seed']}", samples=asked)
    steps = {}
    for record in records:
        if "samples" in record:
            written = dict(record["samples"])
            texts = {thing: [written[sentence] for sentence in variants(thing)] for thing in THINGS}
            verbs = {thing: count_right(thing, texts[thing])[0] for thing in THINGS}
            steps[str(record["step"])] = {"dev_loss": record["dev_loss"], "verbs": verbs}
    return row | {"steps": steps}


def main(runs=ROOT / "runs" / "verbs", output=OUTPUT, config=None, seeds=3):
    """Trains with each seed that is missing; each is written when it is finished."""
    config = config or replace(RunConfig.preset("small"), eval_steps=100)
    run = partial(run_row, data=DATA, runs=runs, config=config)
    train_missing([{"seed": seed} for seed in range(seeds)], run, output, "make verbs")


if __name__ == "__main__":
    main()

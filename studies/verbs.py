"""The question of the course while a model learns: when do the verbs of *play* part?

`make verbs` trains `small` with three seeds, as `make run` does (40 minutes on 2 cores; stopped, it
goes on where it was cut), and writes studies/verbs.json, which notebook 15 shows. Every
hundred steps the model is asked for 24 variants of each sentence.
"""

from functools import partial

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.corpus.pairs import load_data
from engine.run_config import RunConfig
from engine.training_run import Run, train_in
from engine.translator import Translator
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support.story import THINGS, count_right, variants
from studies.training import DATA, JOBS, train_missing
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "verbs.json"


def verbs(translator):
    """Of 24 greedy translations, how many have the verb of each thing."""
    texts = translator.translate([text for what in THINGS for text in variants(what)], beam_size=1)
    parts = [texts[start : start + 24] for start in range(0, len(texts), 24)]
    return {what: count_right(what, part)[0] for what, part in zip(THINGS, parts)}


def run_row(row, data, runs, config):
    """A training, `row` is its seed, and what is kept of it."""
    seed = row["seed"]
    config = replace(config, seed=seed)
    source, target, train_set, dev_set, _ = load_data(data, config)
    tokenizers, run = (source, target), runs / f"seed-{seed}"
    torch.manual_seed(seed)
    model = make_model(config, len(source), len(target)).to(device())

    def measure():
        counts = verbs(Translator(config, *tokenizers, model))
        model.train()
        return counts  # numbers only, as a log holds them: a study that was cut finds them again

    with Run(run, config, source, target) as session:
        records = train_in(session, model, train_set, dev_set, measure)
    first = next(iter(THINGS))
    curve = {
        str(record["step"]): {
            "dev_loss": record["dev_loss"],
            "verbs": {what: record[what] for what in THINGS},
        }
        for record in records
        if first in record
    }
    return row | {"steps": curve}


def main(runs=ROOT / "runs" / "verbs", output=OUTPUT, config=None, seeds=3, jobs=JOBS):
    """Trains with each seed, `jobs` at the same time; each is written when it is finished."""
    config = config or replace(RunConfig.preset("small"), eval_steps=100, bleu_sentences=0)
    run = partial(run_row, data=DATA, runs=runs, config=config)
    for row in train_missing(
        [{"seed": seed} for seed in range(seeds)], run, output, "make verbs", jobs
    ):
        step, last = list(row["steps"].items())[-1]
        print(f"seed {row['seed']}, step {step}: {last['verbs']}", flush=True)


if __name__ == "__main__":
    main()

"""The question of the course while a model learns: when do the verbs of *play* part?

`make verbs` trains `small` with three seeds, as `make run` does (40 minutes on 2 cores; stopped, it
goes on where it was cut), and writes studies/verbs.json, which notebook 15 shows. Every
hundred steps the model is asked for 24 variants of each sentence, and the vectors of `play` are
compared.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.corpus.pairs import load_data
from engine.files import file_digest, write_json
from engine.run_config import RunConfig
from engine.session import TrainingSession
from engine.training_run import train_in
from engine.translator import Translator
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support.story import (
    THINGS,
    count_right,
    encoder_stages,
    variants,
)
from studies.story import cosines
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "verbs.json"


def verbs(translator):
    """Of 24 greedy translations, how many have the verb of each thing."""
    texts = translator.translate([text for what in THINGS for text in variants(what)], beam_size=1)
    parts = [texts[start : start + 24] for start in range(0, len(texts), 24)]
    return {what: count_right(what, part)[0] for what, part in zip(THINGS, parts)}


def train_seed(seed, data, runs, config):
    """A training and what is kept of it."""
    if device().type == "cpu":
        torch.set_num_threads(1)  # two trainings share the processors
    config = replace(config, seed=seed)
    source, target, train_set, dev_set, _ = load_data(data, config)
    tokenizers, run = (source, target), runs / f"seed-{seed}"
    torch.manual_seed(seed)
    model = make_model(config, len(source), len(target)).to(device())

    def measure():
        translator = Translator(config, *tokenizers, model)
        counts = verbs(translator)
        angles = cosines(translator).items()
        model.train()
        # numbers only, as a log holds them, so that a study that was cut finds them again
        return counts | {f"cosine {stage}": value for stage, value in angles}

    with TrainingSession(run, config, source, target) as session:
        records = train_in(session, model, train_set, dev_set, measure)
    stages = encoder_stages(model)
    curve = {
        str(record["step"]): {
            "verbs": {what: record[what] for what in THINGS},
            "cosines": {stage: record[f"cosine {stage}"] for stage in stages},
        }
        for record in records
        if "cosine input" in record
    }
    return {"seed": seed, "steps": curve}


def main(runs=ROOT / "runs" / "verbs", output=OUTPUT, config=None, seeds=3, jobs=2):
    """Trains with each seed, `jobs` at the same time, and writes what was found."""
    config = config or replace(RunConfig.preset("small"), eval_steps=100, bleu_sentences=0)
    given = [(seed, ROOT / "data_small", runs, config) for seed in range(seeds)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(train_seed, *zip(*given)))
    header = {"command": "make verbs", "variants": len(variants("")), "things": THINGS}
    header["train.tsv"] = file_digest(ROOT / "data_small" / "train.tsv")
    write_json(output, {**header, "seeds": results})
    for part in results:
        print(f"seed {part['seed']}:", {key: part[key] for key in part if key != "steps"})


if __name__ == "__main__":
    main()

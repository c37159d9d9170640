"""What each part of the Transformer is worth, and what nine years of changes are worth to it.

`make ablation` runs it (about an hour and a half on 2 cores). Each training is kept in
studies/ablation_rows.json when it is finished, so a study that was stopped goes on; the tables that
notebook 15 shows, studies/ablation.json, are written after the last.
`small` is trained as it is, with four seeds, and with one change: same data, same number of steps,
same batches. In the rows "paper" a part is taken away or changed, one seed each. In the rows
"since" a later idea is put in, two seeds each (variants.py), and all that helped together. In the
rows "starts" the first weights are others, two seeds each. All is measured on dev: the test set is
not for choosing. How the number of parameters is kept equal stands beside each change.
"""

import statistics
import time
from contextlib import ExitStack
from functools import partial
from unittest import mock

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine import run as training
from engine.corpus.pairs import load_data
from engine.files import read_json, write_rows
from engine.precision import native_dtype
from engine.run_config import RunConfig
from engine.scoring import score
from notebooks import make_model
from notebooks.data_preparation import TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss
from notebooks.setup import replace
from notebooks.training import train_step
from studies.training import DATA, STEPS, train_missing
from studies.variants import build, draw_as_gpt2, make_muon
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "ablation.json"  # the tables
ROWS = ROOT / "studies" / "ablation_rows.json"  # each training
AS_IT_IS = "as it is"
PAPER = {  # name: settings changed
    "no positions": {},
    "no factor": {},  # words times sqrt(d_model)
    "one head": {"num_heads": 1},
    "no smoothing": {"label_smoothing": 0.0},
    "post-norm": {"norm": "post"},
    "no warm-up": {"warmup_steps": 1},
}
SINCE = ["RoPE", "RMSNorm", "SwiGLU", "GQA", "attention dropout", "Muon"]
TOGETHER = "all that helped"
# whose mean dev loss is lower than that of every seed as it is
HELPED = ["Muon", "RoPE", "SwiGLU"]


def scale_layers(model, factor):
    """Multiplies every matrix of a model's layers, in place."""
    with torch.no_grad():
        for parameter in (*model.encoder.parameters(), *model.decoder.parameters()):
            if parameter.dim() == 2:
                parameter.mul_(factor)


STARTS = {  # name: what is done with the first weights
    "layers three times as large": partial(scale_layers, factor=3),
    "layers a third as large": partial(scale_layers, factor=1 / 3),
    "all matrices N(0, 0.02²)": draw_as_gpt2,
}
# name of a row: its parts, of variants.py or of STARTS
PARTS = {name: [name] for name in ("no positions", "no factor", *SINCE, *STARTS)}
PARTS[TOGETHER] = HELPED


def changed(parts):
    """A context in which models are built, and trained, with these parts."""
    stack = ExitStack()
    parts = set(parts)
    stack.enter_context(mock.patch("notebooks.make_model.Transformer", partial(build, parts=parts)))
    if "Muon" in parts:
        stack.enter_context(mock.patch("engine.run.make_optimizer", make_muon))
    for name in parts & STARTS.keys():
        stack.enter_context(mock.patch("engine.run.make_model", started(STARTS[name])))
    return stack


def started(change):
    """`make_model`, whose model's first weights are then changed in place."""

    def make(*arguments):
        model = make_model.make_model(*arguments)
        change(model)
        return model

    return make


def rows():
    """What is trained: a name, a seed, and steps."""
    yield from (dict(name=AS_IT_IS, seed=seed, steps=STEPS) for seed in range(4))
    for name in (*SINCE, TOGETHER, *STARTS):
        yield from (dict(name=name, seed=seed, steps=STEPS) for seed in range(2))
    yield from (dict(name=name, seed=0, steps=STEPS) for name in PAPER)


def run_row(row, data, runs, config):
    """Trains and scores once. Returns the row with what is measured."""
    parts = PARTS.get(row["name"], [])
    run = runs / "-".join([row["name"].replace(" ", "_"), str(row["seed"]), *parts])
    config = replace(config, seed=row["seed"], **PAPER.get(row["name"], {}))
    with changed(parts):
        # Muon keeps its state in no checkpoint
        records = training.run_training(data, config, run, restart="Muon" in parts)
        scores, pairs, _ = score(run, data, "dev")
    losses = {str(one["step"]): round(one["dev_loss"], 4) for one in records if "dev_loss" in one}
    result = row | {"parts": sorted(parts), "dev_loss": losses, "sentences": len(pairs)}
    measured = ("bleu", "chrf", "bleu_signature")
    return result | {name: {key: scores[name][key] for key in measured} for name in scores}


def last(row):
    """The dev loss at the end of a run."""
    return list(row["dev_loss"].values())[-1]


def step_times(config, kinds):
    """How long a training step takes with each set of parts, over that as it is: medians."""
    config = replace(config, dtype=native_dtype())
    source, target, train_set, *_ = load_data(DATA, config)
    sampler = TokenBatchSampler(train_set.lengths, config.batch_tokens)
    some = [b.to(device()) for b, _ in zip(make_dataloader(train_set, sampler), range(8))]
    steps = {}
    for name, parts in {AS_IT_IS: [], **kinds}.items():
        with changed(parts):
            model = make_model.make_model(config, len(source), len(target)).to(device())
            optimizer, _ = training.make_optimizer(model, config)
        batch_loss = BatchLoss(model, LabelSmoothing(config.label_smoothing))
        rest = dict(optimizer=optimizer, config=config)
        steps[name] = partial(train_step, batch_loss, **rest)
    times = {name: [] for name in steps}
    for _ in range(6):  # the first prepares the shapes
        for name, step in steps.items():
            began = time.perf_counter()
            norms = [step(batch)[1] for batch in some]
            assert torch.stack(norms).isfinite().all()  # also waits for a GPU
            times[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(seconds[1:]) for name, seconds in times.items()}
    return {name: round(median / medians[AS_IT_IS], 2) for name, median in medians.items()}


def gather(rows, names, times):
    """A table: one entry for each name, with a value for each of its seeds."""
    entries = []
    for name in names:
        mine = sorted((row for row in rows if row["name"] == name), key=lambda row: row["seed"])
        entry = {"name": name, "parts": mine[0]["parts"], "dev_loss": [last(row) for row in mine]}
        for search in ("greedy", "beam"):
            entry[search] = [row[search]["bleu"] for row in mine]
        if name in times:
            entry["time"] = times[name]
        entries.append(entry)
    return entries


def main():
    """Trains what is missing, each row is written when it is finished; then writes the tables."""
    short = dict(steps=STEPS, batch_tokens=1024, eval_steps=250, bleu_sentences=0)
    config = replace(RunConfig.preset("small"), **short)
    run = partial(run_row, data=DATA, runs=ROOT / "runs" / "ablation", config=config)
    done = train_missing(rows(), run, ROWS, "make ablation")
    times = step_times(config, {name: PARTS[name] for name in (*SINCE, TOGETHER)})
    groups = {"paper": PAPER, "since": [AS_IT_IS, *SINCE, TOGETHER], "starts": STARTS}
    tables = {key: gather(done, names, times) for key, names in groups.items()}
    header = {key: value for key, value in read_json(ROWS).items() if key != "rows"}
    write_rows(OUTPUT, {**header, "steps": STEPS, "helped": HELPED, **tables})


if __name__ == "__main__":
    main()

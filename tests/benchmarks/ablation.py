"""What each part of the Transformer is worth: the preset `small` as it is, and without each part.

`make ablation` runs it (45 minutes on 2 cores; stopped, it goes on where it was) and writes
notebooks/ablation.json, which notebook 15 shows. Each is trained once: same data, same number of
steps, same batches in the same order; greedy and beam search on the test set, on which nothing was
chosen; sacreBLEU's paired bootstrap says which differences are more than chance.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import sacrebleu
import torch
from notebooks.setup import Config, read_json, replace
from notebooks.training import run_training
from notebooks.translation import score
from sacrebleu.significance import PairedTest

from utils import ROOT, write_json

STEPS = 1600  # as notebook 15's own run
ABLATIONS = {  # name: settings changed
    "as it is": {},
    "another seed": {"seed": 1},
    "no positions": {},
    "one head": {"num_heads": 1},
    "no smoothing": {"smoothing": 0.0},
    "post-norm": {"norm": "post"},
    "no warm-up": {"warmup_steps": 1},
}


def without_positions():
    """A context in which the table of positions is all zeros."""
    zeros = lambda length, d_model: torch.zeros(length, d_model)
    return mock.patch("notebooks.positional_encoding.sinusoids", zeros)


def run_ablation(name, data, runs, config):
    """Trains and scores one row.

    Returns its dictionary for the table, the references, its translations by beam search, and
    BLEU's signature.
    """
    run = runs / name.replace(", ", "-").replace(" ", "-")
    with without_positions() if name == "no positions" else nullcontext():
        records = run_training(data, replace(config, **ABLATIONS[name]), run)
        scores, pairs, translations = score(run, data, "test")
    curve = {
        record["step"]: round(record["dev_loss"], 4) for record in records if "dev_loss" in record
    }
    early = {
        record["step"]: round(record["loss"], 4) for record in records if record["step"] <= 400
    }
    row = {"name": name, "changes": ABLATIONS[name], "dev_loss": curve, "train_loss": early}
    row |= {search: {key: scores[search][key] for key in ("bleu", "chrf")} for search in scores}
    references = [reference for _, reference in pairs]
    return row, references, translations["beam"], scores["beam"]["bleu_signature"]


def compare(systems, references):
    """sacreBLEU's paired bootstrap, 1,000 samples.

    Gives for each name BLEU's mean and 95 % interval, and p against the first.
    """
    metrics = {"BLEU": sacrebleu.BLEU(tokenize="zh", references=[references])}
    test = PairedTest(list(systems.items()), metrics, None, test_type="bs", n_samples=1000)
    _, results = test()
    return {
        name: {"mean": round(result.mean, 2), "interval": round(result.ci, 2), "p": result.p_value}
        for name, result in zip(results["System"], results["BLEU"])
    }


def main(
    data=ROOT / "data_small",
    runs=ROOT / "runs" / "ablation",
    config=None,
    output=ROOT / "notebooks" / "ablation.json",
):
    """All rows, printed and written."""
    config, rows, systems = config or replace(Config.preset("small"), steps=STEPS), [], {}
    data, runs = Path(data), Path(runs)
    for name in ABLATIONS:
        print(f"\n{name}", flush=True)
        row, references, systems[name], signature = run_ablation(name, data, runs, config)
        rows.append(row)
    for name, found in compare(systems, references).items():
        next(row for row in rows if row["name"] == name)["bootstrap"] = found
    result = {
        "command": "make ablation",
        "steps": config.steps,
        "sentences": len(references),
        "signature": signature,
        "dtype": read_json(runs / "as-it-is" / "config.json")["dtype"],
        "rows": rows,
    }
    write_json(Path(output), result)
    for row in rows:
        bleu, bootstrap = row["beam"]["bleu"], json.dumps(row["bootstrap"])
        print(f"{row['name']:24} beam BLEU {bleu:5.2f}  {bootstrap}")


if __name__ == "__main__":
    sys.exit(main())

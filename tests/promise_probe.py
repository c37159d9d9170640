"""What test_promise runs in a copy of the course, in a process of its own: train a little, search.

The process is forked from one that holds PyTorch already, so that an edit costs seconds less.
"""

import importlib
import os
import sys


def probe(course, data):
    """What a short training and both searches give in this copy: {"t": …, "g": …, "b": …}."""
    os.chdir(course)
    sys.path.insert(0, str(course))
    import torch

    importlib.import_module("notebooks")  # from here on notebooks are modules
    from engine.run import run_training
    from engine.run_config import RunConfig
    from notebooks.data_preparation import EOS, pad_rows
    from notebooks.make_model import make_model
    from notebooks.optimizer_schedule import SCHEDULES
    from notebooks.setup import replace
    from notebooks.translation import beam_search

    torch.set_num_threads(1)
    results = {"t": []}
    for schedule in SCHEDULES:
        # without dropout: with it an edit draws other values, since fast forms are left out
        config = replace(RunConfig.preset("tiny"), dtype="float32", steps=3, eval_steps=3,
                         warmup_steps=2, bleu_sentences=1, schedule=schedule,
                         dropout=0.0)  # fmt: skip
        for record in run_training(data, config, f"run-{schedule}"):
            # a score of 7 is what an edited `bleu` returns; others depend on the search
            results["t"] += [record["loss"], record["dev_loss"], record["dev_bleu"] == 7]
    torch.manual_seed(3)  # some of its hypotheses end before the limit
    model = make_model(config, 30, 30).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    src = pad_rows([torch.randint(4, 30, (n,)).tolist() + [EOS] for n in range(1, 9)])
    greedy = beam_search(model, src, 20, beam_size=1)
    results["g"] = [[ids for _, ids in hypotheses] for hypotheses in greedy]
    results["b"] = beam_search(model, src, 20)
    return results

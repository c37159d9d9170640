"""`make bench`: speed, always as a ratio of runs that alternate on this machine.

Prints the ratios, and writes them and the speeds to runs/bench.json.
"""

import tempfile
from functools import partial
from pathlib import Path

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

import utils

# all of this is about the processor; the notebooks take the name from here
utils.device = lambda: torch.device("cpu")

import baselines
import ctranslate2
import numpy as np
from baselines import RIVALS, alternate, training_step

from engine.corpus.formats import read_split
from engine.corpus.pairs import load_data
from engine.export.folder import export
from engine.fast_forms import use_fast_dropout
from engine.files import write_json
from engine.precision import native_dtype
from engine.run_config import RunConfig
from engine.run_folder import BOX
from engine.translator import Translator
from notebooks.data_preparation import Batch, TokenBatchSampler, make_dataloader, pad_rows
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from utils import ROOT

BATCH = 64


def training_jobs():
    """Our `reference` preset and its rivals at the same size: {name: job for `alternate`}.

    A job is a training step on each of eight batches; its work is the number of target tokens.
    """
    config = replace(RunConfig.preset("reference"), dtype=native_dtype())
    source, target, train_set, *_ = load_data(ROOT / "data_small", config)
    sizes = len(source), len(target)
    sampler = TokenBatchSampler(train_set.lengths, config.batch_tokens)
    ours = [batch for batch, _ in zip(make_dataloader(train_set, sampler), range(8))]
    # sorted once, 64 sentences a batch
    order = np.lexsort((train_set.lengths[:, 1], train_set.lengths[:, 0]))
    rows = np.array_split(order, len(order) // 64)
    chosen = np.random.default_rng(0).permutation(len(rows))[:8]
    theirs = [Batch.collate([train_set[row] for row in rows[number]]) for number in chosen]

    def job(step, batches=ours):
        return lambda: int(sum(map(step, batches)))

    def our_job(config, prepare=use_fast_dropout):
        model = prepare(make_model(config, *sizes))
        return job(training_step(model, config, make_optimizer(model, config)[0]))

    model = baselines.allenem(config, *sizes)
    step = partial(baselines.allenem_step, model, optimizer=baselines.adam(model))
    jobs = {"F.dropout": our_job(config, lambda model: model), "Allenem's way": job(step, theirs)}
    for dtype in sorted({"float32", config.dtype}):
        settings = replace(config, dtype=dtype)
        jobs[f"ours {dtype}"] = our_job(settings)
        for name, rival in RIVALS.items():
            jobs[f"{name} {dtype}"] = job(training_step(rival(settings, *sizes), settings))
    return jobs


def training(report):
    """Target tokens a second of our training, and against the best data type of each rival."""
    speeds = alternate(training_jobs())
    report["training, target tokens/s"] = speeds

    def best(name):
        return max(speed for key, speed in speeds.items() if key.startswith(name))

    for rival in ("Allenem's way", *RIVALS):
        report["ratios"][f"training against {rival}"] = best("ours") / best(rival)
    ours = speeds[f"ours {native_dtype()}"]
    report["ratios"]["training against F.dropout"] = ours / speeds["F.dropout"]


# translating


def translating_jobs(translator, folder, batch, beam_size, sentences):
    """{name: job} for these sentences in batches of this size; the work is their number."""
    rows = sorted(map(translator.encode, sentences), key=len)
    batches = [pad_rows(rows[start : start + batch]) for start in range(0, len(rows), batch)]
    tokens = sorted(map(translator.source.segmenter.segment, sentences), key=len)
    # the longest translation of each batch
    results = [translator.search(src, beam_size, translator.alpha) for src in batches]
    longest = [max(map(len, rows_of_batch)) for rows_of_batch in results]
    sizes = len(translator.source), len(translator.target)
    rival = baselines.marian(translator.config, *sizes).eval()

    # Its weights are random, so it is told how far to go: as far as our longest of the batch.
    def marian():
        with torch.inference_mode():
            for src, steps in zip(batches, longest):
                rival.generate(
                    input_ids=src,
                    attention_mask=(src != 0).long(),
                    num_beams=beam_size,
                    do_sample=False,
                    min_new_tokens=steps,
                    max_new_tokens=steps,
                )
        return len(rows)

    threads = torch.get_num_threads()
    engine = ctranslate2.Translator(
        str(folder), compute_type="float32", intra_threads=threads, inter_threads=1
    )

    def ctranslate():
        for start in range(0, len(tokens), batch):
            some = tokens[start : start + batch]
            engine.translate_batch(some, beam_size=beam_size, max_decoding_length=61)
        return len(tokens)

    jobs = {
        "ours": lambda: len(translator.translate(sentences, beam_size, batch_size=batch)),
        "Marian": marian,
        "CTranslate2 float32": ctranslate,
    }
    if (batch, beam_size) == (BATCH, 1):
        slow = baselines.allenem(translator.config, *sizes).eval()
        few = pad_rows(rows[:: len(rows) // 3][:3])
        jobs["Allenem's way"] = lambda: len(baselines.allenem_translate(slow, few))
    return jobs


def translating(report):
    """Sentences a second of the model in the box, one at a time and 64 at once."""
    translator = Translator.load(BOX)
    pairs = read_split(ROOT / "data_small", "test", translator.config)
    sentences = [english for english, _ in pairs]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        export(BOX, model, "ctranslate2")
        for batch, number in ((BATCH, 320), (1, 16)):
            some = sentences[:: len(sentences) // number][:number]
            for beam_size, name in ((1, "greedy"), (4, "beam 4")):
                speeds = alternate(translating_jobs(translator, model, batch, beam_size, some))
                report[f"translating, {name}, batch {batch}, sentences/s"] = speeds
                for rival in [key for key in speeds if key != "ours"]:
                    title = f"{name}, batch {batch}, against {rival}"
                    report["ratios"][title] = speeds["ours"] / speeds[rival]


def main():
    """Runs everything, writes the report, and prints its ratios."""
    report = {"torch": torch.__version__, "data type": native_dtype(), "ratios": {}}
    for stage in (training, translating):
        stage(report)
        write_json(ROOT / "runs" / "bench.json", report)
        print(f"{stage.__name__}: measured, in runs/bench.json", flush=True)
    for name, ratio in report["ratios"].items():
        print(f"{name:60} {ratio:9.2f}")


if __name__ == "__main__":
    main()

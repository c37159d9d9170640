"""`make bench`: speed, always as a ratio of runs that alternate on this machine.

`make bench-full` adds what takes long. Prints a table, writes runs/bench.json, and ends with exit
status 1 when a ratio lies below its floor.
"""

import functools
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

import utils

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler would print lines of its own

# all of this is about the processor; the notebooks take the name from here
utils.device = lambda: torch.device("cpu")

import baselines
import numpy as np
import transformers
from bench_data import data
from bench_growth import growth, quality
from timing import alternate
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from engine.corpus.pairs import read_tsv
from engine.corpus.prepare import load_data
from engine.export.folder import export
from engine.fast_dropout import use_fast_dropout
from engine.files import write_json
from engine.precision import native_dtype
from engine.run_config import RunConfig
from engine.training_run import run_training
from engine.translator import Translator
from engine.wrapped_loss import WrappedLoss
from notebooks.data_preparation import (
    Batch,
    TokenBatchSampler,
    make_dataloader,
    pad_rows,
)
from notebooks.label_smoothing import LabelSmoothing
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import replace
from notebooks.training import train_step
from notebooks.transformer import greedy_search
from notebooks.translation import beam_search
from utils import ROOT

RUN = ROOT / "runs" / "bench"
BATCH = 64
# A ratio below its floor means that something broke. Floors lie well below what was measured: the
# first number where the processor multiplies bfloat16 faster than float32, the second elsewhere.
FLOORS = {
    "training against Allenem's way": (1.6, 1.1),
    "training against nn.Transformer": (1.1, 0.9),
    "training against Marian": (1.2, 0.9),
    "training against F.dropout": (0.95, 0.95),
    "share of the peak, small": (0.2, 0.2),
    "share of the peak, reference": (0.2, 0.2),
    "share of the peak, base": (0.2, 0.2),
    "greedy, batch 64, against Allenem's way": (50, 50),
    "greedy, batch 64, against Marian": (0.9, 0.9),
    "beam 4, batch 64, against Marian": (0.8, 0.8),
    "greedy, batch 64, against CTranslate2 float32": (0.4, 0.4),
    "beam 4, batch 64, against CTranslate2 float32": (0.4, 0.4),
    "data, time per pair, fewest pairs against most": (0.6, 0.6),
    "data, memory per pair, fewest pairs against most": (0.6, 0.6),
    "quality: noise between seeds against the difference of the means": (1, 1),
}


def machine():
    """What this machine can do, as far as it matters here."""
    can = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    names = "avx2 avx512_f avx512_bf16 avx512_vnni amx_bf16 amx_int8".split()
    return {
        "processor": platform.machine(),
        "instructions": [name for name in names if can.get(name)],
        "threads": torch.get_num_threads(),
        "data_type": native_dtype(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


# 1 training


def steps(step, batches):
    """A job: training steps on these batches, whose work is the number of target tokens."""
    return lambda: int(sum(step(batch) for batch in batches))


def job_with(model, optimizer, config, batches):
    """A job: training steps of a model, ours or a library's, with our loss and precision."""
    batch_loss = WrappedLoss(model, LabelSmoothing(config.label_smoothing), config)
    return steps(
        lambda batch: train_step(batch_loss, batch, optimizer, config.max_grad_norm)[1], batches
    )


def our_job(config, sizes, batches, prepare=use_fast_dropout):
    """A job: our own training steps with this config on these batches."""
    model = prepare(make_model(config, *sizes))
    optimizer, _ = make_optimizer(model, config)
    return job_with(model, optimizer, config, batches)


def training_jobs(batches=8):
    """Our `reference` preset and its rivals at the same size: {name: job}."""
    config = replace(RunConfig.preset("reference"), dtype=native_dtype())
    source, target, train_set, _, _ = load_data(ROOT / "data_small", config)
    sizes = len(source), len(target)
    sampler = TokenBatchSampler(train_set.lengths, config.batch_tokens)
    ours = [batch for batch, _ in zip(make_dataloader(train_set, sampler), range(batches))]
    # sorted once, 64 sentences a batch
    order = np.lexsort((train_set.lengths[:, 1], train_set.lengths[:, 0]))
    rows = np.array_split(order, len(order) // 64)
    chosen = np.random.default_rng(0).permutation(len(rows))[:batches]
    theirs = [Batch.collate([train_set[row] for row in rows[number]]) for number in chosen]
    jobs = {}

    def adam(model, **options):
        options |= dict(lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
        return torch.optim.Adam(model.train().parameters(), **options)

    dtypes = sorted({"float32", config.dtype})
    for dtype in dtypes:
        jobs[f"ours {dtype}"] = our_job(replace(config, dtype=dtype), sizes, ours)
    jobs["nn.Dropout in ours"] = our_job(config, sizes, ours, prepare=lambda model: model)
    model = baselines.Allenem(config, *sizes)
    step = functools.partial(baselines.allenem_step, model, optimizer=adam(model))
    jobs["Allenem float32"] = steps(step, theirs)
    rivals = {
        "nn.Transformer": lambda: baselines.TorchTransformer(make_model(config, *sizes), config),
        "Marian": lambda: baselines.MarianParts(baselines.marian(config, *sizes)),
    }
    for name, make in rivals.items():
        for dtype in dtypes:
            model = make()
            settings = replace(config, dtype=dtype)
            jobs[f"{name} {dtype}"] = job_with(model, adam(model, fused=True), settings, ours)
    return jobs


def training(report, rounds):
    """Target tokens a second of our training, and against the best data type of each rival."""
    speeds = alternate(training_jobs(), rounds)
    report["training, target tokens/s"] = speeds

    def best(name):
        return max(speed for key, speed in speeds.items() if key.startswith(name))

    ours = speeds[f"ours {native_dtype()}"]
    report["ratios"]["training against F.dropout"] = ours / speeds["nn.Dropout in ours"]
    report["ratios"]["training against Allenem's way"] = best("ours") / best("Allenem")
    report["ratios"]["training against nn.Transformer"] = best("ours") / best("nn.Transformer")
    report["ratios"]["training against Marian"] = best("ours") / best("Marian")


# 2 share of the peak, and where the time goes


class Products(TorchDispatchMode):
    """Notes each matrix product that runs in it: the function, and its tensors' shapes."""

    NAMES = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.baddbmm.default")

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if str(function) in self.NAMES:
            form = tuple((part.shape, part.stride(), part.dtype) for part in arguments)
            self.calls.append((function, form))
        return function(*arguments, **(options or {}))


def bare(products):
    """A job: these products alone, on random matrices of the same shapes and data types."""
    tensors = {
        form: [torch.empty_strided(*part[:2], dtype=part[2]).normal_() for part in form]
        for _, form in products
    }

    def job():
        for function, form in products:
            function(*tensors[form])
        return 1

    return job


def peak(report, rounds):
    """What a step's bare products take, as a share of the step."""
    cases = (("small", 6, {}), ("reference", 4, {}), ("base", 1, {"batch_tokens": 4096}))
    for name, batches, changes in cases:
        config = replace(RunConfig.preset(name), dtype=native_dtype(), **changes)
        source, target, train_set, _, _ = load_data(ROOT / "data_small", config)
        sampler = TokenBatchSampler(train_set.lengths, config.batch_tokens)
        some = [batch for batch, _ in zip(make_dataloader(train_set, sampler), range(batches))]
        job = our_job(config, (len(source), len(target)), some)
        with Products() as products:
            tokens = job()
        speeds = alternate({"tokens": job, "products": bare(products.calls)}, rounds)
        report[f"peak, {name}"] = speeds
        report["ratios"][f"share of the peak, {name}"] = (
            speeds["tokens"] / tokens / speeds["products"]
        )
        if name == "small":
            report["where a training step's time goes"] = kinds(job)


KINDS = {"mm": "products", "addmm": "products", "bmm": "products", "copy_": "casts and copies",
         "_fused_adam_": "Adam", "random_": "random numbers of dropout", "mul": "multiplications",
         "add": "sums", "add_": "sums", "sum": "sums", "cat": "casts and copies",
         "index": "gathers", "gather": "gathers", "index_select": "gathers",
         "topk": "softmax and top k"}  # fmt: skip


def kinds(job):
    """Where a job's time goes: {kind of operation: per cent of the time in all operations}."""
    job()  # what a new shape costs is not asked for here
    with profile() as profiler:
        job()
    times = Counter()
    for row in profiler.key_averages():
        name = row.key.removeprefix("aten::")
        kind = "softmax and top k" if "softmax" in name else KINDS.get(name, "the rest")
        times[kind] += row.self_cpu_time_total
    return {kind: 100 * taken / times.total() for kind, taken in times.most_common()}


# 3 translating


def trained():
    """A `small` model after 800 steps, whose translations have natural lengths.

    It is trained once, in about three minutes.
    """
    short = dict(steps=800, batch_tokens=1024, eval_steps=800, bleu_sentences=0)
    config = replace(RunConfig.preset("small"), **short)
    run_training(ROOT / "data_small", config, RUN)
    return Translator.load(RUN)


def best_ids(translator, src, beam_size):
    """The ids that are written for each row of a batch."""
    model = translator.model
    max_length = translator.config.max_length
    if beam_size == 1:
        return greedy_search(model, src, max_length)
    return [hypotheses[0][1] for hypotheses in beam_search(model, src, max_length, beam_size)]


def translating_jobs(translator, folder, batch, beam_size, sentences):
    """{name: job} for these sentences in batches of this size; the work is their number."""
    import ctranslate2

    rows = sorted(map(translator.encode, sentences), key=len)
    batches = [pad_rows(rows[start : start + batch]) for start in range(0, len(rows), batch)]
    tokens = sorted(map(translator.source.segmenter.segment, sentences), key=len)
    # the longest translation of each batch
    longest = [max(map(len, best_ids(translator, src, beam_size))) for src in batches]
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

    def engine(kind):
        loaded = ctranslate2.Translator(
            str(folder), compute_type=kind, intra_threads=torch.get_num_threads(), inter_threads=1
        )

        def job():
            for start in range(0, len(tokens), batch):
                some = tokens[start : start + batch]
                loaded.translate_batch(some, beam_size=beam_size, max_decoding_length=61)
            return len(tokens)

        return job

    jobs = {
        "ours": lambda: len(translator.translate(sentences, beam_size, batch_size=batch)),
        "Marian": marian,
        "CTranslate2 float32": engine("float32"),
        "CTranslate2 int8": engine("int8"),
    }
    if (batch, beam_size) == (BATCH, 1):
        slow = baselines.Allenem(translator.config, *sizes).eval()
        few = pad_rows(rows[:: len(rows) // 3][:3])
        jobs["Allenem"] = lambda: len(baselines.allenem_translate(slow, few))
    return jobs


def translating(report, rounds):
    """Sentences a second, greedy and beam 4, one at a time and 64 at once."""
    translator = trained()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        export(RUN, model, "ctranslate2")
        pairs = read_tsv(ROOT / "data_small", "test", translator.config)
        sentences = [english for english, _ in pairs]
        for batch, number in ((BATCH, 320), (1, 16)):
            some = sentences[:: len(sentences) // number][:number]
            for beam_size, name in ((1, "greedy"), (4, "beam 4")):
                jobs = translating_jobs(translator, model, batch, beam_size, some)
                if batch == BATCH:
                    report[f"where the time of a search goes, {name}"] = kinds(jobs["ours"])
                speeds = alternate(jobs, rounds)
                report[f"translating, {name}, batch {batch}, sentences/s"] = speeds
                for rival in ("Allenem", "Marian", "CTranslate2 float32", "CTranslate2 int8"):
                    if rival in speeds:
                        against = "Allenem's way" if rival == "Allenem" else rival
                        title = f"{name}, batch {batch}, against {against}"
                        report["ratios"][title] = speeds["ours"] / speeds[rival]


def main(argv):
    """Runs everything, prints the table, writes the report, and says whether a floor was missed."""
    full = argv == ["--full"]
    began = time.perf_counter()
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")  # the rivals' own
    rounds, report = (5 if full else 3), {"machine": machine(), "ratios": {}}
    print(json.dumps(report["machine"]))
    sizes = (10_000, 100_000, 1_000_000) if full else (10_000, 100_000)
    stages = [
        lambda: training(report, rounds),
        lambda: peak(report, rounds),
        lambda: translating(report, rounds),
        lambda: data(report, rounds, sizes),
    ]
    stages += [lambda: growth(report), lambda: quality(report)] if full else []
    shown = {"machine", "ratios"}
    for stage in stages:
        stage()
        for name in report.keys() - shown:
            numbers = [
                f"{key} {value:,.4g}"
                for key, value in report[name].items()
                if isinstance(value, int | float)
            ]
            print(f"{name}: {', '.join(numbers)}", flush=True)
        shown |= report.keys()
    report["minutes"] = round((time.perf_counter() - began) / 60, 1)
    write_json(ROOT / "runs" / ("bench-full.json" if full else "bench.json"), report)
    return print_table(report)


def print_table(report):
    """Prints the ratios; returns 1 when a ratio lies below its floor, else 0."""
    native = report["machine"]["data_type"] == "bfloat16"
    missed = []
    print(f"\n{'ratio':60} {'measured':>9} {'floor':>6}")
    for name, ratio in report["ratios"].items():
        floor = FLOORS[name][0 if native else 1] if name in FLOORS else None
        missed += [name] if floor is not None and ratio < floor else []
        print(f"{name:60} {ratio:9.2f} {'' if floor is None else floor:>6}")
    print(f"{report['minutes']} minutes" + "".join(f"\nbelow its floor: {name}" for name in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    raise SystemExit(main(sys.argv[1:]))

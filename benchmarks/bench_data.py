"""Part of `make bench`: time and memory from a file to batches, each in a process of its own.

python benchmarks/bench_data.py ours|Allenem FILE
"""

import gc
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLLECTOR = gc.get_threshold()  # Python's own, before the next line changes it

from engine.startup import tune_process

tune_process()  # before PyTorch

import baselines
import numpy as np

from engine.corpus.prepare import load_data
from engine.corpus.tokenizers import make_tokenizers
from engine.run_config import RunConfig
from notebooks.data_preparation import TokenBatchSampler, make_dataloader
from utils import ROOT


def resident(kind="VmRSS"):
    """MiB that this process holds now (VmRSS), or has held at most since it last asked so (VmHWM).

    Not a number off Linux.
    """
    if not Path("/proc/self/clear_refs").exists():
        return math.nan
    if kind == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    matching = [line for line in lines if line.startswith(kind)]
    return int(matching[0].split()[1]) / 1024


def prepare_pairs(way, path):
    """In a process of its own: from a file to all batches of an epoch.

    Prints seconds and the memory taken, in MiB.
    """
    before = resident()
    began = time.perf_counter()
    config = RunConfig.preset("small")
    if way == "ours":
        source, target, train_set, _, _ = load_data(Path(path).parent, config)
        sampler = TokenBatchSampler(train_set.lengths, config.batch_tokens)
        batches = sum(1 for _ in make_dataloader(train_set, sampler))
    else:
        gc.set_threshold(*COLLECTOR)
        source, target = make_tokenizers([("a", "b")] * 2, config)
        batches = len(baselines.allenem_data(path, source, target))
    seconds = time.perf_counter() - began
    memory = resident("VmHWM") - before
    print(json.dumps({"seconds": seconds, "memory": memory, "batches": batches}))


def data(report, rounds, sizes):
    """Time and memory from a file to batches, for several numbers of pairs."""
    lines = (ROOT / "data_small" / "train.tsv").read_text(encoding="utf-8").splitlines()
    medians = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            train = Path(folder) / "train.tsv"
            chosen = np.random.default_rng(0).integers(len(lines), size=size)
            train.write_text("".join(lines[row] + "\n" for row in chosen), encoding="utf-8")
            (Path(folder) / "dev.tsv").write_text(lines[0] + "\n", encoding="utf-8")
            runs = {"ours": [], "Allenem": []}
            for _ in range(rounds):
                for way, results in runs.items():
                    command = [sys.executable, __file__, way, str(train)]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    results.append(json.loads(done.stdout))
        for way, results in runs.items():
            for unit in ("seconds", "memory"):
                medians[way, size, unit] = statistics.median(result[unit] for result in results)
            report[f"data, {size:,} pairs, {way}"] = {
                "sentences/s": size / medians[way, size, "seconds"],
                "MiB": medians[way, size, "memory"],
            }
    small = sizes[0]
    large = sizes[-1]
    for unit, name in (("seconds", "time"), ("memory", "memory")):
        ratio = (medians["ours", small, unit] / small) / (medians["ours", large, unit] / large)
        report["ratios"][f"data, {name} per pair, fewest pairs against most"] = ratio
    report["ratios"][f"data, {large:,} pairs, speed against Allenem's way"] = (
        medians["Allenem", large, "seconds"] / medians["ours", large, "seconds"]
    )


if __name__ == "__main__":
    prepare_pairs(*sys.argv[1:])

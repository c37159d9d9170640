"""What preparing millions of pairs takes:
`python benchmarks/large_data.py --pairs 5200000 --folder DIR`.

Writes synthetic pairs to DIR as train.jsonl, dev.jsonl and test.jsonl in the format of
translation2019zh, prepares them with `python prepare.py`, whose bars say how long each stage took,
and prints seconds, the highest sum of anonymous memory over all processes, and bytes on the disk.
Linux only.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil  # Accelerate needs it

from engine.corpus.pairs import read_tsv
from engine.run_config import RunConfig
from utils import ROOT

PREPARED = ROOT / "data_large" / "prepared"


def write_pairs(folder, count):
    """Writes a data set of `count` pairs.

    A pair is three clauses, each the front of one sentence of data_small and the back of another:
    about 25 English words and 39 Chinese characters, and hardly a clause twice, as in real text.
    """
    pairs = read_tsv(ROOT / "data_small", "train", RunConfig())
    sentences = [(english.split(), chinese) for english, chinese in pairs]
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for split, size in (("dev", 500), ("test", 500), ("train", count)):
        with open(folder / f"{split}.jsonl", "w", encoding="utf-8") as file:
            for _ in range(size):
                clauses = [make_clause(*draw.choices(sentences, k=2)) for _ in range(3)]
                english, chinese = zip(*clauses)
                pair = {"english": " ".join(english), "chinese": "".join(chinese)}
                file.write(json.dumps(pair, ensure_ascii=False) + "\n")


def make_clause(front, back):
    """English and Chinese of the front half of one sentence and the back half of another."""
    english, chinese = (
        one[: len(one) // 2] + other[len(other) // 2 :] for one, other in zip(front, back)
    )
    return " ".join(english), chinese


def anonymous_memory(process):
    """Bytes of anonymous memory of a process and all that it has started."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            held = one.memory_info()
        except psutil.NoSuchProcess:  # ended meanwhile
            continue
        total += held.rss - held.shared
    return total


def disk_used():
    """Bytes of all files below the prepared data."""
    done = subprocess.run(["du", "-sb", PREPARED], capture_output=True, text=True)
    return int(done.stdout.split()[0]) if done.stdout else 0


def run_prepare(options):
    """One run of the command: seconds, peak of memory, peak of bytes written."""
    before = disk_used()
    memory = disk = 0
    began = time.perf_counter()
    process = psutil.Popen([sys.executable, "prepare.py", *options], cwd=ROOT)
    while process.poll() is None:
        memory = max(memory, anonymous_memory(process))
        disk = max(disk, disk_used() - before)
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"prepare.py ended with status {process.returncode}")
    return time.perf_counter() - began, memory, disk


def main():
    """Writes the pairs, prepares them, asks for them again, prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=5_200_000)
    parser.add_argument("--folder", type=Path, required=True, help="where the pairs are written")
    parser.add_argument("--config", default="base")
    parser.add_argument("--workers", default=str(min(4, os.cpu_count())))
    given = parser.parse_args()
    write_pairs(given.folder, given.pairs)
    before = disk_used()
    options = ["--data", str(given.folder), "--config", given.config, "--workers", given.workers]
    seconds, memory, disk = run_prepare(options)
    kept = disk_used() - before
    again, *_ = run_prepare(options)
    speed = given.pairs / seconds
    print(f"{seconds:.0f} s, {speed:,.0f} pairs a second; done already: {again:.1f} s")
    print(f"memory {memory / 2**30:.2f} GiB, disk {disk / 2**30:.2f}, then {kept / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()

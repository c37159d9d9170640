"""What preparing millions of pairs takes:
`python benchmarks/large_data.py --pairs 5200000 --folder DIR`.

Writes synthetic pairs to DIR as train.jsonl, dev.jsonl and test.jsonl in the format of
translation2019zh, prepares them with `python prepare.py`, whose bars say how long each stage took,
and prints seconds and the highest memory. Linux only.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from engine.corpus.formats import read_split
from engine.run_config import RunConfig
from utils import ROOT


def write_pairs(folder, count):
    """Writes a data set of `count` pairs.

    A pair is three clauses, each the front of one sentence of data_small and the back of another:
    about 25 English words and 39 Chinese characters, and hardly a clause twice, as in real text.
    """
    pairs = read_split(ROOT / "data_small", "train", RunConfig())
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


def run_prepare(options):
    """Runs the command once. Returns the seconds that it took."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "prepare.py", *options], cwd=ROOT, check=True)
    return time.perf_counter() - began


def main():
    """Writes the pairs, prepares them, asks for them again, prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=5_200_000)
    parser.add_argument("--folder", type=Path, required=True, help="where the pairs are written")
    parser.add_argument("--config", default="base")
    given = parser.parse_args()
    write_pairs(given.folder, given.pairs)
    options = ["--data", str(given.folder), "--config", given.config]
    seconds = run_prepare(options)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20  # Linux counts KiB
    speed = given.pairs / seconds
    print(f"{seconds:.0f} s, {speed:,.0f} pairs a second, {memory:.2f} GiB of memory")
    print(f"done already: {run_prepare(options):.1f} s")


if __name__ == "__main__":
    main()

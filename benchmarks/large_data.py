"""What preparing millions of pairs takes:
`python benchmarks/large_data.py --pairs 5200000 --folder DIR`.

Writes synthetic pairs to DIR as train.jsonl, dev.jsonl and test.jsonl in the format of
translation2019zh, prepares them with `python prepare.py`, and prints as JSON: seconds of each
stage, the highest sum of anonymous memory over all processes, bytes on the disk, and pairs a
second. Linux only: memory is read from /proc.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from engine.corpus.pairs import read_tsv
from engine.run_config import RunConfig
from utils import ROOT

CHUNK = 10_000  # pairs written at a time
# a tqdm bar: name and the time it has run
BAR = re.compile(r"(\w+): [^\r\n]*?\[(?:(\d+):)?(\d+):(\d+)<?")


def write_pairs(folder, count):
    """Writes a data set of `count` pairs.

    Of 1,000, 20 are copies of others, 1 has an empty side, 1 has no Chinese. A pair is three
    clauses, each the front of one sentence of data_small and the back of another: about 25 English
    words and 39 Chinese characters, and hardly a clause twice, as in real text. The last pair of
    train also stands in test.
    """
    sentences = read_tsv(ROOT / "data_small", "train", RunConfig())
    halves = [(cut(english.split()), cut(chinese)) for english, chinese in sentences]
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for split, size in (("dev", 500), ("test", 500), ("train", count)):
        with open(folder / f"{split}.jsonl", "w", encoding="utf-8") as file:
            for start in range(0, size, CHUNK):
                rows = random.integers(len(halves), size=(min(CHUNK, size - start), 3, 2))
                rows[9::50] = rows[8::50][: len(rows[9::50])]
                pairs = [make_pair(row.tolist(), halves) for row in rows]
                if split == "train":
                    pairs[500::1000] = [("", chinese) for _, chinese in pairs[500::1000]]
                    pairs[700::1000] = [(english, english) for english, _ in pairs[700::1000]]
                elif split == "test":
                    leaked = pairs[-1]
                if start + len(rows) == count and split == "train":
                    pairs[-1] = leaked
                file.writelines(
                    json.dumps({"english": a, "chinese": b}, ensure_ascii=False) + "\n"
                    for a, b in pairs
                )


def cut(tokens):
    """The front and the back half of a list or a string."""
    return tokens[: len(tokens) // 2], tokens[len(tokens) // 2 :]


def make_pair(clauses, halves):
    """English and Chinese text of clauses, each (sentence of the front, sentence of the back)."""
    english = " ".join(
        " ".join(halves[front][0][0] + halves[back][0][1]) for front, back in clauses
    )
    return english, "".join(halves[front][1][0] + halves[back][1][1] for front, back in clauses)


def anonymous_memory(process):
    """Bytes of anonymous memory of each running process of a tree, by process id."""
    parents = {}
    sizes = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # ended meanwhile
            continue
        number = int(status.parent.name)
        parents[number] = int(fields["PPid"])
        sizes[number] = 1024 * int(fields.get("RssAnon", "0 kB").split()[0])
    tree = [process]
    for number in tree:
        tree += [child for child, parent in parents.items() if parent == number]
    return {number: sizes[number] for number in tree if number in sizes}


def folder_size(folder):
    """Bytes of all files below a folder."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except OSError:  # renamed or removed meanwhile
                continue
    return total


def run_prepare(folder, options):
    """One run of the command.

    Returns (seconds, seconds of each stage, peak memory by stage, peak of bytes written, stdout).
    """
    prepared = ROOT / "data_large" / "prepared"
    before = folder_size(prepared)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "prepare.py", "--data", str(folder), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    text = {"out": "", "err": ""}
    stage = "start"
    memory = {}
    disk = 0

    def read(stream, name):
        while part := os.read(stream.fileno(), 1 << 16):
            text[name] += part.decode(errors="replace")

    streams = ((process.stdout, "out"), (process.stderr, "err"))
    readers = [threading.Thread(target=read, args=pair) for pair in streams]
    for reader in readers:
        reader.start()
    for turn in range(1 << 40):
        stage = ([stage] + [match[1] for match in BAR.finditer(text["err"])])[-1]
        sizes = sorted(anonymous_memory(process.pid).values(), reverse=True)
        if sum(sizes) > memory.get(stage, {"bytes": -1})["bytes"]:
            memory[stage] = {"bytes": sum(sizes), "by_process": sizes}
        disk = max(disk, folder_size(prepared) - before) if turn % 20 == 0 else disk
        if process.poll() is not None:
            break
        time.sleep(0.1)
    seconds = time.perf_counter() - began
    for reader in readers:
        reader.join()
    if process.returncode:
        raise SystemExit(f"prepare.py ended with status {process.returncode}:\n{text['err']}")
    stages = {
        name: 3600 * int(h or 0) + 60 * int(m) + int(s)
        for name, h, m, s in BAR.findall(text["err"])
    }
    return seconds, stages, memory, disk, text["out"]


def main():
    """Writes the pairs, prepares them, asks for them again, prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=5_200_000)
    parser.add_argument("--folder", type=Path, required=True, help="where the pairs are written")
    parser.add_argument("--config", default="base")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count()))
    arguments = parser.parse_args()
    began = time.perf_counter()
    write_pairs(arguments.folder, arguments.pairs)
    written = time.perf_counter() - began
    options = ["--config", arguments.config, "--workers", str(arguments.workers)]
    seconds, stages, memory, disk, printed = run_prepare(arguments.folder, options)
    again = run_prepare(arguments.folder, options)[0]
    prepared = Path(printed.splitlines()[-1].removeprefix("prepared in "))
    result = {
        "pairs": arguments.pairs,
        "workers": arguments.workers,
        "seconds_to_write_pairs": round(written, 1),
        "seconds": round(seconds, 1),
        "seconds_by_stage": stages,
        "seconds_when_done_already": round(again, 1),
        "pairs_per_second": round(arguments.pairs / seconds),
        "peak_anonymous_mib": round(max(peak["bytes"] for peak in memory.values()) / 2**20),
        "peak_by_stage": memory,
        "train_mib": round((arguments.folder / "train.jsonl").stat().st_size / 2**20),
        "peak_disk_mib": round(disk / 2**20),
        "prepared_mib": round(folder_size(prepared) / 2**20),
        "folder": str(prepared),
        "report": json.loads((prepared / "report.json").read_text(encoding="utf-8")),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

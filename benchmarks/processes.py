"""Throughput of two processes against one, each with one thread.

`python benchmarks/processes.py [preset]`. Runs alternate; the median of the target tokens per
second, the first record of each run (its warm-up) left out.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def throughput(preset, processes, folder, steps=120):
    """Target tokens a second of a short run."""
    command = [sys.executable, "-m"]
    command += f"torch.distributed.run --standalone --nproc-per-node {processes}".split()
    command += f"train.py -- --config {preset} --batch-tokens 1024".split()
    command += f"--steps {steps} --eval-steps {steps} --bleu-sentences 0 --restart --run".split()
    command += [str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return statistics.median(record["tokens_per_second"] for record in records[1:])


def main(preset="small", rounds=2):
    with tempfile.TemporaryDirectory() as folder:
        throughputs = {1: [], 2: []}
        for _ in range(rounds):
            for processes in throughputs:
                throughputs[processes].append(throughput(preset, processes, Path(folder) / "run"))
    one, two = (statistics.median(values) for values in throughputs.values())
    print(
        f"{preset}: {one:,.0f} target tokens/s with 1 process, "
        f"{two:,.0f} with 2: {two / one:.2f} times"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

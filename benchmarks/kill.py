"""Preparation and training killed with SIGKILL at ten random moments each.

`python benchmarks/kill.py` (some minutes): after each kill the same command is started again.
At the end everything must equal a run that nothing disturbed: ids, weights, Adam's
moments, state.json, and the log but for its times.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))


def run_killed(command, seconds, compare):
    """Starts the command again and again, killed at random moments, until ten kills have hit it.

    Whenever it has come to its end, before a kill or at last, `compare` looks at the result and
    clears it away.
    """
    silent = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    hits = 0
    while hits < 10:
        process = subprocess.Popen(command, cwd=ROOT, **silent, start_new_session=True)
        time.sleep(random.uniform(0.1, 0.7) * seconds)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            hits += 1
            process.wait()
        else:
            compare()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    compare()


def timed(command):
    """Runs the command undisturbed: its seconds."""
    began = time.time()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.time() - began


def main():
    from conftest import assert_same_run

    random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    folder = Path(tempfile.mkdtemp())
    data = folder / "data"
    shutil.copytree(ROOT / "data_small", data)
    # so that it is prepared on the disk
    subprocess.run(["gzip", str(data / "train.tsv")], check=True)
    tiny = ["--data", str(data), "--config", "tiny"]
    training = [sys.executable, "train.py", *tiny]
    training += "--dtype float32 --steps 400 --eval-steps 40".split()
    training += "--d-model 64 --bleu-sentences 20 --run".split()
    prepared = ROOT / "data_large" / "prepared"
    before = set(prepared.glob("*")) if prepared.exists() else set()

    def new():
        """What has been prepared since."""
        return sorted(path for path in prepared.glob("*") if path not in before and path.is_dir())

    def compare_prepared():
        [cut] = new()
        names = {path.relative_to(kept) for path in kept.rglob("*")}
        assert names == {path.relative_to(cut) for path in cut.rglob("*")}
        for name in names:
            same = (kept / name).is_dir() or (kept / name).read_bytes() == (cut / name).read_bytes()
            assert same, kept / name
        shutil.rmtree(cut)

    def compare_runs():
        assert_same_run(folder / "straight", folder / "cut")
        shutil.rmtree(folder / "cut")

    preparing = [sys.executable, "prepare.py", *tiny]
    seconds = timed(preparing)
    [straight] = new()
    kept = folder / "prepared"
    shutil.move(straight, kept)
    run_killed(preparing, seconds, compare_prepared)
    print(f"preparation of {seconds:.0f} s: killed 10 times, all files equal", flush=True)

    seconds = timed([*training, str(folder / "straight")])
    run_killed([*training, str(folder / "cut")], seconds, compare_runs)
    print(f"training of {seconds:.0f} s: killed 10 times, tensors, states and log equal")
    shutil.rmtree(folder)
    for path in new():
        shutil.rmtree(path)


if __name__ == "__main__":
    main()

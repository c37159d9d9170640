"""What `make test` runs: style, the tests, and all notebooks; prints how long each part took.

Two workers share the processors, each takes whole files. All parts run, whatever fails. The
environment variable STARTED, seconds since 1970, is when make began to set up what they need.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TWO_AT_A_TIME = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
LONGEST = "notebooks/15_training.ipynb"  # begins first: the others take as long together
PYTEST = [sys.executable, "-m", "pytest", "-q", *TWO_AT_A_TIME]
RUFF = [sys.executable, "-m", "ruff"]
PARTS = {
    "style": [[*RUFF, "check", "."], [*RUFF, "format", "--check", "."]],
    "tests": [[*PYTEST, "tests/"]],
    "notebooks": [[*PYTEST, "--nbval", LONGEST, "notebooks/"]],
}


def run(command):
    """Runs a command, with its share of the processors for each worker; returns its status."""
    threads = str(max(1, (os.cpu_count() or 2) // 2))
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main():
    """Runs all parts. Returns 0 if nothing failed, else 1."""
    before = time.time()
    minutes = {"set-up": before - float(os.environ.get("STARTED", before))}
    failed = []
    for name, commands in PARTS.items():
        before = time.time()
        failed += [name for command in commands if run(command) != 0]
        minutes[name] = time.time() - before
    times = [f"{name} {seconds / 60:.1f}" for name, seconds in minutes.items()]
    print("minutes:", ", ".join(times))
    if failed:
        print("failed:", ", ".join(dict.fromkeys(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

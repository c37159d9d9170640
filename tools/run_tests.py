"""What `make test` runs: style, the tests, and all notebooks; prints how long each part took.

All parts run, whatever fails. The environment variable STARTED, seconds since 1970, is when make
began to set up what they need.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest"]
# each worker takes whole files; the slowest are named
TWO_AT_A_TIME = ["-n", "2", "--dist", "loadfile", "--durations=15", "--durations-min=10"]
# the longest first, so that both workers end together
ORDER = "15 11 14 12 16 07 08 13 00 09 06 02".split()
NOTEBOOKS = [
    *(str(path) for number in ORDER for path in ROOT.glob(f"notebooks/{number}_*.ipynb")),
    *(str(path) for path in sorted(ROOT.glob("notebooks/[0-9][0-9]_*.ipynb"))
      if path.name[:2] not in ORDER),
]  # fmt: skip
NBVAL = ["--nbval", "--nbval-current-env"]  # whatever kernel a lesson was saved with
RUFF = [sys.executable, "-m", "ruff"]
PARTS = {
    "style": [[*RUFF, "check", "."], [*RUFF, "format", "--check", "."]],
    "tests": [[*PYTEST, *TWO_AT_A_TIME, "tests/"]],
    "notebooks": [[*PYTEST, *TWO_AT_A_TIME, "--no-loadscope-reorder", *NBVAL, *NOTEBOOKS]],
}


def main():
    """Runs all parts. Returns 0 if nothing failed, else 1."""
    # two workers share the processors
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    before = time.time()
    minutes = {"set-up": before - float(os.environ.get("STARTED", before))}
    failed = []
    for name, commands in PARTS.items():
        before = time.time()
        failed += [name for command in commands if subprocess.run(command, cwd=ROOT).returncode]
        minutes[name] = time.time() - before
    times = [f"{name} {seconds / 60:.1f}" for name, seconds in minutes.items()]
    print("minutes:", ", ".join(times))
    if failed:
        print("failed:", ", ".join(dict.fromkeys(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

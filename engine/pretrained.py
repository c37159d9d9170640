"""The model in the box, data_small/model: when programs translate with it."""

import sys

from engine.run_folder import BOX, RunFolder
from utils import ROOT


def default_run():
    """What is translated with where no run is named: runs/small if it is finished, else the box.

    Says on standard error which.
    """
    run = RunFolder(ROOT / "runs" / "small")
    if run.is_finished():
        print(f"translating with {run.path}", file=sys.stderr)
        return run.path
    steps = "make run trains one of your own" if not run.path.exists() else "it is not finished"
    print(f"translating with the model in the box, {BOX}: no runs/small ({steps})", file=sys.stderr)
    return BOX

"""What is translated with where no run is named, and what a reader is told of it."""

import sys

from engine.lessons import edited_among, say_once, trained_with_others, used
from engine.run_folder import BOX, RunFolder, is_the_box
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


def tell_lessons(run):
    """Says on standard error where the lessons are others than those that trained the weights."""
    if is_the_box(run):
        if numbers := edited_among(0, 16):
            say_once(f"the model in the box: {used(numbers)}")
    elif others := trained_with_others(RunFolder(run).read_made()):
        say_once(f"{run}: trained with other lessons: {', '.join(others)}")

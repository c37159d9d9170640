"""The model in the box, data_small/model: when programs translate with it."""

import sys
from contextlib import suppress
from pathlib import Path

from engine.definitions import edited_names, lesson_digests, lessons_changed
from engine.errors import InputError
from engine.files import read_json
from engine.run_folder import BOX, RunFolder, is_the_box
from utils import ROOT

# what lesson 01 defines and no translation needs, which reads with a cache and without masks
TRAINING_ONLY = {
    "Batch",
    "causal_mask",
    "encode_pairs",
    "make_dataloader",
    "make_tokenizers",
    "read_pairs",
    "TokenBatchSampler",
    "TranslationDataset",
}


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


def your_version(names):
    """The line for a reader whose edits of these definitions the model in the box computes with."""
    return f"the model in the box: your version of {', '.join(names)} is used"


def tell_edited(run):
    """Says on stderr where the lessons are others than those that the weights were trained with.

    And which edits of them make no difference now.
    """
    edited = edited_names()
    used = [name for name in edited if name not in TRAINING_ONLY]
    if used and is_the_box(run):
        print(your_version(used), file=sys.stderr)
    if unused := [name for name in edited if name in TRAINING_ONLY]:
        print(f"edited, and used in training only: {', '.join(unused)}", file=sys.stderr)
    if is_the_box(run):
        return
    with suppress(InputError):  # none there: a stranger's folder
        now = {"lessons": lesson_digests()["lessons"]}
        if lessons_changed(read_json(Path(run) / "made.json"), now):
            changed = "the lessons have changed since it was trained, and are used as they are now"
            print(f"{run}: {changed}", file=sys.stderr)

"""The log of a training for a tracker, such as TensorBoard."""

import sys

from tqdm import tqdm

from engine.errors import InputError
from utils import device

PROJECT = "transformer"  # what a tracker calls all our runs


def tracked(on_log, name, folder):
    """The function `on_log`, which then also sends each record's numbers to a tracker, if named.

    TensorBoard writes into the run's folder. InputError where the tracker's package is missing.
    """
    from accelerate import Accelerator, tracking

    if not name:
        return on_log
    if name not in map(str, tracking.get_available_trackers()):
        raise InputError(f"--tracker {name}: it is not installed. Try: pip install {name}")
    tracker = Accelerator(cpu=device().type != "cuda", log_with=name, project_dir=folder)

    works = True

    def log(records):
        nonlocal works
        on_log(records)
        if not works:
            return
        numbers = {key: value for key, value in records[-1].items() if type(value) in (int, float)}
        try:
            if not tracker.trackers:  # the folder is ready only now
                tracker.init_trackers(PROJECT)
            tracker.log(numbers, step=numbers.pop("step"))
        except Exception as error:  # whatever a tracker raises: the training is worth more
            works = False
            wrong = f"{type(error).__name__}: {error}"
            tqdm.write(f"--tracker {name}: {wrong}. The run goes on without it", file=sys.stderr)

    return log

"""What studies share: rows of settings are trained side by side, each result is kept at once."""

import multiprocessing
import os
import platform
import shutil
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from engine.errors import InputError
from engine.files import file_digest, read_json, write_json
from utils import ROOT, device

DATA = ROOT / "data_small"
STEPS = 1000  # of a run that decides; one of full length confirms
JOBS = 2  # trainings at the same time


def train_missing(rows, run, output, command, jobs=JOBS):
    """Runs `run(row)` for the rows that `output` lacks, and writes the file after each of them.

    A row is a dictionary of settings, and its result holds it. The file also says on which machine
    and when its last row was trained. Yields the results. Raises InputError where the file's rows
    were trained on another corpus.
    """
    header = {"command": command, **digests()}
    stored = read_json(output) if output.exists() else {**header, "rows": []}
    for name, digest in digests().items():
        if stored.get(name) != digest:
            raise InputError(
                f"{output}: holds trainings on another {name}. "
                "Remove it, and their folders in runs, to train anew"
            )
    done = stored["rows"]
    missing = [row for row in rows if not any(row.items() <= one.items() for one in done)]
    workers = dict(mp_context=multiprocessing.get_context("spawn"), initializer=one_thread)
    with ProcessPoolExecutor(jobs, **workers) as pool:
        try:
            for future in as_completed([pool.submit(run, row) for row in missing]):
                done.append(future.result())
                when = {"machine": machine(), "date": time.strftime("%Y-%m-%d")}
                write_json(output, {**header, **when, "rows": done})
                yield done[-1]
        except BaseException:  # or the rows that wait would be trained, and not written
            pool.shutdown(cancel_futures=True)
            raise


def one_thread():
    """Trainings that run at the same time share the processors."""
    if device().type == "cpu":
        torch.set_num_threads(1)


def digests():
    """The digests of the texts that are trained on and measured on."""
    return {name: file_digest(DATA / name) for name in ("train.tsv", "dev.tsv")}


def machine():
    """What this computer is, as far as a training depends on it."""
    return f"{platform.machine()}, {os.cpu_count()} processors, {device().type}"


def write_data(folder, pairs):
    """Writes a data folder: these pairs (source, target) to train on, and dev as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (folder / "train.tsv").write_text(text, encoding="utf-8")
    shutil.copyfile(DATA / "dev.tsv", folder / "dev.tsv")


def name_of(row):
    """A name for the run of a row of settings."""
    return "-".join(str(value).replace(" ", "_") for value in row.values())

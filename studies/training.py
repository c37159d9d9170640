"""What studies share: rows of settings are trained side by side, each result is kept at once."""

import multiprocessing
import os
import platform
import shutil
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from engine.errors import InputError
from engine.files import file_digest, read_json, write_rows
from engine.run import run_training
from engine.scoring import measure
from engine.translator import Translator
from notebooks.data_preparation import read_pairs
from notebooks.setup import replace
from utils import ROOT, device

DATA = ROOT / "data_small"
STEPS = 1000  # of a run that decides; one of full length confirms
JOBS = 2  # trainings at the same time


def train_missing(rows, run, output, command):
    """Runs `run(row)` for the rows that `output` lacks, and writes the file after each of them.

    A row is a dictionary of settings, and its result holds it. The file also says on which machine
    and when its last row was trained. Returns all results. Raises InputError where the file's rows
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
    header["machine"] = f"{platform.machine()}, {os.cpu_count()} processors, {device().type}"
    done = stored["rows"]
    missing = [row for row in rows if not any(row.items() <= one.items() for one in done)]
    workers = dict(mp_context=multiprocessing.get_context("spawn"), initializer=one_thread)
    with ProcessPoolExecutor(JOBS, **workers) as pool:
        try:
            futures = {pool.submit(run, row): row for row in missing}
            for future in as_completed(futures):
                done.append(future.result())
                write_rows(output, {**header, "date": time.strftime("%Y-%m-%d"), "rows": done})
                print(
                    f"{output.name} has {len(done)} rows, the last: {futures[future]}", flush=True
                )
        except BaseException:  # or the rows that wait would be trained, and not written
            pool.shutdown(cancel_futures=True)
            raise
    return done


def one_thread():
    """Trainings that run at the same time share the processors."""
    if device().type == "cpu":
        torch.set_num_threads(1)


def digests():
    """The digests of the texts that are trained on and measured on."""
    return {name: file_digest(DATA / name) for name in ("train.tsv", "dev.tsv")}


def name_of(row):
    """A name for the run of a row of settings."""
    return "-".join(str(value).replace(" ", "_") for value in row.values())


def pairs_of(split):
    """The pairs (source, target) of a split of the corpus."""
    return read_pairs(DATA / f"{split}.tsv")


def train_on(pairs, row, runs, config):
    """Trains on these pairs (source, target), with the row's steps and seed.

    Returns a `Translator` of the trained model, and its last dev loss.
    """
    name = name_of(row)
    data = runs / f"data-{name}"
    data.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (data / "train.tsv").write_text(text, encoding="utf-8")
    shutil.copyfile(DATA / "dev.tsv", data / "dev.tsv")
    eval_steps = min(config.eval_steps, row["steps"])
    settings = dict(steps=row["steps"], seed=row["seed"], eval_steps=eval_steps, bleu_sentences=0)
    records = run_training(data, replace(config, **settings), runs / name)
    return Translator.load(runs / name), records[-1]["dev_loss"]


def score_greedily(translator, split):
    """BLEU and chrF of greedy translations of a split."""
    english, chinese = zip(*pairs_of(split))
    return measure(translator.translate(english, beam_size=1), chinese, "zh")

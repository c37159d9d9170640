"""Data of any size become a folder that training reads by memory map: `prepare.py` is the command.

The folder holds settings.json (what it was prepared with), both vocabularies, train as ids for
`PreparedDataset`, dev.tsv and test.tsv as text, and report.json. It is made in three steps:

1. reading and cleaning: the pairs of each split that stay go to a file, one in a line. A hash of
   each pair of train is held in memory, which tells of duplicates;
2. tokenizers: notebook 01's, made from a sample of train;
3. encoding, in as many processes as the machine has cores.

What comes out depends on the data and the settings only.
"""

import errno
import itertools
import math
import multiprocessing
import os
import shutil
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from engine.checks import check_kept, check_vocabularies
from engine.corpus.cleaning import (
    DUPLICATE,
    EMPTY,
    LEAK,
    NO_PAIR,
    STEPS,
    TOKENS,
    hash_pair,
    judge,
    nothing_left,
)
from engine.corpus.dataset import SETTINGS_FILE
from engine.corpus.formats import find_files, present_splits, read_rows
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError
from engine.files import write_json
from engine.model_files import save_tokenizer
from engine.text_files import check_file
from notebooks.data_preparation import encode_pairs

BLOCK_PAIRS = 1_000  # that are encoded at a time
MANY_PAIRS = 20_000  # from which on several processes encode: each takes seconds to start
# training text for the tokenizers; learning subwords takes about 55 bytes of memory for each
SAMPLE_BYTES = 20_000_000


def prepare(data, config, out, tokenizers=None):
    """Prepares a data folder into the new folder `out`. Returns its report, {split: counts}.

    `tokenizers` of both sides are made from train if not given. Raises InputError, naming the file,
    for what is wrong with the data, and where `out` is there already.
    """
    out = Path(out)
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: is there already. Remove it, or give another --out")
    unfinished = out.with_name(f"{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a call that was killed
    unfinished.mkdir(parents=True)
    try:
        report = fill(unfinished, data, config, tokenizers)
        (unfinished / "train.tsv").unlink()  # only its ids are needed
        if out.exists():
            out.rmdir()
        unfinished.rename(out)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG):
            raise
        hint = "Make room (about twice what the data take) and start again"
        raise OSError(f"{out}: the disk is full. {hint}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return report


def fill(folder, data, config, tokenizers):
    """Writes all of a prepared folder. Returns its report."""
    report, held_out = {}, set()
    for split in present_splits(data, config):
        counts = clean_split(folder / f"{split}.tsv", data, split, config, held_out)
        report[split] = {"lines": counts.total(), **{step: counts[step] for step in STEPS}}
        report[split]["kept"] = counts[None]
    if not report["train"]["kept"]:
        raise nothing_left(data, report["train"])
    tokenizers = tokenizers or learn_tokenizers(folder / "train.tsv", config)
    check_vocabularies(config, *map(len, tokenizers))
    for side, tokenizer in zip(("src", "tgt"), tokenizers):
        save_tokenizer(tokenizer, folder / f"vocabulary.{side}.json")
    clean = report["train"]["kept"]
    kept = encode_train(folder, clean, tokenizers, config.max_length)
    check_kept(data, "train", kept, config)
    report["train"] |= {TOKENS: clean - kept, "kept": kept}
    write_json(folder / "report.json", report)
    # what is written has the source first
    write_json(folder / SETTINGS_FILE, asdict(replace(config, target_first=False)))
    return report


def progress(name, unit, total=None):
    """A bar that appears when a stage takes more than a second."""
    pause = 0.1 if sys.stderr.isatty() else 5  # seconds between two pictures: a file needs few
    return tqdm(desc=name, unit=unit, unit_scale=True, total=total, mininterval=pause, delay=1)


def clean_split(path, data, split, config, held_out):
    """Writes the pairs of a split that stay to a file, source, tab and target in each line.

    Returns why how many of its lines were left out, a Counter of STEPS, None for those that stay.
    `held_out` is a set of `hash_pair`, of dev and test, which are read first and fill it.
    """
    extension, files = find_files(data, split, config)
    train = split == "train"
    seen = set()
    counts = Counter()
    with (
        open(path, "w", encoding="utf-8", newline="\n") as output,
        progress("reading", "line") as bar,
    ):
        for file in files:
            before = counts.copy()
            for row in read_rows(extension, file, config):
                reason, pair = judge(row, train, config)
                if reason is None:
                    number = hash_pair(*pair)
                    if not train:
                        held_out.add(number)
                    elif number in seen:
                        reason = DUPLICATE
                    elif number in held_out:
                        reason = LEAK
                    seen.add(number)
                if reason is None:
                    output.write("\t".join(pair) + "\n")
                counts[reason] += 1
                bar.update()
            here = counts - before
            check_file(file[0], here.total(), here.total() - here[NO_PAIR] - here[EMPTY])
    return counts


def read_kept(path):
    """Yields the pairs that `clean_split` has written."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            yield tuple(line.rstrip("\n").split("\t"))


def learn_tokenizers(path, config):
    """Notebook 01's tokenizers, made from every k-th pair: about SAMPLE_BYTES."""
    step = math.ceil(path.stat().st_size / SAMPLE_BYTES)
    return make_tokenizers(list(itertools.islice(read_kept(path), 0, None, step)), config)


def encode_train(folder, count, tokenizers, max_length):
    """Writes the ids of train and their lengths for `PreparedDataset`. Returns how many pairs."""
    dtype = np.uint16 if max(map(len, tokenizers)) <= 1 << 16 else np.uint32
    rows = read_kept(folder / "train.tsv")
    blocks = iter(lambda: list(itertools.islice(rows, BLOCK_PAIRS)), [])
    lengths = [np.zeros((0, 2), np.int32)]
    given = tokenizers, max_length, dtype
    with (
        open(folder / "src.ids", "wb") as src,
        open(folder / "tgt.ids", "wb") as tgt,
        progress("encoding", "pair", count) as bar,
        Encoders(given, 1 if count < MANY_PAIRS else os.cpu_count()) as encoders,
    ):
        for read, sides, sizes in encoders(blocks):
            for file, ids in zip((src, tgt), sides):
                file.write(ids)
            lengths.append(sizes)
            bar.update(read)
    lengths = np.concatenate(lengths)
    np.save(folder / "lengths.npy", lengths)
    return len(lengths)


class Encoders:
    """So many processes that encode blocks of pairs, in their order; one is this process."""

    def __init__(self, given, processes):
        self.given = given
        self.pool = None
        if processes > 1:
            context = multiprocessing.get_context("spawn")  # the library's threads do not fork
            self.pool = context.Pool(processes, begin_encoder, given)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.pool:
            self.pool.terminate()

    def __call__(self, blocks):
        if self.pool:
            return self.pool.imap(encode_given, blocks)
        return (encode_block(block, *self.given) for block in blocks)


GIVEN = []  # in a process of its own: what `encode_block` takes besides


def begin_encoder(*given):
    """What each process of `Encoders` begins with."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are enough
    GIVEN[:] = given


def encode_given(block):
    """`encode_block` in a process of `Encoders`."""
    return encode_block(block, *GIVEN)


def encode_block(block, tokenizers, max_length, dtype):
    """(how many pairs, the bytes of both sides' ids, the lengths (N, 2) of those that stay)."""
    encoded = encode_pairs(block, *tokenizers, max_length)
    lengths = np.array([(len(src), len(tgt)) for src, tgt in encoded], np.int32).reshape(-1, 2)
    sides = [
        np.fromiter(itertools.chain.from_iterable(pair[side] for pair in encoded), dtype).tobytes()
        for side in (0, 1)
    ]
    return len(block), sides, lengths


def print_report(data, report):
    """The counts of `report.json` as a table, one column for each split."""
    splits = [split for split in ("train", "dev", "test") if split in report]
    print(f"{'':21}" + "".join(f"{split:>12}" for split in splits))
    for name in report["train"]:
        print(f"{name:21}" + "".join(f"{report[split][name]:>12,}" for split in splits))
    lines = report["train"]["lines"]
    pairs = report["train"]["kept"]
    if pairs < lines / 2:
        message = f"only {pairs:,} of {lines:,} lines of train are kept: the table says why"
        print(f"{data}: {message}", file=sys.stderr)

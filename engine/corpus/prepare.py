"""Training data of any size, prepared once and then read by memory map.

The command is `python prepare.py --data FOLDER`. Notebook 01 holds all pairs in memory; this module
does the same for millions of them, with its functions, in a folder under a temporary name:

1. reading and cleaning: the texts of each split go to a file; why a pair is left out, and a hash
   of it, to arrays in memory;
2. duplicates: found in one array of all hashes;
3. tokenizers: notebook 01's, made from a sample of train;
4. encoding: the ids of both sides go to the folder SPLIT, for `PreparedDataset`.

When all is there the folder is renamed. A kill costs what was done, a few minutes for millions of
pairs. What comes out depends on the data and the settings only, not on the number of processes.
"""

import errno
import hashlib
import itertools
import json
import math
import os
import shutil
import sys
import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from filelock import FileLock, Timeout
from torch.utils.data import DataLoader
from tqdm import tqdm

from engine.checks import check_kept
from engine.corpus import pairs
from engine.corpus.cleaning import (
    EMPTY,
    NO_PAIR,
    STEPS,
    TOKENS,
    find_new,
    hash_pair,
    judge,
    nothing_left,
)
from engine.corpus.dataset import check_prepared, digest, load_prepared, load_tokenizers, seal
from engine.corpus.formats import (
    find_files,
    needs_preparing,
    parse_row,
    present_splits,
    read_rows,
    read_split,
)
from engine.corpus.tokenizers import make_tokenizers
from engine.definitions import code_digest
from engine.errors import InputError, end_with_parent
from engine.files import write_json
from engine.model_files import save_tokenizer, tokenizer_content
from engine.run_config import OURS
from engine.text_files import check_file
from notebooks import FOLDER as NOTEBOOKS
from notebooks.data_preparation import encode_pairs, load_jieba
from utils import ROOT

# what prepared data depend on besides files and settings: edit it, and they are prepared anew
CODE = [NOTEBOOKS / "01_data_preparation.ipynb", ROOT / "engine" / "plain_text.py",
        ROOT / "engine" / "text_files.py", ROOT / "engine" / "languages.py",
        *sorted(Path(__file__).parent.glob("*.py"))]  # fmt: skip
FOLDER = ROOT / "data_large"
PREPARED = FOLDER / "prepared"
BLOCK_LINES = 1_000  # lines that a process cleans, and encodes, at a time
# training text for the tokenizers; learning subwords takes about 55 bytes of memory for each
SAMPLE_BYTES = 20_000_000
TEXTS = pa.schema(dict(source=pa.string(), target=pa.string()))
CODES = {reason: code for code, reason in enumerate((None, *STEPS))}
NO_TEXTS = (CODES[NO_PAIR], CODES[EMPTY])
warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than processors


# several processes


class Parts:
    """What DataLoader calls a data set: each item is the part that was asked for."""

    def __getitem__(self, part):
        return part


def attempt(function, part):
    """`function(part)`, or its error as it is: DataLoader would put a traceback into its text."""
    try:
        return function(part)
    except (InputError, OSError) as error:
        return error


def spread(function, parts, workers):
    """Yields `function(part)` for each of the parts, in their order, from so many processes.

    With 0 this process does all. A DataLoader hands the parts out, a few ahead; its processes leave
    Ctrl-C to this one, and end when it ends.
    """
    loader = DataLoader(
        Parts(),
        sampler=parts,
        batch_size=None,
        num_workers=workers,
        generator=torch.Generator(),
        collate_fn=partial(attempt, function),
        worker_init_fn=end_with_parent,
    )
    try:
        for result in loader:
            if isinstance(result, Exception):
                raise result
            yield result
    except RuntimeError as error:
        if "killed by signal" not in str(error) and "exited unexpectedly" not in str(error):
            raise
        hint = "Start again with fewer --workers"
        raise OSError(f"a process was killed, perhaps for want of memory. {hint}") from None


def progress(name, unit, total=None):
    """A bar that appears when a stage takes more than a second."""
    pause = 0.1 if sys.stderr.isatty() else 5  # seconds between two pictures: a file needs few
    return tqdm(desc=name, unit=unit, unit_scale=True, total=total, mininterval=pause, delay=1)


# reading and cleaning


def clean_split(path, data, split, config, workers):
    """Writes the texts of a split to a file in the form TEXTS, a batch for each block of lines.

    Returns for all of its N lines `hash_pair`, (N,) numbers, and one of CODES, (N,) numbers.
    """
    extension, files = find_files(data, split, config)
    clean = partial(clean_block, extension=extension, clean=split == "train", config=config)
    hashes = []
    codes = []
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, TEXTS) as writer:
        with progress("reading", "line") as bar:
            for file in files:
                lines = pairs = 0
                for texts, block_hashes, block_codes in spread(
                    clean, read_blocks(extension, file, config), workers
                ):
                    writer.write_batch(texts)
                    hashes.append(block_hashes)
                    codes.append(block_codes)
                    lines += len(texts)
                    pairs += len(texts) - int(np.isin(block_codes, NO_TEXTS).sum())
                    bar.update(len(texts))
                check_file(file[0], lines, pairs)
    return np.concatenate(hashes), np.concatenate(codes)


def read_blocks(extension, file, config):
    """Yields the rows of a file, BLOCK_LINES at a time."""
    rows = read_rows(extension, file, config)
    while block := list(itertools.islice(rows, BLOCK_LINES)):
        yield block


def clean_block(block, extension, clean, config):
    """Texts, hashes and codes of some rows. A pair that is left out has a row too."""
    judged = [judge(parse_row(extension, row, config), clean, config) for row in block]
    source, target = zip(*(texts for _, texts in judged))
    texts = pa.RecordBatch.from_arrays([pa.array(source), pa.array(target)], schema=TEXTS)
    hashes = np.array([hash_pair(*texts) for _, texts in judged], np.uint64)
    return texts, hashes, np.array([CODES[reason] for reason, _ in judged], np.uint8)


# tokenizers and encoding


def read_batches(path, keep):
    """Yields of each batch of TEXTS the rows that (N,) booleans keep, as pairs of texts."""
    start = 0
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as texts:
        for number in range(texts.num_record_batches):
            batch = texts.get_batch(number)
            rows = batch.filter(pa.array(keep[start : start + len(batch)]))
            yield list(zip(*(column.to_pylist() for column in rows.columns)))
            start += len(batch)


def learn_tokenizers(folder, path, keep, config):
    """Saves notebook 01's tokenizers, made from every k-th row: about SAMPLE_BYTES."""
    sample = np.zeros(len(keep), bool)
    size = path.stat().st_size * keep.mean()
    sample[np.flatnonzero(keep)[:: math.ceil(size / SAMPLE_BYTES)]] = True
    rows = itertools.chain.from_iterable(read_batches(path, sample))
    save_tokenizers(folder, make_tokenizers(list(rows), config))


def save_tokenizers(folder, tokenizers):
    """Writes the tokenizers of both sides."""
    for side, tokenizer in zip(("src", "tgt"), tokenizers):
        save_tokenizer(tokenizer, folder / f"vocabulary.{side}.json")


def encode_batch(pairs, folder, max_length, dtype):
    """The ids of both sides, one after the other, and how many each pair has; no long ones."""
    encoded = encode_pairs(pairs, *load_tokenizers(folder), max_length)
    lengths = [list(map(len, pair)) for pair in encoded]
    sides = [np.fromiter(itertools.chain.from_iterable(side), dtype) for side in zip(*encoded)]
    return sides, np.array(lengths, np.int32).reshape(-1, 2)


def encode_split(folder, path, keep, config, workers):
    """Writes the ids of a split and their lengths for `PreparedDataset`. Returns how many pairs."""
    folder.mkdir()
    size = max(map(len, load_tokenizers(folder.parent)))
    dtype = np.uint16 if size <= 1 << 16 else np.uint32
    encode = partial(encode_batch, folder=folder.parent, max_length=config.max_length, dtype=dtype)
    parts = []
    with open(folder / "src.ids", "wb") as src, open(folder / "tgt.ids", "wb") as tgt:
        with progress("encoding", "pair", int(keep.sum())) as bar:
            for sides, lengths in spread(encode, read_batches(path, keep), workers):
                for file, ids in zip((src, tgt), sides):
                    file.write(ids.tobytes())
                parts.append(lengths)
                bar.update(len(lengths))
    lengths = np.concatenate(parts)
    np.save(folder / "lengths.npy", lengths)
    return len(lengths)


# a preparation


def fingerprint(data, config, tokenizers=None):
    """The name of a preparation, 16 hexadecimal digits of a digest.

    It is of the files, their names, the settings, the CODE, and of the tokenizers, where they are
    passed and not made from the data.
    """
    names = "src tgt target_first src_segmentation tgt_segmentation min_freq max_vocab_size"
    names += " max_length tie_embeddings"
    own = {name: value for name, value in asdict(config).items() if name not in OURS}
    parts = [code_digest(*CODE), [getattr(config, name) for name in names.split()]]
    parts += [repr(own)] if own else []  # what a reader's lesson 01 does with them nobody knows
    parts += [tokenizer_content(tokenizer) for tokenizer in tokenizers or ()]
    for split in present_splits(data, config):
        paths = [path for file in find_files(data, split, config)[1] for path in file]
        parts += [[str(path.relative_to(data)) for path in paths], digest(paths)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def fill(folder, work, data, config, workers, tokenizers):
    """Writes a whole preparation into a folder. Returns its report."""
    kinds = (config.src, config.src_segmentation), (config.tgt, config.tgt_segmentation)
    if {("zh", "words"), ("zh", "lowercase-words")} & set(kinds):
        load_jieba()  # once for all processes
    splits = present_splits(data, config)
    keep = {}
    hashes = {}
    report = {"contents": {}}
    for split in splits:
        path = work / f"{split}.texts"
        split_hashes, codes = clean_split(path, data, split, config, workers)
        counts = np.bincount(codes, minlength=len(CODES)).tolist()
        report[split] = {"lines": len(codes), **dict(zip(STEPS, counts[1:]))}
        keep[split] = codes == CODES[None]
        hashes[split] = split_hashes[keep[split]]
    new, counts = find_new(hashes.pop("train"), np.concatenate(list(hashes.values())))
    report["train"] |= counts
    if not new.any():
        raise nothing_left(data, report["train"])
    keep["train"][keep["train"]] = new
    if tokenizers:
        save_tokenizers(folder, tokenizers)
    else:
        learn = partial(
            learn_tokenizers, path=work / "train.texts", keep=keep["train"], config=config
        )
        # in a process of its own, if there are any, which gives its memory back
        list(spread(learn, [folder], min(workers, 1)))
    for split in splits:
        texts = work / f"{split}.texts"
        result = folder / split
        count = encode_split(result, texts, keep[split], config, workers)
        check_kept(data, split, count, config)
        report[split] |= {TOKENS: int(keep[split].sum()) - count, "kept": count}
        report["contents"][split] = digest(sorted(result.iterdir()))
    return report


def prepare(data, config, workers=None, output=None, tokenizers=None):
    """Prepares a data folder, or finds it done: the path `output/FINGERPRINT`, for `load_prepared`.

    `workers` processes, 1 being this one; if not given, as many as there are processors, at most 4:
    they stay below 2 GiB of memory together. `output`: PREPARED if not given. `tokenizers` of both
    sides are made from train if not given. Raises InputError, naming the file, for what is wrong
    with the data, or with what was prepared of them. A second call at the same time waits for the
    first.
    """
    workers = min(4, os.cpu_count() or 1) if workers is None else workers
    if workers < 1:
        raise InputError(f"workers is {workers}: give a number above 0")
    workers = min(workers, os.cpu_count() or 1)
    folder = Path(output or PREPARED) / fingerprint(data, config, tokenizers)
    if folder.exists():
        check_prepared(folder)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        if not folder.exists():
            make(folder, data, config, workers if workers > 1 else 0, tokenizers)
    return folder


def make(folder, data, config, workers, tokenizers):
    """Makes the folder of a preparation under another name, renames it, and prints its report."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a call that was killed
    work = unfinished / "work"
    result = unfinished / folder.name
    work.mkdir(parents=True)
    result.mkdir()
    try:
        report = fill(result, work, data, config, workers, tokenizers)
        if fingerprint(data, config, tokenizers) != folder.name:
            raise InputError(f"{data}: has changed while it was read. Start again")
        write_json(result / "report.json", report)
        seal(result)
        result.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG):
            raise
        hint = "Make room (about twice what the data take) and start again"
        raise OSError(f"{folder.parent}: the disk is full. {hint}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print_report(data, report)


def lock_folder(folder):
    """A context in which a preparation is ours.

    The lock is an open file: the system ends it with the process.
    """
    lock = FileLock(f"{folder}.lock")
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        print(f"{folder}: another process is preparing it; waiting for that one", file=sys.stderr)
        return lock.acquire()


def print_report(data, report):
    """The counts of `report.json` as a table, one column for each split."""
    splits = [split for split in ("train", "dev", "test") if split in report]
    print(f"{'':21}" + "".join(f"{split:>12}" for split in splits))
    for name in report["train"]:
        print(f"{name:21}" + "".join(f"{report[split][name]:>12,}" for split in splits))
    lines = report["train"]["lines"]
    kept = report["train"]["kept"]
    if kept < lines / 2:
        message = f"only {kept:,} of {lines:,} lines of train are kept: the table says why"
        print(f"{data}: {message}", file=sys.stderr)


# what training reads


def load_data(data, config, tokenizers=None):
    """Reads train and dev of a data folder, with tokenizers made from train if none are given.

    Returns (source tokenizer, target tokenizer, train set, dev set, dev's pairs of texts).
    """
    if needs_preparing(data, config):
        folder = prepare(data, config, tokenizers=tokenizers)
        return *load_prepared(folder), read_split(data, "dev", config)
    return pairs.load_data(data, config, tokenizers)


if __name__ == "__main__":
    print("Type instead: python prepare.py --data FOLDER", file=sys.stderr)
    raise SystemExit(2)

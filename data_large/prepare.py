"""Training data of any size, prepared once and then read by memory map.

The command is `python prepare.py --data FOLDER`. Notebook 01 holds all pairs in memory;
this module does the same for millions of them, with its functions and the library `datasets`:

1. reading and cleaning: the lines of each split, checked, become rows in `work/SPLIT`: texts, why
   a pair is left out, and a hash of it;
2. duplicates: found in one array of all hashes;
3. tokenizers: notebook 01's, made from a sample of train;
4. encoding: the ids of both sides go to the folder SPLIT, for `datasets.load_from_disk`.

A stage fills a folder, which is sealed by a checksum. After a kill the sealed ones are kept, and
what was cut short or has changed is made anew. What comes out depends on the data and the settings
only, not on the number of processes.
"""

import hashlib
import inspect
import itertools
import json
import math
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from notebooks.data_preparation import (
    encode_pairs,
    make_tokenizers,
)
from tqdm import tqdm

from data_large import cleaning, formats
from data_large.cleaning import STEPS, TOKENS, find_new, hash_pair, judge, nothing_left
from data_large.dataset import checksum, digest, load_prepared, load_tokenizers
from data_large.formats import find_files, needs_preparing, parse_row, read_rows, read_split
from notebooks import data_preparation
from notebooks.support import chinese_words, text_files
from notebooks.support.checks import check_kept
from notebooks.support.errors import InputError
from notebooks.support.files import write_json, write_whole
from notebooks.support.model_files import save_tokenizer
from notebooks.support.text_files import check_file, strip_pair

# `datasets` is imported where it is used: half a second, which plain .tsv files need not wait for

FOLDER = Path(__file__).resolve().parent
PREPARED = FOLDER / "prepared"
BLOCK_LINES = 1_000  # lines in a row of what is read
PIECE_ROWS = 250_000  # rows that the processes share at a time; a kill loses no more of encoding
# training text for the tokenizers; learning subwords takes about 55 bytes of memory for each
SAMPLE_BYTES = 20_000_000

# what `datasets` keeps: the rows of the files in blocks, then the texts, a row each
BLOCKS = pa.schema({"rows": pa.list_(pa.list_(pa.string()))})
TEXTS = pa.schema(dict(source=pa.string(), target=pa.string(), hash=pa.uint64(), reason=pa.uint8()))
CODES = {reason: code for code, reason in enumerate((None, *STEPS))}  # as the column has them


# reading and cleaning


def read_blocks(extension, files, config):
    """Yields the rows of all files as `BLOCKS`. InputError for a file that holds no pair."""
    with progress("reading", "line") as bar:
        for file in files:
            rows, lines, found = read_rows(extension, file, config), 0, False
            while block := list(itertools.islice(rows, BLOCK_LINES)):
                yield {"rows": block}
                found = found or any(strip_pair(parse_row(extension, row, config)) for row in block)
                lines += len(block)
                bar.update(len(block))
            check_file(file[0], lines, found)


def clean_blocks(blocks, extension, clean, config):
    """For `map`: `BLOCKS` to `TEXTS`. What is left out stays as a row that says why."""
    found = []
    for row in itertools.chain.from_iterable(blocks["rows"]):
        reason, texts = judge(parse_row(extension, row, config), clean, config)
        found.append((*texts, hash_pair(*texts), CODES[reason]))
    return pa.Table.from_pydict(dict(zip(TEXTS.names, zip(*found))), TEXTS)


def clean_split(folder, data, split, config, workers):
    """Stage 1: the texts of a split.

    The rows first go to the disk as they are read, so that several processes can clean them.
    """
    import datasets

    extension, files = find_files(data, split, config)
    try:
        blocks = datasets.Dataset.from_generator(
            read_blocks,
            datasets.Features.from_arrow_schema(BLOCKS),
            str(folder / "blocks"),
            gen_kwargs=dict(extension=extension, files=tuple(files), config=config),
            writer_batch_size=16,
        )
    except datasets.exceptions.DatasetGenerationError as error:
        raise error.__cause__ from None
    arguments = dict(extension=extension, clean=split == "train", config=config)
    for start, piece in cut(blocks, PIECE_ROWS // BLOCK_LINES, "cleaning", "block"):
        path = folder / f"rows-{start:09}.arrow"
        map_rows(piece, clean_blocks, path, TEXTS, workers, arguments, batch_size=4)
    shutil.rmtree(folder / "blocks", ignore_errors=True)  # NFS and Windows keep what is mapped


# encoding


def save_tokenizers(rows, folder, config):
    """For `map`: notebook 01's tokenizers from all of the rows, saved in the folder."""
    tokenizers = make_tokenizers(list(zip(rows["source"], rows["target"])), config)
    for side, tokenizer in zip(("src", "tgt"), tokenizers):
        save_tokenizer(tokenizer, folder / f"vocabulary.{side}.json")


def learn_tokenizers(folder, texts, keep, config, workers):
    """Stage 3: the tokenizers, from every k-th row to keep, so that it is about SAMPLE_BYTES.

    In a process of its own if there are any, which gives its memory back.
    """
    size = sum(texts.data.column(side).nbytes for side in ("source", "target")) * keep.mean()
    sample = texts.select(np.flatnonzero(keep)[:: math.ceil(size / SAMPLE_BYTES)])
    arguments = dict(folder=folder, config=config)
    # it writes no rows
    map_rows(sample, save_tokenizers, folder / "none.arrow", TEXTS, workers, arguments, len(sample))


def encode_rows(rows, numbers, keep, folder, max_length, schema):
    """For `map`: the rows to keep as ids without control tokens; pairs too long are left out."""
    pairs = [pair for *pair, n in zip(rows["source"], rows["target"], numbers) if keep[n]]
    found = encode_pairs(pairs, *load_tokenizers(folder), max_length)
    src, tgt = ([pair[side] for pair in found] for side in (0, 1))
    return pa.Table.from_pydict({"src": src, "tgt": tgt}, schema)


def encode_piece(folder, piece, keep, tokenizers, config, workers):
    """Stage 4: the ids of some rows of a split."""
    size = max(map(len, load_tokenizers(tokenizers)))
    ids = pa.list_(pa.uint16() if size <= 1 << 16 else pa.int32())
    schema = pa.schema({"src": ids, "tgt": ids})
    arguments = dict(keep=keep, folder=tokenizers, max_length=config.max_length, schema=schema)
    path = folder / "rows.arrow"
    map_rows(piece, encode_rows, path, schema, workers, arguments, with_indices=True)


# files


def fingerprint(data, config):
    """The name of a preparation, 16 hexadecimal digits.

    They come from files, their names, settings, and the code that reads them.
    """
    names = "src tgt swap src_segmentation tgt_segmentation min_freq max_size max_length sharing"
    ours = (data_preparation, text_files, chinese_words, formats, cleaning, sys.modules[__name__])
    parts = [[getattr(config, name) for name in names.split()], *map(inspect.getsource, ours)]
    for split in formats.present_splits(data, config):
        extension, files = find_files(data, split, config)
        paths = [path for file in files for path in file]
        if not extension:  # a folder
            paths = sorted(path for path in paths[0].rglob("*") if path.is_file())
        parts += [[str(path.relative_to(data)) for path in paths], digest(paths)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


# stages


def progress(name, unit, total=None):
    """A bar that appears when a stage takes more than a second."""
    # seconds between two pictures of the bar: a file needs few
    pause = 0.1 if sys.stderr.isatty() else 5
    return tqdm(desc=name, unit=unit, unit_scale=True, total=total, mininterval=pause, delay=1)


def cut(rows, size, name, unit):
    """Yields (number of its first row, piece of at most `size` rows), with a bar."""
    with progress(name, unit, len(rows)) as bar:
        for start in range(0, len(rows), size):
            piece = rows.select(range(start, min(start + size, len(rows))))
            yield start, piece
            bar.update(len(piece))


def map_rows(rows, function, path, schema, workers, arguments, batch_size=1000, **options):
    """`rows.map(function)` into files that begin with `path`, for `load_rows`.

    With 1 worker this process does all.
    """
    import datasets

    try:
        rows.map(
            function,
            batched=True,
            batch_size=batch_size,
            fn_kwargs=arguments,
            **options,
            num_proc=min(workers, -(-len(rows) // batch_size)) if workers > 1 else None,
            features=datasets.Features.from_arrow_schema(schema),
            remove_columns=rows.column_names,
            cache_file_name=str(path),
            new_fingerprint=path.stem,
        )
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # and an error in clearing up
            raise error.__context__ from None
        if "abruptly died" not in str(error):
            raise
        raise OSError(
            "a worker process was killed, perhaps for want of memory. "
            "Start again with fewer --workers; what is done is kept"
        ) from None


def load_rows(*folders):
    """What `map_rows` wrote to folders, one after the other, memory-mapped."""
    import datasets

    paths = [str(path) for folder in folders for path in sorted(folder.glob("rows*.arrow"))]
    return datasets.concatenate_datasets(list(map(datasets.Dataset.from_file, paths)))


def column(rows, name):
    """A column of numbers as a numpy array."""
    return rows.data.column(name).to_numpy()


def stage(folder, fill, *arguments):
    """The folder, which `fill(folder, *arguments)` has filled, now or in an earlier call.

    The seal beside it is the SHA-256 of its files. Where that is missing or does not fit, the stage
    was cut short or a file was damaged, and all of it is made anew.
    """
    seal = folder.with_name(f"{folder.name}.sha256")
    files = lambda: sorted(path for path in folder.glob("*") if path.is_file())
    if not seal.exists() or seal.read_bytes() != digest(files()).encode():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        fill(folder, *arguments)
        write_whole(seal, digest(files()))
    return folder


def default_workers():
    """The number of processors, at most 4: that many stay below 2 GiB of memory together."""
    return min(4, os.cpu_count() or 1)


def follow_parent():
    """In a process that was just forked: leaves Ctrl-C to its parent, and ends with it.

    What `datasets` starts would wait for ever after its parent was killed.
    """
    if WORKING.is_set():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=wait_for_end, args=(os.getppid(),), daemon=True).start()


def wait_for_end(parent):
    """Ends this process once it has another parent."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


WORKING = threading.Event()  # set while stages run
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=follow_parent)


def run_stages(data, config, folder, workers):
    """Fills the folder of a preparation, using what a killed one left there. Returns the report."""
    import datasets

    datasets.disable_progress_bars()  # ours count lines and pairs
    work, splits = folder / "work", formats.present_splits(data, config)
    texts, keep, report = {}, {}, {"contents": {}}
    for split in splits:
        texts[split] = load_rows(stage(work / split, clean_split, data, split, config, workers))
        reasons = column(texts[split], "reason")
        counts = np.bincount(reasons, minlength=len(CODES)).tolist()
        report[split] = {"lines": len(reasons), **dict(zip(STEPS, counts[1:]))}
        keep[split] = reasons == CODES[None]
    hashes = [column(texts[split], "hash")[keep[split]] for split in splits]
    new, counts = find_new(hashes.pop(), np.concatenate(hashes))
    report["train"] |= counts
    if not new.any():
        raise nothing_left(data, report["train"])
    keep["train"][keep["train"]] = new
    arguments = texts["train"], keep["train"], config, workers
    tokenizers = stage(work / "tokenizers", learn_tokenizers, *arguments)
    for split in splits:
        pieces = []
        for start, piece in cut(texts[split], PIECE_ROWS, "encoding", "pair"):
            path, kept = work / f"{split}-{start:012}", keep[split][start : start + len(piece)]
            pieces.append(stage(path, encode_piece, piece, kept, tokenizers, config, workers))
        ids = load_rows(*pieces)
        check_kept(data, split, len(ids), config)
        report[split] |= {TOKENS: int(keep[split].sum()) - len(ids), "kept": len(ids)}
        # the same fingerprint, however many processes there were
        ids = ids.select(range(len(ids)), new_fingerprint=f"{folder.name}-{split}")
        ids.save_to_disk(str(folder / split), num_shards=1)
        report["contents"][split] = digest(sorted((folder / split).glob("*.arrow")))
    for path in tokenizers.glob("vocabulary.*"):
        shutil.copy(path, folder)
    return report


def prepare(data, config, workers=None, output=None):
    """Prepares a data folder, or finds it done: the path `output/FINGERPRINT`, for `load_prepared`.

    `workers` processes, 1 being this one; `default_workers()` if not given. `output`: PREPARED if
    not given. Raises InputError, naming the file, for what is wrong with the data. Killed, it goes
    on when it is called again. A second call at the same time waits for the first.
    """
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise InputError(f"workers is {workers}: give a number above 0")
    folder = Path(output or PREPARED) / fingerprint(data, config)
    if not (folder / "report.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            if not (folder / "report.json").exists():
                try:
                    WORKING.set()
                    make_tokenizers([("a", "b")], config)  # jieba's words, once for all workers
                    report = run_stages(data, config, folder, workers)
                except InputError:
                    # of no use for data that has been mended: that has another fingerprint
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
                finally:
                    WORKING.clear()
                report["checksum"] = checksum(folder, report)
                write_json(folder / "report.json", report)
                print_report(report)
    shutil.rmtree(folder / "work", ignore_errors=True)
    return folder


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


def print_report(report):
    """The counts of `report.json` as a table, one column for each split."""
    splits = [split for split in ("train", "dev", "test") if split in report]
    print(f"{'':21}" + "".join(f"{split:>12}" for split in splits))
    for name in report["train"]:
        print(f"{name:21}" + "".join(f"{report[split][name]:>12,}" for split in splits))


# what training reads


def load_data(data, config):
    """Reads train and dev of a data folder.

    Returns (source tokenizer, target tokenizer, train set, dev set, dev's pairs of texts).
    """
    if needs_preparing(data, config):
        return *load_prepared(prepare(data, config)), read_split(data, "dev", config)
    return data_preparation.load_data(data, config)


if __name__ == "__main__":
    print("Type instead: python prepare.py --data FOLDER", file=sys.stderr)
    raise SystemExit(2)

"""Training data of any size, prepared once and then read by memory map.

The command is `python -m data_large.prepare --data FOLDER`. Notebook 01 holds all pairs in memory;
this module does the same for millions of them, with its functions. Four stages:

1. reading: every line is parsed, train is cleaned; the texts and a hash of each pair go to
   `work/SPLIT-NUMBER.arrow`;
2. duplicates: which rows of train to leave out, one part of all hashes at a time, goes to
   `work/duplicates-NUMBER.arrow`;
3. tokenizers: notebook 01's, made from a sample of train, go to `vocabulary.src.json` and
   `vocabulary.tgt.json`;
4. encoding: the ids of both sides go to `SPLIT-NUMBER.arrow` (Arrow streams, which
   `datasets.Dataset.from_file` reads).

Each stage works on shards in a fixed order, and a shard is written under a temporary name and then
renamed. So a preparation that was killed goes on where it was, and what comes out depends on the
data and the settings only, not on the number of processes.
"""

import hashlib
import inspect
import io
import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import threading
import unicodedata
from bisect import bisect_right
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tyro
from filelock import FileLock, Timeout
from notebooks.data_preparation import (
    BOS,
    EOS,
    Tokenizer,
    TranslationDataset,
    check_file,
    decode_line,
    make_tokenizers,
    one_line,
    parse_tsv,
    read_pairs,
    split_files,
    split_lines,
)
from notebooks.setup import Config, InputError
from torch.utils.data import Dataset
from tqdm import tqdm

from notebooks import data_preparation
from notebooks.programs import parse_command, read_json, run_command
from utils import put_in_place, regular, write_json

LANGUAGES = {
    "en": "english", "zh": "chinese", "de": "german", "fr": "french", "es": "spanish",
    "it": "italian", "ru": "russian", "ja": "japanese", "ko": "korean", "pt": "portuguese",
    "nl": "dutch", "ar": "arabic", "tr": "turkish", "cs": "czech",
}  # fmt: skip
FOLDER = Path(__file__).resolve().parent
PREPARED = FOLDER / "prepared"
LARGE_BYTES = 200_000_000  # training files from this size on are not held in memory as Python lists
SHARD_LINES = 10_000  # lines in a shard: what one process holds at a time
PARTITION_PAIRS = 250_000  # pairs compared with each other at a time
MEMORY = 2 << 30  # bytes that all processes together may take, memory-mapped files not counted
SHARD_MEMORY = 48 << 20  # bytes that a process takes for its shard and its tokenizers
# training text for the tokenizers; learning subwords takes about 55 bytes of memory for each
SAMPLE_BYTES = 20_000_000

# What is cleaned from train. Of the 30,279 pairs of data_small/train.tsv the ratio drops 1
# (0.003 %), script and length 0.
MAX_CHARACTERS = 2_000  # on a side
RATIO_CHINESE = (1, 8)  # characters of the other language for one of Chinese; English has 3.3
RATIO = (1 / 4, 4)  # characters of one side for one of the other, for other languages
LATIN = "[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"
SCRIPTS = {code: re.compile(LATIN) for code in LANGUAGES} | {
    "zh": re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]"),
    "ja": re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9d]"),
    "ko": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "ar": re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc]"),
}
NO_PAIR, EMPTY, LONG, LENGTH_RATIO, SCRIPT, DUPLICATE, LEAK, TOKENS = STEPS = (
    "no pair in the line",
    "an empty side",
    "too many characters",
    "length ratio",
    "wrong script",
    "exact duplicates",
    "also in dev or test",
    "too many tokens",
)


# reading


PACKINGS = {"": None, ".gz": "gzip", ".zst": "zstd"}
SAVED = "dataset_dict.json"  # in the folder of a data set that `datasets` has saved
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: JSON can spell it, UTF-8 cannot


def list_files(folder, split, config):
    """All files of a split by their format: {extension: paths}.

    A data set saved by `datasets` has the extension "".
    """
    folder = Path(folder)
    if (folder / SAVED).exists():
        possible = (split, {"dev": "validation"}.get(split))
        names = [name for name in possible if name and (folder / name).is_dir()]
        return {"": [folder / names[0]]} if names else {}
    kinds = ("tsv", "json", "jsonl", config.src)
    texts = [kind + packing for kind in kinds for packing in PACKINGS]
    found = {name: split_files(folder, split, name) for name in [*texts, "parquet"]}
    return {name: paths for name, paths in found.items() if paths}


def find_files(folder, split, config):
    """The files of one split, which must be in one format: (extension, files).

    A file is a tuple of one path, or of two for halves aligned line by line.
    """
    found = list_files(folder, split, config)
    if len(found) > 1:
        raise InputError(
            f"{folder}: {split} is there as .{' and as .'.join(found)}. Keep one of them"
        )
    if not found and (Path(folder) / SAVED).exists():
        wanted = "dev or validation" if split == "dev" else split
        raise InputError(f"{folder}: the saved data set holds no {wanted}")
    if not found:
        names = f"{split}.tsv, {split}.jsonl, or {split}.{config.src} with {split}.{config.tgt}"
        raise InputError(f"{folder}: holds no {names}")
    extension, paths = found.popitem()
    if extension.split(".")[0] != config.src:
        return extension, [(path,) for path in paths]
    other = config.tgt + extension.removeprefix(config.src)
    files = [(path, path.with_name(path.name.removesuffix(extension) + other)) for path in paths]
    for path, half in files:
        if not regular(half).exists():
            raise InputError(f"{path}: its other half {half.name} is missing beside it")
    return extension, files


def raw_lines(path):
    """Yields the lines of a file, compressed or not, as bytes; b"" for one that is too long.

    Raises InputError if the file is damaged.
    """
    packing = PACKINGS.get(path.suffix)
    try:
        if packing:
            file = io.BufferedReader(pa.input_stream(str(path), compression=packing))
        else:
            file = open(path, "rb")
        with file:
            for line in split_lines(file):
                yield line if len(line) < data_preparation.LINE_BYTES else b""
    except OSError as error:
        raise damaged(path, error) if packing else error from None


def damaged(path, error):
    """The InputError for a file that a library could not read."""
    first_line = str(error).partition("\n")[0]
    return InputError(f"{path}: cut short or damaged ({first_line}). Fetch or write it again")


def raw_rows(extension, file, config):
    """Yields the rows of one file as tuples.

    They hold bytes (a line, or one of each half); those of a table hold texts or None.
    """
    path, *other = file
    if extension in ("", "parquet"):
        yield from table_rows(path, config)
    elif not other:
        yield from zip(raw_lines(path))
    else:
        counts = [0, 0]
        for row in itertools.zip_longest(*map(raw_lines, file)):
            counts = [count + (line is not None) for count, line in zip(counts, row)]
            yield tuple(line or b"" for line in row)
        if counts[0] != counts[1]:
            raise InputError(
                f"{path} has {counts[0]} lines and {other[0].name} {counts[1]}: "
                "they must match line by line"
            )


def table_rows(path, config):
    """Yields (source, target) of a Parquet file or a split of a saved data set, batch by batch."""
    languages = [(code, LANGUAGES.get(code)) for code in (config.src, config.tgt)]
    names = [
        (f"translation.{code}", f"translation.{language}", code, language)
        for code, language in languages
    ]
    try:
        for table in table_batches(path):
            columns = [
                next((name for name in side if name in table.column_names), None) for side in names
            ]
            if None in columns:
                found = ", ".join(table.column_names)
                wanted = " and ".join(side[2] for side in names)
                raise InputError(
                    f"{path}: has the columns {found}, not {wanted}, alone or in `translation`"
                )
            yield from zip(*(table[column].to_pylist() for column in columns))
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise damaged(path, error) from None


def table_batches(path):
    """Yields tables of at most SHARD_LINES rows; fields of a struct are columns STRUCT.FIELD."""
    if path.is_dir():
        import datasets  # only here: it takes a second to import, and memory in every process

        saved = datasets.load_from_disk(str(path)).with_format("arrow")
        for table in saved.iter(batch_size=SHARD_LINES):
            yield table.flatten()
    else:
        with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=SHARD_LINES, use_threads=False):
                yield pa.Table.from_batches([batch]).flatten()


def read_json_pair(line, config):
    """The pair in one JSON object: by ISO code or English name, plain or under "translation".

    None if it is not there.
    """
    try:
        row = json.loads(line)
        row = row.get("translation", row)
        sides = [row.get(code, row.get(LANGUAGES.get(code))) for code in (config.src, config.tgt)]
        "".join(sides).encode()  # fails for half a character, which JSON can spell
        return tuple(sides)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def parse_rows(extension, file, first, rows, config):
    """Yields (source, target) of raw rows, each text on one line, or None where there is no pair.

    `first` is the line number of the first row.
    """
    for number, row in enumerate(rows, start=first):
        if extension not in ("", "parquet"):
            row = tuple(decode_line(line, path, number) for line, path in zip(row, file))
        if extension.startswith("tsv"):
            row = parse_tsv(row[0], config)
        elif extension.startswith("json"):
            row = read_json_pair(row[0], config)
        whole = (
            row
            and len(row) == 2
            and all(isinstance(side, str) and not SURROGATE.search(side) for side in row)
        )
        yield tuple(map(one_line, row)) if whole else None


def read_split(data, split, config):
    """The pairs of dev or test in any format: a list of (source, target) texts.

    It is what notebook 01's `read_pairs` gives.
    """
    extension, files = find_files(data, split, config)
    if extension == "tsv":  # what notebook 01 reads
        return read_pairs(data, split, config)
    pairs = []
    for file in files:
        rows = list(parse_rows(extension, file, 1, raw_rows(extension, file, config), config))
        found = [row for row in rows if drop_reason(row, False, config) is None]
        check_file(file[0], len(rows), len(found))
        pairs += found
    return pairs


def needs_preparing(data, config):
    """Whether a data folder is for this module.

    It is in a format that notebook 01 does not read, or too large for lists.
    """
    found = [find_files(data, split, config) for split in present_splits(data, config)]
    size = sum(path.stat().st_size for file in found[-1][1] for path in file)
    return size > LARGE_BYTES or any(extension != "tsv" for extension, _ in found)


def present_splits(data, config):
    """The splits to read. Train comes last: what is wrong with a small file is found at once."""
    return ["dev", *(["test"] if list_files(data, "test", config) else []), "train"]


# cleaning


def drop_reason(pair, clean, config):
    """Why a pair is left out, one of STEPS, or None.

    Only train is cleaned: scores must be on the texts as they are given.
    """
    if pair is None:
        return NO_PAIR
    source, target = pair
    if not (source and target):
        return EMPTY
    if not clean:
        return None
    if max(len(source), len(target)) > MAX_CHARACTERS:
        return LONG
    ratio, (lowest, highest) = len(source) / len(target), RATIO
    if "zh" in (config.src, config.tgt) and not {"ja", "ko"} & {config.src, config.tgt}:
        ratio, (lowest, highest) = 1 / ratio if config.src == "zh" else ratio, RATIO_CHINESE
    if not lowest <= ratio <= highest:
        return LENGTH_RATIO
    scripts = (SCRIPTS.get(config.src), SCRIPTS.get(config.tgt))
    wrong = any(
        script and not script.search(side) for script, side in zip(scripts, (source, target))
    )
    return SCRIPT if wrong else None


def hash_pair(source, target):
    """16 bytes, the same for pairs that differ only in white space or in Unicode composition."""
    sides = (" ".join(unicodedata.normalize("NFC", side).split()) for side in (source, target))
    return hashlib.blake2b("\t".join(sides).encode(), digest_size=16).digest()


def read_shard(output, extension, file, first, rows, clean, config):
    """Stage 1: raw rows to an Arrow file of source, target and both halves of their hash.

    Its counts are by reason.
    """
    counts, pairs = Counter(lines=len(rows)), []
    for pair in parse_rows(extension, file, first, rows, config):
        reason = drop_reason(pair, clean, config)
        counts[reason or "pairs"] += 1
        if reason is None:
            pairs.append(pair)
    hashes = np.frombuffer(b"".join(hash_pair(*pair) for pair in pairs), np.uint64).reshape(-1, 2)
    source, target = (
        arrow_lists([pair[side].encode() for pair in pairs], pa.string()) for side in (0, 1)
    )
    high, low = (arrow_numbers(hashes[:, half].copy()) for half in (0, 1))
    write_arrow(output, {"source": source, "target": target, "high": high, "low": low}, counts)


def find_duplicates(output, part, parts, held_out, train):
    """Stage 2: rows of train whose pair stands in dev, in test or earlier in train; one part.

    Rows are numbered through. `held_out` are shards of dev and test, `train` are (shard, number of
    its first row). Equal pairs are in one part.
    """
    found = []
    for path, first in [*((path, None) for path in held_out), *train]:
        batch = read_arrow(path)
        high, low = (view(batch[name]) for name in ("high", "low"))
        here = np.flatnonzero(high % parts == part)
        numbers = np.full(len(here), -1) if first is None else first + here
        found.append((high[here], low[here], numbers))
    high, low, rows = (np.concatenate(column) for column in zip(*found))
    # equal pairs side by side, in their old order: dev and test, then train
    order = np.lexsort((low, high))
    high, low, rows = high[order], low[order], rows[order]
    again = 1 + np.flatnonzero((high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (rows[1:] >= 0))
    leaks = int((rows[again - 1] < 0).sum())
    counts = {DUPLICATE: len(again) - leaks, LEAK: leaks}
    write_arrow(output, {"row": arrow_numbers(np.sort(rows[again]))}, counts)


def kept_pairs(path, first, work, every=1, skip=0):
    """Lists of the sources and the targets of a shard without its duplicates.

    `first` is the number of its first row; None for dev and test, which keep all. After the first
    `skip` of them every `every`-th is taken. Also returns how many there were before that.
    """
    batch = read_arrow(path)
    keep = np.ones(batch.num_rows, bool)
    for file in sorted(work.glob("duplicates-*.arrow")) if first is not None else []:
        rows = view(read_arrow(file)["row"])
        keep[rows[slice(*np.searchsorted(rows, [first, first + len(keep)]))] - first] = False
    rows = np.flatnonzero(keep)
    texts = (batch[side].to_pylist() for side in ("source", "target"))
    return *([side[row] for row in rows[skip::every]] for side in texts), len(rows)


# encoding


def learn_tokenizers(output, train, work, config):
    """Stage 3: notebook 01's tokenizers, from every k-th kept pair of train.

    So the texts are about SAMPLE_BYTES.
    """
    size = sum(read_arrow(path)[name].nbytes for path, _ in train for name in ("source", "target"))
    every, seen, pairs = -(-size // SAMPLE_BYTES), 0, []
    for path, first in train:
        sources, targets, count = kept_pairs(path, first, work, every, -seen % every)
        pairs += zip(sources, targets)
        seen += count
    source, target = make_tokenizers(pairs, config)
    # the target's last: that `output` is there says that both are
    source.save(output.with_name("vocabulary.src.json"))
    target.save(output)


@lru_cache(maxsize=1)
def load_tokenizers(folder):
    """The source and the target tokenizer of a prepared folder; one object if they are the same."""
    paths = [folder / f"vocabulary.{side}.json" for side in ("src", "tgt")]
    source = Tokenizer.load(paths[0])
    same = paths[0].read_bytes() == paths[1].read_bytes()
    return source, source if same else Tokenizer.load(paths[1])


def encode_shard(output, path, first, work, max_length):
    """Stage 4: a shard of texts as ids without control tokens, in columns src and tgt.

    Pairs that are too long are left out and counted.
    """
    tokenizers = load_tokenizers(output.parent)
    dtype = np.uint16 if max(map(len, tokenizers)) <= 1 << 16 else np.int32
    *sides, _ = kept_pairs(path, first, work)
    pairs = [
        tuple(np.array(t.encode(text), dtype) for t, text in zip(tokenizers, pair))
        for pair in zip(*sides)
    ]
    kept = [pair for pair in pairs if max(map(len, pair)) <= max_length]
    kind = pa.list_(pa.from_numpy_dtype(dtype))
    src, tgt = (arrow_lists([pair[side] for pair in kept], kind) for side in (0, 1))
    counts = {TOKENS: len(pairs) - len(kept), "kept": len(kept)}
    write_arrow(output, {"src": src, "tgt": tgt}, counts)


# files


# Arrow's own `pa.array` and `to_numpy` would import pandas, to see whether they have to do with it:
# 30 MB in each process.


def arrow_numbers(values):
    """A numpy array as an Arrow array on the same memory."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def arrow_lists(rows, kind):
    """An Arrow array of strings, from their bytes, or of lists of numbers, from numpy arrays."""
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    if kind == pa.string():
        texts = pa.py_buffer(b"".join(rows))
        return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), texts)
    values = np.concatenate([np.empty(0, kind.value_type.to_pandas_dtype()), *rows])
    return pa.ListArray.from_arrays(arrow_numbers(offsets), arrow_numbers(values))


def view(array):
    """The numbers of an Arrow array as a numpy array on the same memory."""
    return np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())[: len(array)]


def write_arrow(path, columns, counts):
    """Writes an Arrow stream of one batch, with the counts beside its schema."""
    batch = pa.record_batch(columns).replace_schema_metadata({"counts": json.dumps(counts)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)


def read_arrow(path):
    """The batch of an Arrow file, memory-mapped: nothing is read before it is looked at."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_next_batch()


def sum_counts(paths):
    """The counts of Arrow files, added up."""
    counts = Counter()
    for path in paths:
        counts.update(json.loads(read_arrow(path).schema.metadata[b"counts"]))
    return counts


def digest(paths):
    """SHA-256 over the contents of files, in hexadecimal."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def fingerprint(data, config):
    """The name of a preparation, 16 hexadecimal digits.

    They come from files, their names, settings, and the code that reads them.
    """
    names = (
        "src tgt swap src_segmentation tgt_segmentation min_freq max_size max_length sharing"
    ).split()
    code = [inspect.getsource(data_preparation), Path(__file__).read_text(encoding="utf-8")]
    parts = [[getattr(config, name) for name in names], code]
    for split in present_splits(data, config):
        extension, files = find_files(data, split, config)
        paths = [path for file in files for path in file]
        if not extension:  # a folder
            paths = sorted(path for path in paths[0].rglob("*") if path.is_file())
        parts += [[str(path.relative_to(data)) for path in paths], digest(paths)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


# stages


def default_workers():
    """The number of processors, at most 8, and at most as many processes as MEMORY has room for.

    Each is taken to be as large as this one.
    """
    status = Path("/proc/self/status")  # on Linux
    found = re.search(r"RssAnon:\s*(\d+) kB", status.read_text()) if status.exists() else None
    here = 1024 * int(found[1]) if found else 0
    return max(1, min(8, os.cpu_count() or 1, (MEMORY - here) // (here + SHARD_MEMORY)))


def start_worker():
    """A worker leaves Ctrl-C to its parent, and does not outlive it, however that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def run_stage(name, unit, function, tasks, workers, total=None):
    """Calls function(file, *arguments) for the tasks (output, size, *arguments) not yet done.

    Done is a task whose output is there. The function writes the file under a temporary name, and
    this process renames it. With 0 workers this process does all. No more tasks wait than the
    workers need, so memory stays bounded.
    """
    # seconds between two pictures of the bar: a file needs few
    pause = 0.1 if sys.stderr.isatty() else 5
    options = dict(desc=name, unit=unit, unit_scale=True, total=total, mininterval=pause, delay=1)
    spawn, running = multiprocessing.get_context("spawn"), deque()
    processes = ProcessPoolExecutor(workers, spawn, start_worker) if workers else nullcontext()
    try:
        with tqdm(**options) as bar, processes as pool:
            for output, size, *arguments in tasks:
                if output.exists():
                    bar.update(size)
                    continue
                file = output.with_name(f"{output.name}.{os.getpid()}.tmp")
                done = (
                    pool.submit(function, file, *arguments) if pool else function(file, *arguments)
                )
                running.append((done, file, output, size))
                while len(running) > (workers + 2 if pool else 0):
                    finish_first(running, bar)
            while running:
                finish_first(running, bar)
    except BrokenProcessPool:
        raise OSError(
            f"{name}: a worker process was killed, perhaps for want of memory. "
            "Start again with fewer --workers; what is done is kept"
        ) from None


def finish_first(running, bar):
    """Waits for the oldest running task and puts its file in place."""
    done, file, output, size = running.popleft()
    if done:
        done.result()
    put_in_place(file, output)
    bar.update(size)


def read_stage(data, config, work, workers):
    """Stage 1 for all splits: {split: paths of its shards}, also kept in work/shards.json.

    Shards do not cross files.
    """
    marker, shards, files = work / "shards.json", {}, []

    def tasks():
        for split in present_splits(data, config):
            shards[split] = []
            extension, paths = find_files(data, split, config)
            for file in paths:
                rows, begin = raw_rows(extension, file, config), len(shards[split])
                for first in itertools.count(1, SHARD_LINES):
                    block = list(itertools.islice(rows, SHARD_LINES))
                    if not block:
                        break
                    shard = work / f"{split}-{len(shards[split]):05}.arrow"
                    shards[split].append(shard)
                    clean = split == "train"
                    yield shard, len(block), extension, file, first, block, clean, config
                files.append((file, shards[split][begin:]))

    if not marker.exists():
        run_stage("reading", "line", read_shard, tasks(), workers)
        for file, paths in files:
            counts = sum_counts(paths)
            pairs = counts["lines"] - counts[NO_PAIR] - counts[EMPTY]
            check_file(file[0], counts["lines"], pairs)
        names = {split: [path.name for path in paths] for split, paths in shards.items()}
        write_json(marker, names)
    names = json.loads(marker.read_text(encoding="utf-8"))
    return {split: [work / name for name in names[split]] for split in names}


def run_stages(data, config, folder, workers):
    """Fills the folder of a preparation, using what a killed one left there. Returns the report."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    for path in folder.rglob("*.tmp"):
        path.unlink()
    shards = read_stage(data, config, work, workers)
    sizes = {path: read_arrow(path).num_rows for paths in shards.values() for path in paths}
    starts = itertools.accumulate((sizes[path] for path in shards["train"]), initial=0)
    train = list(zip(shards["train"], starts))
    held_out = [path for split in shards if split != "train" for path in shards[split]]
    total = sum(sizes[path] for path, _ in train)
    parts = max(1, -(-total // PARTITION_PAIRS))
    found = [work / f"duplicates-{part:05}.arrow" for part in range(parts)]
    tasks = ((path, 1, part, parts, held_out, train) for part, path in enumerate(found))
    run_stage("duplicates", "part", find_duplicates, tasks, workers, parts)
    kept = total - sum(sum_counts(found).values())
    if not kept:
        counts = sum_counts([*shards["train"], *found])
        reasons = ", ".join(f"{step}: {counts[step]:,}" for step in STEPS if counts[step])
        hint = "Are --src, --tgt and --swap right?"
        if counts[LEAK]:
            hint = "Give train pairs that are not in dev or test"
        raise InputError(f"{data}: cleaning leaves no pair of train ({reasons}). {hint}")
    tasks = [(folder / "vocabulary.tgt.json", kept, train, work, config)]
    # in a process of its own if there are any: that gives its memory back
    run_stage("tokenizers", "pair", learn_tokenizers, tasks, min(workers, 1), kept)
    tasks = (
        (folder / path.name, sizes[path], path, first, work, config.max_length)
        for path, first in [*((path, None) for path in held_out), *train]
    )
    run_stage("encoding", "pair", encode_shard, tasks, workers, sum(sizes.values()))
    report = {"contents": {}}
    for split, paths in shards.items():
        encoded = [folder / path.name for path in paths]
        counts = sum_counts([*paths, *encoded, *(found if split == "train" else [])])
        if not counts["kept"]:
            raise InputError(
                f"{data}: every pair of {split} has more than "
                f"max_length {config.max_length} tokens on a side"
            )
        report[split] = {step: counts[step] for step in ("lines", *STEPS, "kept")}
        write_lengths(folder / f"{split}.lengths.npy", encoded, counts["kept"])
        report["contents"][split] = digest(encoded)
    return report


def write_lengths(path, shards, count):
    """The tokens of each pair with EOS, as `TranslationDataset.lengths` has them.

    The file holds (count, 2) int32, to be memory-mapped.
    """
    temporary, row = path.with_name(path.name + ".tmp"), 0
    lengths = np.lib.format.open_memmap(temporary, "w+", np.int32, (count, 2))
    for shard in map(read_arrow, shards):
        for side, name in enumerate(("src", "tgt")):
            lengths[row : row + shard.num_rows, side] = np.diff(view(shard[name].offsets)) + 1
        row += shard.num_rows
    lengths.flush()
    put_in_place(temporary, path)


def prepare(data, config, workers=None, output=None):
    """Prepares a data folder, or finds it done: the path `output/FINGERPRINT`, for `load_prepared`.

    `workers` processes, 1 being this one; `default_workers()` if not given. `output`: PREPARED if
    not given. Raises InputError, naming the file, for what is wrong with the data. Killed, it goes
    on when it is called again. A second call at the same time waits for the first.
    """
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise InputError(f"workers is {workers}: give a number above 0")
    # raises for settings that do not go together, before the long work
    make_tokenizers([("a", "b")], config)
    folder = Path(output or PREPARED) / fingerprint(data, config)
    if not (folder / "report.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            if not (folder / "report.json").exists():
                try:
                    report = run_stages(data, config, folder, 0 if workers == 1 else workers)
                except InputError:
                    # of no use for data that has been mended: that has another fingerprint
                    shutil.rmtree(folder)
                    raise
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


class PreparedDataset(Dataset):
    """One split of a prepared folder, used as notebook 01's `TranslationDataset`.

    The ids stay on the disk. `lengths` is a memory-mapped (N, 2) array, `dropped` counts the pairs
    that were too long, `fingerprint` is a SHA-256 of all ids. Pickled as a path, so that the
    processes of a `DataLoader` read the same files.
    """

    def __init__(self, folder, split):
        self.folder, self.split = Path(folder), split
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        self.dropped, self.fingerprint = report[split][TOKENS], report["contents"][split]
        self.lengths = np.load(self.folder / f"{split}.lengths.npy", mmap_mode="r")
        shards = [read_arrow(path) for path in sorted(self.folder.glob(f"{split}-*.arrow"))]
        self.starts = list(itertools.accumulate((shard.num_rows for shard in shards), initial=0))
        self.sides = [
            [(view(shard[side].offsets), view(shard[side].values)) for shard in shards]
            for side in ("src", "tgt")
        ]

    def __reduce__(self):
        return PreparedDataset, (self.folder, self.split)

    def __len__(self):
        return self.starts[-1]

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        shard = bisect_right(self.starts, index) - 1
        row, sides = index - self.starts[shard], [side[shard] for side in self.sides]
        src, tgt = (ids[offsets[row] : offsets[row + 1]].tolist() for offsets, ids in sides)
        return src + [EOS], [BOS, *tgt, EOS]


def checksum(folder, report):
    """SHA-256 of a report but for this entry, and of all files that it reports on."""
    told = {name: value for name, value in report.items() if name != "checksum"}
    found = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for path in sorted([*folder.glob("*.arrow"), *folder.glob("*.npy"), *folder.glob("*.json")]):
        if path.name != "report.json":
            with path.open("rb") as file:
                found.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def load_prepared(folder):
    """Source tokenizer, target tokenizer, train set and dev set of a prepared folder.

    Raises InputError when a file is not as it was written, which takes a second for each GB.
    """
    report = read_json(folder / "report.json")
    if report.get("checksum") != checksum(folder, report):
        raise InputError(f"{folder}: damaged. Delete this folder, and it is prepared again")
    sets = (PreparedDataset(folder, split) for split in ("train", "dev"))
    return *load_tokenizers(Path(folder)), *sets


def load_data(data, config):
    """Reads train and dev of a data folder.

    Returns (source tokenizer, target tokenizer, train set, dev set, dev's pairs of texts).
    """
    if needs_preparing(data, config):
        return *load_prepared(prepare(data, config)), read_split(data, "dev", config)
    pairs, dev_pairs = read_pairs(data, "train", config), read_pairs(data, "dev", config)
    source, target = make_tokenizers(pairs, config)
    train_set, dev_set = (
        TranslationDataset(part, source, target, config.max_length) for part in (pairs, dev_pairs)
    )
    for name, part in (("train", train_set), ("dev", dev_set)):
        if not len(part):
            raise InputError(
                f"{data}: every pair of {name} has more than "
                f"max_length {config.max_length} tokens on a side"
            )
    return source, target, train_set, dev_set, dev_pairs


# command line


@dataclass(frozen=True)
class PrepareCommand:
    """Prepare a data folder of any size. The same command again goes on where it stopped."""

    settings: tyro.conf.OmitArgPrefixes[Config]
    # folder with train, dev and perhaps test, in any of the formats of data_large/README.md
    data: Path = FOLDER
    # preset: tiny, small, reference or base; every option below changes one of its settings
    config: str = "base"
    # processes; by default as many as processors and 2 GiB of memory allow, at most 8
    workers: int | None = None


def main(argv=None):
    """`python -m data_large.prepare`: returns the exit status."""
    return run_command(prepare_command, argv)


def prepare_command(argv):
    """Parses, prepares, and says where the result is."""
    command = parse_command(PrepareCommand, argv, "data_large.prepare", preset="base")
    print(f"prepared in {prepare(command.data, command.settings, command.workers)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

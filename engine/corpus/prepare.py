"""Training data of any size, prepared once and then read by memory map.

The command is `python prepare.py --data FOLDER`. Notebook 01 holds all pairs in memory; this module
does the same for millions of them, with its functions, in a folder under a temporary name:

1. reading and cleaning: the pairs of each split that stay go to a file, one in a line. A hash of
   each pair of train is held in memory, which tells of duplicates;
2. tokenizers: notebook 01's, made from a sample of train;
3. encoding: the ids of both sides go to the folder SPLIT, for `PreparedDataset`.

When all is there the folder is renamed. A kill costs what was done, some minutes for millions of
pairs. What comes out depends on the data and the settings only.
"""

import errno
import hashlib
import itertools
import json
import math
import shutil
import sys
from array import array
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
from filelock import FileLock
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
from engine.corpus.dataset import check_prepared, digest, seal
from engine.corpus.formats import find_files, present_splits, read_rows
from engine.corpus.tokenizers import make_tokenizers
from engine.definitions import code_digest
from engine.errors import InputError
from engine.files import write_json
from engine.model_files import save_tokenizer, tokenizer_content
from engine.run_config import OURS
from engine.text_files import check_file
from notebooks import FOLDER as NOTEBOOKS
from notebooks.data_preparation import encode_pairs
from utils import ROOT

# what prepared data depend on besides files and settings: edit it, and they are prepared anew
CODE = [NOTEBOOKS / "01_data_preparation.ipynb", ROOT / "engine" / "plain_text.py",
        ROOT / "engine" / "text_files.py", ROOT / "engine" / "languages.py",
        *sorted(Path(__file__).parent.glob("*.py"))]  # fmt: skip
SETTINGS = """src tgt target_first src_segmentation tgt_segmentation min_freq max_vocab_size
    max_length tie_embeddings""".split()  # the course's settings that they depend on
FOLDER = ROOT / "data_large"
PREPARED = FOLDER / "prepared"
BLOCK_PAIRS = 1_000  # that are encoded at a time
# training text for the tokenizers; learning subwords takes about 55 bytes of memory for each
SAMPLE_BYTES = 20_000_000


def progress(name, unit, total=None):
    """A bar that appears when a stage takes more than a second."""
    pause = 0.1 if sys.stderr.isatty() else 5  # seconds between two pictures: a file needs few
    return tqdm(desc=name, unit=unit, unit_scale=True, total=total, mininterval=pause, delay=1)


# reading and cleaning


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


# tokenizers and encoding


def learn_tokenizers(path, config):
    """Notebook 01's tokenizers, made from every k-th pair: about SAMPLE_BYTES."""
    step = math.ceil(path.stat().st_size / SAMPLE_BYTES)
    return make_tokenizers(list(itertools.islice(read_kept(path), 0, None, step)), config)


def encode_split(folder, path, count, tokenizers, config):
    """Writes the ids of `count` pairs and their lengths for `PreparedDataset`, no long ones.

    Returns how many pairs that are.
    """
    folder.mkdir()
    dtype = np.uint16 if max(map(len, tokenizers)) <= 1 << 16 else np.uint32
    lengths = array("i")
    rows = read_kept(path)
    with (
        open(folder / "src.ids", "wb") as src,
        open(folder / "tgt.ids", "wb") as tgt,
        progress("encoding", "pair", count) as bar,
    ):
        while block := list(itertools.islice(rows, BLOCK_PAIRS)):
            encoded = encode_pairs(block, *tokenizers, config.max_length)
            for file, side in zip((src, tgt), zip(*encoded)):
                ids = np.fromiter(itertools.chain.from_iterable(side), dtype)
                file.write(ids.tobytes())
            lengths.extend(len(ids) for pair in encoded for ids in pair)
            bar.update(len(block))
    np.save(folder / "lengths.npy", np.array(lengths, np.int32).reshape(-1, 2))
    return len(lengths) // 2


# a preparation


def fingerprint(data, config, tokenizers=None):
    """The name of a preparation, 16 hexadecimal digits of a digest.

    It is of the files, their names, the settings, the CODE, and of the tokenizers, where they are
    passed and not made from the data.
    """
    own = {name: value for name, value in asdict(config).items() if name not in OURS}
    parts = [code_digest(*CODE), [getattr(config, name) for name in SETTINGS]]
    parts += [repr(own)] if own else []  # what a reader's lesson 01 does with them nobody knows
    parts += [tokenizer_content(tokenizer) for tokenizer in tokenizers or ()]
    for split in present_splits(data, config):
        paths = [path for file in find_files(data, split, config)[1] for path in file]
        parts += [[str(path.relative_to(data)) for path in paths], digest(paths)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def fill(folder, work, data, config, tokenizers):
    """Writes a whole preparation into a folder. Returns its report."""
    splits = present_splits(data, config)
    report = {"contents": {}}
    stay = {}
    held_out = set()
    for split in splits:
        counts = clean_split(work / split, data, split, config, held_out)
        report[split] = {"lines": counts.total(), **{step: counts[step] for step in STEPS}}
        stay[split] = counts[None]
    if not stay["train"]:
        raise nothing_left(data, report["train"])
    tokenizers = tokenizers or learn_tokenizers(work / "train", config)
    for side, tokenizer in zip(("src", "tgt"), tokenizers):
        save_tokenizer(tokenizer, folder / f"vocabulary.{side}.json")
    for split in splits:
        result = folder / split
        count = encode_split(result, work / split, stay[split], tokenizers, config)
        check_kept(data, split, count, config)
        report[split] |= {TOKENS: stay[split] - count, "kept": count}
        report["contents"][split] = digest(sorted(result.iterdir()))
    check_vocabularies(config, *map(len, tokenizers))
    return report


def prepare(data, config, output=None, tokenizers=None):
    """Prepares a data folder, or finds it done: the path `output/FINGERPRINT`, for `load_prepared`.

    `output`: PREPARED if not given. `tokenizers` of both sides are made from train if not given.
    Raises InputError, naming the file, for what is wrong with the data, or with what was prepared
    of them. A second call at the same time waits for the first.
    """
    folder = Path(output or PREPARED) / fingerprint(data, config, tokenizers)
    if folder.exists():
        check_prepared(folder)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # an open file, which the system closes with the process
        if not folder.exists():
            make(folder, data, config, tokenizers)
    return folder


def make(folder, data, config, tokenizers):
    """Makes the folder of a preparation under another name, renames it, and prints its report."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a call that was killed
    work = unfinished / "work"
    result = unfinished / folder.name
    work.mkdir(parents=True)
    result.mkdir()
    try:
        report = fill(result, work, data, config, tokenizers)
        if fingerprint(data, config, tokenizers) != folder.name:
            raise InputError(f"{data}: has changed while it was read. Start again")
        write_json(result / "report.json", report)
        (result / "sha256").write_text(seal(result), encoding="utf-8")
        result.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG):
            raise
        hint = "Make room (about twice what the data take) and start again"
        raise OSError(f"{folder.parent}: the disk is full. {hint}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print_report(data, report)


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

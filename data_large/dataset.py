"""What training reads of a prepared folder: the ids, memory-mapped, and the tokenizers."""

import hashlib
import json
from bisect import bisect_right
from functools import lru_cache
from pathlib import Path

import numpy as np
from notebooks.data_preparation import add_marks
from torch.utils.data import Dataset

from data_large.cleaning import TOKENS
from notebooks.support.errors import InputError
from notebooks.support.files import read_json
from notebooks.support.model_files import load_tokenizer


class PreparedDataset(Dataset):
    """One split of a prepared folder, used as notebook 01's `TranslationDataset`.

    The ids stay on the disk, `lengths` is an (N, 2) array, `dropped` counts the pairs that were too
    long, `fingerprint` is a SHA-256 of all ids. Pickled as a path, so that the processes of a
    `DataLoader` read the same files.
    """

    def __init__(self, folder, split):
        import datasets

        self.folder, self.split = Path(folder), split
        report = read_json(self.folder / "report.json")
        self.dropped, self.fingerprint = report[split][TOKENS], report["contents"][split]
        columns = datasets.load_from_disk(str(self.folder / split)).data
        self.sides = [
            [(chunk.offsets.to_numpy(), chunk.values.to_numpy()) for chunk in columns[side].chunks]
            for side in ("src", "tgt")
        ]
        counts = [np.concatenate([np.diff(offsets) for offsets, _ in side]) for side in self.sides]
        self.lengths = np.stack(counts, axis=1) + 1
        self.starts = [0, *np.cumsum([len(offsets) - 1 for offsets, _ in self.sides[0]]).tolist()]

    def __reduce__(self):
        return PreparedDataset, (self.folder, self.split)

    def __len__(self):
        return self.starts[-1]

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        chunk = bisect_right(self.starts, index) - 1
        row, sides = index - self.starts[chunk], [side[chunk] for side in self.sides]
        return add_marks(*(ids[offsets[row] : offsets[row + 1]].tolist() for offsets, ids in sides))


def checksum(folder, report):
    """SHA-256 of a report but for this entry, and of all files that it reports on."""
    told = {name: value for name, value in report.items() if name != "checksum"}
    found = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for path in sorted(
        [*folder.glob("vocabulary.*"), *folder.glob("*/data-*.arrow"), *folder.glob("*/*.json")]
    ):
        found.update(f"{path.relative_to(folder)} {digest([path])}".encode())
    return found.hexdigest()


def load_prepared(folder):
    """Source tokenizer, target tokenizer, train set and dev set of a prepared folder.

    Raises InputError when a file is not as it was written, which takes a second for each GB.
    """
    try:
        report = read_json(folder / "report.json")
    except InputError:
        report = {}  # damaged, like any other file
    if report.get("checksum") != checksum(folder, report):
        raise InputError(f"{folder}: damaged. Delete this folder, and it is prepared again")
    sets = (PreparedDataset(folder, split) for split in ("train", "dev"))
    return *load_tokenizers(Path(folder)), *sets


@lru_cache(maxsize=1)
def load_tokenizers(folder):
    """The source and the target tokenizer of a prepared folder; one object if they are the same."""
    paths = [folder / f"vocabulary.{side}.json" for side in ("src", "tgt")]
    source = load_tokenizer(paths[0])
    same = paths[0].read_bytes() == paths[1].read_bytes()
    return source, source if same else load_tokenizer(paths[1])


def digest(paths):
    """SHA-256 over the contents of files, in hexadecimal."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()

"""What training reads of a prepared folder: the ids, memory-mapped, and the tokenizers."""

import hashlib
import os
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from engine.corpus.cleaning import TOKENS
from engine.definitions import tell_unused
from engine.errors import InputError
from engine.files import read_json
from engine.model_files import load_tokenizer
from notebooks.data_preparation import add_marks


class PreparedDataset(Dataset):
    """One split of a prepared folder, used as notebook 01's `TranslationDataset`.

    The ids stay on the disk, `lengths` is an (N, 2) array, `dropped` counts the pairs that were too
    long, `fingerprint` is a SHA-256 of all ids. Pickled as a path, so that the processes of a
    `DataLoader` read the same files.
    """

    def __init__(self, folder, split):
        if split == "train":
            tell_unused("engine/corpus/dataset.py", "TranslationDataset", "read_pairs")
        self.folder = Path(folder)
        self.split = split
        report = read_json(self.folder / "report.json")
        self.dropped = report[split][TOKENS]
        self.fingerprint = report["contents"][split]
        counts = np.load(self.folder / split / "lengths.npy").astype(np.int64)
        self.lengths = counts + 1  # with the marks
        self.ends = np.cumsum(counts, axis=0)
        self.ids = []
        for side, total in zip(("src", "tgt"), counts.sum(axis=0)):
            path = self.folder / split / f"{side}.ids"
            width = path.stat().st_size // total  # of an id, in bytes
            self.ids.append(np.memmap(path, f"u{width}", "r"))

    def __reduce__(self):
        return PreparedDataset, (self.folder, self.split)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        counts = self.lengths[index] - 1
        starts = self.ends[index] - counts
        for ids in self.ids:
            if os.path.getsize(ids.filename) < ids.nbytes:  # reading on would end the process
                hint = "Delete its folder, and it is prepared again"
                raise InputError(f"{ids.filename}: was cut short while it was read. {hint}")
        sides = zip(self.ids, starts, starts + counts)
        return add_marks(*(ids[start:end].tolist() for ids, start, end in sides))


def digest(paths):
    """SHA-256 over the contents of files, in hexadecimal."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def seal(folder):
    """The text of the file `sha256` of a prepared folder: a digest of all others, and their names.

    Not those that a file manager leaves.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in files if path.name != "sha256" and path.name[0] != "."]
    return "\n".join([digest(files), *(path.relative_to(folder).as_posix() for path in files)])


def check_prepared(folder):
    """Raises InputError when a file is not as it was written, which takes a second for each GB."""
    path = folder / "sha256"
    if not path.is_file() or path.read_bytes() != seal(folder).encode():
        raise InputError(f"{folder}: damaged. Delete it, and it is prepared again")


def load_prepared(folder):
    """Source tokenizer, target tokenizer, train set and dev set of a prepared folder.

    Raises InputError when a file is not as it was written.
    """
    check_prepared(folder)
    tokenizers = [load_tokenizer(folder / f"vocabulary.{side}.json") for side in ("src", "tgt")]
    return *tokenizers, *(PreparedDataset(folder, split) for split in ("train", "dev"))

"""What training reads of a prepared folder: the ids, memory-mapped."""

import hashlib
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from engine.corpus.cleaning import TOKENS
from engine.files import read_json
from notebooks.data_preparation import add_marks

SETTINGS_FILE = "settings.json"  # by which a prepared folder is known


def is_prepared(folder):
    """Whether a data folder is one that prepare.py has written."""
    return (Path(folder) / SETTINGS_FILE).exists()


class PreparedDataset(Dataset):
    """Train of a prepared folder, used as notebook 01's `TranslationDataset`.

    The ids stay on the disk, `lengths` is an (N, 2) array, `dropped` counts the pairs that were too
    long. Pickled as a path, so that the processes of a `DataLoader` read the same files.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.dropped = read_json(self.folder / "report.json")["train"][TOKENS]
        counts = np.load(self.folder / "lengths.npy").astype(np.int64)
        self.fingerprint = hashlib.sha256(counts.tobytes()).hexdigest()
        self.lengths = counts + 1  # with the marks
        self.ends = np.cumsum(counts, axis=0)
        self.ids = []
        for side, total in zip(("src", "tgt"), counts.sum(axis=0)):
            path = self.folder / f"{side}.ids"
            width = path.stat().st_size // total  # of an id, in bytes
            self.ids.append(np.memmap(path, f"u{width}", "r"))

    def __reduce__(self):
        return PreparedDataset, (self.folder,)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        counts = self.lengths[index] - 1
        starts = self.ends[index] - counts
        sides = zip(self.ids, starts, starts + counts)
        return add_marks(*(ids[start:end].tolist() for ids, start, end in sides))

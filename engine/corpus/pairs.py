"""What training reads of a data folder: plainly in memory, or prepared on the disk."""

from pathlib import Path

from engine.checks import check_kept
from engine.corpus.dataset import SETTINGS_FILE, PreparedDataset, is_prepared
from engine.corpus.formats import find_files, read_split
from engine.corpus.tokenizers import make_tokenizers
from engine.errors import InputError
from engine.files import read_form
from engine.model_files import load_tokenizer
from engine.run_config import RunConfig, settings_of
from notebooks.data_preparation import TranslationDataset

LARGE_BYTES = 200_000_000  # training files from this size on are not held in memory as Python lists


def load_data(folder, config, tokenizers=None):
    """Tokenizers of both sides, train set, dev set, and dev's pairs of texts, of a data folder.

    The tokenizers are made from train, unless they are passed, as for a model that goes on. Raises
    InputError for what is wrong with the files, and when no pair of a split is kept.
    """
    folder = Path(folder)
    if is_prepared(folder):
        source, target = prepared_tokenizers(folder, config, tokenizers)
        train_set = PreparedDataset(folder)
    else:
        check_size(folder, config)
        pairs = read_split(folder, "train", config)
        source, target = tokenizers or make_tokenizers(pairs, config)
        train_set = TranslationDataset(pairs, source, target, config.max_length)
    dev_pairs = read_split(folder, "dev", config)
    dev_set = TranslationDataset(dev_pairs, source, target, config.max_length)
    for split, data in (("train", train_set), ("dev", dev_set)):
        check_kept(folder, split, len(data), config)
    return source, target, train_set, dev_set, dev_pairs


def check_size(folder, config):
    """Raises InputError for training files that are too large to be read plainly."""
    files = [path for file in find_files(folder, "train", config)[1] for path in file]
    size = sum(path.stat().st_size for path in files)
    if size > LARGE_BYTES:
        wrong = f"train has {size / 1e6:,.0f} MB, too many to be held in memory"
        command = f"python prepare.py --data {folder} --config base --out {folder}-prepared"
        raise InputError(f"{folder}: {wrong}. Prepare it ({command}), and give --data that folder")


def prepared_tokenizers(folder, config, tokenizers):
    """The tokenizers of a prepared folder. InputError where the run has other settings or words."""
    before = settings_of(read_form(folder / SETTINGS_FILE, RunConfig), "text")
    for name, new in settings_of(config, "text").items():
        if before[name] != new:
            wrong = f"was prepared with {name} {before[name]}, not {new}"
            raise InputError(f"{folder}: {wrong}. Prepare it again into another folder")
    own = [load_tokenizer(folder / f"vocabulary.{side}.json") for side in ("src", "tgt")]
    for one, other in zip(own, tokenizers or own):
        if one.vocabulary.tokens != other.vocabulary.tokens:
            hint = "Prepare the data with --start and that run"
            raise InputError(f"{folder}: was prepared with other vocabularies. {hint}")
    return own

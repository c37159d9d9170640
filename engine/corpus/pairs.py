"""What training reads of a data folder: in memory, or prepared on the disk."""

from engine.checks import check_kept
from engine.corpus.dataset import load_prepared
from engine.corpus.formats import needs_preparing, read_split
from engine.corpus.prepare import prepare
from engine.corpus.tokenizers import make_tokenizers
from engine.definitions import tell_unused
from notebooks.data_preparation import TranslationDataset


def load_data(folder, config, tokenizers=None):
    """Tokenizers of both sides, train set, dev set, and dev's pairs of texts, of a data folder.

    The tokenizers are made from train, unless they are passed, as for a model that goes on. Raises
    InputError for what is wrong with the files, and when no pair of a split is kept.
    """
    if needs_preparing(folder, config):
        prepared = prepare(folder, config, tokenizers=tokenizers)
        return *load_prepared(prepared), read_split(folder, "dev", config)
    tell_unused("engine/corpus/pairs.py", "read_pairs")
    pairs = read_split(folder, "train", config)
    dev_pairs = read_split(folder, "dev", config)
    source, target = tokenizers or make_tokenizers(pairs, config)
    sets = [
        TranslationDataset(part, source, target, config.max_length) for part in (pairs, dev_pairs)
    ]
    for split, data in zip(("train", "dev"), sets):
        check_kept(folder, split, len(data), config)
    return source, target, *sets, dev_pairs

"""Data folders of .tsv files that fit into memory: their pairs, and what training reads of them."""

from engine.checks import check_kept
from engine.corpus.tokenizers import make_tokenizers
from engine.definitions import tell_unused
from engine.errors import InputError
from engine.text_files import kept_pairs, read_lines, split_files, strip_pair
from notebooks.data_preparation import TranslationDataset


def parse_tsv(line, config):
    """(source, target) of a line of a .tsv file; None if it has no tab."""
    pair = line.split("\t")[:2]
    if len(pair) < 2:
        return None
    return (pair[1], pair[0]) if config.target_first else (pair[0], pair[1])


def read_tsv(folder, split, config):
    """The pairs of one split of a data folder: a list of (source, target) texts.

    They are in the order of the split's files. Lines without a pair or with an empty side are
    skipped, counted and reported on stderr. Raises InputError, naming the file, for a missing or
    empty split, bytes that are not UTF-8, or a file in which no line holds a pair.
    """
    paths = split_files(folder, split, "tsv")
    pairs = []
    if not paths:
        raise InputError(f"{folder}: holds no {split}.tsv")
    for path in paths:
        rows = [strip_pair(parse_tsv(line, config)) for _, line in read_lines(path)]
        pairs += kept_pairs(path, rows, config)
    return pairs


def load_data(folder, config, tokenizers=None):
    """Tokenizers of both sides, train set, dev set, and dev's pairs of texts, of a data folder.

    The tokenizers are made from train, unless they are passed, as for a model that goes on. Raises
    InputError for what is wrong with the files, and when no pair of a split is kept.
    """
    tell_unused("engine/corpus/pairs.py", "read_pairs")
    pairs = read_tsv(folder, "train", config)
    dev_pairs = read_tsv(folder, "dev", config)
    source, target = tokenizers or make_tokenizers(pairs, config)
    sets = [
        TranslationDataset(part, source, target, config.max_length) for part in (pairs, dev_pairs)
    ]
    for split, data in zip(("train", "dev"), sets):
        check_kept(folder, split, len(data), config)
    return source, target, *sets, dev_pairs

"""The tokenizers of a run: notebook 01's, or one vocabulary for both sides."""

from itertools import chain

from engine.checks import check_segmentation
from notebooks import data_preparation
from notebooks.data_preparation import (
    Tokenizer,
    Vocabulary,
    make_segmenter,
    make_vocabulary,
)


def make_tokenizers(pairs, config):
    """The tokenizers of both sides, from training pairs only: (source, target).

    Raises InputError for a segmentation that the language does not allow.
    """
    check_segmentation(config)
    if config.tie_embeddings != "three-way":
        return data_preparation.make_tokenizers(pairs, config)
    sides = list(zip(*pairs))
    if config.src_segmentation == "subwords":  # then the target's, too
        segmenter = make_segmenter("subwords", config.src, chain(*sides), config.max_vocab_size)
        tokenizer = Tokenizer(segmenter, make_vocabulary(segmenter, (), config))
        return tokenizer, tokenizer
    kinds = (config.src_segmentation, config.src), (config.tgt_segmentation, config.tgt)
    segmenters = [make_segmenter(*kind, (), config.max_vocab_size) for kind in kinds]
    both = chain.from_iterable(
        map(segmenter.segment, texts) for segmenter, texts in zip(segmenters, sides)
    )
    vocabulary = Vocabulary.build(both, config.min_freq, config.max_vocab_size)
    return tuple(Tokenizer(segmenter, vocabulary) for segmenter in segmenters)

"""Chinese words by the library jieba, which is quietened, and keeps its cache where it is safe."""

import logging
import warnings

from engine.files import private_folder


def jieba_words(text):
    """Chinese words by jieba: a dictionary, and a hidden Markov model for words that it lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba 0.42 is older than some of Python's warnings
        import jieba
    jieba.setLogLevel(logging.WARNING)
    if jieba.dt.tmp_dir is None:  # not the shared folder: its cache could hold a stranger's code
        jieba.dt.tmp_dir = str(private_folder())
    return jieba.lcut(text)

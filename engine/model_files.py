"""What a trained model is kept in: its tokenizers as JSON, its weights as safetensors."""

from contextlib import contextmanager
from pathlib import Path

import safetensors.torch
import tokenizers

from engine.errors import InputError
from engine.files import read_json, write_json
from notebooks.data_preparation import (
    CharacterSegmenter,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    WordSegmenter,
)


def save_tokenizer(tokenizer, path):
    """Writes everything that `load_tokenizer` needs into one JSON file."""
    write_json(Path(path), tokenizer_content(tokenizer), indent=None)


def tokenizer_content(tokenizer):
    """All that a tokenizer is, in the form of JSON."""
    segmenter = tokenizer.segmenter
    model = segmenter.model.to_str() if isinstance(segmenter, SubwordSegmenter) else None
    content = {
        "tokens": tokenizer.vocabulary.tokens,
        "language": getattr(segmenter, "language", None),
        "subwords": model,
        "segmenter": type(segmenter).__name__,
    }
    # left out where it is false: runs that were made before have no such entry
    return content | ({"lowercase": True} if getattr(segmenter, "lowercase", False) else {})


def load_tokenizer(path):
    """The tokenizer of such a file. Raises InputError, naming it, for anything else."""
    content = read_json(Path(path))
    try:
        vocabulary = Vocabulary(content["tokens"])
        return Tokenizer(segmenter_from(content), vocabulary)
    except Exception:  # the library for subwords has no other class for what it cannot read
        wrong = "not a vocabulary, or cut short"
        raise InputError(f"{path}: {wrong}. Take a whole copy of it, or train again") from None


def segmenter_from(content):
    """The segmenter of `tokenizer_content`."""
    kind = content["segmenter"]
    if kind == "SubwordSegmenter":
        segmenter = SubwordSegmenter(tokenizers.models.BPE())
        segmenter.model = tokenizers.Tokenizer.from_str(content["subwords"])
        return segmenter
    if kind == "WordSegmenter":
        return WordSegmenter(content["language"], content.get("lowercase", False))
    return {"CharacterSegmenter": CharacterSegmenter}[kind]()


def load_weights(model, path):
    """Fills the model from such a file, which holds tied weights once.

    Raises InputError as `read_weights`, and PyTorch's RuntimeError for other names or shapes.
    """
    with unreadable(path):
        safetensors.torch.load_model(model, path)


def read_weights(path):
    """The tensors of a safetensors file, on the CPU. InputError when it is missing or cut short."""
    with unreadable(path):
        return safetensors.torch.load_file(path)


@contextmanager
def unreadable(path):
    """In the block, what is wrong with a safetensors file is an InputError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: missing. Is the folder a complete run?") from None
    except safetensors.SafetensorError as error:
        raise InputError(f"{path}: not readable, cut short? ({error})") from None

"""What a trained model is kept in: its tokenizers as JSON, its weights as safetensors.

Files are written whole or not at all. What is read is checked, since it may be a stranger's file.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path

import safetensors.torch
import tokenizers
import torch

from engine.definitions import edited_names
from engine.errors import InputError
from engine.files import read_json, write_json, write_whole
from notebooks.data_preparation import (
    CharacterSegmenter,
    SubwordSegmenter,
    Tokenizer,
    Vocabulary,
    WordSegmenter,
)

UNREADABLE = (ValueError, LookupError, TypeError, RecursionError)
# the settings without which weights mean something else, or nothing
MEANING = (
    "src tgt src_segmentation tgt_segmentation num_layers d_model d_ff num_heads norm "
    "tie_embeddings"
).split()


def save_tokenizer(tokenizer, path):
    """Writes everything that `load_tokenizer` needs into one JSON file."""
    check_storable(tokenizer)
    write_json(Path(path), tokenizer_content(tokenizer), indent=None)


def check_storable(tokenizer):
    """Raises InputError for a tokenizer, of an edited lesson 01, that could not be read back."""
    content = tokenizer_content(tokenizer)
    kind = type(tokenizer.segmenter)
    twice = [token for token, count in Counter(content["tokens"]).items() if count > 1]
    if twice:
        hint = "Let each token stand there once"
        raise InputError(f"lesson 01: the vocabulary holds {twice[0]!r} twice. {hint}")
    try:
        restored = tokenizer_from(content)
        for part in ("segmenter", "vocabulary", None):
            ours, theirs = (getattr(one, part) if part else one for one in (tokenizer, restored))
            if settings_of(ours) != settings_of(theirs):
                kind = type(ours)
                raise ValueError
    except UNREADABLE:
        known = "the language, lowercase, and the model of SubwordSegmenter"
        stored = f"a run stores of a tokenizer its tokens and its segmenter's class, {known}"
        wrong = f"{stored}, not all of your {kind.__name__}"
        raise InputError(
            f"lesson 01: {wrong}. Make the rest part of a class that the course has"
        ) from None


def settings_of(part):
    """What two parts of a tokenizer have alike if they do the same: class and attributes."""
    attributes = {
        name: value.to_str() if hasattr(value, "to_str") else value
        for name, value in vars(part).items()
        if name not in ("segmenter", "vocabulary")  # a tokenizer's, which are compared themselves
    }
    return type(part), attributes


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
    """Raises InputError, naming the file, unless it is what `save_tokenizer` writes."""
    content = read_json(Path(path))
    try:
        return tokenizer_from(content)
    except UNREADABLE:
        wrong = "not a vocabulary, or cut short"
        raise InputError(f"{path}: {wrong}. Train again with --restart") from None


def tokenizer_from(content):
    """The tokenizer of `tokenizer_content`. Raises one of UNREADABLE for anything else."""
    kind = content["segmenter"]
    vocabulary = known_tokens(content["tokens"])
    if kind == "SubwordSegmenter":
        segmenter = learned_subwords(content["subwords"])
    elif kind == "WordSegmenter":
        language = "" + content["language"]  # fails for what is no text
        segmenter = WordSegmenter(language, content.get("lowercase") is True)
    else:
        segmenter = {"CharacterSegmenter": CharacterSegmenter}[kind]()
    return Tokenizer(segmenter, vocabulary)


def known_tokens(tokens):
    """A file's tokens as a vocabulary. ValueError or TypeError unless they are different texts."""
    "".join(tokens).encode()  # fails for what is no text, or half a character
    if type(tokens) is not list or len(set(tokens)) < len(tokens):
        raise ValueError("no list of different tokens")
    return Vocabulary(tokens)


def learned_subwords(text):
    """The segmenter that was learned, from its form as text. ValueError if that is none."""
    segmenter = SubwordSegmenter(tokenizers.models.BPE())
    try:
        segmenter.model = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library has no other class for it
        raise ValueError(error) from None
    return segmenter


def write_tensors(path, tensors, **metadata):
    """Writes a safetensors file, all or nothing."""
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        write_whole(path, safetensors.torch.save(tensors, metadata))
    except OSError as error:
        advice = "Make room and start again; what was saved before is kept"
        raise OSError(f"{path}: could not be written ({error}). {advice}") from None


def read_tensors(path):
    """The tensors of a safetensors file, on the CPU. InputError when it is missing or cut short."""
    try:
        with open(path, "rb"):  # says why, when it may not be read
            return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise InputError(f"{path}: missing. Is the folder a complete run?") from None
    except safetensors.SafetensorError as error:
        raise InputError(f"{path}: not readable, cut short? ({error})") from None


def check_like(path, tensors, expected):
    """Raises InputError unless a file's tensors are finite, of names and shapes as expected."""
    for name in sorted(tensors.keys() | expected.keys()):
        stored, shape = (
            tuple(side[name].shape) if name in side else "missing" for side in (tensors, expected)
        )
        if stored != shape:
            mismatch = f"{name} is {stored} in the file, {shape} in the model"
            if names := edited_names():
                mismatch += f" (edited were {', '.join(names)})"
            raise InputError(f"{path}: does not match config.json: {mismatch}")
        fits = tensors[name].is_floating_point() == expected[name].is_floating_point()
        if not (fits and tensors[name].isfinite().all()):
            hint = "Take a whole copy of it, or train again"
            raise InputError(f"{path}: {name} holds NaN, infinity or integers. {hint}")


def weights_digest(path):
    """A digest of the names and the numbers in a safetensors file.

    Two equal runs have the same one, while their files differ in the order of the metadata.
    """
    total = hashlib.sha256()
    for name, tensor in sorted(read_tensors(path).items()):
        total.update(name.encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()


def made_for(config, source, target):
    """A digest of the settings and the vocabularies that weights belong to."""
    settings = [getattr(config, name) for name in MEANING]
    parts = [settings, tokenizer_content(source), tokenizer_content(target)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def check_size(path, config, tokens):
    """Raises InputError if a file cannot hold the weights that its config.json asks for.

    Nothing is allocated: a stranger's config.json may ask for more than the machine has. `tokens`
    is the size of the larger vocabulary. Counted is what any model of these sizes has at least; in
    edited lessons all layers may be one.
    """
    layers = 1 if edited_names() else config.num_layers
    weights = config.d_model * (layers * (config.d_model + config.d_ff) + tokens)
    if path.is_file() and weights > path.stat().st_size:
        hint = "Take a whole copy of the run"
        raise InputError(f"{path}: smaller than the {weights:,} weights of its config.json. {hint}")


def weights_of(model):
    """{name: tensor} of a model's parameters, tied ones once, and of its persistent buffers."""
    stored = model.state_dict()
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in stored}
    return {**dict(model.named_parameters()), **buffers}


def load_weights(model, path, expected=None):
    """Fills the model from a file of its `weights_of`.

    Raises InputError when it was made for something else than `expected`, a digest of `made_for`.
    """
    weights = weights_of(model)
    tensors = read_tensors(path)
    check_like(path, tensors, weights)
    with safetensors.safe_open(path, "pt") as file:
        recorded = (file.metadata() or {}).get("made_for")
    if expected and recorded != expected:
        message = "was made for other settings or vocabularies than those beside it"
        raise InputError(f"{path}: {message}. Take a whole copy of the run, or train again")
    with torch.no_grad():
        for name, tensor in weights.items():
            tensor.copy_(tensors[name])

"""The code of all seventeen lessons, and a program that trains with it and translates.

    python transformer.py train.tsv dev.tsv < sentences.txt
    torchrun --nproc-per-node 2 transformer.py train.tsv dev.tsv --bfloat16 --pieces 2

A line of both files is a source sentence, a tab and its translation. The weights are saved in
`transformer.pt`, the best of them in `transformer.pt.best`. While these are there, a stopped
training goes on, and a finished one only translates. Presets stand in PRESETS, under lesson 00:
change one there. For more than this use the course's own train.py and translate.py.
"""

import argparse
import hashlib
import re
import sys
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import get_args

import torch

from notebooks.data_preparation import (
    TokenBatchSampler,
    TranslationDataset,
    add_marks,
    make_dataloader,
    make_tokenizer,
    make_tokenizers,
    pad_rows,
    read_pairs,
)
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import PRESETS, Config, Segmentation
from notebooks.translation import beam_search


@dataclass(frozen=True)
class Settings(Config):
    """The settings of a model and its training."""

    eval_steps: int = 250  # steps between two evaluations on dev, each with a checkpoint
    made_from: str = ""  # digest of the data, the vocabularies, and the shapes of the weights
    program: str = ""  # digest of the program that the training was begun with


def whole_number(text, lowest=1):
    """The number in an option, from `lowest` to a billion."""
    if not re.fullmatch("[0-9]{1,10}", text) or not lowest <= int(text) <= 10**9:
        reason = f"{text!r} is no whole number from {lowest} to 1,000,000,000"
        raise argparse.ArgumentTypeError(reason)
    return int(text)


def language_code(text):
    """The language in an option."""
    if not re.fullmatch("[a-z]{2,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no code of a language, as en and zh are")
    return text


def make_parser():
    """The options; those without a default change the preset's settings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("train", type=Path, help="pairs to train on")
    add("dev", type=Path, help="pairs to measure on")
    add("--config", choices=PRESETS, default="small", help="preset of lesson 00")
    add("--weights", type=Path, default=Path("transformer.pt"))
    add("--pieces", type=whole_number, default=1, help="into which each batch is split")
    add("--bfloat16", action="store_true", help="matrix products in 16 bits")
    for side in ("src", "tgt"):
        add(f"--{side}", type=language_code, help="language: words of zh are cut by jieba")
        add(f"--{side}-segmentation", choices=get_args(Segmentation), help="what a token is")
    add("--steps", type=whole_number, help="updates of the weights")
    add("--eval-steps", type=whole_number, help="steps between two evaluations")
    add("--seed", type=partial(whole_number, lowest=0), help="of weights, batches and dropout")
    return parser


def settings_of(given):
    """The preset's settings, changed by options. Raises ValueError if they cannot work together."""
    names = "src tgt src_segmentation tgt_segmentation steps eval_steps seed".split()
    chosen = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if unknown := PRESETS[given.config].keys() - {field.name for field in fields(Settings)}:
        raise ValueError(f"preset {given.config} sets {min(unknown)}, which is no setting here")
    config = Settings(**PRESETS[given.config] | chosen)
    kinds = {config.src_segmentation, config.tgt_segmentation}
    if config.tie_embeddings == "three-way" and kinds != {"subwords"}:
        raise ValueError("three-way tying needs subwords on both sides")
    return config


def checked_pairs(path):
    """The pairs of a file. Raises ValueError unless each line is a source, a tab and a target."""
    try:
        pairs = read_pairs(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2 or not all(map(str.strip, pair)):
            raise ValueError(f"{path}, line {number}: is no sentence, tab and translation")
    if not pairs:
        raise ValueError(f"{path} is empty")
    return pairs


def data_of(given, config):
    """Both tokenizers and both encoded files. Raises ValueError where no pair is left."""
    pairs, dev_pairs = checked_pairs(given.train), checked_pairs(given.dev)
    source, target = make_tokenizers(pairs, config)
    if config.tie_embeddings == "three-way":  # one vocabulary, of subwords of both languages
        texts = [text for pair in pairs for text in pair]
        source = target = make_tokenizer(texts, "subwords", config.src, config)
    train_set = TranslationDataset(pairs, source, target, config.max_length)
    dev_set = TranslationDataset(dev_pairs, source, target, config.max_length)
    for path, data_set in ((given.train, train_set), (given.dev, dev_set)):
        if not len(data_set):
            raise ValueError(f"{path}: every pair has more than {config.max_length} tokens a side")
    return source, target, train_set, dev_set


def check_weights(path, config):
    """The settings, with the program that began the training in the file `path`, if there is one.

    Raises ValueError unless it has these settings: with other data an id means another token, and
    other sizes do not fit. With an edited program it goes on, and says so.
    """
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path.parent}: no such folder for the weights")
    if not path.exists():
        try:  # before anything is trained
            tempfile.TemporaryFile(dir=path.absolute().parent).close()
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error.strerror}") from None
        return config
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)["config"]
        begun_with = saved["program"]
    except Exception:  # the library has no class for all that a file may hold
        raise ValueError(f"{path} is no training of this program: give other --weights") from None
    if begun_with != config.program and rank == 0:  # noqa: F821
        hint = "it goes on with this one; other --weights begin anew"
        print(f"{path}: this program was edited since that training began, {hint}", file=sys.stderr)
    config = replace(config, program=begun_with)
    settings = asdict(config).items()
    changed = [name for name, value in settings if (name, value) not in saved.items()]
    if "made_from" in changed:
        changed = ["text, or a model of another shape"]
    if changed:
        wrong = f"{path} was trained with another {', '.join(changed)}"
        raise ValueError(f"{wrong}: give the same, or other --weights")
    if not best_of(path).exists():  # noqa: F821
        raise ValueError(f"{best_of(path)} is missing: put it back, or give other --weights")  # noqa: F821
    return config


def sha256(content):
    """The digest of these bytes, as text."""
    return hashlib.sha256(content).hexdigest()


def prepare(given):
    """The settings, what `data_of` returns, and the model that is trained."""
    config = settings_of(given)
    data = source, target, train_set, dev_set = data_of(given, config)
    torch.manual_seed(config.seed)
    model = make_model(config, len(source), len(target))
    shapes = [(name, tensor.shape) for name, tensor in model.state_dict().items()]
    tokens = [tokenizer.vocabulary.tokens for tokenizer in (source, target)]
    content = repr([list(train_set), list(dev_set), tokens, shapes])
    made_from, program = map(sha256, (content.encode(), Path(__file__).read_bytes()))
    config = replace(config, made_from=made_from, program=program)
    return check_weights(given.weights, config), data, model


def main():
    parser = make_parser()
    given = parser.parse_args()
    try:
        config, (source, target, train_set, dev_set), model = prepare(given)
    except ValueError as error:
        parser.error(str(error))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sampler = TokenBatchSampler(dev_set.lengths, config.batch_tokens, shuffle=False)
    dev_batches = [batch.to(device) for batch in make_dataloader(dev_set, sampler)]
    optimizer, scheduler = make_optimizer(model.to(device), config)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    how = given.weights, given.pieces, given.bfloat16
    try:
        # lesson 15's, which comes before this in the one file
        training_loop(parts, train_set, dev_batches, config, *how)  # noqa: F821
    except RuntimeError as error:
        if "non-finite" not in str(error):
            raise
        sys.exit("error: a gradient is no number: lower the learning rate, lesson 14")
    if world > 1:  # noqa: F821
        torch.distributed.destroy_process_group()
    if rank > 0:  # noqa: F821
        return
    best = torch.load(best_of(given.weights), map_location=device, weights_only=True)  # noqa: F821
    model.load_state_dict(best)
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape")
    for number, line in enumerate(map(str.strip, sys.stdin), start=1):
        if re.search("[\udc80-\udcff]", line):  # what Python reads bad bytes as
            sys.exit(f"error: line {number} is not UTF-8")
        ids = source.encode(line)[: config.max_length]
        if not ids:
            print()
            continue
        src = pad_rows([add_marks(ids, [])[0]]).to(device)
        ((_, best), *_) = beam_search(model.eval(), src, config.max_length)[0]
        print(target.decode(best), flush=True)


if __name__ == "__main__":
    main()

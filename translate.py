"""Translates with a trained model: `python translate.py "Good morning."`, or scores it."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal

from engine.startup import tune_process

tune_process()  # before PyTorch

import tyro

from engine.devices import DeviceName, choose_device
from engine.errors import InputError, run_command
from engine.export.shipped.serve import serve
from engine.languages import languages_of
from engine.options import parse_command
from engine.pretrained import default_run, tell_lessons
from engine.run_folder import RunFolder
from engine.scoring import keep_scores, print_scores, score
from engine.stream import translate_lines
from engine.translator import BEAM_SIZE, Translator
from engine.typed_text import sentences_of


@dataclass(frozen=True)
class TranslateCommand:
    """Translate with a trained run: a text, a file, or what is piped in. Or score a split."""

    text: Annotated[tuple[str, ...], tyro.conf.Positional] = ()  # what to translate
    run: Path | None = None  # folder that train.py wrote; runs/small, else the model in the box
    input: Path | None = None  # UTF-8 file to translate, one sentence a line
    beam_size: int = BEAM_SIZE  # hypotheses kept at each step, at most 100; 1: greedy search
    # length penalty: 0 favours short translations; auto: the best on dev, with --score, then kept
    alpha: float | Literal["auto"] | None = None
    score: Path | None = None  # data folder: translate a split of it and print BLEU and chrF
    split: str | None = None  # which split to score; test if not given
    # where to compute; auto: CUDA if there is one, else the CPU; mps: Apple's GPU
    device: DeviceName | None = None
    serve: bool = False  # answer over HTTP as LibreTranslate does; needs starlette and uvicorn
    host: str = "127.0.0.1"  # where to listen; 0.0.0.0: every machine may ask
    port: int = 5000
    origin: tuple[str, ...] = ()  # web pages that may ask, as https://example.org; *: all


def translate_command(argv):
    """Parses, then translates, scores or serves."""
    command = parse_command(TranslateCommand, argv, "translate.py")
    check(command)
    choose_device(command.device)
    run = command.run or default_run()
    tell_lessons(run)
    if command.score:
        score_split(run, command)
    elif command.serve:
        serve_run(run, command)
    else:
        load = partial(Translator.load, run)
        options = {"beam_size": command.beam_size, "alpha": command.alpha}
        translate_lines(load, command.text, command.input, **options)
    return 0


def check(command):
    """Raises InputError for what cannot be asked for, or not together."""
    beam_size, alpha = command.beam_size, command.alpha
    if not 1 <= beam_size <= 100:
        raise InputError(f"--beam-size is {beam_size}: give a number from 1 to 100")
    if alpha not in (None, "auto") and not 0 <= alpha <= 10:
        raise InputError(f"--alpha is {alpha}: give a number from 0 to 10, or auto")
    if alpha == "auto" and (not command.score or beam_size == 1):
        raise InputError("--alpha auto is chosen on dev for a beam: give --score, no --beam-size 1")
    if alpha is not None and beam_size == 1:
        raise InputError("--alpha has no effect: greedy search, a beam of 1, has no length penalty")
    asked = [command.text, command.input, command.score, command.serve]
    if sum(map(bool, asked)) > 1:
        raise InputError("more than one of a text, --input, --score and --serve: give one")


def score_split(run, command):
    """Translates a split of a data folder, prints its scores and keeps them with the run."""
    split = command.split or "test"
    options = split, command.beam_size, command.alpha
    scores, pairs, translations = score(run, command.score, *options)
    print_scores(run, split, scores, pairs, translations)
    keep_scores(run, command.score, split, pairs, scores, command.beam_size, command.alpha)
    if command.alpha == "auto":
        print(f"alpha {RunFolder(run).alpha(None)}: chosen on dev, kept in {run}")


def serve_run(run, command):
    """Answers over HTTP until it is stopped."""
    translator = Translator.load(run)
    config = translator.config

    def longest_sentence(line):
        sentences = sentences_of(line, config.src)
        return max(translator.source_length(sentence) for sentence, _ in sentences)

    model = SimpleNamespace(
        translate_typed=partial(
            translator.translate_typed, beam_size=command.beam_size, alpha=command.alpha
        ),
        length=longest_sentence,
        settings={"languages": languages_of(config), "max_length": config.max_length},
    )
    serve(model, command.host, command.port, command.origin)


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(translate_command, argv)


if __name__ == "__main__":
    raise SystemExit(main())

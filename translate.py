"""Translates with a trained model: `python translate.py "Good morning."`, or scores it."""

import sys
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
from engine.pretrained import default_run, tell_edited
from engine.run_folder import RunFolder
from engine.scoring import keep_scores, made_with, print_scores, score
from engine.stream import translate_lines
from engine.translator import BEAM_SIZE, Translator


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
    host: str | None = None  # where to listen, 127.0.0.1; 0.0.0.0: every machine may ask
    port: int | None = None  # 5000


def translate_command(argv):
    """Parses, then translates or scores."""
    command = parse_command(TranslateCommand, argv, "translate.py")
    beam_size = command.beam_size
    alpha = command.alpha
    if not 1 <= beam_size <= 100:
        raise InputError(f"--beam-size is {beam_size}: give a number from 1 to 100")
    if alpha not in (None, "auto") and not 0 <= alpha <= 10:
        raise InputError(f"--alpha is {alpha}: give a number from 0 to 10, or auto")
    if alpha == "auto" and (not command.score or beam_size == 1):
        raise InputError("--alpha auto is chosen on dev for a beam: give --score, no --beam-size 1")
    if alpha is not None and beam_size == 1:
        raise InputError("--alpha has no effect: greedy search, a beam of 1, has no length penalty")
    if command.split and not command.score:
        raise InputError("--split has no effect without --score")
    if (command.host or command.port is not None) and not command.serve:
        raise InputError("--host and --port have no effect without --serve")
    asked = [command.text, command.input, command.score, command.serve]
    if sum(map(bool, asked)) > 1:
        raise InputError("more than one of a text, --input, --score and --serve: give one")
    choose_device(command.device)
    run = command.run or default_run()
    tell_edited(run)
    if command.score:
        split = command.split or "test"
        options = split, beam_size, alpha
        made = made_with(run)
        scores, pairs, translations = score(run, command.score, *options)
        print_scores(run, split, scores, pairs, translations)
        keep_scores(run, made, command.score, split, pairs, scores, beam_size, alpha)
        if alpha == "auto":
            print(f"alpha {RunFolder(run).alpha(None)}: chosen on dev, kept in {run}")
        return 0
    if command.serve:
        serve_run(run, command)
        return 0

    def load():
        translator = Translator.load(run)
        if words := translator.unknown_words(command.text):
            more = f" and {len(words) - 20:,} more" if len(words) > 20 else ""
            print(f"unknown words: {', '.join(words[:20])}{more}", file=sys.stderr)
        return partial(translator.translate, beam_size=beam_size, alpha=alpha)

    translate_lines(load, command.text, command.input)
    return 0


def serve_run(run, command):
    """Answers over HTTP until it is stopped."""
    port = 5000 if command.port is None else command.port
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: give a number from 0 to 65535")
    translator = Translator.load(run)
    config = translator.config
    model = SimpleNamespace(
        translate=partial(translator.translate, beam_size=command.beam_size, alpha=command.alpha),
        length=translator.source_length,
        settings={"languages": languages_of(config), "max_length": config.max_length},
    )
    serve(model, command.host or "127.0.0.1", port)


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(translate_command, argv)


if __name__ == "__main__":
    raise SystemExit(main())

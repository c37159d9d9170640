"""Prepares training data of any size: `python prepare.py --data FOLDER`."""

import sys
from dataclasses import dataclass
from pathlib import Path

from engine.startup import tune_process

tune_process()  # before PyTorch

import tyro

from engine.corpus.formats import needs_preparing
from engine.corpus.prepare import FOLDER, SETTINGS, prepare
from engine.errors import end_at_signals, run_command
from engine.options import parse_command
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, check_start


@dataclass(frozen=True)
class PrepareCommand:
    """Prepare a data folder of any size, once: the same command again finds it done."""

    settings: tyro.conf.OmitArgPrefixes[RunConfig]
    # folder with train, dev and perhaps test, in any of the formats of data_large/README.md
    data: Path = FOLDER
    # preset, as train.py's; an option below changes one of its settings
    config: str = "small"
    start: Path | None = None  # with the tokenizers of this run, for train.py --start


def prepare_command(argv):
    """Parses, prepares, and prints where the result is."""
    command = parse_command(PrepareCommand, argv, "prepare.py", preset="small", used=SETTINGS)
    if command.start:
        check_start(command.start, command.settings)
    tokenizers = RunFolder(command.start).tokenizers() if command.start else None
    folder = prepare(command.data, command.settings, tokenizers=tokenizers)
    print(f"prepared in {folder}")
    if not needs_preparing(command.data, command.settings):
        hint = "As train.tsv.gz they are cleaned and prepared"
        line = f"train.py reads .tsv files of this size as they are, uncleaned. {hint}"
        print(line, file=sys.stderr)
    return 0


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(prepare_command, argv)


if __name__ == "__main__":
    end_at_signals()
    raise SystemExit(main())

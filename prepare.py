"""Prepares training data of any size: `python prepare.py --data FOLDER --out PREPARED`."""

from dataclasses import dataclass
from pathlib import Path

from engine.startup import tune_process

tune_process()  # before PyTorch

import tyro

from engine.corpus.prepare import prepare, print_report
from engine.errors import end_at_signals, run_command
from engine.options import parse_command
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, check_start
from utils import ROOT


@dataclass(frozen=True)
class PrepareCommand:
    """Clean a data folder of any size, cut it into tokens, and write what train.py --data reads."""

    settings: tyro.conf.OmitArgPrefixes[RunConfig]
    out: Path = ROOT / "data_large" / "prepared"  # the new folder
    # folder with train, dev and perhaps test, in any of the formats of data_large/README.md
    data: Path = ROOT / "data_large"
    # preset, as train.py's; an option below changes one of its settings
    config: str = "small"
    start: Path | None = None  # with the tokenizers of this run, for train.py --start


def prepare_command(argv):
    """Parses, prepares, and prints what was kept and where it is."""
    command = parse_command(PrepareCommand, argv, "prepare.py", preset="small")
    if command.start:
        check_start(command.start, command.settings)
    tokenizers = RunFolder(command.start).tokenizers() if command.start else None
    report = prepare(command.data, command.settings, command.out, tokenizers)
    print_report(command.data, report)
    print(f"prepared in {command.out}: python train.py --data {command.out} --run runs/NAME")
    return 0


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(prepare_command, argv)


if __name__ == "__main__":
    end_at_signals()
    raise SystemExit(main())

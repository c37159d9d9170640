"""Writes a trained run for another engine: `python export.py --run RUN --ctranslate2 OUT`."""

from dataclasses import dataclass
from pathlib import Path

from notebooks.support.box import default_run
from notebooks.support.errors import run_command
from notebooks.support.export import export_ctranslate2
from notebooks.support.options import parse_command


@dataclass(frozen=True)
class ExportCommand:
    """Write a trained run in the form of another engine."""

    ctranslate2: Path  # new folder for the CTranslate2 model
    run: Path | None = None  # folder that train.py wrote; runs/small, else the model in the box


def export_command(argv):
    """Parses, then writes the model."""
    command = parse_command(ExportCommand, argv, "export.py")
    return export_ctranslate2(command.run or default_run(), command.ctranslate2)


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(export_command, argv)


if __name__ == "__main__":
    raise SystemExit(main())

"""Writes a trained run for use elsewhere: `python export.py --run RUN --out FOLDER`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from notebooks.support.box import default_run
from notebooks.support.errors import run_command
from notebooks.support.export import export
from notebooks.support.options import parse_command


@dataclass(frozen=True)
class ExportCommand:
    """Write a folder that translates text without this project and without PyTorch."""

    out: Path  # the new folder
    run: Path | None = None  # folder that train.py wrote; runs/small, else the model in the box
    form: Literal["ctranslate2", "onnx"] = "ctranslate2"  # the engine that computes there
    int8: bool = False  # matrices as 8-bit integers: a quarter of the size, a little less exact


def export_command(argv):
    """Parses, writes, and says how to translate with it."""
    command = parse_command(ExportCommand, argv, "export.py")
    export(command.run or default_run(), command.out, command.form, command.int8)
    engine = {"ctranslate2": "ctranslate2", "onnx": "onnxruntime"}[command.form]
    print(f'{command.out}: try python {command.out / "run.py"} "Good morning."', end="")
    print(f" where {engine} and tokenizers are installed")
    return 0


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(export_command, argv)


if __name__ == "__main__":
    raise SystemExit(main())

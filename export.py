"""Writes a trained run for use elsewhere: `python export.py --run RUN --out FOLDER`."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.startup import tune_process

tune_process()  # before PyTorch

from engine.errors import InputError, end_at_signals, run_command
from engine.export.folder import export
from engine.export.page_form import export_page
from engine.options import parse_command
from engine.pretrained import default_run, tell_lessons
from engine.run_folder import RunFolder


@dataclass(frozen=True)
class ExportCommand:
    """Write a folder that translates text without this project and without PyTorch."""

    out: Path  # the new folder; a page replaces an earlier page
    run: Path | None = None  # folder that train.py wrote; runs/small, else the model in the box
    # the engine that computes there; page: a page for a browser, opened from the disk
    form: Literal["ctranslate2", "page"] = "ctranslate2"
    int8: bool = False  # matrices as 8-bit integers: a quarter of the size, a little less exact


def export_command(argv):
    """Parses, writes, and prints how to translate with it."""
    command = parse_command(ExportCommand, argv, "export.py")
    run = command.run or default_run()
    tell_lessons(run)
    if command.form == "page":
        if command.int8:
            raise InputError("--int8: a page has weights of 16 bits. Leave it out")
        export_page(run, command.out)
        print(f"{command.out}: open {command.out / 'index.html'} in a browser")
        return 0
    export(run, command.out, command.int8)
    language = RunFolder(run).read_config().src
    example = {"en": "Good morning.", "zh": "早上好。"}.get(language, "TEXT")
    program = shlex.quote(str(command.out / "run.py"))
    print(f'{command.out}: try python {program} "{example}"', end="")
    print(" where ctranslate2, tokenizers and sentencex are installed")
    return 0


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(export_command, argv)


if __name__ == "__main__":
    end_at_signals()
    raise SystemExit(main())

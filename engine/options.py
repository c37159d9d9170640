"""Options: a command line as a dataclass, and one line for what is wrong in it."""

import argparse
import contextlib
import io
import sys

from engine.errors import InputError
from engine.run_folder import RunFolder
from notebooks.setup import Config, replace


def parse_command(form, argv, program, preset=None):
    """Fills the dataclass `form` from a command line; `preset` names the default `settings`.

    With --start they are those of that run. Raises InputError for a wrong option.
    """
    import tyro  # takes a moment, and only programs need it

    argv = sys.argv[1:] if argv is None else list(argv)
    argv = argv[1:] if argv[:1] == ["--"] else argv  # torchrun hands it on
    if any("\0" in part for part in argv):
        raise InputError("an option holds the character NUL, which no name can hold. Leave it out")
    default, told = None, io.StringIO()
    try:
        # standard output may be closed
        with (
            contextlib.redirect_stderr(told),
            contextlib.redirect_stdout(sys.stdout or io.StringIO()),
        ):
            if preset is not None:
                parser = argparse.ArgumentParser(program, add_help=False, allow_abbrev=False)
                parser.add_argument("--config")
                parser.add_argument("--start")
                default = form(settings=default_settings(parser.parse_known_args(argv)[0], preset))
            return tyro.cli(form, default=default, args=argv, prog=f"python {program}")
    except SystemExit as end:
        if end.code != 2:  # --help
            raise
    raise InputError(f"{first_sentence(told.getvalue(), program)}. --help tells more")


def default_settings(given, preset):
    """The settings that options change: of the run to start with, or of a preset."""
    if given.start is None:
        return Config.preset(given.config or preset)
    if given.config is not None:
        raise InputError("--start brings its own settings: leave --config out")
    return replace(RunFolder(given.start).read_config(), dtype="auto")


def first_sentence(text, program):
    """What a library says about a wrong option, without its frame and its advice."""
    rows = [row.strip("│ ") for row in text.splitlines() if not row.startswith(("╭", "usage"))]
    told = " ".join(rows).partition("───")[0]
    return told.rpartition(f"{program}: error: ")[2].strip(" .")

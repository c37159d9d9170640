"""Options: a command line as a dataclass, read by tyro."""

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.dataset import SETTINGS_FILE, is_prepared
from engine.errors import InputError
from engine.files import at_home, read_form
from engine.lessons import edited
from engine.run_config import RunConfig
from engine.run_folder import RunFolder
from notebooks.setup import replace


@dataclass(frozen=True)
class Origin:
    """Where settings come from, before options change them."""

    config: str | None = None
    start: Path | None = None
    run: Path | None = None
    data: Path | None = None


def parse_command(form, argv, program, preset=None):
    """Fills the dataclass `form` from a command line; `preset` names the default `settings`.

    With --start they are those of that run. Raises InputError for a preset or a run that is none,
    and for an option without effect; for a wrong option tyro prints what is wrong, and ends the
    program with status 2.
    """
    import tyro  # takes a moment, and only programs need it

    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["--"] and "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun hands it on
        argv = argv[1:]
    end = argv.index("--") if "--" in argv else len(argv)  # what is behind it is text
    check_values(argv[:end])
    default = None
    options = dict(prog=f"python {program}")
    if preset is not None:
        known = [part for part in argv if part not in ("-h", "--help")]
        origin, _ = tyro.cli(Origin, args=known, return_unknown_args=True, **options)
        default = form(settings=default_settings(with_whole_paths(origin), preset))
    command = with_whole_paths(tyro.cli(form, default=default, args=argv, **options))
    if preset is not None:
        check_effects(command.settings, default.settings)
    return command


def check_values(argv):
    """Raises InputError for an option with an empty value, as an unset variable leaves it.

    Or with None, as Python writes one; to tyro that is an option that is not there. And for a
    second file to translate: of an option that is given twice tyro takes the last.
    """
    if sum(part.partition("=")[0] == "--input" for part in argv) > 1:
        raise InputError("--input is given twice. Give one, or all by: cat FILE FILE |")
    for option, following in zip(argv, [*argv[1:], "-"]):
        name, equals, value = option.partition("=")
        value = value if equals else following
        if name.startswith("--") and value in ("", "None"):
            kind = value or "empty"
            raise InputError(f"{name}: its value is {kind}. Is a variable not set?")


def with_whole_paths(command):
    """The command with `~` in its paths as the user's home folder."""
    paths = {field.name: getattr(command, field.name) for field in dataclasses.fields(command)}
    changes = {name: at_home(path) for name, path in paths.items() if isinstance(path, Path)}
    return dataclasses.replace(command, **changes)


def check_effects(settings, default):
    """Raises InputError for a learning rate that noam would not use."""
    given = settings.learning_rate != default.learning_rate
    if given and settings.schedule == "noam" and "14" not in edited():
        reason = "the schedule noam computes the rate"
        raise InputError(f"--learning-rate has no effect: {reason}. Leave it out")


def default_settings(origin, preset):
    """The settings that options change: of the run to start with, of prepared data, of a preset.

    Of a run that has begun its own: the one that it started with may be gone.
    """
    if origin.start is None and origin.config is None and origin.data and is_prepared(origin.data):
        return read_form(origin.data / SETTINGS_FILE, RunConfig)
    if origin.start is None:
        return RunConfig.preset(origin.config or preset)
    if origin.config is not None:
        raise InputError("--start brings its own settings: leave --config out")
    begun = origin.run and (origin.run / "config.json").exists()
    return replace(RunFolder(origin.run if begun else origin.start).read_config(), dtype="auto")

"""Options: a command line as a dataclass, read by tyro."""

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.definitions import are_ours
from engine.errors import InputError
from engine.files import at_home
from engine.run_config import OURS, RunConfig
from engine.run_folder import RunFolder
from engine.text_files import split_files
from notebooks.setup import PRESETS, replace


@dataclass(frozen=True)
class Origin:
    """Where settings come from, before options change them."""

    config: str | None = None
    start: Path | None = None


def parse_command(form, argv, program, preset=None, used=OURS):
    """Fills the dataclass `form` from a command line; `preset` names the default `settings`.

    With --start they are those of that run. `used`: the course's settings that make a difference.
    Raises InputError for a preset or a run that is none, and for an option without effect; for a
    wrong option tyro prints what is wrong, and ends the program with status 2.
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
        both = {field.name for field in dataclasses.fields(form)} & {
            field.name for field in dataclasses.fields(RunConfig)
        }
        if both:
            wrong = f"notebook 00 has a setting {min(both)}, and {program} has an option so called"
            raise InputError(f"{wrong}. Give the setting another name")
        known = [part for part in argv if part not in ("-h", "--help")]
        origin, _ = tyro.cli(Origin, args=known, return_unknown_args=True, **options)
        default = form(settings=default_settings(with_whole_paths(origin), preset))
    command = with_whole_paths(tyro.cli(form, default=default, args=argv, **options))
    if preset is not None:
        started = bool(command.start)
        check_effects(command.settings, default.settings, started, command.data, used)
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


def check_effects(settings, default, started=False, data=None, used=OURS):
    """Raises InputError for a setting that differs from its default and changes nothing."""
    subwords = settings.src_segmentation == settings.tgt_segmentation == "subwords"
    theirs = "--start brings its own vocabularies"
    schedule_is_ours = noam_is_ours()
    tsv = ("tsv", "tsv.gz")  # whose columns have no names
    is_folder = data is not None and data.is_dir()
    named = is_folder and not any(
        split_files(data, split, kind) for split in ("train", "dev", "test") for kind in tsv
    )
    without_effect = {
        "max_vocab_size": (started, theirs),
        "target_first": (named, f"the sides of the files in {data} have names"),
        "learning_rate": (
            schedule_is_ours and settings.schedule == "noam",
            "the schedule noam computes the rate",
        ),
        "min_freq": (
            subwords or started,
            theirs if started else "subwords have no lowest frequency",
        ),
        "warmup_steps": (
            schedule_is_ours
            and settings.schedule == "linear"
            and 2 * settings.warmup_steps > settings.steps + 1,
            f"it is more than half of {settings.steps} steps",
        ),
    }
    for name in OURS - set(used):
        without_effect[name] = (True, "prepared data do not depend on it")
    for name, (nothing, reason) in without_effect.items():
        if nothing and getattr(settings, name) != getattr(default, name):
            raise InputError(f"--{name.replace('_', '-')} has no effect: {reason}. Leave it out")


def noam_is_ours():
    """Whether lesson 14 computes the schedules as in the course."""
    return are_ours("make_optimizer", "noam_rate", numbers=("14",))


def default_settings(origin, preset):
    """The settings that options change: of the run to start with, or of a preset."""
    if origin.start is None:
        name = origin.config or preset
        settings = RunConfig.preset(name)
        if settings.schedule == "noam" and "learning_rate" in PRESETS[name] and noam_is_ours():
            wrong = f"preset {name} of notebook 00 sets learning_rate, and noam computes the rate"
            raise InputError(f"{wrong}. Leave it out there, or choose the schedule linear")
        return settings
    if origin.config is not None:
        raise InputError("--start brings its own settings: leave --config out")
    return replace(RunFolder(origin.start).read_config(), dtype="auto")

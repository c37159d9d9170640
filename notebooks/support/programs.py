"""Programs, started from a command line, and the JSON files that they read.

What the user got wrong is an `InputError` and ends in one line. Any other error is our bug, and
Python's full message is shown.
"""

import argparse
import atexit
import contextlib
import io
import json
import os
import re
import signal
import sys
from dataclasses import fields

from notebooks.setup import Config
from notebooks.support.settings import InputError
from utils import regular

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # line ends, ESC and other orders to a terminal


class Stopped(Exception):
    """The run was asked to end and has saved itself."""


def parse_command(form, argv, program, preset=None):
    """Fills the dataclass `form` from a command line; `preset` names the default `settings`.

    Raises InputError for a wrong option.
    """
    import tyro  # takes a moment, and only programs need it

    argv = sys.argv[1:] if argv is None else list(argv)
    argv = argv[1:] if argv[:1] == ["--"] else argv  # torchrun hands it on
    if any("\0" in part for part in argv):
        raise InputError("an option holds the character NUL, which no name can hold. Leave it out")
    default, told = None, io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            if preset is not None:
                parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
                parser.add_argument("--config", default=preset)
                default = form(settings=Config.preset(parser.parse_known_args(argv)[0].config))
            return tyro.cli(form, default=default, args=argv, prog=f"python -m {program}")
    except SystemExit as end:
        if end.code != 2:  # --help
            raise
    raise InputError(f"{first_sentence(told.getvalue())}. --help tells more")


def first_sentence(text):
    """What a library says about a wrong option, without its frame and its advice."""
    rows = [row.strip("│ ") for row in text.splitlines() if not row.startswith(("╭", "usage"))]
    told = " ".join(rows).partition("───")[0]
    return told.rpartition(".ipynb: error: ")[2].strip(" .")


# How PyTorch's RuntimeErrors say it, on CPUs and on GPUs.
NO_MEMORY = re.compile("out of memory|allocate memory|you tried to allocate|ALLOC_FAILED")


def run_command(command, argv):
    """Runs a command line's function. The exit status; one of several processes ends here with it.

    What their connections leave to Python's end is taken down in any order, and sometimes aborts.
    """
    status = status_of(command, argv)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:  # torchrun sets it
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def status_of(command, argv):
    """Runs a command line's function; what the user can mend ends in one line and exit status 2."""
    if sys.stderr is None:  # closed, as by 2>&-
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):  # UTF-8, whatever the language of the machine is
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        status = command(argv)
        print(end="", flush=True)  # what cannot be written is told here, not at Python's end
        return status
    except BrokenPipeError:  # who read our output has stopped, as `head` does
        drop_output()
        return 128 + 13  # as a program has it that ends by SIGPIPE
    except (InputError, OSError) as error:
        print(f"error: {CONTROL.sub(' ', str(error))}", file=sys.stderr)
        try:
            print(end="", flush=True)
        except OSError:  # told already
            drop_output()
        return 2
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not NO_MEMORY.search(str(error)):
            raise
        first = (str(error) or "MemoryError").splitlines()[0][:200]
        hint = "Raise accumulate, or lower batch_tokens, max_length or the model's size"
        hint += "; in a search lower --beam-size"
        print(f"error: out of memory ({first}). {hint}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 128 + signal.SIGTERM


def drop_output():
    """What was printed and cannot be written is not tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def outlive_sigterm(_):
    """A worker's first SIGTERM, as a cluster sends it to all, is left to the one it works for."""
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def read_json(path):
    """The object in a JSON file. Raises InputError when it is missing, cut short or no object."""
    try:
        content = json.loads(regular(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: missing. Is the folder a complete run?") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON, cut short? ({error})") from None
    if type(content) is not dict:
        raise InputError(f"{path}: holds no JSON object. Is it a file of ours?")
    return content


def read_form(path, form, whole):
    """A dataclass that checks itself, from the JSON file that it was written to.

    `whole`: no field may be missing. Raises InputError, naming the file and what is wrong.
    """
    content, names = read_json(path), [field.name for field in fields(form)]
    content.pop("parts", None)  # of checkpoints from before December 2026
    unknown = [name for name in content if name not in names]
    missing = [name for name in names if name not in content]
    if unknown or (whole and missing):
        wrong = f"{unknown[0]!r} is unknown" if unknown else f"{missing[0]!r} is missing"
        raise InputError(f"{path}: {wrong}. Is it cut short, or of another version?")
    try:
        return form(**content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None

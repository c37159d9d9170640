"""How a program ends: what the user got wrong, in one line; a bug, with Python's full message."""

import errno
import os
import re
import signal
import sys

from safetensors import SafetensorError

from engine.plain_text import CONTROL, InputError


class Stopped(Exception):
    """The run was asked to end and has saved itself."""


# How PyTorch and safetensors say it.
NO_ROOM = re.compile("os error 2[78]|No space left|File too large|failed writing file|file write")
NO_MEMORY = re.compile("out of memory|allocate memory|you tried to allocate|ALLOC_FAILED")


def run_command(command, argv):
    """Runs a command line's function. The exit status; one of several processes ends here with it.

    Else Python would wait for the connections to those that have ended with an error.
    """
    status = status_of(command, argv)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # torchrun sets it
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
        drop_output(sys.stdout)
        return 128 + 13  # as a program has it that ends by SIGPIPE
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] in ("engine", "notebooks", "utils"):
            raise  # a bug of ours
        name = error.name.partition(".")[0]
        return tell(f"error: {name} is not installed. Try: pip install {name}", 2)
    except (InputError, OSError) as error:
        of_a_file = isinstance(error, OSError) and error.filename and error.strerror
        text = str(error)
        if of_a_file:
            text = f"{error.filename}: {error.strerror}. {what_to_do(error)}"
        elif isinstance(error, OSError) and error.errno == errno.ENOSPC:  # where it prints to
            text = f"{error.strerror}. {what_to_do(error)}"
        return tell(f"error: {CONTROL.sub(' ', text)}", 2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not NO_MEMORY.search(str(error)):
            return tell_full_disk(error)
        first = (str(error) or "MemoryError").splitlines()[0][:200]
        hint = "Raise grad_accum_steps, or lower batch_tokens, max_length or the model's size"
        hint += "; in a search lower --beam-size"
        return tell(f"error: out of memory ({first}). {hint}", 2)
    except SafetensorError as error:
        return tell_full_disk(error)
    except SystemExit as end:  # tyro's: 0 after --help, 2 for a wrong option, which it has told
        return end.code
    except KeyboardInterrupt:
        return tell("stopped", 130)
    except Stopped as stopped:
        return tell(stopped, 128 + signal.SIGTERM)


def tell_full_disk(error):
    """The exit status where PyTorch or safetensors could not write; raises any other error."""
    if not NO_ROOM.search(str(error)):
        raise error
    first = str(error).splitlines()[0]
    return tell(f"error: {first}. Make room and start again: the last checkpoint is kept", 2)


def what_to_do(error):
    """What to do about an OSError of a file or a folder."""
    if error.errno in (errno.ENOSPC, errno.EFBIG):
        return "Make room and start again"
    if error.errno == errno.ENOENT:
        return "Is the path right, and the folder still there?"
    return "Give another place"


def end_at_signals():
    """SIGTERM and a closed terminal end this program as Ctrl-C does: what is half written goes."""
    for name in ("SIGTERM", "SIGHUP"):  # Windows has not the second, and nohup lets it be ignored
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


def tell(text, status):
    """Prints a program's last line on standard error, if it can be. Returns the status."""
    for stream, line in ((sys.stderr, f"{text}\n"), (sys.stdout, "")):
        try:
            print(end=line, file=stream, flush=True)
        except OSError:
            drop_output(stream)
    return status


def drop_output(stream):
    """What was printed and cannot be written is not tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

"""What a process sets that trains or translates for long, before PyTorch is loaded."""

import contextlib
import ctypes
import gc
import os
import sys
import traceback

from engine.plain_text import InputError
from notebooks import NotebookError

# glibc's names for what mallopt sets
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def tune_process():
    """Sets how threads wait, how memory is kept, and how an uncaught error is printed.

    Call it before PyTorch is imported: its OpenMP reads GOMP_SPINCOUNT when it is loaded.
    """
    # Threads that wait for each other do so busily. On Linux they do it for so long that beside
    # another busy program a training step takes many times as long.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    # glibc gives large freed blocks back to the system, and the next training step asks for them
    # again, page by page. It keeps those of up to 32 MiB when it is told to.
    with contextlib.suppress(AttributeError, TypeError):  # other systems have no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    # Python looks for cycles that it could free after some hundred new objects. A corpus is a
    # million lists and no cycle: looking for them took a third of the time of reading it.
    gc.set_threshold(100_000)
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = print_error


def print_error(kind, error, trace):
    """An uncaught error with the lines of the cells; in one line what is wrong with a notebook.

    And Ctrl-C, while a program still imports.

    Python's own hook (up to 3.12) reads a source line from the file, which is JSON; `traceback`
    asks linecache.
    """
    if issubclass(kind, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
    elif issubclass(kind, NotebookError | InputError):
        print(f"error: {error}", file=sys.stderr)
    elif issubclass(kind, SyntaxError) and str(error.filename).endswith(".ipynb"):
        print(f"error: {error.msg}", file=sys.stderr)
    else:
        traceback.print_exception(kind, error, trace)

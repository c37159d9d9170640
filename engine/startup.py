"""What must be set before PyTorch is loaded: how threads wait, and how memory is kept."""

import contextlib
import ctypes
import gc
import os

# Threads that wait for each other do so busily. On Linux they do it for so long that beside another
# busy program a training step takes many times as long (benchmarks/machine.py measures it).
# PyTorch's OpenMP reads this when it is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

# glibc gives large freed blocks back to the system, and the next training step asks for them again,
# page by page. It keeps them when it is told to: blocks of up to 32 MiB, more it does not allow.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
with contextlib.suppress(AttributeError, TypeError):  # other systems have no mallopt
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)

# Python looks for cycles that it could free after some hundred new objects. A corpus is a million
# lists and no cycle: looking for them took a third of the time of reading it.
gc.set_threshold(100_000)

"""Several processes that train together: who we are, PyTorch's DDP, sums, and agreement."""

import functools
import os
import warnings
from contextlib import contextmanager

import torch

from engine.definitions import edited_names
from engine.errors import InputError
from utils import device


@functools.cache
def processes():
    """Accelerate's `Accelerator`: who we are, as torchrun or `accelerate launch` has set it.

    Raises InputError when the variables that set it are incomplete, and when this machine has fewer
    GPUs than processes, before NCCL is asked.
    """
    from accelerate import Accelerator  # takes a moment, and only training needs it
    from accelerate.utils import DistributedDataParallelKwargs

    gpus = torch.cuda.device_count()
    # the table of positions grows by itself: it is nothing to send, and lengths would differ
    options = DistributedDataParallelKwargs(
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
        find_unused_parameters=bool(edited_names()),  # which costs time, and ours are all used
    )
    on_cpu = device().type != "cuda"
    try:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        if here > gpus and not on_cpu:
            hint = f"Start torchrun with --nproc-per-node {gpus}"
            wrong = f"{here} processes on a machine with {gpus} GPU{'s'[: gpus > 1]}"
            raise InputError(f"{wrong}. {hint}")
        # the loss chooses the data type by itself
        return Accelerator(cpu=on_cpu, mixed_precision="no", kwargs_handlers=[options])
    except ValueError as error:
        wrong = f"the variables of a training in several processes do not fit: {error}"
        hint = "Start it by torchrun; for one process unset WORLD_SIZE, RANK and their like"
        raise InputError(f"{wrong}. {hint}") from None


def all_reduce_sum(tensor):
    """The sum of a tensor over all processes. With one process there is nothing to add."""
    return processes().reduce(tensor, "sum")


def wrap_ddp(module):
    """The module in DDP, which takes the mean of gradients over all processes in `backward`.

    All get the first one's weights. With one process it is the module itself.
    """
    if processes().num_processes == 1:
        return module
    # PyTorch 2.13 has a new name for broadcast_buffers, which older versions do not know
    with warnings.catch_warnings(category=FutureWarning, action="ignore"):
        return processes().prepare_model(module, device_placement=False)


@functools.cache
def cpu_group():
    """A connection between the CPUs: no GPU has to finish its work before it answers."""
    return torch.distributed.new_group(backend="gloo")


def all_reduce_max(number):
    """The highest of the processes' whole numbers, in each of them, which wait for each other.

    When one of them has ended, the others get an error at once.
    """
    if processes().num_processes == 1:
        return number
    numbers = torch.tensor(number)
    torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX, cpu_group())
    return numbers.item()


def wait_for_all():
    """Goes on when all processes are here; an error when one of them has ended."""
    all_reduce_max(0)


@contextmanager
def connected():
    """Closes the connection to the other processes at a good end, if there was one.

    Raises InputError when another process has ended, since nothing can be done without it.
    """
    try:
        wait_for_all()  # before any work: are there enough GPUs, are all here?
        yield
    except RuntimeError as error:
        lost = isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
        if not lost:
            raise
        hint = "Look for its message; the same command goes on from the newest checkpoint"
        raise InputError(f"another process of this training has ended. {hint}") from None
    else:  # after an error NCCL would wait here for who is gone; `run_command` ends the process
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

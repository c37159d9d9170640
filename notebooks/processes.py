"""Several processes that train together: who we are, sums over all of them, and agreement."""

import functools

import torch
from accelerate import PartialState

from utils import device


def processes():
    """Accelerate's view of who we are: `process_index` of `num_processes`, as torchrun or accelerate launch has set it."""
    return PartialState(cpu=device().type != "cuda")


def sum_over_processes(tensors):
    """Adds up each tensor over all processes, in place. With one process there is nothing to add."""
    if processes().num_processes > 1:
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        torch.distributed.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view_as(tensor))


@functools.cache
def cpu_group():
    """A connection between the CPUs, for yes-or-no questions: no GPU has to finish its work first."""
    return torch.distributed.new_group(backend="gloo")


def any_process(flag):
    """True in every process when the flag is True in at least one. All must ask together."""
    if processes().num_processes == 1:
        return flag
    flags = torch.tensor(int(flag))
    torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX, cpu_group())
    return bool(flags)

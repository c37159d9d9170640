"""Several processes that train together: who we are, sums over all of them, and agreement."""

import functools
from contextlib import contextmanager

import torch

from utils import device


def processes():
    """Who we are: `process_index` of `num_processes`, as torchrun has set it."""
    from accelerate import PartialState  # takes a moment, and only training needs it

    return PartialState(cpu=device().type != "cuda")


def share():
    """Which share of the data is ours, for a `TokenBatchSampler`."""
    here = processes()
    return dict(process=here.process_index, num_processes=here.num_processes)


def summed(tensor):
    """The sum of a tensor over all processes. With one process there is nothing to add."""
    if processes().num_processes > 1:
        tensor = tensor.clone()
        torch.distributed.all_reduce(tensor)
    return tensor


def sum_gradients(model):
    """Adds up each gradient over all processes, in place."""
    if processes().num_processes > 1:
        gradients = [parameter.grad for parameter in model.parameters()]
        sums = summed(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, sums.split(sizes)):
            gradient.copy_(part.view_as(gradient))


@functools.cache
def cpu_group():
    """A connection between the CPUs: for a yes or no no GPU has to finish its work first."""
    return torch.distributed.new_group(backend="gloo")


def any_process(flag):
    """True in every process when the flag is True in at least one. All must ask together."""
    if processes().num_processes == 1:
        return flag
    flags = torch.tensor(int(flag))
    torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX, cpu_group())
    return bool(flags)


@contextmanager
def connected():
    """Closes the connection to the other processes, if there was one, at the end."""
    try:
        yield
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

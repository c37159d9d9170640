"""How a run gets its batches: from a position on, each process its share, ahead of time."""

import random
import signal
from itertools import count

import numpy as np
import torch
from torch.utils.data import Sampler

from engine.processes import processes
from notebooks.data_preparation import TokenBatchSampler, make_dataloader
from utils import device


def workers():
    """How many processes prepare batches ahead: a GPU should not wait for them."""
    return 2 if device().type == "cuda" else 0


class Share(Sampler):
    """This process's share of the rows of each batch, but for the first `start` batches.

    So batches do not depend on the number of processes. A share may be empty. A sampler or a data
    set of a reader's own, which draws random numbers, draws the same ones in a resumed run.
    """

    def __init__(self, sampler, start=0):
        self.sampler = sampler
        self.start = start

    def __iter__(self):
        here = processes()
        epoch = vars(self.sampler).get("seed", 0), self.sampler.epoch
        batches = iter(self.sampler)
        for number in count():
            seed_numbers(*epoch, 2 * number)  # for the sampler
            rows = next(batches, None)
            if rows is None:
                return
            if number >= self.start:
                seed_numbers(*epoch, 2 * number + 1)  # for the data set
                yield rows[here.process_index :: here.num_processes]

    def __len__(self):
        return len(self.sampler) - self.start


def load_ahead(dataset, share):
    """The batches of a `Share` in a DataLoader: on a GPU workers prepare them in pinned memory."""
    number = workers()
    return make_dataloader(
        dataset,
        share,
        num_workers=number,
        persistent_workers=number > 0,
        pin_memory=number > 0,
        worker_init_fn=begin_worker,
    )


def begin_worker(_):
    """A worker leaves its first SIGTERM, which a cluster sends to all, to the training process."""
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def endless_batches(dataset, config, progress):
    """Yields (batch, (epoch, batches of it used)) for ever, from the run's progress on."""
    sampler = TokenBatchSampler(dataset.lengths, config.batch_tokens, config.seed)
    sampler.epoch = progress.epoch
    share = Share(sampler, progress.batch)
    loader = load_ahead(dataset, share)
    while True:
        for used, batch in enumerate(loader, start=share.start + 1):
            yield batch.to(device()), (sampler.epoch, used)
        sampler.epoch = sampler.epoch + 1
        share.start = 0


def batches_in_order(dataset, config):
    """Yields the batches of a data set that is measured on, each process its share."""
    sampler = TokenBatchSampler(dataset.lengths, config.batch_tokens, shuffle=False)
    for batch in load_ahead(dataset, Share(sampler)):
        yield batch.to(device())


def seed_step(seed, step):
    """Makes the random numbers of a step depend on the seed, the step and the process only."""
    seed_numbers(seed, step, processes().process_index)


def seed_numbers(*numbers):
    """Makes all random numbers that follow, of any library, depend on these numbers only."""
    state = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(state)
    np.random.seed(state)
    torch.manual_seed(state)

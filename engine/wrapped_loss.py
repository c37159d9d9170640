"""Notebook 13's loss as production needs it: in bfloat16, in parts, over several processes."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from engine.precision import precision
from engine.processes import processes, summed
from notebooks.data_preparation import Batch
from notebooks.loss import BatchLoss
from utils import device


def most_logits():
    """How many are held at a time.

    A GPU is faster with many; a CPU with few, whose memory is used again for the next part.
    """
    return 250_000_000 if device().type == "cuda" else 8_000_000


class WrappedLoss(BatchLoss):
    """`BatchLoss` in `config.dtype`, in `config.accumulate` parts, summed over all processes.

    Every process brings its share of a batch, and gets the loss and the number of target tokens of
    the whole. The gradient is that of its own share times the number of processes: DDP takes the
    mean over them, so that every parameter gets the gradient of the whole.
    """

    def __init__(self, model, criterion, config):
        super().__init__(model, criterion)
        self.dtype, self.parts = config.dtype, config.accumulate

    def forward(self, batch):
        parts = split_rows(batch, self.parts)
        if len(parts) == 1:
            loss, count = self.loss_of_part(batch)
        elif torch.is_grad_enabled():
            loss, count = LossInParts.apply(self.loss_of_part, parts, *self.model.parameters())
        else:
            loss, count = map(sum, zip(*map(self.loss_of_part, parts)))
        if processes().num_processes > 1:
            loss, count = SumOverProcesses.apply(loss), summed(count)
        return loss, count

    def loss_of_part(self, batch):
        """Notebook 13's loss; where there are too many logits, they are made some at a time."""
        with precision(self.dtype):
            # each place has a logit for every token of the vocabulary
            places = max(1, most_logits() // self.model.generator.projection.out_features)
            if batch.tgt_out.numel() > places:
                with LogitsLater(self, places) as later:
                    loss, count = super().forward(batch)
                if later.was_right:
                    return loss, count
            return super().forward(batch)


def split_rows(batch, count):
    """The rows of a batch in at most so many smaller ones."""
    return [Batch(*tensors) for tensors in zip(*(tensor.chunk(count) for tensor in batch))]


class LossInParts(torch.autograd.Function):
    """The loss of all parts, with each part's gradients taken at once: one is held at a time."""

    @staticmethod
    def forward(ctx, loss_of_part, parts, *parameters):
        losses, counts, ctx.gradients = [], [], None
        for rows in parts:
            with torch.enable_grad():
                loss, count = loss_of_part(rows)
            new = torch.autograd.grad(loss, parameters, materialize_grads=True)
            if ctx.gradients is None:
                ctx.gradients = new
            else:
                for total, more in zip(ctx.gradients, new):
                    total.add_(more)
            losses.append(loss.detach())
            counts.append(count)
        count = sum(counts)
        ctx.mark_non_differentiable(count)
        return sum(losses), count

    @staticmethod
    def backward(ctx, of_loss, of_count):
        gradients, ctx.gradients = ctx.gradients, None
        return None, None, *(gradient.mul_(of_loss) for gradient in gradients)


class SumOverProcesses(torch.autograd.Function):
    """A sum over all processes; its gradient is its own part's, times their number."""

    @staticmethod
    def forward(ctx, own):
        return summed(own)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * processes().num_processes


class LogitsLater:
    """While it is entered, the model gives what its generator reads, and the criterion goes on.

    The criterion applies the generator to so many places at a time, forgets their logits, and
    computes them again for the gradient. `was_right`: nothing stood between the two, as in notebook
    10's `Transformer`. Where a version of it does something with its logits, they are made at once.
    """

    def __init__(self, batch_loss, places):
        self.batch_loss, self.places = batch_loss, places
        self.read, self.version, self.was_right = None, 0, False

    def __enter__(self):
        loss = self.batch_loss
        self.generator, self.criterion = loss.model.generator, loss.criterion
        loss.model.generator, loss.criterion = Called(self.keep), Called(self.loss_of)
        return self

    def __exit__(self, *error):
        self.batch_loss.model.generator = self.generator
        self.batch_loss.criterion = self.criterion

    def keep(self, hidden):
        """In the generator's place: what it was to read."""
        self.read, self.version = hidden, version_of(hidden)
        return hidden

    def loss_of(self, hidden, targets):
        """In the criterion's place: the loss of all places, some at a time."""
        same = hidden.data_ptr() == self.read.data_ptr() and hidden.numel() == self.read.numel()
        self.was_right = same and version_of(hidden) == self.version
        if not self.was_right:
            return hidden.sum()  # not used
        parts = zip(hidden.split(self.places), targets.split(self.places))
        options = dict(use_reentrant=False, preserve_rng_state=False)  # there is no dropout in it
        return sum(checkpoint(self.loss_of_some, *part, **options) for part in parts)

    def loss_of_some(self, hidden, targets):
        """What the two do for some places."""
        return self.criterion(self.generator(hidden), targets)


def version_of(tensor):
    """How often it was changed in place; inference mode does not count."""
    return None if tensor.is_inference() else tensor._version


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)

"""Notebook 13's loss as production needs it: in bfloat16, in parts, over several processes."""

import torch

from engine.definitions import are_ours
from engine.errors import InputError
from engine.precision import precision
from engine.processes import all_reduce_sum, processes
from notebooks.data_preparation import Batch
from notebooks.loss import BatchLoss, BatchLossInParts
from notebooks.transformer import Generator, Transformer
from utils import device


def most_logits():
    """How many are held at a time.

    A GPU is faster with all of a batch; they may take a quarter of its memory, with their gradients
    about 12 bytes each. A CPU is faster with few, whose memory is used again for the next part.
    """
    if device().type == "cuda":
        return torch.cuda.get_device_properties(device()).total_memory // 48
    return 8_000_000


class WrappedLoss(BatchLossInParts):
    """`BatchLoss` in `config.dtype`, in `config.grad_accum_steps` parts, summed over all processes.

    Every process brings its share of a batch, and gets the loss and the number of target tokens of
    the whole. The gradient is that of its own share times the number of processes: DDP takes the
    mean over them, so that every parameter gets the gradient of the whole.
    """

    def __init__(self, model, criterion, config):
        super().__init__(model, criterion)
        if not isinstance(self, BatchLoss):  # which is defined again, below the class that inherits
            wrong = "BatchLossInParts inherits from another BatchLoss than the last one"
            raise InputError(f"notebook 13: {wrong}. Change the class where it is defined")
        self.dtype = config.dtype
        self.parts = config.grad_accum_steps

    def forward(self, batch):
        parts = split_rows(batch, self.parts)
        if len(parts) == 1:
            loss, count = self.loss_of_rows(batch)
        elif torch.is_grad_enabled():
            trained = [one for one in self.model.parameters() if one.requires_grad]
            loss, count = LossInParts.apply(self.loss_of_rows, parts, *trained)
        else:
            loss, count = map(sum, zip(*map(self.loss_of_rows, parts)))
        if processes().num_processes > 1:
            loss = SumOverProcesses.apply(loss)
            count = all_reduce_sum(count)
        return loss, count

    def loss_of_rows(self, batch):
        """Notebook 13's loss; in parts where logits would be too many, or parts were edited."""
        with precision(self.dtype):
            if forward_is_ours(self.model):
                # each position has a logit for every token of the vocabulary
                size = max(1, most_logits() // self.model.generator.projection.out_features)
                parts_are_ours = are_ours("BatchLossInParts", numbers=("13",))
                if batch.tgt_out.numel() > size or not parts_are_ours:
                    return self.in_parts(batch, size)
            return super().forward(batch)


def forward_is_ours(model):
    """Whether the logits are what the generator makes of the decoder's output, and nothing more.

    So it is in the course's `Transformer` and `BatchLoss`. An edited one is called as a whole.
    """
    whole = are_ours("Transformer", "BatchLoss", "Generator", "LabelSmoothing")
    hooks = model._forward_hooks or model._forward_pre_hooks
    own = "forward" in vars(model) or type(model).forward is not Transformer.forward
    linear = isinstance(model.generator, Generator) and isinstance(
        model.generator.projection, torch.nn.Linear
    )
    return whole and linear and not hooks and not own


def split_rows(batch, count):
    """The rows of a batch in at most so many smaller ones. A mask of all rows stays as it is."""
    sizes = [len(rows) for rows in batch.src.chunk(count)]
    columns = [
        tensor.split(sizes) if len(tensor) == len(batch.src) else [tensor] * len(sizes)
        for tensor in batch
    ]
    return [Batch(*tensors) for tensors in zip(*columns)]


class LossInParts(torch.autograd.Function):
    """The loss of all parts, with each part's gradients taken at once: one is held at a time."""

    @staticmethod
    def forward(ctx, loss_of_rows, parts, *parameters):
        losses = []
        counts = []
        ctx.gradients = None
        for rows in parts:
            with torch.enable_grad():
                loss, count = loss_of_rows(rows)
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
        gradients = ctx.gradients
        ctx.gradients = None
        if gradients is None:
            wrong = "gradient accumulation goes backward once a step, your training does so twice"
            raise InputError(f"{wrong}. Train with --grad-accum-steps 1")
        return None, None, *(gradient.mul_(of_loss) for gradient in gradients)


class SumOverProcesses(torch.autograd.Function):
    """A sum over all processes; its gradient is its own part's, times their number."""

    @staticmethod
    def forward(ctx, own):
        return all_reduce_sum(own)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * processes().num_processes

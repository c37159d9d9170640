"""The model of the course with parts of it changed, as lesson 15 and `make ablation` compare them.

What stands first are the solutions of exercises, in lessons 03, 04 and 06, and a test compares
them; `muon_step` is compared with PyTorch's Muon. The others put them into a whole model and its
optimiser.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from engine.precision import precision
from engine.run_config import RunConfig
from notebooks.feed_forward import PositionwiseFeedForward
from notebooks.input_embedding import InputEmbedding
from notebooks.layer_norm import LayerNorm
from notebooks.multi_head_attention import MultiHeadAttention
from notebooks.optimizer_schedule import make_optimizer
from notebooks.positional_encoding import PositionalEncoding
from notebooks.transformer import Transformer

GROUPS = 2  # of the four heads


def rotary(x, start=0):
    """x (..., T, d_k), vectors of T neighbouring positions, to the same, each pair turned by its
    position.

    Numbers 2i and 2i + 1 of the vector at position pos, counted from `start`, are a pair that
    turns by the angle pos / 10000^(2i/d_k).
    """
    length, d_k = x.shape[-2:]
    speed = 10000.0 ** (-torch.arange(0, d_k, 2, device=x.device) / d_k)
    position = torch.arange(start, start + length, device=x.device)
    angle = position[:, None] * speed  # (T, d_k / 2), float32
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


class GroupedQueryAttention(MultiHeadAttention):
    """Attention whose num_heads query heads share num_groups key and value heads.

    Shapes as MultiHeadAttention. Heads 0 .. H/G - 1 use group 0, the next ones group 1, and so on.
    """

    def __init__(self, d_model, num_heads, num_groups):
        super().__init__(d_model, num_heads)
        self.d_k = d_model // num_heads
        self.key = nn.Linear(d_model, num_groups * self.d_k)
        self.value = nn.Linear(d_model, num_groups * self.d_k)

    def split(self, x):
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def attend(self, query, key, value, mask):
        times = self.num_heads // key.shape[1]
        key, value = key.repeat_interleave(times, dim=1), value.repeat_interleave(times, dim=1)
        return super().attend(query, key, value, mask)


class GatedFeedForward(nn.Module):
    """(silu(x W) * x V) W2, without biases; the inner width is 2/3 of d_ff, rounded down.

    Shapes: (..., d_model) to the same.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        width = 2 * d_ff // 3
        self.gate = nn.Linear(d_model, width, bias=False)
        self.value = nn.Linear(d_model, width, bias=False)
        self.output = nn.Linear(width, d_model, bias=False)

    def forward(self, x):
        return self.output(nn.functional.silu(self.gate(x)) * self.value(x))


def muon_step(weight, gradient, state, rate, momentum=0.95):
    """One update of weight, a matrix (rows, columns), in place.

    Momentum with Nesterov's look ahead, then the direction made orthogonal by five Newton-Schulz
    steps, times 0.2 sqrt(max(rows, columns)) so that a weight moves about as far as with Adam.
    """
    mean = state.setdefault("momentum", torch.zeros_like(gradient))
    mean.lerp_(gradient, 1 - momentum)
    x = gradient.lerp(mean, momentum)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    x = x.T if tall else x
    weight.sub_(x, alpha=0.2 * rate * math.sqrt(max(weight.shape)))


class Rotating(MultiHeadAttention):
    """Queries and keys are turned by their positions; nothing is added to the embeddings.

    Where keys are cached, the queries are those of the newest tokens.
    """

    def attend(self, query, key, value, mask):
        start = key.shape[2] - query.shape[2]
        return super().attend(rotary(query, start), rotary(key), value, mask)


class Dropping(MultiHeadAttention):
    """Dropout on the attention weights, as much as elsewhere."""

    p = RunConfig().dropout

    def attend(self, query, key, value, mask):
        p = self.p if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p=p)


def attention(config, parts):
    """A new attention module with these parts."""
    kinds = {"RoPE": Rotating, "attention dropout": Dropping}
    bases = [kind for name, kind in kinds.items() if name in parts]
    sizes = [config.d_model, config.num_heads]
    if "GQA" in parts:
        bases.insert(0, GroupedQueryAttention)
        sizes.append(GROUPS)
    return type("Attention", tuple(bases) or (MultiHeadAttention,), {})(*sizes)


def build(config, src_size, tgt_size, parts):
    """The course's Transformer with these parts in it. make_model sets its weights."""
    model = Transformer(config, src_size, tgt_size)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        before = size(layer)
        layer.self_attention = attention(config, parts)
        if hasattr(layer, "cross_attention"):
            layer.cross_attention = attention(config, set(parts) - {"RoPE"})
        # what grouped queries save goes to the feed-forward layer: one unit has 2 d_model + 1
        width = config.d_ff + (before - size(layer)) // (2 * config.d_model + 1)
        kind = GatedFeedForward if "SwiGLU" in parts else PositionwiseFeedForward
        layer.feed_forward = kind(config.d_model, width)
    for module in list(model.modules()):
        if "RMSNorm" in parts:
            for name, child in module.named_children():
                if isinstance(child, LayerNorm):
                    # 256 parameters less at each of 17 places: 0.06 % of all
                    setattr(module, name, nn.RMSNorm(config.d_model, eps=1e-5))
        if isinstance(module, PositionalEncoding) and parts & {"RoPE", "no positions"}:
            module.table.zero_()
        if isinstance(module, InputEmbedding) and "no factor" in parts:
            module.scale = 1
    return model


@torch.no_grad()
def draw_as_gpt2(model):
    """Draws every matrix from N(0, 0.02²), as GPT-2 did."""
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def make_muon(model, config):
    """As `make_optimizer`, but with Muon for the matrices inside the layers, at Adam's rate."""
    adam, schedule = make_optimizer(model, config)
    inside = [*model.encoder.layers.parameters(), *model.decoder.layers.parameters()]
    matrices = {matrix: {} for matrix in inside if matrix.dim() == 2}

    @torch.no_grad()
    def move_matrices(optimizer, *_):
        rate = optimizer.param_groups[0]["lr"]
        for matrix, state in matrices.items():
            with precision(config.dtype):
                muon_step(matrix, matrix.grad, state, rate)
            matrix.grad = None  # Adam leaves it out

    adam.register_step_pre_hook(move_matrices)
    return adam, schedule

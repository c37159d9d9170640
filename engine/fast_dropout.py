"""Dropout that is faster on a CPU: a random byte decides for a value, not a random float."""

import torch
from torch.nn import functional as F


def dropout(x, p, training):
    """`F.dropout(x, p, training)`; on a CPU p is rounded to a 256th, if that is at most 5 % off.

    Notebook 03 checks what it computes; `make bench` measures what it brings to a training step.
    """
    if not training or p == 0:
        return x
    threshold = round(p * 256)
    if x.device.type != "cpu" or threshold == 256 or abs(threshold / 256 - p) > p / 20:
        return F.dropout(x, p)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64)
    words.random_(-(2**63), None)  # whole numbers of 64 bits: eight random bytes each
    random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
    # 1 from the threshold on, else 0. A comparison would be slower: it makes booleans.
    kept = random_bytes.clamp(threshold - 1, threshold) - (threshold - 1)
    return x * (kept.to(x.dtype) * (256 / (256 - threshold)))

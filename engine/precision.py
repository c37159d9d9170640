"""In which data type matrix products are computed, chosen from what this machine can do."""

import timeit
from contextlib import contextmanager

import torch

from utils import device


def native_dtype():
    """The data type for matrix products here: "bfloat16" where native and faster, or "float32"."""
    if device().type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    # get_capabilities is new in 2026
    can = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if device().type == "cpu" and (can.get("avx512_bf16") or can.get("amx_bf16")):
        return min("float32", "bfloat16", key=seconds_of_product)
    return "float32"


def seconds_of_product(dtype):
    """What a product of 512 by 512 numbers takes on the CPU: the shortest of six."""
    x = torch.ones(512, 512, dtype=getattr(torch, dtype), device="cpu")
    return min(timeit.repeat(lambda: x @ x, number=1, repeat=6))


def precision(dtype):
    """A context in which matrix products run in this data type; weights and sums stay float32."""
    return torch.autocast(device().type, torch.bfloat16, enabled=dtype == "bfloat16")


@contextmanager
def search_precision(dtype):
    """The same for searches, on CUDA only, where what stays float32 is multiplied as TF32.

    Elsewhere a search is exact: a batch has to return what each of its sentences returns alone.
    """
    on_cuda = device().type == "cuda"
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = on_cuda
    try:
        with precision(dtype if on_cuda else "float32"):
            yield
    finally:
        matmul.allow_tf32 = before

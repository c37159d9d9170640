"""What every notebook needs besides the model: device, data type, seeds, files written whole, and
the checks of the exercises. The figures are in notebooks/support/pictures.py."""

import json
import os
import random
import secrets
import tempfile
import timeit
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent

# cuDNN's attention makes a plan for each new shape, which takes longer than hundreds of steps of a
# search, and each of these steps has a new shape. PyTorch's other forms need none.
torch.backends.cuda.enable_cudnn_sdp(False)


def device():
    """Where to compute: CUDA if there is one, then Apple's MPS, then the CPU.

    MPS is for one process: several cannot share it.
    """
    if torch.cuda.is_available():
        return torch.device("cuda")
    alone = os.environ.get("WORLD_SIZE", "1") == "1"  # as torchrun sets it
    return torch.device("mps" if alone and torch.backends.mps.is_available() else "cpu")


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

    Elsewhere a search is exact: a batch has to give what each of its sentences gives alone.
    """
    on_cuda, matmul = device().type == "cuda", torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, on_cuda
    try:
        with precision(dtype if on_cuda else "float32"):
            yield
    finally:
        matmul.allow_tf32 = before


def put_in_place(temporary, path):
    """Renames a finished file to its name, once its bytes are on the disk: all or nothing."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


def fresh_name(path):
    """A name beside `path` that nothing has yet, for what is renamed to `path` when it is whole."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")


def write_whole(path, content):
    """Writes text (as UTF-8) or bytes all or nothing: under a fresh name, then renamed.

    Raises OSError when it cannot be written; what was at `path` is kept then.
    """
    temporary = fresh_name(path)
    try:
        # x: only a new file, through no link; who may read it is decided by the umask
        with open(temporary, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        put_in_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path, content, indent=1):
    """Writes JSON, all or nothing."""
    write_whole(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def regular(path):
    """The path as it is. Raises OSError for a pipe or a device: reading one could last for ever."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: is no regular file. Give one")
    return path


def private_folder():
    """A folder that only this user can write to, for caches that are trusted when they are read."""
    try:
        folder = Path.home() / ".cache" / "transformer-notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # only its owner may do that
        return folder
    except (OSError, RuntimeError):  # no home, or it cannot be written to
        return Path(tempfile.mkdtemp())


def seed_everything(seed):
    """Makes Python's, NumPy's and PyTorch's random numbers the same in every run."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def check(name):
    """For `@check("Exercise 1")` above a function of asserts: runs it at once.

    Prints what is wrong, and returns that. Never raises.
    """

    def run(asserts):
        try:
            asserts()
            result = "right"
        except AssertionError as error:
            result = f"not yet. {error}"
        except Exception as error:
            # a NotImplementedError with a message is a gap in PyTorch, not the hole
            if isinstance(error, NotImplementedError) and not error.args:
                result = "not filled yet"
            else:
                result = f"not yet. It stopped with {type(error).__name__}: {error}"
        print(f"{name}: {result}")
        return result

    return run

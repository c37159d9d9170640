"""A simulated accelerator: a device of another type than the CPU that computes on the CPU.

On it a tensor in the wrong place raises, as on CUDA, and every wait of the host for the device can
be counted by source line. It is PyTorch's PrivateUse1 with the kernels of simulated.cpp, which is
built once, where there is a C++ compiler. The project knows nothing of it: `compute_on` replaces
`utils.device`. Stricter than CUDA: an index on the CPU is an error too.
"""

import linecache
import subprocess
import sys
import tempfile
import types
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import torch
from filelock import FileLock

import utils

NAME = "sim"
FOLDER = Path(__file__).resolve().parent


class Missing(Exception):
    """Why there can be no simulated accelerator here."""


def private_folder():
    """A folder that only this user can write to: what is built there is trusted and run."""
    try:
        folder = Path.home() / ".cache" / "transformer-notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # only its owner may do that
        return folder
    except (OSError, RuntimeError):  # no home, or it cannot be written to
        return Path(tempfile.mkdtemp())


def build():
    """The compiled module. Raises Missing where it cannot be built."""
    if not hasattr(torch._C, "_acc"):
        raise Missing("this PyTorch has no hooks for a device of another kind")
    version = "".join(letter if letter.isalnum() else "_" for letter in torch.__version__)
    try:
        from torch.utils import cpp_extension  # needs setuptools

        cpp_extension.verify_ninja_availability()
        folder = private_folder() / f"simulated_{version}"
        folder.mkdir(exist_ok=True)
        with FileLock(folder / "ours.lock"), warnings.catch_warnings():
            # PyTorch's own, left by a build that was killed, would be waited for without end
            (folder / "lock").unlink(missing_ok=True)
            warnings.simplefilter("ignore")  # about the compiler's version
            return cpp_extension.load(
                folder.name,
                [str(FOLDER / "simulated.cpp")],
                extra_cflags=["-O1"],
                build_directory=str(folder),
            )
    except (RuntimeError, OSError, ImportError, subprocess.SubprocessError) as error:
        reason = str(error).splitlines()[0]
        raise Missing(f"the simulated device cannot be built: {reason}") from None


def install():
    """Builds the device and makes PyTorch know it. Raises Missing where it cannot be built."""
    global module
    module = build()
    torch.utils.rename_privateuse1_backend(NAME)
    asked = types.ModuleType(f"torch.{NAME}")  # what PyTorch asks a device's module for
    asked.is_available = asked.is_initialized = lambda: True
    asked._is_in_bad_fork = lambda: False
    asked.current_device, asked.device_count = lambda: 0, lambda: 1
    asked.manual_seed_all = lambda seed: None  # it draws from the CPU's generator
    asked.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    torch._register_device_module(NAME, asked)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.nn.Module._apply = keeping_ties(torch.nn.Module._apply)


def keeping_ties(apply):
    """PyTorch makes new parameters for a module that moves to such a device, and two that were one
    would be two. On CUDA they stay one.
    """

    def keep(module, *arguments):
        places = {}
        for part in module.modules():
            for name, parameter in part._parameters.items():
                places.setdefault(id(parameter), []).append((part._parameters, name))
        apply(module, *arguments)
        for (first, its_name), *others in places.values():
            for parameters, name in others:
                parameters[name] = first[its_name]
        return module

    return keep


def compute_on(name):
    """Makes this device, "sim" or a real one, what `utils.device` gives.

    To be called before any import of the notebooks, which take the function over.
    """
    if name == NAME:
        install()
    utils.device = lambda: torch.device(name)


@contextmanager
def without_float64():
    """Tensors of float64 raise TypeError there, as on MPS."""
    module.forbid_float64(True)
    try:
        yield
    finally:
        module.forbid_float64(False)


@contextmanager
def waits():
    """Counts what makes the host wait for the device: a Counter of (what, where)."""
    counted = Counter()
    with waits_of_cuda(counted) if utils.device().type == "cuda" else waits_of_ours(counted):
        yield counted


@contextmanager
def waits_of_ours(counted):
    """On the simulated device."""
    module.on_wait(lambda name: counted.update([(name, place())]))
    try:
        yield
    finally:
        module.on_wait(None)


@contextmanager
def waits_of_cuda(counted):
    """On a real GPU, for which PyTorch can give a warning at each."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(action="always"):
        warnings.showwarning = lambda message, *_: counted.update(
            [("CUDA", place())] if "synchronizing" in str(message) else []
        )
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


def place():
    """The project's line that runs: file, number and text. None in the backward pass."""
    frame = sys._getframe()
    while frame and (
        frame.f_code.co_filename == __file__
        or not frame.f_code.co_filename.startswith(str(utils.ROOT))
    ):
        frame = frame.f_back
    if frame is None:
        return "no line of the project: the backward pass"
    file, line = frame.f_code.co_filename, frame.f_lineno
    return f"{Path(file).name}, line {line}: {linecache.getline(file, line).strip()}"

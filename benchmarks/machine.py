"""A laptop's side of it: start-up, a busy machine, memory. 9 minutes on 2 cores; prints a table.

    python benchmarks/machine.py [start] [busy] [memory]

Each figure is taken beside another in the same minute: a command beside `import torch`, training
as it is beside training without our setting of OpenMP, quiet beside busy.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from utils import ROOT

RUN = ROOT / "runs" / "small"  # `make run` makes it
MULTIPLE = 4  # notebook 01's; importing it here would be measured, too
WAITING = {
    "as it is": {},  # engine/startup.py sets GOMP_SPINCOUNT
    "without our setting": {"GOMP_SPINCOUNT": "300000"},  # what libgomp takes by itself
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}


def python(*arguments, **environment):
    """Seconds that a Python program takes, and what it prints."""
    began = time.perf_counter()
    options = dict(cwd=ROOT, env=os.environ | environment, check=True, stdout=subprocess.PIPE)
    done = subprocess.run([sys.executable, *map(str, arguments)], text=True, **options)
    return time.perf_counter() - began, done.stdout


def start():
    """How long a command takes beside `import torch`: medians of five, alternating."""
    command = [ROOT / "translate.py", "--run", RUN, "Good morning."]
    pairs = [(python("-c", "import torch")[0], python(*command)[0]) for _ in range(5)]
    torch, whole = (statistics.median(side) for side in zip(*pairs))
    print(
        f"import torch {torch:.2f} s; translating one sentence {whole:.2f} s: {whole / torch:.2f}"
    )


@contextmanager
def others(count, share):
    """So many other processes that want this share of a processor's time."""
    text = (
        "import time\nwhile True:\n    until = time.perf_counter() + 0.1 * {0}\n"
        "    while time.perf_counter() < until: pass\n    time.sleep(0.1 * (1 - {0}))"
    )
    running = [subprocess.Popen([sys.executable, "-c", text.format(share)]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()


def busy():
    """Milliseconds of a step of `small`, on a quiet machine and beside other processes."""
    print(f"{'ms a step':22}{'quiet':>8}{'1 x 20 %':>10}{'1 x 100 %':>11}{'2 x 100 %':>11}")
    for name, environment in WAITING.items():
        row = f"{name:22}"
        for count, share in ((0, 0), (1, 0.2), (1, 1), (2, 1)):
            with others(count, share):
                row += f"{float(python(__file__, 'steps', **environment)[1]):>10.0f}"
        print(row, flush=True)


def prepare_training():
    """A `small` model and its batches, as run_training makes them."""
    from engine.startup import tune_process

    tune_process()
    from engine.corpus.prepare import load_data
    from engine.fast_dropout import use_fast_dropout
    from engine.precision import native_dtype
    from engine.run_config import RunConfig
    from engine.wrapped_loss import WrappedLoss
    from notebooks.data_preparation import TokenBatchSampler, make_dataloader
    from notebooks.label_smoothing import LabelSmoothing
    from notebooks.make_model import make_model
    from notebooks.optimizer_schedule import make_optimizer
    from notebooks.setup import replace
    from notebooks.training import train_step

    config = replace(RunConfig.preset("small"), dtype=native_dtype())
    source, target, train_set, *_ = load_data(ROOT / "data_small", config)
    model = use_fast_dropout(make_model(config, len(source), len(target)))
    optimizer, _ = make_optimizer(model, config)
    batch_loss = WrappedLoss(model, LabelSmoothing(config.label_smoothing), config)

    def batches():
        for epoch in range(1000):
            sampler = TokenBatchSampler(train_set.lengths, config.batch_tokens, epoch)
            yield from make_dataloader(train_set, sampler)

    return lambda batch: train_step(batch_loss, batch, optimizer, config.max_grad_norm), batches()


def steps(number=8):
    """Milliseconds of a step with batches of known shapes: printed."""
    step, batches = prepare_training()
    some = [next(batches) for _ in range(number)]
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for batch in some:
            step(batch)
        times.append(time.perf_counter() - began)
    print(1000 * statistics.median(times) / number)


def resident():
    """MiB of memory that this process holds."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def memory():
    """MiB of a training process part by part, and its speed, without and with rounding (Linux)."""
    for multiple in (1, MULTIPLE):
        print(f"lengths rounded up to a multiple of {multiple}")
        print(python(__file__, "parts", multiple)[1], end="", flush=True)


def parts(multiple, number=1000):
    """Prints how much memory is held after each part of a training."""
    marks = [("Python", resident())]
    from engine.startup import tune_process

    tune_process()
    import torch

    marks.append(("import torch", resident()))
    from engine import training_run  # noqa: F401
    from notebooks import data_preparation

    marks.append(("the rest of the imports", resident()))
    data_preparation.MULTIPLE = multiple
    step, batches = prepare_training()
    marks.append(("data, weights", resident()))
    began = time.perf_counter()
    tokens = 0
    for count, batch in enumerate(batches, start=1):
        tokens += int(step(batch)[1])
        if count in (1, 10, 100, 200, 400, 600, 800, number):
            marks.append((f"{count} steps", resident()))
        if count == number:
            break
    for name, size in marks:
        print(f"{name:26}{size:8,.0f} MiB")
    seconds = time.perf_counter() - began
    print(f"{tokens / seconds:,.0f} target tokens a second, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    programs = {"start": start, "busy": busy, "memory": memory}
    if sys.argv[1:2] == ["steps"]:
        steps()
    elif sys.argv[1:2] == ["parts"]:
        parts(int(sys.argv[2]))
    else:
        for name in sys.argv[1:] or programs:
            programs[name]()

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from engine.startup import tune_process

tune_process()  # before PyTorch, as programs do

import pytest
import torch
from device import simulated
from hypothesis import settings
from torch.utils._pytree import tree_flatten_with_path

import utils

# bit for bit is a promise for CPUs, so tests and the programs that they start compute on one; those
# marked `gpu` use GPUs where there are some, and `make test-device` computes elsewhere
DEVICE = os.environ.get("TEST_DEVICE", "cpu")
# counted by the first process: pytest-xdist's workers start when the GPUs are hidden already
GPUS = int(os.environ.setdefault("TEST_GPUS", str(torch.cuda.device_count())))
if DEVICE != "cuda":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
# what a program begins with, for `python -c`
TUNE = "from engine.startup import tune_process; tune_process(); "
found_device, missing = utils.device, ""
try:
    simulated.compute_on(DEVICE)
except simulated.Missing as error:
    missing = str(error)

from engine.model_files import read_weights
from engine.run import run_training
from engine.run_config import RunConfig
from engine.translator import Translator
from notebooks.data_preparation import Batch
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.translation import beam_search

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data_small"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
TINY = replace(RunConfig.preset("tiny"), dtype="float32", bleu_sentences=0)


# a busy machine is no failure; all else as Hypothesis chooses it (where CI is set, the same
# examples each time)
settings.register_profile("course", parent=settings(), deadline=None)
settings.register_profile("fuzz", parent=settings.get_profile("course"), max_examples=10_000)
settings.load_profile("course")


def pytest_configure():
    torch.set_num_threads(min(2, torch.get_num_threads()))


def pytest_collection_modifyitems(items):
    """Skips what this machine has no device for."""
    for item in items:
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))
        elif DEVICE == "cpu" and simulated.FOLDER in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="for make test-device"))
        for mark in item.iter_markers("gpu"):
            if GPUS < mark.args[0]:
                item.add_marker(pytest.mark.skip(reason=f"GPUs: {GPUS} of {mark.args[0]}"))


def run_python(*arguments, cwd=ROOT, stdin=None, **environment):
    """A Python process with these arguments: its exit status, stdout and stderr."""
    command = [sys.executable, *map(str, arguments)]
    environment = {**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", **environment}
    options = dict(capture_output=True, text=True, encoding="utf-8", timeout=300)
    return subprocess.run(command, cwd=cwd, input=stdin, env=environment, **options)


def start_with_ctrl_c(command, **options):
    """A process that heeds Ctrl-C, as a terminal starts it; in a script's background none does."""
    heed = None if os.name == "nt" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, preexec_fn=heed, **options)


def read_records(run):
    """The records of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def without_times(records):
    """Records without what no two runs have in common."""
    return [{key: one[key] for key in one if key != "tokens_per_second"} for one in records]


def read_checkpoint(run):
    """What a run's checkpoint holds."""
    return torch.load(run / "checkpoint.pt", weights_only=True)


def assert_same_run(one, other):
    """Equal weights, moments, positions and logs but for times."""
    left, right = (read_weights(run / "model.safetensors") for run in (one, other))
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
    leaves = [tree_flatten_with_path(read_checkpoint(run))[0] for run in (one, other)]
    assert len(leaves[0]) == len(leaves[1])
    for (path, mine), (_, yours) in zip(*leaves):
        same = torch.equal(mine, yours) if torch.is_tensor(mine) else mine == yours
        assert same, path
    assert without_times(read_records(one)) == without_times(read_records(other))


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as connection:
        connection.bind(("127.0.0.1", 0))
        return connection.getsockname()[1]


def find_browser():
    """Chromium or Chrome; where there is none, the test is skipped."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)
    return program or pytest.skip("no Chromium or Chrome on this machine")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A browser that no name leads out of, and that opens files."""
    from playwright.sync_api import Error, sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options.append("--host-resolver-rules=MAP * ~NOTFOUND")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        file = tmp_path_factory.mktemp("browser") / "empty.html"
        file.touch()
        try:
            browser.new_page().goto(file.as_uri())
        except Error:
            pytest.skip(f"{browser.version} does not open files of {file.parent}")
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """A function that opens an address in a new context; an error in a script fails the test."""
    errors, contexts = [], []

    def open_page(address, **options):
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def random_model(seed=0, dtype=torch.float64, src_size=12, tgt_size=12, **changes):
    """A tiny model with large random weights in all its parameters, in eval mode."""
    torch.manual_seed(seed)
    model = make_model(
        replace(RunConfig.preset("tiny"), dropout=0.0, **changes), src_size, tgt_size
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    return model.to(dtype).eval()


def random_items(seed, sources, targets, size=12):
    """Pairs of random sentences with these numbers of tokens, as a data set holds them."""
    generator = torch.Generator().manual_seed(seed)

    def draw(length):
        return torch.randint(4, size, (length,), generator=generator).tolist()

    return [([*draw(s), 3], [2, *draw(t), 3]) for s, t in zip(sources, targets)]


def random_batch(seed, sources, targets, size=12):
    """A batch of random sentences with these numbers of tokens."""
    return Batch.collate(random_items(seed, sources, targets, size))


def logits_of(model, batch):
    """What the whole model gives for a batch."""
    return model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)


def greedy_ids(model, src, max_length):
    """What a beam of one writes for each source: lists of ids."""
    return [best[1] for best, *_ in beam_search(model, src, max_length, beam_size=1)]


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """A data folder with the first sentences of the corpus."""
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 300), ("dev", 40), ("test", 20)):
        lines = (DATA / f"{split}.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"{split}.tsv").write_text("".join(lines[:count]), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def finished_run(small_data, tmp_path_factory):
    """A run folder as the command line leaves it."""
    run = tmp_path_factory.mktemp("runs") / "tiny"
    # the type that is faster here may be another one under load, and the weights with it
    run_training(small_data, replace(RunConfig.preset("tiny"), dtype="float32"), run)
    return run


@pytest.fixture(scope="session")
def translator(finished_run):
    return Translator.load(finished_run)

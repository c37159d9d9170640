"""A whole training, from a data folder to a finished run folder, around notebook 15's loop."""

import hashlib
import math
import os
import platform
import shutil
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import distributed
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import Subset
from tqdm import tqdm

from engine.checks import check_batches, check_vocabularies
from engine.corpus.pairs import load_data
from engine.errors import InputError, Stopped
from engine.fast_forms import eager, use_fast_forms
from engine.files import utc_now, write_json
from engine.lessons import edited, lesson_hashes, listed, trained_with_others
from engine.model_files import load_weights, save_tokenizer
from engine.precision import native_dtype, precision
from engine.run_folder import RunFolder, check_start, is_the_box
from engine.translator import Translator, tell_other_spaces
from notebooks.data_preparation import BOS, EOS, UNK, TokenBatchSampler, make_dataloader
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss, evaluate
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.training import train
from notebooks.translation import bleu
from utils import device

# what a run's folder holds; `checkpoints` is of runs of earlier versions of the course
FILES = (
    "made.json config.json vocabulary.src.json vocabulary.tgt.json log.jsonl model.safetensors "
    "checkpoint.pt search.json scores.json checkpoints"
).split()
REPLACED = "replaced"  # and the run that is there while --restart has not been evaluated yet


def run_training(data, config, run, restart=False, on_log=None, start=None, samples=()):
    """Trains on a data folder into a run folder; goes on where an earlier call has stopped.

    `on_log(records)` is called with all records whenever there is a new one. A new run takes
    vocabularies and weights from the run `start`, if one is given. Each evaluation translates
    `samples`, else three sentences of dev. Several processes all call it; the first one writes.
    Returns all records. Raises InputError where the folder holds another run, and Stopped after a
    signal, when all is saved.
    """
    folder = RunFolder(run)
    if is_the_box(run):
        raise InputError(f"--run {run} is the model in the box. Give a folder of its own")
    if start and os.path.realpath(start) == os.path.realpath(run):
        raise InputError(f"{run}: --start is this run itself. Give the new run another --run")
    if start and (restart or not (folder.path / "config.json").exists()):
        check_start(start, config)
    join_processes()
    with only_here(folder.path), replacing(folder.path, restart) as replaced:
        wait_for_all()
        begun = (folder.path / "config.json").exists()
        fresh = not (folder.path / "checkpoint.pt").exists()
        # the vocabularies of a run that began with another's are not made from its data
        given = folder.path if begun and folder.read_made().get("start") else start
        given = given and RunFolder(given).tokenizers()
        if begun and fresh:
            start = same_start(folder, start)
        source, target, train_set, dev_set, dev_pairs = load_data(data, config, given)
        check_vocabularies(config, len(source), len(target))
        for tokenizer in (source, target):
            check_batches(tokenizer)
        if is_first():
            content = {"src": source, "tgt": target, "data": fingerprint(train_set, dev_set)}
            compare(folder, config, content) if begun else begin(folder, config, content, start)
        wait_for_all()
        config = folder.read_config()  # in it the data type "auto" has become a real one
        if folder.is_finished():
            if is_first():
                hint = "--restart begins anew, another --run with --start goes on from its weights"
                print(f"{run}: is finished already; {hint}")
            return folder.read_log()
        torch.manual_seed(config.seed)  # the same weights in all processes
        model = make_model(config, len(source), len(target))
        if start and fresh:
            load_weights(model, Path(start) / "model.safetensors")
        parts = {"model": model}
        if config.keep == "average":
            parts["average"] = AveragedModel(model, device())
        model.to(device())
        if is_first() and fresh:
            tell(data, config, (source, target), train_set, dev_set, model)
            tell_other_spaces(target, [text for _, text in dev_pairs])
            if start:
                tell_start(start, train_set, mean_loss(model, dev_set, config))
        elif is_first():
            print(f"{folder.path}: goes on from its checkpoint")
        translate = partial(translate_some, model, (source, target), dev_pairs, config, samples)
        return train_in(folder, config, parts, train_set, dev_set, translate, on_log, replaced)


def train_in(folder, config, parts, train_set, dev_set, translate, on_log, replaced):
    """Runs notebook 15's loop to its end, with a bar. Returns all records."""
    criterion = LabelSmoothing(config.label_smoothing)
    model = parts["model"]
    if use_fast_forms(model, criterion, config.steps) and is_first():
        print("compiling the model: the first step takes a minute or two", flush=True)
    parts["optimizer"], parts["scheduler"] = make_optimizer(model, config)
    sample = sample_of(train_set, len(dev_set))
    asked, stopped = [], []  # when this process was asked to stop, and where all do

    def measure(step):
        """What the log notes of an evaluation."""
        if "average" in parts:
            average = parts["average"]
            evaluations_left = math.ceil((config.steps - step) / config.eval_steps)
            if evaluations_left >= config.average_last - 1:
                average.n_averaged.zero_()  # so the next line copies
            average.update_parameters(model)
        with eager():
            entries = {"dev_loss": mean_loss(model, dev_set, config)}
            entries["train_loss"] = mean_loss(model, sample, config)
            return entries | translate()

    def after_step(step):
        if not bar.n:
            bar.initial = bar.n = bar.last_print_n = step - 1
        bar.update()
        if agreed(bool(asked)):
            stopped.append(step)
        return bool(stopped)

    def on_record(record):
        speed = f"{record['tokens_per_second']:,.0f} tokens/s"
        bar.set_postfix_str(f"loss {record['loss']:.3f}, {speed}")
        if "dev_loss" in record and is_first():
            replaced()
            for name in ("search.json", "scores.json"):  # of other weights
                (folder.path / name).unlink(missing_ok=True)
        if on_log and is_first():
            on_log(folder.read_log())

    pause = 0.1 if sys.stderr.isatty() else 5  # seconds between two pictures of the bar
    bar = tqdm(total=config.steps, unit="step", mininterval=pause, disable=not is_first())
    try:
        with bar, noticing_signals(asked):
            calls = measure, after_step, on_record
            train(parts, criterion, train_set, config, folder.path, *calls, **loading())
            wait_for_all()  # torchrun ends all others once one has ended with a status
    except FloatingPointError as error:
        hint = "Lower learning_rate, and begin anew with --restart"
        if edited():
            hint = f"Edited were {listed(edited())}: look there first"
        raise InputError(f"{error} is no number. {hint}") from None
    if stopped and not folder.is_finished():
        saved = "saved; the same command goes on from there"
        if (folder.path / REPLACED).exists():
            saved = "before it was evaluated"
        raise Stopped(f"{folder.path}: asked to stop at step {stopped[0]}, {saved}")
    return folder.read_log()


# the folder


@contextmanager
def only_here(path):
    """While this process writes into a run folder: InputError in any other that wants to."""
    if not is_first():
        yield
        return
    path.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        hint = "Wait for the other training to end, or give another --run"
        raise InputError(f"{path}: is in use. {hint}") from None
    with lock:
        try:
            yield
        finally:
            if [file.name for file in path.iterdir()] == ["lock"]:  # no run has begun
                shutil.rmtree(path)


@contextmanager
def replacing(path, restart):
    """With `restart`, keeps the run in a folder aside, until the new one has been evaluated.

    Gives a function to call then. If the block ends before, the old run comes back.
    """
    aside, half, back = (path / name for name in (REPLACED, "replacing", "returning"))
    if not is_first():
        yield lambda: None
        return

    def forget():
        shutil.rmtree(aside, ignore_errors=True)

    def move(there, here):
        here.mkdir(exist_ok=True)
        for name in FILES:
            if (there / name).exists():
                (there / name).rename(here / name)

    def restore(there):
        move(there, path)
        there.rmdir()

    def bring_back():
        new = path / "unfinished"
        move(path, new)
        aside.rename(back)
        restore(back)
        shutil.rmtree(new)

    for there in filter(Path.exists, (half, back)):  # a process was killed while it moved
        restore(there)
    if aside.exists():  # or while it trained
        forget() if (path / "model.safetensors").exists() else bring_back()
    if restart and (path / "config.json").exists():
        move(path, half)
        half.rename(aside)
    try:
        yield forget
    finally:
        if aside.exists():
            bring_back()
            print(f"{path}: the run that was there before is as it was", file=sys.stderr)


def begin(folder, config, content, start):
    """Writes what makes the run: vocabularies, settings, and how it came about."""
    for side in ("src", "tgt"):
        save_tokenizer(content[side], folder.path / f"vocabulary.{side}.json")
    made = {
        "command": [os.fsencode(word).decode(errors="replace") for word in sys.argv],
        "time": utc_now(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "device": str(device()),
        "processes": world_size(),
        "start": str(start) if start else None,
        "data": content["data"],
        "lessons": lesson_hashes(),
    }
    write_json(folder.path / "made.json", made)
    settled = replace(config, dtype=native_dtype()) if config.dtype == "auto" else config
    write_json(folder.path / "config.json", asdict(settled))


def same_start(folder, start):
    """The run that this one was begun with. InputError where another one is given."""
    before = folder.read_made().get("start")
    if start and os.path.realpath(start) != os.path.realpath(before or ""):
        hint = "Use --restart to begin anew, or another --run"
        raise InputError(f"{folder.path}: was begun with --start {before}, not {start}. {hint}")
    return before


def compare(folder, config, content):
    """Raises InputError unless the folder's run has these settings, vocabularies and pairs."""
    old, new = asdict(folder.read_config()), asdict(config)
    if config.dtype == "auto":
        new["dtype"] = old["dtype"]
    changed = [f"{name} {old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
    for side, stored in zip(("src", "tgt"), folder.tokenizers()):
        if stored.vocabulary.tokens != content[side].vocabulary.tokens:
            changed.append(f"another {side} vocabulary, so other training text")
    made = folder.read_made()
    if made.get("data", content["data"]) != content["data"] and not changed:
        changed.append("other pairs")
    if changed:
        hint = "Use --restart to begin anew, or another --run"
        raise InputError(f"{folder.path}: was begun with {'; '.join(changed)}. {hint}")
    if (folder.path / "checkpoints").exists() and not folder.is_finished():
        hint = "Use --restart to begin anew, or another --run"
        raise InputError(f"{folder.path}: was begun by an earlier version of the course. {hint}")
    if others := trained_with_others(made):
        print(f"{folder.path}: trained with other lessons until now: {', '.join(others)}")
        write_json(folder.path / "made.json", made | {"lessons": lesson_hashes()})


def fingerprint(*data_sets):
    """SHA-256 of all ids of data sets; those that were prepared on the disk bring their own."""
    parts = [getattr(one, "fingerprint", None) or repr(one.items) for one in data_sets]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


# what is printed


def tell(data, config, tokenizers, train_set, dev_set, model):
    """Prints what is trained, on what."""
    size = sum(parameter.numel() for parameter in model.parameters())
    source, target = (f"{len(tokenizer):,}" for tokenizer in tokenizers)
    left_out = f"{train_set.dropped} longer ones left out"
    print(
        f"{Path(data).name}: {len(train_set):,} pairs to train on, {left_out}; "
        f"{len(dev_set)} for dev"
    )
    print(
        f"vocabularies of {source} and {target} tokens, {size:,} parameters, "
        f"{config.dtype} on {device()}"
    )


def tell_start(start, train_set, dev_loss):
    """Prints how the run that is begun with knows the new data."""
    source, target = map(unknown_share, zip(*sample_of(train_set, 10_000)))
    print(
        f"begun with {start}: unknown to it are {source:.1%} of the source tokens, "
        f"{target:.1%} of the target tokens; dev loss before the first step {dev_loss:.3f}"
    )


def unknown_share(sentences):
    """The share of UNK among the tokens of sentences of ids, BOS and EOS not counted."""
    tokens = [token for ids in sentences for token in ids if token not in (BOS, EOS)]
    return tokens.count(UNK) / max(1, len(tokens))


# evaluations


def mean_loss(model, dataset, config):
    """Notebook 13's `evaluate` on a whole data set."""
    sampler = TokenBatchSampler(dataset.lengths, config.batch_tokens, shuffle=False)
    batches = (batch.to(device()) for batch in make_dataloader(dataset, sampler, **loading()))
    with precision(config.dtype):
        return evaluate(BatchLoss(model, LabelSmoothing(0)), batches)


def sample_of(dataset, count):
    """At most `count` of its pairs, at even distances."""
    rows = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int)
    sample = Subset(dataset, rows.tolist())
    sample.lengths = dataset.lengths[rows]
    return sample


def translate_some(model, tokenizers, dev_pairs, config, samples=()):
    """dev_bleu and samples for an evaluation's record.

    Translates the first `bleu_sentences` of dev greedily, and the sentences `samples`; three of dev
    are the samples if there are none.
    """
    pairs = dev_pairs[: config.bleu_sentences]
    if not pairs:
        return {}
    sentences, references = zip(*pairs)
    translator = Translator(config, *tokenizers, model)
    translations = translator.translate(sentences, beam_size=1)
    score = round(bleu(translations, references, config.tgt)[0], 2)
    shown = zip(samples, translator.translate(samples, beam_size=1))
    shown = list(shown) or list(zip(sentences, translations))[:3]
    return {"dev_bleu": score, "samples": shown}


def loading():
    """Options of a DataLoader: a GPU should not wait for its batches."""
    if device().type != "cuda":
        return {}
    return {"num_workers": 2, "pin_memory": True, "worker_init_fn": leave_signals}


# Ctrl-C, a cluster that takes a machine away, a closed terminal, which Windows has not
END_SIGNALS = [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)]


def leave_signals(_):
    """A worker leaves signals to end, which reach all, to the process that trains."""
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def noticing_signals(asked):
    """In the block Ctrl-C and SIGTERM fill the list `asked`; a second one ends at once.

    Of several processes one that comes some seconds later: torchrun hands signals on to all.
    """
    numbers = [number for number in END_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():  # only there it can be asked for
        numbers = []

    def ask(number, frame):
        now = time.monotonic()
        if asked and (world_size() == 1 or now > asked[0] + 5):
            raise KeyboardInterrupt
        asked.append(now)

    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# several processes


def join_processes():
    """Connects the processes that torchrun has started; for a single one there is nothing to do."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        if device().type == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        # its new name does not do the same, PyTorch says
        warnings.filterwarnings("ignore", "`broadcast_buffers`", FutureWarning)
        distributed.init_process_group()


def leave_processes():
    """Closes the connection of several processes at a good end."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def world_size():
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def is_first():
    """Whether this process is the one that writes and prints."""
    return not distributed.is_initialized() or distributed.get_rank() == 0


def agreed(wish):
    """Whether any process wishes it: the same answer in all, which wait for each other."""
    if not distributed.is_initialized():
        return wish
    wishes = torch.tensor(int(wish))  # on the CPU, so that no GPU has to finish its work first
    distributed.all_reduce(wishes, distributed.ReduceOp.MAX)
    return bool(wishes)


def wait_for_all():
    """Goes on when all processes are here."""
    agreed(False)

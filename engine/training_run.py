"""A whole training: from a data folder to a finished run folder, around notebook 15's loop."""

import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Subset

from engine.checkpoints import check_schedule
from engine.checks import check_batches, check_vocabularies
from engine.corpus.pairs import load_data
from engine.definitions import TRAINING, are_ours, edited_names
from engine.errors import InputError
from engine.fast_forms import eager, use_fast_forms
from engine.loading import batches_in_order, endless_batches, seed_step
from engine.model_files import load_weights, made_for
from engine.pretrained import tell_edited
from engine.processes import processes, wrap_ddp
from engine.run_config import OURS
from engine.run_folder import RunFolder, check_start
from engine.session import TrainingSession, check_place
from engine.translator import Translator, tell_other_spaces
from engine.wrapped_loss import WrappedLoss
from notebooks.data_preparation import BOS, EOS, UNK
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import evaluate
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.training import train
from notebooks.translation import bleu
from utils import device


def run_training(data, config, run, restart=False, on_log=None, start=None, samples=()):
    """From a data folder to a finished run folder; resumes where an earlier call stopped.

    `on_log(records)` is called whenever there is a new record. A new run takes vocabularies and
    weights from the run `start`, if one is given. Each evaluation translates `samples`, else three
    sentences of dev. Returns all records.
    """
    check_place(Path(run))
    if start:
        check_start(start, config)
    known = RunFolder(start).tokenizers() if start else None
    source, target, train_set, dev_set, dev_pairs = load_data(data, config, known)
    check_vocabularies(config, len(source), len(target))
    check_batches(source)
    check_batches(target)
    torch.manual_seed(config.seed)  # the same weights in all processes
    # built before an old run goes: it may need more memory than there is
    model = make_model(config, len(source), len(target))
    if start:
        take_weights(model, start, run, config, source, target)
    model = model.to(device())
    # an edited lesson 14 that fails does so before an old run goes
    check_schedule(model, *make_optimizer(model, config))
    weights = Path(start) / "model.safetensors" if start else None
    with Run(run, config, source, target, restart, on_log, weights) as run:
        config = run.config  # in it the data type "auto" has become a real one
        if run.writes:
            tell(data, config, (source, target), train_set, dev_set, model)
            tell_other_spaces(target, [text for _, text in dev_pairs])
        if start and not run.folder.checkpoints():
            tell_start(start, train_set, mean_loss(model, dev_set, config))
        sample = sample_of(train_set, len(dev_set))

        def measure():
            """What an evaluation notes besides the dev loss."""
            entries = {"train_loss": mean_loss(model, sample, config)}
            return entries | translate_some(model, (source, target), dev_pairs, config, samples)

        return train_in(run, model, train_set, dev_set, measure)


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
    too_long = config.schedule == "linear" and 2 * config.warmup_steps > config.steps + 1
    if too_long and are_ours("make_optimizer", numbers=("14",)):
        shorter = f"shortened to half of the {config.steps:,} steps"
        print(f"a warm-up of {config.warmup_steps:,} steps is {shorter}")


def take_weights(model, start, run, config, source, target):
    """Fills a new model from another run. Raises InputError if it does not fit, or is this one."""
    if os.path.realpath(start) == os.path.realpath(run):
        raise InputError(f"{run}: --start is this run itself. Give the new run another --run")
    before = RunFolder(start).read_config()
    for name, new in asdict(config).items():
        old = getattr(before, name)
        if name not in OURS and old != new and processes().is_main_process:
            print(f"{start}: its {name}, a setting of your own, is {old}, not {new}")
    path = Path(start) / "model.safetensors"
    load_weights(model, path, made_for(before, source, target))


def tell_start(start, train_set, dev_loss):
    """Prints how the run that is begun with knows the new data."""
    if processes().is_main_process:
        tell_edited(start)
        rows = sample_of(train_set, 10_000)
        source, target = map(unknown_share, zip(*rows))
        print(
            f"begun with {start}: unknown to it are {source:.1%} of the source tokens, "
            f"{target:.1%} of the target tokens; dev loss before the first step {dev_loss:.3f}"
        )


def unknown_share(sentences):
    """The share of UNK among the tokens of sentences of ids, BOS and EOS not counted."""
    tokens = [token for ids in sentences for token in ids if token not in (BOS, EOS)]
    return tokens.count(UNK) / max(1, len(tokens))


class Run(TrainingSession):
    """A `TrainingSession` with what notebook 15's `train` calls besides."""

    def batches(self):
        """Yields (step, batch) of the steps that are left, this process's share of each batch."""
        every = endless_batches(self.train_set, self.config, self.progress)
        passed = 0  # since the last step: an edited loop may take several batches for one
        while not self.progress.finished and self.progress.step < self.config.steps:
            step = self.progress.step
            batch, self.position = next(every)
            if passed > 100 and self.position[0] > self.progress.epoch + 1:
                wrong = "went through all pairs and made no step: run.add counts them"
                raise InputError(f"notebook 15's loop {wrong}. Call it after each")
            seed_step(self.config.seed, self.progress.step)
            yield step + 1, batch
            passed = passed + 1 if self.progress.step == step else 0

    def evaluate(self):
        """Measures on dev, and saves the weights if they are the best so far."""
        with eager():
            dev_loss = mean_loss(self.model, self.dev_set, self.config)
            entries = self.measure()
        self.log(dev_loss=dev_loss, **entries)
        self.keep(self.progress.judge(dev_loss, self.config))
        if self.saved == self.progress.step:  # an edited loop saves first
            self.save()


def train_in(run, model, train_set, dev_set, measure=dict):
    """Trains to the end of a `Run`, from its progress on. Returns all records.

    `measure()` returns further entries for the record of an evaluation.
    """
    config = run.config
    criterion = LabelSmoothing(config.label_smoothing)
    if any(True for _ in criterion.state_dict()):
        wrong = "notebook 12's LabelSmoothing has parameters or buffers, which no checkpoint holds"
        raise InputError(f"{wrong}. Put them into the model")
    compiled = use_fast_forms(model, criterion, config)
    optimizer, scheduler = make_optimizer(model, config)
    check_schedule(model, optimizer, scheduler)
    run.resume(model, optimizer, scheduler, train_set, dev_set, measure)
    edited = edited_names(TRAINING)
    if edited and run.writes and 0 < run.progress.step < config.steps:
        rest = "what it keeps outside of parameters, buffers and the optimizer's state begins anew"
        print(f"your version of {', '.join(edited)} goes on: {rest}", file=sys.stderr)
    batch_loss = wrap_ddp(WrappedLoss(model, criterion, config))
    with run.going(compiled):
        train(run, batch_loss, optimizer, scheduler, config)
        if run.progress.step >= config.steps and not run.progress.finished:
            run.evaluate()  # an edited loop has not, and a run without weights is lost
        if run.progress.finished and run.saved != run.progress.step:
            run.save()
        if not run.progress.finished and run.writes:
            ended = f"notebook 15's loop ended at step {run.progress.step} of {config.steps}"
            print(f"{ended}: the same command goes on from the last checkpoint", file=sys.stderr)
    return run.records


def mean_loss(model, dataset, config):
    """Notebook 13's `evaluate` on a whole data set, by all processes together."""
    batch_loss = WrappedLoss(model, LabelSmoothing(0).eval(), config)
    return float(evaluate(batch_loss, batches_in_order(dataset, config)))


def sample_of(dataset, count):
    """At most `count` of its pairs, at even distances."""
    rows = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int)
    sample = Subset(dataset, rows.tolist())
    sample.lengths = dataset.lengths[rows]
    return sample


def translate_some(model, tokenizers, dev_pairs, config, samples=()):
    """dev_bleu and samples for an evaluation's record, by the first process.

    Translates the first `bleu_sentences` of dev greedily, and the sentences `samples`; three of dev
    are the samples if there are none.
    """
    pairs = dev_pairs[: config.bleu_sentences]
    if not pairs or not processes().is_main_process:
        return {}
    sentences, references = zip(*pairs)
    translator = Translator(config, *tokenizers, model)
    translations = translator.translate(sentences, beam_size=1)
    score = round(bleu(translations, references, config.tgt)[0], 2)
    shown = zip(samples, translator.translate(samples, beam_size=1))
    shown = list(shown) or list(zip(sentences, translations))[:3]
    return {"dev_bleu": score, "samples": shown}

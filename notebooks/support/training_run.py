"""A whole training: from a data folder to a finished run folder, around notebook 15's loop."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Subset

from notebooks.data_preparation import load_data
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import evaluate
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.support.loading import batches_in_order, endless_batches, seed_step
from notebooks.support.processes import processes, synchronised
from notebooks.support.session import TrainingSession, check_place
from notebooks.support.translating import translate_greedily
from notebooks.support.wrapped_loss import WrappedLoss
from notebooks.training import train
from notebooks.translation import bleu
from utils import device


def run_training(data, config, run, restart=False, on_log=None, load=load_data):
    """From a data folder to a finished run folder; goes on where an earlier call stopped.

    `on_log(records)` is called whenever there is a new record. `load` reads the data folder, as
    notebook 01's `load_data` does. Returns all records.
    """
    check_place(Path(run))
    source, target, train_set, dev_set, dev_pairs = load(data, config)
    torch.manual_seed(config.seed)  # the same weights in all processes
    # built before an old run goes: it may need more memory than there is
    model = make_model(config, len(source), len(target)).to(device())
    with TrainingSession(run, config, source, target, restart, on_log) as session:
        config = session.config  # in it the data type "auto" has become a real one
        if session.writes:
            tell(data, config, (source, target), train_set, dev_set, model)
        sample = sample_of(train_set, len(dev_set))

        def measure():
            """What an evaluation notes besides the dev loss."""
            found = {"train_loss": mean_loss(model, sample, config)}
            return found | translate_some(model, (source, target), dev_pairs, config)

        return train_in(session, model, train_set, dev_set, measure)


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


def train_in(session, model, train_set, dev_set, measure=dict):
    """Trains to the end of a `TrainingSession`, from where it stands. Returns all records.

    `measure()` gives further entries for the record of an evaluation.
    """
    config = session.config
    optimizer, scheduler = make_optimizer(model, config)
    progress = session.resume(model, optimizer, scheduler, train_set, dev_set)
    criterion = LabelSmoothing(config.smoothing)
    batch_loss = synchronised(WrappedLoss(model, criterion, config))

    def batches():
        """Those of the steps that are left."""
        found = endless_batches(train_set, config, progress)
        while not progress.finished:
            batch, session.position = next(found)
            seed_step(config.seed, progress.step)
            yield batch

    def after_step(*figures):
        """Notes the step; now and then a record, an evaluation, a checkpoint."""
        session.add(*figures)
        if progress.step % config.eval_steps == 0 or progress.step == config.steps:
            dev_loss = mean_loss(model, dev_set, config)
            session.log(dev_loss=dev_loss, **measure())
            session.keep(model, progress.judge(dev_loss, config))
            session.save(model, optimizer)
        elif progress.step % 50 == 0:
            session.log()
        session.stop_if_asked(model, optimizer)

    with session.going():
        train(batch_loss, batches(), optimizer, scheduler, config.clip, after_step)
    return session.records


def mean_loss(model, dataset, config):
    """Notebook 13's `evaluate` on a whole data set, by all processes together."""
    batch_loss = WrappedLoss(model, LabelSmoothing(0), config)
    return evaluate(batch_loss, batches_in_order(dataset, config))


def sample_of(dataset, count):
    """At most `count` of its pairs, at even distances."""
    rows = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int)
    sample = Subset(dataset, rows.tolist())
    sample.lengths = dataset.lengths[rows]
    return sample


def translate_some(model, tokenizers, dev_pairs, config):
    """dev_bleu and three samples, for an evaluation's record, by the first process.

    Translates the first `bleu_sentences` of dev greedily.
    """
    pairs = dev_pairs[: config.bleu_sentences]
    if not pairs or not processes().is_main_process:
        return {}
    sentences, references = zip(*pairs)
    written = translate_greedily(model.eval(), tokenizers, sentences, config)
    score = round(bleu(written, references, config.tgt)[0], 2)
    return {"dev_bleu": score, "samples": list(zip(sentences, written))[:3]}

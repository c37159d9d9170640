"""The question of the course while a model learns: when do the verbs of *play* part?

`make verbs` trains `small` with three seeds, as `make run` does (40 minutes on 2 cores; stopped, it
goes on where it was cut), and writes studies/verbs.json, which notebook 15 shows. Every
hundred steps the model is asked for 24 variants of each sentence. At the end of each training come
the vectors of `play`, where it looks while it writes the verb, what it writes where attention is
closed, and where the vector of `play` comes from another sentence.
"""

import itertools
import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.attention_maps import translation_attention
from engine.corpus.pairs import load_data
from engine.files import file_digest, write_json
from engine.run_config import RunConfig
from engine.session import TrainingSession
from engine.training_run import train_in
from engine.translator import Translator
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support.story import (
    CLOSED,
    THINGS,
    count_right,
    encoder_stages,
    ledger,
    mean_cosines,
    translate_with_closed,
    transplant,
    variants,
    vectors_of_play,
)
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "verbs.json"
ASKED = {"the piano": "弹踢", "football": "踢弹", "chess": "下踢"}  # two verbs for the ledger


def verbs(translator):
    """Of 24 greedy translations, how many have the verb of each thing."""
    texts = translator.translate([text for what in THINGS for text in variants(what)], beam_size=1)
    parts = [texts[start : start + 24] for start in range(0, len(texts), 24)]
    return {what: count_right(what, part)[0] for what, part in zip(THINGS, parts)}


def cosines(translator):
    """The mean cosine of the vectors of `play` for two different things, at each stage."""
    vectors = {what: vectors_of_play(translator, what) for what in THINGS}
    return {stage: round(value, 3) for stage, value in mean_cosines(vectors).items()}


def looked_at(translator):
    """Where it looks while it writes the verb, over layers and heads: at play, at the object."""
    parts = translator.model, translator.source, translator.target
    shares = []
    for what, (verb, _) in THINGS.items():
        sentences = variants(what)
        for sentence, text in zip(sentences, translator.translate(sentences, beam_size=1)):
            names, written, maps = translation_attention(*parts, sentence, text)
            if verb in written:
                step = maps["cross"][:, :, written.index(verb) - 1].mean(dim=(0, 1))
                places = names.index("play"), names.index(what.split()[-1])
                shares.append([step[place].item() for place in places])
    if not shares:  # a model that has not learned any verb
        return {"sentences": 0}
    play, noun = (round(statistics.mean(part), 3) for part in zip(*shares))
    return {"play": play, "object": noun, "sentences": len(shares)}


def moved(translator):
    """Of 24, the giver's verb and the taker's verb where `play` comes from another sentence."""
    result = {}
    for giver, taker in itertools.permutations(THINGS, 2):
        texts = transplant(translator, variants(giver), variants(taker))
        result[f"{giver} into {taker}"] = [count_right(one, texts)[0] for one in (giver, taker)]
    return result


def accounts(translator):
    """The largest parts of three ledgers; None where the verb is not written."""
    result = {}
    for what, (one, other) in ASKED.items():
        try:
            account = ledger(translator, f"We play {what} every day.", one, other)
        except ValueError:
            result[what] = None
            continue
        largest = sorted(account, key=lambda name: -abs(account[name]))[:8]
        result[what] = {"sum": round(sum(account.values()), 2)} | {
            name: round(account[name], 2) for name in largest
        }
    return result


def end_of_training(translator):
    """What is measured of a finished model."""
    return {
        "cosines": cosines(translator),
        "looks": looked_at(translator),
        "closed": {
            name: [
                count_right(what, translate_with_closed(translator, what, closed))
                for what in THINGS
            ]
            for name, closed in CLOSED.items()
        },
        "moved": moved(translator),
        "accounts": accounts(translator),
    }


def train_seed(seed, data, runs, config):
    """A training and what is kept of it."""
    if device().type == "cpu":
        torch.set_num_threads(1)  # two trainings share the processors
    config = replace(config, seed=seed)
    source, target, train_set, dev_set, _ = load_data(data, config)
    tokenizers, run = (source, target), runs / f"seed-{seed}"
    torch.manual_seed(seed)
    model = make_model(config, len(source), len(target)).to(device())

    def measure():
        translator = Translator(config, *tokenizers, model)
        counts = verbs(translator)
        angles = cosines(translator).items()
        model.train()
        # numbers only, as a log holds them, so that a study that was cut finds them again
        return counts | {f"cosine {stage}": value for stage, value in angles}

    with TrainingSession(run, config, source, target) as session:
        records = train_in(session, model, train_set, dev_set, measure)
    stages = encoder_stages(model)
    curve = {
        str(record["step"]): {
            "verbs": {what: record[what] for what in THINGS},
            "cosines": {stage: record[f"cosine {stage}"] for stage in stages},
        }
        for record in records
        if "cosine input" in record
    }
    return {"seed": seed, "steps": curve, **end_of_training(Translator.load(run))}


def main(runs=ROOT / "runs" / "verbs", output=OUTPUT, config=None, seeds=3, jobs=2):
    """Trains with each seed, `jobs` at the same time, and writes what was found."""
    config = config or replace(RunConfig.preset("small"), eval_steps=100, bleu_sentences=0)
    given = [(seed, ROOT / "data_small", runs, config) for seed in range(seeds)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(train_seed, *zip(*given)))
    header = {"command": "make verbs", "variants": len(variants("")), "things": THINGS}
    header["train.tsv"] = file_digest(ROOT / "data_small" / "train.tsv")
    write_json(output, {**header, "seeds": results})
    for part in results:
        print(f"seed {part['seed']}:", {key: part[key] for key in part if key != "steps"})


if __name__ == "__main__":
    main()

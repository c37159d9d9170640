"""The question of the course while a model learns: when do the verbs of *play* part?

`make verbs` trains `small` with three seeds, as `make run` does (40 minutes on 2 cores; stopped, it
goes on where it was cut), and writes studies/verbs.json, which notebook 15 shows. Every
hundred steps the model is asked for 24 variants of each sentence. At the end of each training come
the vectors of `play`, where it looks while it writes the verb, and what it writes when looks are
forbidden.
"""

import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor

from engine.startup import tune_process

tune_process()  # before PyTorch

import torch

from engine.attention_maps import translation_attention
from engine.corpus.pairs import load_data
from engine.files import write_json
from engine.run_config import RunConfig
from engine.session import TrainingSession
from engine.training_run import train_in
from engine.translator import Translator
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support.story import (
    blocked_masks,
    encode_sentences,
    greedy_with_masks,
    mean_cosines,
    variants,
    vectors_of_play,
)
from utils import ROOT, device

OUTPUT = ROOT / "studies" / "verbs.json"
THINGS = {
    "football": "踢 足球", "tennis": "打 网球", "cards": "打 牌", "chess": "下 棋",
    "the piano": "弹 钢琴", "the violin": "拉 小提琴", "in the garden": "玩 花园",
}  # fmt: skip
FORBIDDEN = {
    "nothing": (True, True),
    "the others may not look": (False, True),
    "the decoder may not look": (True, False),
    "neither may look": (False, False),
}


def verbs(model, tokenizers, config):
    """Of 24 greedy translations, how many have the verb of each thing."""
    sentences = [sentence for what in THINGS for sentence in variants(what)]
    texts = Translator(config, *tokenizers, model).translate(sentences, beam_size=1)
    expected = [THINGS[what].split()[0] for what in THINGS for _ in variants(what)]
    correct = [verb in text for verb, text in zip(expected, texts)]
    return {what: sum(correct[24 * n : 24 * (n + 1)]) for n, what in enumerate(THINGS)}


def cosines(model, source):
    """The mean cosine of the vectors of `play` for two different things, layer by layer."""
    vectors = {what: vectors_of_play(model.eval(), source, what) for what in THINGS}
    return [round(value, 3) for value in mean_cosines(vectors).tolist()]


def looked_at(model, tokenizers, config):
    """Where it looks while it writes the verb, over layers and heads: at play, at the object."""
    source, target = tokenizers
    shares = []
    for what, (verb, _) in ((what, text.split()) for what, text in THINGS.items()):
        sentences = variants(what)
        texts = Translator(config, source, target, model).translate(sentences, beam_size=1)
        for sentence, text in zip(sentences, texts):
            names, written, maps = translation_attention(model, source, target, sentence, text)
            if verb in written:
                step = maps["cross"][:, :, written.index(verb) - 1].mean(dim=(0, 1))
                places = names.index("play"), names.index(what.split()[-1])
                shares.append([step[place].item() for place in places])
    if not shares:  # a model that has not learned any verb
        return {"sentences": 0}
    play, noun = (round(statistics.mean(part), 3) for part in zip(*shares))
    return {"play": play, "object": noun, "sentences": len(shares)}


def blocked(model, tokenizers, others_attend, decoder_attends):
    """How many verbs and nouns, of all variants, are right with looks at the object forbidden."""
    source, target = tokenizers
    right = [0, 0]
    for what, wanted in THINGS.items():
        ids = encode_sentences(source, variants(what)).to(device())
        word = ids.new_full((len(ids),), source.vocabulary.ids[what.split()[-1]])
        texts = greedy_with_masks(
            model, target, ids, *blocked_masks(ids, word, others_attend, decoder_attends)
        )
        for kind, part in enumerate(wanted.split()):
            right[kind] += sum(part in text for text in texts)
    return {"verb": right[0], "noun": right[1]}


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
        counts = verbs(model, tokenizers, config)
        angles = enumerate(cosines(model, source))
        model.train()
        # numbers only, as a log holds them, so that a study that was cut finds them again
        return counts | {f"cosine {layer}": value for layer, value in angles}

    with TrainingSession(run, config, source, target) as session:
        records = train_in(session, model, train_set, dev_set, measure)
    model = Translator.load(run).model
    config = replace(config, dtype="float32")
    layers = range(config.num_layers + 1)
    curve = {
        str(record["step"]): {
            "verbs": {what: record[what] for what in THINGS},
            "cosines": [record[f"cosine {layer}"] for layer in layers],
        }
        for record in records
        if "cosine 0" in record
    }
    ways = {name: blocked(model, tokenizers, *may) for name, may in FORBIDDEN.items()}
    end = {"cosines": cosines(model, source), "looks": looked_at(model, tokenizers, config)}
    return {"seed": seed, "steps": curve, **end, "forbidden": ways}


def main(runs=ROOT / "runs" / "verbs", output=OUTPUT, config=None, seeds=3, jobs=2):
    """Trains with each seed, `jobs` at the same time, and writes what was found."""
    config = config or replace(RunConfig.preset("small"), eval_steps=100, bleu_sentences=0)
    given = [(seed, ROOT / "data_small", runs, config) for seed in range(seeds)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(train_seed, *zip(*given)))
    header = {"command": "make verbs", "variants": len(variants("")), "things": THINGS}
    write_json(output, {**header, "seeds": results})
    for part in results:
        print(f"seed {part['seed']}:", {key: part[key] for key in part if key != "steps"})


if __name__ == "__main__":
    main()

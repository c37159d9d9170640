"""How good a run's translations are: scores of a split, the length penalty, what is printed."""

import hashlib
import math
import os
import time
from pathlib import Path

import sacrebleu
import torch
from tqdm import tqdm

from engine.checks import check_name
from engine.corpus.formats import read_split
from engine.errors import InputError
from engine.files import read_json, utc_now, write_json
from engine.plain_text import one_line
from engine.run_folder import RunFolder, is_the_box
from engine.translator import ALPHA, BEAM_SIZE, Translator
from notebooks.translation import bleu

ALPHAS = (0.6, 1.0, 1.4, 1.8)  # among which `--alpha auto` chooses for a run


def score(run, data, split="test", beam_size=BEAM_SIZE, alpha=None):
    """Translates a split greedily and with a beam, and measures both; a beam of 1 is greedy.

    Returns (scores, pairs, translations): {"greedy": {...}, "beam": {...}}, and what became what.
    alpha "auto" is chosen on dev first, and kept in the run's `search.json`.
    """
    check_name("split", split)
    read_scores(run)  # damaged? Then before any work
    if is_the_box(run) and alpha == "auto":
        raise InputError("--alpha auto keeps what it chooses with a run: give --run")
    if split == "dev" and alpha == "auto":
        raise InputError("--alpha auto chooses on dev: a score on dev would be chosen, too")
    translator = Translator.load(run)
    scores = {}
    translations = {}
    pairs = read_split(data, split, translator.config)
    if alpha == "auto":
        alpha = choose_alpha(translator, read_split(data, "dev", translator.config), beam_size)
        write_json(Path(run) / "search.json", {"alpha": alpha})
    sources, references = (list(side) for side in zip(*pairs))
    for name, size in {"greedy": 1, **({"beam": beam_size} if beam_size > 1 else {})}.items():
        began = time.perf_counter()
        with tqdm(total=len(sources), unit="sentence") as bar:
            translations[name] = translator.translate(sources, size, alpha, bar=bar)
        speed = round(len(sources) / (time.perf_counter() - began), 1)
        scores[name] = measure(translations[name], references, translator.config.tgt)
        scores[name]["sentences_per_second"] = speed
    return scores, pairs, translations


def measure(translations, references, language):
    """Corpus BLEU and chrF (Popovic 2015), and how they were counted: a dictionary."""
    value, signature = bleu(translations, references, language)
    chrf = sacrebleu.CHRF()
    other = chrf.corpus_score(translations, [references]).score
    return {
        "bleu": round(value, 2),
        "chrf": round(other, 2),
        "bleu_signature": signature,
        "chrf_signature": str(chrf.get_signature()),
    }


def read_scores(run):
    """The content of the run's `scores.json`: what `keep_scores` has written."""
    path = Path(run) / "scores.json"
    scores = read_json(path) if path.exists() else {}
    for name, entry in scores.items():
        if type(entry) is not dict:
            raise InputError(f"{path}: {name!r} holds no scores. Delete this entry, or the file")
    return scores


def keep_scores(run, data, split, pairs, scores, beam_size, alpha=None):
    """Writes scores beside those of other data and of other searches; not of the box.

    `scores.json`: {"DATA/SPLIT DIGEST": entry}. The digest is of the pairs, and an entry holds what
    was measured, when and with what, and the scores of each search.
    """
    if is_the_box(run):  # it has its own
        return
    alpha = alpha if isinstance(alpha, float) else RunFolder(run).alpha(ALPHA)
    names = {"beam": f"beam {beam_size}, alpha {alpha}"}
    scores = {names.get(name, name): row for name, row in scores.items()}
    digest = hashlib.sha256(repr(pairs).encode()).hexdigest()[:8]
    data = os.fsencode(Path(data).resolve().name).decode(errors="backslashreplace")
    key = f"{data}/{split} {digest}"
    about = {"data": data, "split": split, "pairs": len(pairs)}
    about |= {"time": utc_now(), "torch": torch.__version__}
    every = read_scores(run)
    write_json(Path(run) / "scores.json", {**every, key: {**every.get(key, {}), **about, **scores}})


def choose_alpha(translator, pairs, beam_size):
    """The length penalty of ALPHAS whose translations of these pairs, dev's, have the best BLEU.

    In a tie the one that is used without a choice.
    """
    sources, references = (list(side) for side in zip(*pairs))
    written = {alpha: translator.translate(sources, beam_size, alpha) for alpha in ALPHAS}
    scores = {
        alpha: (bleu(texts, references, translator.config.tgt)[0], alpha == ALPHA)
        for alpha, texts in written.items()
    }
    return max(ALPHAS, key=scores.get)


def print_samples(records):
    """Prints the evaluation in a run's newest record, if it has one, above the progress bar."""
    newest = records[-1]
    if "dev_loss" in newest:
        bleu_score = f", BLEU {newest['dev_bleu']:.1f}" if "dev_bleu" in newest else ""
        tqdm.write(f"step {newest['step']}, dev: loss {newest['dev_loss']:.3f}{bleu_score}")
    for sentence, translation in newest.get("samples", ()):
        tqdm.write(f"  {one_line(sentence)} → {one_line(translation)}")


def print_scores(run, split, scores, pairs, translations):
    """Ten translations at even distances, then BLEU and chrF of both searches."""
    for number in range(0, len(pairs), math.ceil(len(pairs) / 10)):
        source, reference = pairs[number]
        print(f"\n  {source}")
        for name, written in translations.items():
            chrf = sacrebleu.sentence_chrf(written[number], [reference]).score
            print(f"  {name:9}  {one_line(written[number])}  (chrF {chrf:.0f})")
        print(f"  reference  {reference}")
    print(f"\n{len(pairs):,} sentences of {split}, {run}")
    for name, row in scores.items():
        speed = f"{row['sentences_per_second']} sentences/s"
        print(f"{name:6}  BLEU {row['bleu']:5.2f}  chrF {row['chrf']:5.2f}  {speed}")
    print(f"BLEU {row['bleu_signature']}\nchrF {row['chrf_signature']}")

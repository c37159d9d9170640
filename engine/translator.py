"""From texts to texts: a model that translates, its batches, what is cut and what is empty."""

import itertools
import sys
from collections import Counter
from inspect import signature

import torch

from engine.checks import check_batches
from engine.errors import InputError
from engine.lessons import edited, edited_among, listed, say_once
from engine.plain_text import join_words, one_line
from engine.precision import search_precision
from engine.run_folder import RunFolder
from engine.typed_text import sentences_of, translate_typed
from notebooks.data_preparation import (
    BOS,
    UNK,
    WordSegmenter,
    add_marks,
    causal_mask,
    pad_rows,
    padding_mask,
)
from notebooks.decoder import KVCache
from notebooks.translation import beam_search


def default_of(name):
    """The default of a parameter of lesson 16's beam_search. Raises InputError if it has none."""
    parameter = signature(beam_search).parameters.get(name)
    if parameter is None or type(parameter.default) not in (int, float):
        hint = "Give it that, and a decorator functools.wraps"
        raise InputError(f"notebook 16: beam_search has no {name} with a number as default. {hint}")
    return parameter.default


BEAM_SIZE, ALPHA = default_of("beam_size"), default_of("alpha")
CHECKED = set()  # what is looked at once in a process
STRAIGHT = {**dict.fromkeys("“”„«»", '"'), **dict.fromkeys("‘’‚", "'")}


class Translator:
    """A trained model that translates: `Translator.load(run).translate(["Good morning."])`."""

    def __init__(self, config, source, target, model, alpha=ALPHA):
        self.config = config
        self.source = source
        self.target = target
        self.alpha = alpha
        self.model = model.eval()
        check_batches(source)
        self.straight = str.maketrans(quotes_of(source))

    @classmethod
    def load(cls, run, device=None):
        """From a run folder, to `device()` or to another device.

        Raises InputError when a file is missing, damaged, or does not fit.
        """
        return cls(*RunFolder(run).load(device), RunFolder(run).alpha(ALPHA))

    def encode(self, sentence):
        """Source ids as the encoder reads them."""
        return self.marked(self.source.encode(self.clean(sentence)))

    def marked(self, ids):
        """Source ids cut to the longest input, with the marks that lesson 01 gives them."""
        return add_marks(ids[: self.config.max_length], [])[0]

    def clean(self, sentence):
        """A sentence in one line, and its quotes straight where the vocabulary has only those."""
        return one_line(sentence).translate(self.straight)

    def source_length(self, sentence):
        """How many tokens a sentence has."""
        return len(self.source.encode(self.clean(sentence)))

    def unknown_words(self, lines):
        """{word: how often} of these lines' source tokens that the vocabulary lacks."""
        sentences = (one for line in lines for one, _ in sentences_of(line, self.config.src))
        rows = map(self.source.segmenter.segment, map(self.clean, sentences))
        known = self.source.vocabulary.ids
        return Counter(word for row in rows for word in row if word not in known)

    def translate(
        self, sentences, beam_size=BEAM_SIZE, alpha=None, batch_size=64, numbers=None, bar=None
    ):
        """One translation for each sentence, in their order. beam_size 1 is greedy search.

        An empty sentence returns an empty one. One that is too long is cut; stderr says which, by
        the line `numbers`, from 1 if not given. `bar` is of tqdm and counts sentences. Raises
        InputError for weights with which the model gives no probabilities, TypeError for a single
        text, ValueError for a size that is no whole number from 1.
        """
        if isinstance(sentences, str):  # would be taken for a list of characters
            raise TypeError("give a list of sentences, as in translate([sentence])")
        for name, size in (("beam_size", beam_size), ("batch_size", batch_size)):
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} is {size!r}: give a whole number from 1")
        alpha = self.alpha if alpha is None else alpha
        rows = self.source.encode_batch([self.clean(sentence) for sentence in sentences])
        for number, ids in zip(numbers or itertools.count(1), rows):
            if len(ids) > self.config.max_length:
                print(f"line {number}: cut after {self.config.max_length} tokens", file=sys.stderr)
        rows = [ids and self.marked(ids) for ids in rows]
        translations = [""] * len(rows)
        device = next(self.model.parameters()).device
        for index in batches_by_length(rows, batch_size):
            src = pad_rows([rows[number] for number in index]).to(device)
            with search_precision(self.config.dtype):
                results = self.search(src, beam_size, alpha)
            check_cache(self.model, src[:1], results[0])
            if not all(results):
                wrong = "the model gives no probabilities: its weights are damaged"
                raise InputError(f"{wrong}. Train again")
            for number, ids in zip(index, results):
                translations[number] = text_of(self.target, ids)
            if bar is not None:
                bar.update(len(index))
        return translations

    def translate_typed(self, lines, **options):
        """Translates lines as people type them (`engine.typed_text`), one for each."""
        languages = self.config.src, self.config.tgt
        return translate_typed(self.translate, lines, languages, **options)

    def search(self, src, beam_size, alpha):
        """The best translation of each row (B, S) as ids: B lists, empty where there is none."""
        every = beam_search(self.model, src, self.config.max_length, beam_size, alpha)
        return [hypotheses[0][1] if hypotheses else [] for hypotheses in every]


@torch.inference_mode()
def check_cache(model, src, ids):
    """Where lessons were edited, says once if the cache changes what the model computes.

    For one source (1, S) and what was written of it. So it does where keys or queries depend on
    positions that begin at 0 in each call.
    """
    if "cache" in CHECKED or not ids:
        return
    CHECKED.add("cache")
    if not (numbers := edited_among(2, 10)):
        return
    tgt, src_mask = torch.tensor([[BOS, *ids[:-1]]], device=src.device), padding_mask(src)
    memory = model.encode(src, src_mask)
    at_once = model.decode(tgt, memory, src_mask, causal_mask(tgt.shape[1], tgt.device))
    with KVCache(model.decoder) as cache:
        steps = [
            model.decode(tgt[:, t : t + 1], memory, src_mask, start=cache.length)
            for t in range(tgt.shape[1])
        ]
    logits = [model.generator(hidden) for hidden in (at_once, torch.cat(steps, dim=1))]
    if not torch.allclose(*logits, atol=1e-3, rtol=1e-3):
        wrong = "with a cache the model computes something else than in training"
        hint = "Does a position begin at 0 in each call? See notebook 09"
        say_once(f"your {listed(numbers)}: {wrong}. {hint}")


def quotes_of(tokenizer):
    """{quote: straight one} of the quotes that a tokenizer lacks where it has the straight one.

    Phones write “ and ”.
    """

    def is_known(sign):
        return UNK not in tokenizer.encode(sign)

    pairs = STRAIGHT.items()
    return {quote: plain for quote, plain in pairs if is_known(plain) and not is_known(quote)}


def has_spaces(segmenter):
    """Whether tokens are words of a language that puts spaces between them."""
    return isinstance(segmenter, WordSegmenter) and segmenter.language != "zh"


def joins_words(tokenizer):
    """Whether its texts are joined by `join_words`: not if lesson 01 was edited."""
    return has_spaces(tokenizer.segmenter) and "01" not in edited()


def text_of(tokenizer, ids):
    """The text of these ids, punctuation where it belongs, unless lesson 01 was edited."""
    if joins_words(tokenizer):
        return join_words(tokenizer.vocabulary.decode(ids), tokenizer.segmenter.language)
    return tokenizer.decode(ids)


def tell_other_spaces(tokenizer, texts):
    """Says on stderr which target texts words cannot write, as a[1]: spaces are not stored."""
    segmenter = tokenizer.segmenter
    if not joins_words(tokenizer):
        return
    texts = [text.lower() if segmenter.lowercase else text for text in texts]
    written = [join_words(segmenter.segment(text), segmenter.language) for text in texts]
    changed = [pair for pair in zip(texts, written) if pair[0] != pair[1]]
    if changed:
        text, other = min(changed, key=lambda pair: len(pair[0]))
        wrong = f"{len(changed)} of {len(texts)} target texts of dev would get other spaces"
        hint = "--tgt-segmentation subwords keeps all"
        print(f"{wrong}, as {other!r} for {text!r}: {hint}", file=sys.stderr)


def batches_by_length(rows, batch_size):
    """Yields the numbers of the rows in batches of similar length, without those that are empty."""
    order = [number for number, ids in enumerate(rows) if ids]
    order.sort(key=lambda number: len(rows[number]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]

"""From texts to texts: a model that translates, its batches, what is cut and what is empty."""

import sys
from inspect import signature

from engine.checks import check_batches
from engine.definitions import are_ours
from engine.errors import InputError
from engine.plain_text import join_words, one_line
from engine.precision import search_precision
from engine.run_folder import RunFolder
from notebooks.data_preparation import UNK, WordSegmenter, add_marks, pad_rows
from notebooks.translation import beam_search


def default_of(name):
    """The default of a parameter of lesson 16's beam_search. Raises InputError if it has none."""
    parameter = signature(beam_search).parameters.get(name)
    if parameter is None or type(parameter.default) not in (int, float):
        hint = "Give it that, and a decorator functools.wraps"
        raise InputError(f"notebook 16: beam_search has no {name} with a number as default. {hint}")
    return parameter.default


BEAM_SIZE, ALPHA = default_of("beam_size"), default_of("alpha")
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

    def unknown_words(self, sentences):
        """The source tokens of these sentences that the vocabulary lacks, each once, in order."""
        rows = map(self.source.segmenter.segment, map(self.clean, sentences))
        known = self.source.vocabulary.ids
        return list(dict.fromkeys(word for row in rows for word in row if word not in known))

    def translate(
        self, sentences, beam_size=BEAM_SIZE, alpha=None, batch_size=64, first=1, bar=None
    ):
        """One translation for each sentence, in their order. beam_size 1 is greedy search.

        An empty sentence returns an empty one. One that is too long is cut; stderr says which, the
        first of them being line `first`. `bar` is of tqdm and counts sentences. Raises InputError
        for weights with which the model gives no probabilities, TypeError for a single text,
        ValueError for a size that is no whole number from 1.
        """
        if isinstance(sentences, str):  # would be taken for a list of characters
            raise TypeError("give a list of sentences, as in translate([sentence])")
        for name, size in (("beam_size", beam_size), ("batch_size", batch_size)):
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} is {size!r}: give a whole number from 1")
        alpha = self.alpha if alpha is None else alpha
        rows = self.source.encode_batch([self.clean(sentence) for sentence in sentences])
        for number, ids in enumerate(rows, start=first):
            if len(ids) > self.config.max_length:
                print(f"line {number}: cut after {self.config.max_length} tokens", file=sys.stderr)
        rows = [ids and self.marked(ids) for ids in rows]
        translations = [""] * len(rows)
        device = next(self.model.parameters()).device
        for index in batches_by_length(rows, batch_size):
            src = pad_rows([rows[number] for number in index]).to(device)
            with search_precision(self.config.dtype):
                results = self.search(src, beam_size, alpha)
            if not all(results):
                wrong = "the model gives no probabilities: its weights are damaged"
                raise InputError(f"{wrong}. Train again")
            for number, ids in zip(index, results):
                translations[number] = text_of(self.target, ids)
            if bar is not None:
                bar.update(len(index))
        return translations

    def search(self, src, beam_size, alpha):
        """The best translation of each row (B, S) as ids: B lists, empty where there is none."""
        every = beam_search(self.model, src, self.config.max_length, beam_size, alpha)
        return [hypotheses[0][1] if hypotheses else [] for hypotheses in every]


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
    ours = are_ours("WordSegmenter", "Tokenizer", numbers=("01",))
    return has_spaces(tokenizer.segmenter) and ours


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

"""An exported folder is tried before it is kept: it must translate as `translate.py` does."""

import io
import math
import random
import subprocess
import sys
from contextlib import redirect_stderr

from engine.definitions import TRANSLATING, edited_names, replaced_names
from engine.errors import InputError
from engine.plain_text import one_line
from notebooks.data_preparation import (
    BOS,
    EOS,
    SPECIAL_TOKENS,
    causal_mask,
    pad_rows,
    padding_mask,
)

SENTENCES = 40
LONG = 20  # tokens
# texts as people write them, which an edited segmenter may read otherwise
CHANGES = (str, str, str.upper, str.title, "{} 1979, it’s 3.5kg".format, "ΜΑΚΡΎΣ İ ﬁ {}".format)


def refuse_replaced(form, followed=()):
    """Raises InputError for an edit that no exported program of this form would follow."""
    for name in replaced_names():
        if name not in followed:
            message = f"{form} has a search and tokenizers of its own and follows no edit of {name}"
            raise InputError(f"{message}. Take that back, or use translate.py --serve")


def made_up_sentences(tokenizer, max_length):
    """Rows of 3 to 10 tokens of a vocabulary, a few of them of `max_length`, drawn with seed 0.

    Some are in capitals, with digits and signs that the vocabulary may lack.
    """
    draw = random.Random(0)
    ids = range(len(SPECIAL_TOKENS), len(tokenizer))
    texts = []
    for number in range(SENTENCES):
        longest = min(max_length, 100) if number % 13 == 12 else 10  # three reach the limit
        shortest = min(longest, max(3, longest - 7))
        text = tokenizer.decode(draw.choices(ids, k=draw.randint(shortest, longest)))
        texts.append(one_line(CHANGES[number % len(CHANGES)](text)))
    return texts


def compared_rows(sizes, width):
    """Pairs of rows of `width` ids for vocabularies of these sizes, drawn with seed 0.

    Eight rows; where lessons before the searches were edited as many as hold each id of both sides,
    since an edit may concern one token.
    """
    draw = random.Random(0)
    sides = [draw.sample(ids, len(ids)) for ids in (range(len(SPECIAL_TOKENS), n) for n in sizes)]
    edited = edited_names([number for number in TRANSLATING if number != "16"])
    count = math.ceil(max(map(len, sides)) / width) if edited else 8
    ranges = [range(row * width, (row + 1) * width) for row in range(count)]
    return [[[ids[index % len(ids)] for index in row] for ids in sides] for row in ranges]


def tensors_of(rows):
    """Pairs of rows of ids as a model reads them, and what it should write.

    (src, tgt_in, src_mask, tgt_mask), tgt_out: by hand, since lesson 01's Batch is training's.
    """
    src = pad_rows([[*src, EOS] for src, _ in rows])
    tgt_in = pad_rows([[BOS, *tgt] for _, tgt in rows])
    tgt_out = pad_rows([[*tgt, EOS] for _, tgt in rows])
    tgt_mask = padding_mask(tgt_in) & causal_mask(tgt_in.shape[1])
    return (src, tgt_in, padding_mask(src), tgt_mask), tgt_out


def prove(translator, folder, beam_sizes):
    """Raises InputError unless the folder's run.py writes what the translator writes."""
    texts = made_up_sentences(translator.source, translator.config.max_length)
    tell_comparison(texts)
    for size in beam_sizes:
        if size > 1:  # a beam's long sentences cost minutes where there is no cache
            texts = [text for text in texts if translator.source_length(text) < LONG]
        with redirect_stderr(io.StringIO()):  # says which are cut: no sentences of a user's
            expected = [*map(one_line, translator.translate(texts, beam_size=size))]
        command = [sys.executable, "-X", "utf8", folder / "run.py", "--beam-size", str(size)]
        done = subprocess.run(
            command, input="\n".join(texts), capture_output=True, encoding="utf-8"
        )
        if done.returncode:
            raise InputError(f"the exported folder does not translate: {done.stderr.strip()}")
        pairs = zip(texts, expected, done.stdout.split("\n"))
        different = [pair for pair in pairs if pair[1] != pair[2]]
        if different:
            text, ours, theirs = different[0]
            message = f"the export would translate {len(different)} of {len(texts)} sentences"
            message += f" differently with a beam of {size}, {text!r} as {theirs!r}, not {ours!r}"
            raise InputError(f"{message}. {advice()}")


def tell_comparison(texts):
    """Says what the next minute is for."""
    what = f"comparing its translations of {len(texts)} sentences with the course's"
    print(f"{what}: a minute, more for large models", file=sys.stderr, flush=True)


def advice():
    """What to do about an export that computes something else."""
    if names := edited_names():
        return f"Edited were {', '.join(names)}: take that back, or use translate.py --serve"
    return "Use translate.py --serve"

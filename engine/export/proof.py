"""An exported folder is tried before it is kept: it must translate as `translate.py` does."""

import random
import subprocess
import sys

from engine.definitions import edited_names
from engine.errors import InputError
from notebooks.data_preparation import CONTROL_TOKENS

SENTENCES = 40
MAY_DIFFER = 2  # of them: where two tokens are as probable, rounding decides


def made_up_sentences(tokenizer):
    """Rows of 3 to 10 tokens of a vocabulary, drawn with seed 0."""
    draw = random.Random(0)
    ids = range(len(CONTROL_TOKENS), len(tokenizer))
    return [tokenizer.decode(draw.choices(ids, k=draw.randint(3, 10))) for _ in range(SENTENCES)]


def prove(translator, folder, beam_sizes):
    """Raises InputError unless the folder's run.py writes what the translator writes."""
    texts = made_up_sentences(translator.source)
    for size in beam_sizes:
        expected = translator.translate(texts, beam_size=size)
        command = [sys.executable, "-X", "utf8", folder / "run.py", "--beam-size", str(size)]
        done = subprocess.run(
            command, input="\n".join(texts), capture_output=True, encoding="utf-8"
        )
        if done.returncode:
            raise InputError(f"the exported folder does not translate: {done.stderr.strip()}")
        pairs = zip(texts, expected, done.stdout.split("\n"))
        different = [pair for pair in pairs if pair[1] != pair[2]]
        if len(different) > MAY_DIFFER:
            text, ours, theirs = different[0]
            message = f"the export would translate {len(different)} of {len(texts)} sentences"
            message += f" differently with a beam of {size}, {text!r} as {theirs!r}, not {ours!r}"
            raise InputError(f"{message}. {advice()}")


def advice():
    """What to do about an export that computes something else."""
    if names := edited_names():
        return f"Edited were {', '.join(names)}: take that back, or use translate.py --serve"
    return "Use translate.py --serve"

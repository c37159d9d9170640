"""The model in the box, as lessons and tests ask for it: what `make run` trained, to look at and
translate with before anything is trained."""

import functools

from engine.lessons import edited_among, used
from engine.run_folder import BOX
from engine.translator import Translator


@functools.cache
def load_pretrained():
    """Its `Translator`, on the CPU, where what it computes is the same everywhere.

    Prints which lessons were edited: they are used. Where its weights do not fit them any more,
    PyTorch's message follows.
    """
    if numbers := edited_among(0, 16):
        print(f"the model in the box: {used(numbers)}")
    return Translator.load(BOX, device="cpu")

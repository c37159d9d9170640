"""The model in the box, as lessons and tests ask for it: what `make run` trained, to look at and
translate with before anything is trained."""

import copy
import functools

from engine.definitions import edited_names
from engine.errors import InputError
from engine.pretrained import your_version
from engine.run_folder import BOX
from engine.translator import Translator


@functools.cache
def load_pretrained():
    """Its `Translator`, on the CPU, where what it computes is the same everywhere.

    Definitions of the lessons that you have changed are used, and named. Where its weights no
    longer fit them, one line says so, and so does every use of what is given back.
    """
    edited = edited_names()
    if edited:
        print(your_version(edited))
    try:
        box = Translator.load(BOX, device="cpu")
        box.translate(["Good morning."])
        return box
    except Exception as error:
        if not edited:
            raise
        message = str(error).partition("\n")[0] or type(error).__name__
        wrong = f"the model in the box no longer fits your {', '.join(edited)} ({message})"
        missing = MissingModel(
            f"{wrong}. Undo the change to use it, or train a model of your own: make run"
        )
        print(missing.message)
        return missing


def without_positions(translator):
    """A copy of a `Translator` whose encoder adds no positions."""
    unordered = copy.deepcopy(translator)
    model = unordered.model
    model.encode = lambda src, src_mask: model.encoder(model.src_embedding(src), src_mask)
    return unordered


class MissingModel:
    """In the place of the box's translator: prints at every use, in one line, why there is none."""

    def __init__(self, message):
        self.message = message

    def __getattr__(self, name):
        raise MissingModelError(self.message)


class MissingModelError(InputError):
    """There is no model in the box to be used. In a notebook it is one line, not a traceback."""

    def _render_traceback_(self):
        return [str(self)]

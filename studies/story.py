"""The story of *play* in a finished model: what lessons 08 to 10 show of the box, as numbers."""

import itertools
import statistics

from engine.attention_maps import translation_attention
from notebooks.support.story import (
    MASKED,
    THINGS,
    count_right,
    logit_attribution,
    mean_cosines,
    translate_masked,
    transplant,
    variants,
    vectors_of_play,
)

ASKED = {"the piano": "弹踢", "football": "踢弹", "chess": "下踢"}  # two verbs to compare


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
    """The largest parts of three attributions; None where the verb is not written."""
    result = {}
    for what, (one, other) in ASKED.items():
        try:
            account = logit_attribution(translator, f"We play {what} every day.", one, other)
        except ValueError:
            result[what] = None
            continue
        largest = sorted(account, key=lambda name: -abs(account[name]))[:8]
        result[what] = {"sum": round(sum(account.values()), 2)} | {
            name: round(account[name], 2) for name in largest
        }
    return result


def story_of(translator):
    """What is measured of a finished model."""
    return {
        "cosines": cosines(translator),
        "looks": looked_at(translator),
        "masked": {
            name: [count_right(what, translate_masked(translator, what, masked)) for what in THINGS]
            for name, masked in MASKED.items()
        },
        "moved": moved(translator),
        "accounts": accounts(translator),
    }

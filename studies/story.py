"""The story of *play* in a finished model: what lessons 08 and 09 show of the box, as numbers."""

import statistics

from engine.attention_maps import translation_attention
from notebooks.support.story import (
    MASKED,
    THINGS,
    count_right,
    mean_cosines,
    translate_masked,
    variants,
    vectors_of_play,
)


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


def story_of(translator):
    """What is measured of a finished model."""
    masked = {
        name: [count_right(what, translate_masked(translator, what, pairs)) for what in THINGS]
        for name, pairs in MASKED.items()
    }
    return {"cosines": cosines(translator), "looks": looked_at(translator), "masked": masked}

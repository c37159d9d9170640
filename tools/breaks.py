"""How a run translates the test set when a part of it is broken, as the page breaks it."""

from copy import deepcopy

import torch

from engine.corpus.formats import read_split
from engine.scoring import measure
from engine.translator import Translator
from notebooks.data_preparation import BOS, EOS, padding_mask
from notebooks.make_model import make_model
from notebooks.translation import length_limits
from utils import ROOT


class Unmasked(Translator):
    """A translator whose decoder is asked without its causal mask."""

    def search(self, src, beam_size, alpha):
        """Greedy: (B, S) ids to B lists of ids. Each step computes all positions anew."""
        src_mask = padding_mask(src)
        memory = self.model.encode(src, src_mask)
        limits = length_limits(src_mask, self.config.max_length)
        ids = torch.full_like(src[:, :1], BOS)
        while not (ids == EOS).any(dim=1).all():
            hidden = self.model.decode(ids, memory, src_mask)
            logits = self.model.generator(hidden)[:, -1]
            logits[:, :EOS] = -torch.inf
            token = logits.argmax(dim=-1).masked_fill(limits <= ids.shape[1], EOS)
            ids = torch.cat([ids, token[:, None]], dim=1)
        return [row[1 : row.index(EOS) + 1] for row in ids.tolist()]


def broken_forms(translator):
    """Yields the name of each form and the translator that has it, in the order of breaking.js."""
    parts = translator.config, translator.source, translator.target
    yield "trained", translator
    yield "no mask", Unmasked(*parts, translator.model)
    without = deepcopy(translator.model)
    without.positions.table.zero_()
    yield "no positions", Translator(*parts, without)
    yield "no positions, reversed", Translator(*parts, without)
    torch.manual_seed(0)
    untrained = make_model(translator.config, len(translator.source), len(translator.target))
    yield "untrained", Translator(*parts, untrained)


@torch.inference_mode()
def measure_breaks(run):
    """For each form, how many test translations are the reference to the sign, and their BLEU."""
    translator = Translator.load(run, device="cpu")
    sources, references = zip(*read_split(ROOT / "data_small", "test", translator.config))
    rows = []
    for name, broken in broken_forms(translator):
        texts = list(sources)
        if "reversed" in name:
            cut = translator.source.segmenter.segment
            texts = [" ".join(reversed(cut(text))) for text in texts]
        written = broken.translate(texts, beam_size=1)
        exact = sum(ours == reference for ours, reference in zip(written, references))
        bleu = measure(written, references, translator.config.tgt)["bleu"]
        rows.append({"form": name, "sentences": len(texts), "exact": exact, "bleu": bleu})
    return rows

"""What the page's engine computes, by the course's own classes: the numbers must be equal."""

import json

import torch
from py_mini_racer import MiniRacer

from engine.attention_maps import attention_maps
from engine.export.page_form import PAGE
from notebooks.data_preparation import BOS, EOS, causal_mask, pad_rows, padding_mask


def differences(translator, file, sentences):
    """Which of these sentences the engine computes otherwise, and what of them."""
    from conftest import ROOT

    with MiniRacer() as engine:
        for path in (PAGE / "engine.js", ROOT / "tests" / "page_compare.js"):
            engine.eval(path.read_text(encoding="utf-8"))
        found = json.loads(engine.call("compared", file, sentences))
    return [
        (sentence, what)
        for sentence, theirs in zip(sentences, found)
        for what, value in reference_results(translator, sentence).items()
        if not close(value, theirs[what])
    ]


def tensors_of(rows):
    """Pairs of rows of ids as a model reads them, and what it should write.

    (src, tgt_in, src_mask, tgt_mask), tgt_out: by hand, since lesson 01's Batch is training's.
    """
    src = pad_rows([[*src, EOS] for src, _ in rows])
    tgt_in = pad_rows([[BOS, *tgt] for _, tgt in rows])
    tgt_out = pad_rows([[*tgt, EOS] for _, tgt in rows])
    tgt_mask = padding_mask(tgt_in) & causal_mask(tgt_in.shape[1])
    return (src, tgt_in, padding_mask(src), tgt_mask), tgt_out


@torch.inference_mode()
def reference_results(translator, sentence):
    """What must be equal for a sentence: ids, text and numbers, under page_compare.js's names."""
    model = translator.model
    ids = translator.encode(sentence)
    (written,) = translator.search(torch.tensor([ids]), 1, translator.alpha)
    parts, _ = tensors_of([(ids[:-1], written[:-1])])
    maps = attention_maps(model, *parts)
    results = {"ids": ids, "written": written}
    padding = f"{sentence} {sentence}"  # beside it the sentence is padded
    results["text"], _ = translator.translate([sentence, padding], beam_size=1)
    results["beam"] = None
    if len(ids) <= 20:
        (results["beam"],) = translator.translate([sentence], beam_size=4)
    results["logits"] = model(*parts)[0, -1, EOS:].tolist()
    for kind, stack in maps.items():  # (layers, 1, H, Tq, Tk), of which a row sees the first ones
        rows = stack[:, 0].transpose(1, 2).tolist()
        if kind == "decoder":
            rows = [
                [[head[: position + 1] for head in heads] for position, heads in enumerate(layer)]
                for layer in rows
            ]
        results[kind] = rows
    return results


def close(ours, theirs):
    """Whether nested lists are equal, but for a hundredth in numbers with a fraction."""
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    if isinstance(ours, float):
        return theirs is not None and abs(ours - theirs) < 0.01
    return ours == theirs

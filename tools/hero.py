"""The README's picture: where the model in the box looks while it writes a sentence.

`make model` draws it anew, into notebooks/support/attention.png.
"""

import matplotlib.pyplot as plt

from engine.attention_maps import translation_attention
from notebooks.support import pictures  # noqa: F401  sets the style and the Chinese font
from notebooks.support.box import load_pretrained
from utils import ROOT

SENTENCE = "She plays the piano every evening."
GLOSSES = {
    "她": "she", "每": "every", "天": "day", "晚": "evening", "上": "in the", "弹": "plays, plucks",
    "钢": "steel", "琴": "instrument", "。": "",
}  # fmt: skip


def draw():
    """The mean of all layers and heads: a row for each character, its strongest cell framed."""
    box = load_pretrained()
    text = box.translate([SENTENCE])[0]
    words, read, maps = translation_attention(box.model, box.source, box.target, SENTENCE, text)
    weights = maps["cross"].mean(dim=(0, 1))[:-1, :-1]  # without <eos>, on either side
    axis = plt.subplots(figsize=(8, 5.4))[1]
    axis.imshow(weights, cmap="Blues", vmin=0, vmax=0.9, aspect="auto")
    for row, (sign, column) in enumerate(zip(read[1:], weights.argmax(dim=1).tolist())):
        corner = (column - 0.5, row - 0.5)
        axis.add_patch(plt.Rectangle(corner, 1, 1, fill=False, edgecolor="#08306B", linewidth=2))
        axis.text(-0.9, row, sign, fontsize=20, ha="center", va="center")
        axis.text(-1.25, row, GLOSSES[sign], fontsize=11, ha="right", va="center", color="#555555")
    axis.set_xticks(range(len(words) - 1), words[:-1], fontsize=13)
    axis.xaxis.tick_top()
    axis.set_yticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    path = ROOT / "notebooks" / "support" / "attention.png"
    plt.savefig(path, dpi=120, facecolor="white", bbox_inches="tight")


if __name__ == "__main__":
    draw()

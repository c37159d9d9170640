"""The model in the box, data_small/model: `python tools/model.py [--run RUN]` makes it anew.

RUN is a finished run, runs/small if none is named. Its weights are rounded to 16 bits, the rounded
weights are scored on the test set, and the README's picture of their attention is drawn.
"""

import argparse
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from breaks import measure_breaks
from safetensors.torch import save_file

from engine.attention_maps import translation_attention
from engine.errors import InputError, run_command
from engine.files import file_digest, write_json
from engine.model_files import read_weights
from engine.run_folder import BOX, RunFolder
from engine.scoring import keep_scores, score
from notebooks.support import pictures  # noqa: F401  sets the style and the Chinese font
from notebooks.support.box import load_pretrained
from utils import ROOT

DATA = ROOT / "data_small"
SENTENCE = "She plays the piano every evening."
GLOSSES = {
    "她": "she", "每": "every", "天": "day", "晚": "evening", "上": "in the", "弹": "plays, plucks",
    "钢": "steel", "琴": "instrument", "。": "",
}  # fmt: skip
KEPT = ("time", "python", "torch", "processes")  # of made.json: no path, no machine


def make_model(run):
    """Writes the model in the box from a finished run."""
    if not run.is_finished():
        raise InputError(f"{run.path}: no finished run. Train it with: make run")
    config = replace(run.read_config(), dtype="float32")  # the same on every processor
    made = run.read_made()
    weights = read_weights(run.path / "model.safetensors")
    new = BOX.with_name("model.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for side in ("src", "tgt"):
        shutil.copyfile(run.path / f"vocabulary.{side}.json", new / f"vocabulary.{side}.json")
    rounded = {name: tensor.to(torch.float16) for name, tensor in weights.items()}
    save_file(rounded, new / "model.safetensors")
    write_json(new / "config.json", asdict(config))
    recorded = {name: made.get(name) for name in KEPT}
    corpus = {"train.tsv": file_digest(DATA / "train.tsv")}
    write_json(new / "made.json", {"by": "make run, then make model", **recorded, **corpus})
    scores, pairs, _ = score(new, DATA)
    for row in scores.values():
        del row["sentences_per_second"]  # of one machine
    keep_scores(new, DATA, "test", pairs, scores, beam_size=4)
    write_json(new / "breaks.json", {"rows": measure_breaks(new)})
    BOX.mkdir(exist_ok=True)
    for path in new.iterdir():
        path.replace(BOX / path.name)
    new.rmdir()
    print(f"{BOX.relative_to(ROOT)}: {scores}")


def draw_attention():
    """The README's picture: where the box looks while it writes a sentence, all heads' mean.

    A row for each character, its strongest cell framed.
    """
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


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser("model.py", description="Makes the model in the box anew.")
    parser.add_argument("--run", type=Path, default=ROOT / "runs" / "small", help="finished run")
    options = parser.parse_args(arguments)
    make_model(RunFolder(options.run))
    draw_attention()
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

"""Figures of single lessons: each draws what the lesson has computed, and `show` ends it."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap

from notebooks.support.pictures import COLOURS, curves


def arrows_figure(meaning, mixes):
    """Lesson 04: vectors of two dimensions as arrows, and dashed what attention mixes of them."""
    axis = plt.subplots(figsize=(4.6, 4.6))[1]
    arrow = dict(arrowstyle="-|>", linewidth=1.5, shrinkA=0, shrinkB=0)
    for word in ("play", "piano", "football"):
        axis.annotate("", meaning[word], (0, 0), arrowprops={**arrow, "color": "black"})
        axis.annotate(word, meaning[word], (6, 4), textcoords="offset points")
    for word, mix in mixes.items():
        dashed = {**arrow, "color": COLOURS["wrong"], "linestyle": "--"}
        axis.annotate("", mix.tolist(), (0, 0), arrowprops=dashed)
        axis.annotate(f"beside {word}", mix.tolist(), (6, -4), textcoords="offset points")
    axis.set(xlim=(-0.1, 2.6), ylim=(-0.1, 2.6), xlabel="music", ylabel="sport", aspect="equal")


def matrices_figure(steps, words):
    """Lesson 04: small matrices side by side with their values, {title: (words, columns)}."""
    axes = plt.subplots(1, 4, figsize=(10, 2.8), width_ratios=[3, 3, 3, 2])[1]
    for axis, (title, matrix) in zip(axes, steps.items()):
        axis.imshow(matrix, cmap="Blues", vmin=0, vmax=1.6 * matrix.max(), aspect="auto")
        for (row, column), value in np.ndenumerate(matrix.numpy()):
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=12)
        names = ["music", "sport"] if title == "mix" else words
        axis.set(title=title, yticks=range(3), yticklabels=words if title == "scores" else [])
        axis.set_xticks(range(len(names)), names, rotation=45)


def cut_figure(rows, heads):
    """Lesson 04: two tokens (2, 6) with the borders of three heads, and the heads (3, 2, 2)."""
    owner = torch.arange(3).repeat_interleave(2).repeat(2, 1)
    colours = ListedColormap(["#8DBFE3", "#F0E442", "#DDA0C4"])
    axes = plt.subplots(1, 4, figsize=(10, 1.9), width_ratios=[3, 1, 1, 1])[1]
    pictures = [(rows, owner, "view: (T, H, d_k)")]
    pictures += [(heads[h], torch.full((2, 2), h), f"head {h}: (T, d_k)") for h in range(3)]
    for axis, (values, groups, title) in zip(axes, pictures):
        axis.imshow(groups, cmap=colours, vmin=0, vmax=2, aspect="auto")
        for row, column in np.ndindex(*values.shape):
            text = values[row, column].item()
            axis.text(column, row, text, ha="center", va="center", fontsize=14)
        axis.set(title=title, xticks=[], yticks=[0, 1], xlabel="dimensions", ylabel="token")
    for border in (1.5, 3.5):
        axes[0].axvline(border, color="black", linewidth=2)


def saturation_figure(sizes, saturated, arriving):
    """Lesson 04: against d_k, which part of the queries is saturated, and the median gradient."""
    axes = plt.subplots(2, 1, figsize=(7, 6.5))[1]
    colours = {"scaled": COLOURS["right"], "not scaled": COLOURS["wrong"]}
    pictures = (
        (saturated, "How many queries are saturated?", "fraction of queries"),
        (arriving, "What arrives at the scores?", "median norm of the gradient"),
    )
    for axis, (series, title, label) in zip(axes, pictures):
        curves(sizes, series, title, "d_k", label, axis, colours=colours, linewidth=2)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, sizes)
        axis.axvline(64, color="black", linewidth=0.8, linestyle=":")
        axis.text(64, 0.93, " our heads", va="top", transform=axis.get_xaxis_transform())
    axes[1].set_yscale("log")


def growing_lines(sizes, names, stages):
    """Lesson 05: the RMS of each token's vector (stages, tokens), a line for each."""
    axis = plt.subplots(figsize=(7, 3.8))[1]
    for position, name in enumerate(names):
        axis.plot(sizes[:, position], "o--" if name == "<eos>" else "o-", label=name)
    axis.set_xticks(range(len(stages)), stages)
    axis.set(xlabel="after", ylabel="RMS of the vector")
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def norm_frames(vectors, ids, names, pad):
    """Lesson 05: a batch (sentences, T, d), framed what layer norm and batch norm average over."""
    labels = [names(number) for number in ids.flatten()]
    picture = torch.where((ids == pad).flatten()[:, None], torch.nan, vectors.flatten(0, 1))
    axes = plt.subplots(1, 2, figsize=(9, 6.4), sharey=True)[1]
    frames = (
        (axes[0], "layer norm: one token", (-0.5, 1.5), (vectors.shape[-1], 1)),
        (axes[1], "batch norm: one column, padding counted", (2.5, -0.5), (1, len(labels))),
    )
    for axis, title, corner, size in frames:
        image = axis.imshow(picture, aspect="auto", cmap="RdBu", vmin=-2.5, vmax=2.5)
        axis.set_facecolor("#CCCCCC")
        frame = plt.Rectangle(corner, *size, fill=False, edgecolor="black", linewidth=4, zorder=3)
        axis.add_patch(frame)
        axis.set(title=title, xlabel="column", xticks=range(vectors.shape[-1]))
        for border in (ids.shape[1] - 0.5, 2 * ids.shape[1] - 0.5):
            axis.axhline(border, color="black", linewidth=1)
    plt.colorbar(image, ax=axes, label="value")
    axes[0].set_ylabel("token of the batch")
    axes[0].set_yticks(range(len(labels)), labels, fontsize=10)


def cache_steps(tokens):
    """Lesson 09: which keys and values each step computes, without a KV cache and with one."""
    written = [*tokens[1:], "<eos>"]
    widths = range(1, len(tokens) + 1)
    axes = plt.subplots(2, len(tokens), figsize=(9, 2.8), width_ratios=widths)[1]
    for row, name in ((0, "no cache"), (1, "cache")):
        for step, axis in enumerate(axes[row]):
            for position in range(step + 1):
                kept = row == 1 and position < step
                colour = "#CCCCCC" if kept else COLOURS["dev"]
                axis.add_patch(plt.Rectangle((position, 0), 0.9, 1, color=colour))
                middle = dict(ha="center", va="center", fontsize=13 if position else 10)
                axis.text(position + 0.45, 0.5, tokens[position], **middle)
            axis.set(xlim=(0, step + 1), ylim=(0, 1.05), xticks=[], yticks=[])
            if row == 0:
                axis.set_title(f"step {step + 1}\n→ {written[step]}", fontsize=12)
            axis.spines[:].set_visible(False)
        axes[row, 0].set_ylabel(name)

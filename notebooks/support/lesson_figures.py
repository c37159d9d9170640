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


def valley_figure(paths, valley):
    """Lesson 14: descents through a narrow valley, {name: points (2,)}, each with its last loss."""
    across, along = torch.linspace(-1.6, 1.6, 100), torch.linspace(-4.5, 1.5, 100)
    height = torch.stack([valley(torch.stack([x, y])) for y in across for x in along])
    axes = plt.subplots(1, len(paths), figsize=(11, 2.8), sharey=True)[1]
    for axis, (name, points) in zip(axes, paths.items()):
        levels = [2, 8, 30, 80, 200, 500]
        axis.contour(along, across, height.view(100, 100), levels, colors="#BBBBBB", linewidths=1)
        axis.plot(*zip(*points), "o-", color=COLOURS["train"], markersize=3, linewidth=1)
        loss = valley(torch.tensor(points[-1])).item()
        axis.set(title=f"{name}\nloss {loss:.2g}", xlabel="first weight", ylim=(-1.6, 1.6))
    axes[0].set_ylabel("second weight")


def rates_figure(rows):
    """Lesson 14: dev loss against the peak rate, with a warm-up and without, for both norms.

    `rows` of the study of schedules. Returns {(norm, warm-up steps): {peak: mean loss}}.
    """
    axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)[1]
    by_peak = {}
    for axis, norm in zip(axes, ("pre", "post")):
        for warm_up, colour, style in ((80, COLOURS["right"], "-"), (1, COLOURS["wrong"], "--")):
            losses = {}
            for row in rows:
                if (row["norm"], row["shape"], row["warm_up"]) == (norm, "linear", warm_up):
                    losses.setdefault(row["peak"], []).append(row["dev_loss"])
            mean = {peak: sum(values) / len(values) for peak, values in losses.items()}
            label = "with a warm-up" if warm_up > 1 else "without"
            axis.semilogx(list(mean), list(mean.values()), style, color=colour, label=label)
            for peak, values in losses.items():
                axis.semilogx([peak] * len(values), values, "o", color=colour)
            by_peak[norm, warm_up] = mean
        axis.set(title=f"{norm}-norm", xlabel="peak learning rate")
        ticks = sorted(by_peak[norm, 80])
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    axes[0].set_ylabel("dev loss after 400 steps")
    axes[1].legend(frameon=False)
    return by_peak


def schedules_figure(rate_of, losses):
    """Lesson 14: the rates of four schedules over 400 steps, each with its dev loss."""
    axes = plt.subplots(1, len(losses), figsize=(10, 2.8), sharey=True)[1]
    for axis, (shape, loss) in zip(axes, losses.items()):
        axis.plot(range(1, 401), [rate_of(shape, step) for step in range(1, 401)], linewidth=2)
        axis.set(title=f"{shape}: {loss:.2f}", xlabel="step", xticks=[0, 200, 400])
    axes[0].set_ylabel("learning rate")


def likeliest_figure(written, likeliest, step, names):
    """Lesson 10: how sure a model is of each token that it writes, and the five likeliest at one.

    `likeliest` has the five probabilities and ids of each step, `names` names an id.
    """
    axes = plt.subplots(1, 2, figsize=(9, 3.6))[1]
    labels = [f"{number} {name}" for number, name in enumerate(written, start=1)]
    axes[0].barh(labels, [values[0] for values, _ in likeliest], color=COLOURS["decoder"])
    axes[0].set(title="the token that is written", xlabel="probability", xlim=(0, 1))
    values, ids = likeliest[step]
    hues = [COLOURS["decoder"], *["#BBBBBB"] * 4]
    bars = axes[1].barh([names(number) for number in ids.tolist()], values, color=hues)
    axes[1].bar_label(bars, fmt="{:.2f}", padding=3)
    axes[1].set(title=f"after {''.join(written[:step])}", xlabel="probability", xlim=(0, 1))
    for axis in axes:
        axis.invert_yaxis()


def variances_figure(profiles):
    """Lesson 11: variances of activations and gradients through a stack, four draws each.

    `profiles`: {"a bare stack": {draw: (activations, gradients)}, ...}.
    """
    axes = plt.subplots(2, 2, figsize=(9, 6.4), sharex=True)[1]
    hues = (COLOURS["wrong"], COLOURS["right"], "black", COLOURS["train"])
    for row, (stack, draws) in zip(axes, profiles.items()):
        for (draw, both), hue in zip(draws.items(), hues):
            for axis, values in zip(row, both):
                axis.semilogy(range(len(values)), values, color=hue, linewidth=3, label=draw)
        row[0].set_ylabel(f"variance, {stack}")
    axes[0, 0].set_title("activations, on their way up →")
    axes[0, 1].set_title("← gradients, on their way down")
    axes[1, 1].legend(frameon=False, loc="upper right")
    axes[1, 0].set_xlabel("layers passed")
    axes[1, 1].set_xlabel("layer")


def tree_figure(tree, winner, greedy_way, penalised):
    """Lesson 16: a box for each hypothesis that a beam kept, an edge to the one that it continues.

    `tree`: for each step (total, tokens), the likeliest first. `penalised(total, length)`: a score.
    """
    places = {(): (0, 0)}
    axis = plt.subplots(figsize=(10, 4.2))[1]
    for step, column in enumerate(tree, start=1):
        for row, (total, tokens) in enumerate(column):
            colour = "#DDDDDD"
            if tokens == greedy_way[: len(tokens)]:
                colour = COLOURS["dev"]
            if tokens == winner[: len(tokens)]:
                colour = COLOURS["right"]
            places[tuple(tokens)] = (step, -row)
            label = f"{tokens[-1]}\n{total:.1f}"
            if tokens[-1] == "<eos>":
                label = f"end {total:.1f}\nscore\n{penalised(total, step):.2f}"
            line = dict(color="#888888" if colour == "#DDDDDD" else colour, linewidth=2, zorder=0)
            axis.plot(*zip(places[tuple(tokens[:-1])], (step, -row)), **line)
            box = {"fc": colour, "ec": "none", "boxstyle": "round"}
            axis.text(step, -row, label, ha="center", va="center", fontsize=10, bbox=box)
    axis.text(0, 0, "begin", ha="center", va="center", bbox={"fc": "white", "boxstyle": "round"})
    deepest = min(row for _, row in places.values())
    axis.set(xlim=(-0.5, len(tree) + 0.6), ylim=(deepest - 0.6, 0.6), xlabel="step", yticks=[])
    axis.set_xticks(range(1, len(tree) + 1))
    axis.spines["left"].set_visible(False)
    return axis


def ngrams_figure(texts):
    """Lesson 16: two texts, {title: text}, with lines under the n-grams that they share."""
    hues = ["#0072B2", "#009E73", "#D55E00", "#CC79A7"]
    axes = plt.subplots(2, 1, figsize=(8, 3.6))[1]
    for axis, (title, text), other in zip(axes, texts.items(), reversed(texts.values())):
        for position, character in enumerate(text):
            axis.text(position + 0.5, 0.2, character, ha="center", va="bottom", fontsize=20)
        for n, hue in enumerate(hues, start=1):
            for start in range(len(text) - n + 1):
                if text[start : start + n] in other:
                    height = -0.25 * n - 0.1 * (start % 2 if n > 1 else 0)
                    axis.plot([start + 0.1, start + n - 0.1], [height] * 2, color=hue, linewidth=4)
            axis.text(-0.2, -0.25 * n, f"{n}-grams", color=hue, ha="right", va="center")
        axis.set(xlim=(-1.8, 10), ylim=(-1.3, 1), title=title)
        axis.axis("off")


def verbs_figure(study):
    """Lesson 15: how many of 24 sentences have the right verb, step by step, a line a training."""
    figure, axes = plt.subplots(2, 4, figsize=(10, 4.8), sharex=True, sharey=True)
    for axis, (thing, (verb, *_)) in zip(axes.flat, study["things"].items()):
        for seed in study["seeds"]:
            right = {int(step): at["verbs"][thing] for step, at in seed["steps"].items()}
            axis.plot(list(right), list(right.values()), color=COLOURS["train"])
        axis.set(title=f"{verb}, {thing}", yticks=[0, 12, 24])
    axes.flat[-1].axis("off")
    axes.flat[3].tick_params(labelbottom=True)  # nothing stands below it
    figure.supxlabel("step")
    figure.supylabel("right of 24")

"""Figures of lessons 11 to 16: each draws what the lesson has computed, and `show` ends it."""

import matplotlib.pyplot as plt
import torch

from engine.files import read_json
from notebooks.support.pictures import COLOURS, curves
from notebooks.support.story import THINGS
from utils import ROOT


def starts_figure(scores):
    """Lesson 11: {first weights: BLEU after the same training}, a bar each, the best on top."""
    names = sorted(scores, key=scores.get)
    axis = plt.subplots(figsize=(8, 3.6))[1]
    colours = [COLOURS["right"] if name == names[-1] else "#BBBBBB" for name in names]
    bars = axis.barh(names, [scores[name] for name in names], color=colours)
    axis.bar_label(bars, [f"{scores[name]:.1f}" for name in names], padding=3)
    axis.set(xlabel="BLEU on dev", title="The same training from other first weights", xlim=(0, 46))


def logits_figure(logits):
    """Lesson 11: how often logits of each size occur, {name: logits of any shape}, on one scale."""
    figure, axes = plt.subplots(1, len(logits), figsize=(11, 2.6), sharex=True, sharey=True)
    ends = [end(values).item() for end in (torch.min, torch.max) for values in logits.values()]
    for axis, (name, values) in zip(axes, logits.items()):
        axis.hist(values.flatten().numpy(), bins=90, range=(min(ends), max(ends)),
                  color=COLOURS["right"])  # fmt: skip
        axis.set(title=name, xlabel="logit", yscale="log")
    axes[0].set_ylabel("how many")


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


def targets_figure(tokens, rows):
    """Lesson 12: target distributions over a few tokens as bars, {title: probabilities}."""
    axes = plt.subplots(1, len(rows), figsize=(8, 3), sharey=True)[1]
    for axis, (title, row) in zip(axes, rows.items()):
        bars = axis.bar(tokens, row, color=["#BBBBBB", COLOURS["right"], *["#777777"] * 6])
        axis.bar_label(bars, [f"{value:.2f}" if value else "0" for value in row.tolist()])
        axis.set(title=title, xlabel="token", ylim=(0, 1.1))
    axes[0].set_ylabel("target probability")


def lowest_loss_figure(z, losses, best, lowest):
    """Lesson 12: the loss of one token against its logit, {name: losses}, and a lowest point."""
    colours = dict(zip(losses, (COLOURS["wrong"], COLOURS["right"])))
    labels = ("One token: smoothing gives the loss a lowest point", "logit of the true token")
    axis = curves(z, losses, *labels, "loss, nats", colours=colours, linewidth=2)
    axis.plot(best, lowest, "o", color=COLOURS["right"], markersize=9)
    axis.text(best, lowest + 0.15, f"lowest: {lowest:.2f}", ha="center")


def calibration_figure(measured):
    """Lesson 12: how often right against how confident, {kind: trainings}, a line for each.

    A training is its ten bins: (tokens, mean confidence, share right). Bins of fewer than 30
    tokens are not drawn.
    """
    axis = plt.subplots(figsize=(5.6, 5.6))[1]
    axis.plot([0, 1], [0, 1], "k--", linewidth=1, label="calibrated")
    for (name, trainings), colour in zip(measured.items(), (COLOURS["wrong"], COLOURS["right"])):
        for number, bins in enumerate(trainings):
            points = [(sure, right) for count, sure, right in bins if count >= 30]
            axis.plot(*zip(*points), "o-", color=colour, label=None if number else name)
    axis.set(title="Asked for 90 %, it is nearly calibrated")
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set(xlabel="probability of the likeliest token", ylabel="share that is right")
    axis.legend(frameon=False)


def surprisal_bars(costs):
    """Lesson 13: the negative log-probability of each token, {sentence: (T,)}, as bars."""
    axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)[1]
    colours = COLOURS["right"], COLOURS["wrong"]
    for axis, (chinese, nats), colour in zip(axes, costs.items(), colours):
        axis.bar([*chinese, "<eos>"], nats, color=colour)
        axis.set(title=f"{chinese}  {nats.mean():.2f} per token", xlabel="token")
    axes[0].set_ylabel("−ln p, nats")


def leak_figure(runs, baselines):
    """Lesson 13: losses on train, dev and new pairs after each epoch, {run: three lists}."""
    colours = {**COLOURS, "new": "black"}
    axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True)[1]
    for axis, (name, lists) in zip(axes, runs.items()):
        series, epochs = dict(zip(("train", "dev", "new"), lists)), len(lists[0])
        curves(range(1, epochs + 1), series, name, "epoch", "nats per token", axis,
               colours=colours, linewidth=2)  # fmt: skip
        axis.lines[-1].set_linestyle("--")
        axis.set_xticks(range(0, epochs + 1, 4))
        for text, height in baselines.items():
            axis.axhline(height, color="black", linestyle=":", linewidth=1)
            axis.text(epochs, height - 0.08, text, ha="right", va="top")
        axis.legend(frameon=False, loc="lower left")


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
    axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, gridspec_kw={"wspace": 0.2})[1]
    by_peak = {}
    for axis, norm in zip(axes, ("pre", "post")):
        for warm_up, colour, style in ((80, COLOURS["right"], "-"), (1, COLOURS["wrong"], "--")):
            losses = {}
            for row in sorted(rows, key=lambda row: row["peak"]):
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


def verbs_figure():
    """Lesson 15: how many of 24 sentences have the right verb, step by step, a line a training.

    Returns the study that it shows, studies/verbs.json.
    """
    study = read_json(ROOT / "studies" / "verbs.json")
    figure, axes = plt.subplots(2, 4, figsize=(10, 4.8), sharex=True, sharey=True)
    for axis, (thing, (verb, *_)) in zip(axes.flat, THINGS.items()):
        for seed, colour in zip(study["rows"], ("train", "dev", "right")):
            right = {int(step): at["verbs"][thing] for step, at in seed["steps"].items()}
            axis.plot(list(right), list(right.values()), color=COLOURS[colour])
        axis.set(title=f"{verb}, {thing}", yticks=[0, 12, 24])
    axes.flat[-1].axis("off")
    axes.flat[3].tick_params(labelbottom=True)  # nothing stands below it
    figure.supxlabel("step")
    figure.supylabel("right of 24")
    return study


def tree_figure(tree, winner, greedy_way, penalised):
    """Lesson 16: a box for each hypothesis that a beam kept, an edge to the one that it continues.

    `tree`: for each step (total, tokens), the likeliest first. `penalised(total, length)`: a score.
    """
    positions = {(): (0, 0)}
    axis = plt.subplots(figsize=(10, 4.2))[1]
    for step, column in enumerate(tree, start=1):
        for row, (total, tokens) in enumerate(column):
            colour = "#DDDDDD"
            if tokens == greedy_way[: len(tokens)]:
                colour = COLOURS["dev"]
            if tokens == winner[: len(tokens)]:
                colour = COLOURS["right"]
            positions[tuple(tokens)] = (step, -row)
            label = f"{tokens[-1]}\n{total:.1f}"
            if tokens[-1] == "<eos>":
                label = f"end {total:.1f}\nscore\n{penalised(total, step):.2f}"
            line = dict(color="#888888" if colour == "#DDDDDD" else colour, linewidth=2, zorder=0)
            axis.plot(*zip(positions[tuple(tokens[:-1])], (step, -row)), **line)
            box = {"fc": colour, "ec": "none", "boxstyle": "round"}
            axis.text(step, -row, label, ha="center", va="center", fontsize=10, bbox=box)
    axis.text(0, 0, "begin", ha="center", va="center", bbox={"fc": "white", "boxstyle": "round"})
    deepest = min(row for _, row in positions.values())
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

"""The figures that notebooks share, and their style."""

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.core.pylabtools import print_figure
from IPython.display import display
from matplotlib import font_manager
from matplotlib.colors import ListedColormap
from matplotlib.transforms import Bbox
from PIL import Image

from engine.fonts import CHINESE
from notebooks.support.words import texts_of, translate_figure, words

# One colour for each thing throughout: the hues of Okabe and Ito's palette, which colour-blind
# readers too can tell apart, three of them darker, so that thin lines are seen on white.
COLOURS = {
    "train": "#0072B2",
    "dev": "#C08000",
    "encoder": "#3B9AD6",
    "decoder": "#009E73",
    "cross": "#CC79A7",
    "wrong": "#A33B00",
    "right": "#009E73",
    "lit": "#F0E442",
}
DENSITY = 1.75  # pixels of a saved picture for each pixel on the page

# fonts for Latin and Chinese, the same everywhere; sizes for a projector, no clutter
font_manager.fontManager.addfont(CHINESE)
plt.rcParams["font.family"] = ["DejaVu Sans", "Noto Sans CJK SC"]
plt.rcParams["font.size"] = 11
plt.rcParams["figure.dpi"] = 100
plt.rcParams["figure.constrained_layout.use"] = True
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
LINES = [COLOURS[name] for name in ("train", "dev", "decoder", "cross", "wrong", "encoder")]
plt.rcParams["axes.prop_cycle"] = plt.cycler(color=[*LINES, "black"])
plt.rcParams["image.cmap"] = "cividis"


def picture(figure):
    """Data and metadata of a figure that is displayed: a PNG that is sharp on dense screens too.

    The metadata say its size on the page, in pixels, and what stands in it, for translators.
    """
    if words():
        translate_figure(figure)
    drawn = Image.open(io.BytesIO(print_figure(figure, "png", dpi=DENSITY * figure.dpi)))
    width, height = (round(side / DENSITY) for side in drawn.size)
    written = io.BytesIO()  # of at most 256 colours: half the size, and no eye sees it
    few = drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(written, "png", optimize=True)
    png = base64.b64encode(written.getvalue()).decode()
    data = {"image/png": png, "text/plain": repr(figure)}
    about = {"width": width, "height": height, "texts": texts_of(figure)}
    return data, {"image/png": about}


def show():
    """Displays the newest figure, and closes it.

    A text for those who cannot see it stands in the cell's metadata: mystnb, image, alt.
    """
    figure = plt.gcf()
    data, metadata = picture(figure)
    display(data, metadata=metadata, raw=True)
    plt.close(figure)


def arrow(axis, start, end, **style):
    """An arrow from one point (x, y) to another; `style` is matplotlib's."""
    axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", **style})


# where a name may stand beside its point, in points; a line leads to the farther places
PLACES_OF_NAMES = [
    (7, 0), (-7, 0), (0, 6), (0, -6), (5, 5), (-5, 5), (5, -5), (-5, -5),
    (0, 24), (0, -24), (0, 44), (0, -44),
]  # fmt: skip


def label_points(axis, points, names, colours):
    """Writes each name beside its point (x, y), over no other point or name where there is room."""
    axis.figure.canvas.draw()  # from here on the points have their places on the screen
    taken = [Bbox([[x - 12, y - 8], [x + 12, y + 8]]) for x, y in axis.transData.transform(points)]
    for number, (point, name, colour) in enumerate(zip(points, names, colours)):
        others = taken[:number] + taken[number + 1 :]
        for right, up in PLACES_OF_NAMES:
            label = axis.annotate(name, point, (right, up), "data", "offset points", color=colour)
            across, upright = np.sign((right, up))
            label.set(ha=("center", "left", "right")[across], in_layout=False)
            label.set_va(("center", "bottom", "top")[upright])
            box = label.get_window_extent()
            if not any(map(box.overlaps, others)) or (right, up) == PLACES_OF_NAMES[-1]:
                break
            label.remove()
        if abs(up) > 20:
            line = dict(arrowstyle="-", color=colour, linewidth=0.7, shrinkA=0, shrinkB=4)
            axis.annotate("", point, (right, up), textcoords="offset points", arrowprops=line)
        taken.append(box)


def attention_heatmap(weights, rows, columns, title, axis=None):
    """One attention map: weights (len(rows), len(columns)) from 0 to 1, tokens on both axes."""
    if axis is None:
        size = (1.8 + 0.42 * len(columns), 1.4 + 0.42 * len(rows))
        axis = plt.subplots(figsize=size)[1]
    image = axis.imshow(torch.as_tensor(weights).numpy(), vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    axis.set(title=title, xlabel="key", ylabel="query")
    if axis.get_subplotspec().is_last_col():  # one colour bar for maps side by side
        axis.figure.colorbar(image, ax=axis, label="weight")
    return axis


def mask_figure(mask, rows, columns, title, axis, colour):
    """A boolean mask (len(rows), len(columns)): True, may attend, in the colour of who looks."""
    hues = ListedColormap(["#EEEEEE", COLOURS[colour]])
    axis.imshow(torch.as_tensor(mask).numpy(), vmin=0, vmax=1, aspect="auto", cmap=hues)
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="white", linewidth=2)
    axis.tick_params(which="minor", length=0)
    axis.set(title=title, xlabel="key (attended to)", ylabel="query (attends)")


def cells_figure(lines, values=None):
    """Rows of cells with text, one below the other: `lines` maps a row's name to its texts.

    A text that is None is a grey cell: padding. With `values`, numbers from 0 on for each row, a
    cell is the darker the larger its value.
    """
    longest = max(map(len, lines.values()))
    highest = max(max(row) for row in values.values()) if values else 1
    width = 0.62 if values else 0.75  # of a cell, in inches
    axis = plt.subplots(figsize=(1.6 + width * longest, 0.6 * len(lines)))[1]
    for height, (name, texts) in enumerate(lines.items()):
        for position, text in enumerate(texts):
            colour = "#DDDDDD" if text is None else "white"
            if values:
                colour = plt.get_cmap("Blues")(0.6 * values[name][position] / highest)
            axis.add_patch(
                plt.Rectangle((position, height), 1, 0.8, fc=colour, ec="#555555", lw=0.8)
            )
            if text is not None:
                axis.text(position + 0.5, height + 0.4, text, ha="center", va="center")
    axis.set_yticks([height + 0.4 for height in range(len(lines))], list(lines))
    axis.tick_params(length=0)
    axis.set(xlim=(0, longest), ylim=(len(lines), -0.1), xticks=[])
    axis.spines[:].set_visible(False)
    return axis


# where the words of a sentence stand in a drawing, and who attends to whom
PLACES = {"others": (0, 0), "object": (1.5, 0), "play": (3, 0), "decoder": (2.25, 1)}
ATTENDING = [("others", "object"), ("play", "object"), ("decoder", "object"), ("decoder", "play")]
ALWAYS_OPEN = ("decoder", "others")


def attention_masked(axis, masked, names):
    """Draws between which words attention is masked, red, and where it is open, grey.

    An arrow leads from what is attended to, to who attends. `names` are those of PLACES.
    """
    for who, whom in [*ATTENDING, ALWAYS_OPEN]:
        shut = (who, whom) in masked
        shrink = (8, 10) if who == "decoder" else (20, 24)
        if (who, whom) == ALWAYS_OPEN:  # it comes from the side of both words
            shrink = (26, 38)
        style = dict(color="#777777", lw=1.2)
        if shut:
            style = dict(color=COLOURS["wrong"], lw=1.6, linestyle=":")
        arrow(axis, PLACES[whom], PLACES[who], shrinkA=shrink[0], shrinkB=shrink[1], **style)
        if shut:
            middle = np.mean([PLACES[who], PLACES[whom]], axis=0)
            axis.text(*middle, "×", color=COLOURS["wrong"], ha="center", va="center", size=20)
    for name, place in PLACES.items():
        colour = COLOURS["decoder" if name == "decoder" else "encoder"]
        axis.text(*place, names[name], ha="center", va="center", color=colour)
    axis.set(xlim=(-0.5, 3.4), ylim=(-0.25, 1.25))
    axis.axis("off")


def token_bars(bars):
    """Probabilities of tokens as bars, {title: {token: probability}}."""
    ((title, row),) = bars.items()
    axis = plt.subplots(figsize=(5, 2.8))[1]
    drawn = axis.bar(list(row), list(row.values()), color=COLOURS["right"])
    axis.bar_label(drawn, [f"{p:.2f}" if p >= 0.005 else "" for p in row.values()], size=8)
    axis.set(title=title, xlabel="token", ylabel="probability")
    axis.margins(y=0.15)


def attribution_chart(attribution, label):
    """The eight largest parts of a `logit_attribution` as bars, and below them the others' sum."""
    ranked = sorted(attribution, key=lambda name: -abs(attribution[name]))
    parts = {name: attribution[name] for name in ranked[:8]}
    others = [attribution[name] for name in ranked[8:]]
    parts[f"{len(others)} others together"] = sum(others)
    axis = plt.subplots(figsize=(7, 0.8 + 0.36 * len(parts)))[1]
    colours = [COLOURS["right" if value > 0 else "wrong"] for value in parts.values()]
    bars = axis.barh(list(parts), list(parts.values()), color=colours)
    axis.bar_label(bars, fmt="{:.2f}", padding=3)
    axis.axvline(0, color="#555555", lw=0.8)
    axis.margins(x=0.15)
    axis.set(xlabel=label)
    axis.invert_yaxis()


def masked_chart(masked, counts, of, guess):
    """What is right when attention is masked: a drawing, and a bar for verbs and one for nouns.

    `masked` and `counts` have under each name the masked pairs, and how many verbs and nouns are
    right `of` so many; `guess` verbs are right without reading anything.
    """
    size = 9, 1.3 * len(masked)
    axes = plt.subplots(len(masked), 2, figsize=size, width_ratios=[1, 1.4])[1]
    names = {"others": "others", "object": "piano", "play": "play", "decoder": "decoder"}
    for (left, right), (name, pairs) in zip(axes, masked.items()):
        attention_masked(left, pairs, names)
        bars = right.barh(["verbs", "nouns"], counts[name], color=[COLOURS["train"], "#999999"])
        right.bar_label(bars, padding=3)
        right.axvline(guess, color="#555555", lw=1, ls=":")
        right.set(xlim=(0, of), xticks=[])
        right.set_title(name, loc="left", size=12)
        right.invert_yaxis()
    axes[-1, 1].set(xticks=[0, guess, of], xlabel="right")


def curves(x, series, title, x_label, y_label, axis=None, colours=None, **options):
    """Lines over one x: `series` maps names to y values; those in COLOURS get their own colour."""
    axis = axis or plt.subplots(figsize=(7, 3.6))[1]
    for number, (name, values) in enumerate(series.items()):
        colour = (colours or COLOURS).get(name, f"C{number}")
        axis.plot(x, values, label=name, color=colour, **options)
    axis.set(title=title, xlabel=x_label, ylabel=y_label)
    if len(series) > 1:
        axis.legend(frameon=False)
    return axis


def training_curves(records, clip=None):
    """A run's log over its steps: loss, BLEU on dev, learning rate, norm of the gradient."""
    axes = plt.subplots(2, 2, figsize=(9, 6.5))[1].flatten()

    def column(name):
        """Steps and values of the records that have it."""
        points = [(record["step"], record[name]) for record in records if name in record]
        return zip(*points) if points else ([], [])

    smoothed = dict(label="train, as it is minimised", color="#BBBBBB", linewidth=1)
    axes[0].plot(*column("loss"), **smoothed)
    axes[0].plot(*column("train_loss"), "o-", label="train, a sample", color=COLOURS["train"])
    axes[0].plot(*column("dev_loss"), "o-", label="dev", color=COLOURS["dev"])
    axes[0].legend(frameon=False, fontsize=9)
    axes[1].plot(*column("dev_bleu"), "o-", color=COLOURS["dev"])
    axes[2].plot(*column("learning_rate"), color=COLOURS["train"])
    axes[3].plot(*column("grad_norm"), "o", color=COLOURS["train"], markersize=4)
    if clip is not None:
        axes[3].axhline(clip, color="black", linestyle=":", linewidth=1, label="clipped above this")
        axes[3].legend(frameon=False, fontsize=9)
    titles = ("Loss", "Greedy translations, a part of dev", "Learning rate", "Norm of the gradient")
    units = ("nats per token", "BLEU", "learning rate", "norm before clipping")
    for axis, title, unit in zip(axes, titles, units):
        axis.set(title=title, xlabel="step", ylabel=unit)
        axis.set_xlim(0, 1.05 * records[-1]["step"])  # one scale, whatever was measured when
    return axes


def ablation_chart(rows):
    """Dev loss and BLEU of models with one change each, a dot for each seed.

    `rows` are those of ablation.json. The first is the model as it is: the band is its
    spread.
    """
    axes = plt.subplots(1, 2, figsize=(10, 1.2 + 0.34 * len(rows)), sharey=True)[1]
    titles = ("Loss on dev: left is better", "Beam search on dev: right is better")
    units = ("nats per token", "BLEU")
    for axis, key, title, unit in zip(axes, ("dev_loss", "beam"), titles, units):
        axis.axvspan(min(rows[0][key]), max(rows[0][key]), color="#DDDDDD")
        for position, row in enumerate(rows):
            colour = COLOURS["train"] if position else "black"
            heights = position + np.linspace(-0.12, 0.12, len(row[key]))  # so that no dot hides one
            axis.plot(row[key], heights, "o", color=colour, alpha=0.7)
        axis.set(title=title, xlabel=unit)
        axis.grid(axis="y", color="#EEEEEE")
    axes[0].set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes[0].invert_yaxis()


def group_points(tables, words, group_size):
    """Words as points in the first two principal directions of each table, groups by colour.

    `tables` is {title: vectors (words, D)}; so many words that follow each other are a group.
    """
    colours = [f"C{number // group_size}" for number in range(len(words))]
    axes = plt.subplots(len(tables), 1, figsize=(7, 4.75 * len(tables)))[1]
    for axis, (title, vectors) in zip(axes, tables.items()):
        points = vectors - vectors.mean(dim=0)
        points = points @ torch.linalg.svd(points, full_matrices=False).Vh[:2].T
        axis.scatter(*points.T, 14, color=colours)
        axis.set(title=title, xlabel="first direction", ylabel="second direction")
        axis.margins(0.2)
    for axis in axes:
        label_points(axis, axis.collections[0].get_offsets(), words, colours)

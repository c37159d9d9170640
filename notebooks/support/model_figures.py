"""Figures of lessons 03 to 10: each draws what the lesson has computed, and `show` ends it."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap

from notebooks.support.pictures import COLOURS, arrow, attention_heatmap


def clock_figure():
    """Lesson 03: the pairs (cosine, sine) of some positions as hands of a fast and a slow clock."""
    axes = plt.subplots(1, 2, figsize=(9, 3.8))[1]
    hands = {"the fast hand: ω = 1": (1, range(4)),
             "the slow hand: ω = 1/100": (1 / 100, range(0, 400, 100))}  # fmt: skip
    for axis, (title, (speed, positions)) in zip(axes, hands.items()):
        axis.add_patch(plt.Circle((0, 0), 1, fill=False, color="#BBBBBB"))
        for number, position in enumerate(positions):
            x, y = np.cos(position * speed), np.sin(position * speed)
            axis.arrow(0, 0, x, y, head_width=0.06, color=f"C{number}", length_includes_head=True)
            axis.text(1.2 * x, 1.2 * y, position, ha="center", va="center")
        axis.set(title=title, xlabel="cosine", ylabel="sine")
        axis.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")


def addition_figure(vectors, rows, words):
    """Lesson 03: word vectors (T, D) plus rows of the table (T, D), as three images."""
    axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)[1]
    titles = "word vectors (B, T, D)", "positions 0 to T − 1 (T, D)", "their sum (B, T, D)"
    for axis, title, values in zip(axes, titles, (vectors, rows, vectors + rows)):
        axis.imshow(values, aspect="auto", cmap="PuOr", vmin=-3, vmax=3)
        axis.set(title=title, xlabel="dimension")
    for axis, sign in zip(axes[1:], "+="):
        axis.text(-0.09, 0.5, sign, transform=axis.transAxes, size=20, ha="center", va="center")
    axes[0].set_yticks(range(len(words)), words)


def table_figure(table):
    """Lesson 03: the table (positions, columns) as an image, and four of its sines as curves."""
    axes = plt.subplots(2, 1, figsize=(8, 7.5))[1]
    half = table.shape[1] // 2
    halves = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    image = axes[0].imshow(halves, aspect="auto", vmin=-1, vmax=1, cmap="RdBu")
    axes[0].set(
        title="Every row is a position: fast hands left, slow hands right", ylabel="position"
    )
    axes[0].set_xticks([0, 8, 16, 24, half, half + 8, half + 16, half + 24], 2 * [0, 8, 16, 24])
    axes[0].set_xlabel("pair: its sine, then its cosine")
    axes[0].axvline(half - 0.5, color="black", linewidth=1)
    plt.colorbar(image, ax=axes[0], label="value")
    fine = torch.arange(0, 30, 0.05)
    for number, pair in enumerate((0, 4, 8, 12)):
        curve = (fine / 10000 ** (pair / half)).sin()
        axes[1].plot(fine, curve, color=f"C{number}", linewidth=1)
        axes[1].plot(table[:30, 2 * pair], "o", color=f"C{number}", label=f"pair {pair}")
    axes[1].set(title="Four of the waves", xlabel="position", ylabel="value", ylim=(-1.6, 1.1))
    axes[1].legend(frameon=False, loc="lower center", ncol=4)


def units_figure(names, W1, b1, W2, cases):
    """Lesson 06: a feed-forward on named dimensions, a panel a case; lit is what is not 0.

    `cases` are lists of the names that are 1.
    """
    axes = plt.subplots(len(cases), 1, figsize=(9, 3.3 * len(cases)))[1]
    for axis, held in zip(axes, cases):
        x = torch.tensor([float(name in held) for name in names])
        units_panel(axis, names, [x, (x @ W1 + b1).relu()], (W1, W2), b1)
        axis.set_title(f"in: {' and '.join(held)}")


def units_panel(axis, names, layers, matrices, bias):
    """Draws the inputs, the units and the outputs, and the weights between them that are not 0."""
    layers = [*layers, layers[1] @ matrices[1]]
    heights = [np.linspace(4, 0, len(layer)) if len(layer) > 2 else (3.2, 0.8) for layer in layers]
    for column, weights in enumerate(matrices):
        for (start, end), weight in np.ndenumerate(weights.numpy()):
            if weight:
                lit = layers[column][start] * layers[column + 1][end] > 0
                ends = heights[column][start], heights[column + 1][end]
                style = dict(color=COLOURS["wrong"], lw=2.5) if lit else dict(color="#BBBBBB", lw=1)
                axis.plot((column, column + 1), ends, **style)
    units = [f"unit {number}: sum {value:+g}".replace("-", "− ") for number, value in
             enumerate(bias.tolist())]  # fmt: skip
    for column, (layer, texts) in enumerate(zip(layers, [names, units, names])):
        for value, level, text in zip(layer.tolist(), heights[column], texts):
            colour = "#F0E442" if value else "white"
            axis.plot(column, level, "o", markersize=22, color=colour, markeredgecolor="black")
            axis.text(column, level, f"{value:g}", ha="center", va="center")
            side, across = (-0.12, "right") if column == 0 else (0.12, "left")
            axis.text(column + side, level, text, ha=across, va="center")
    axis.set_xticks(range(3), ["in", "after W1, b1 and ReLU", "after W2"])
    axis.set(xlim=(-0.6, 2.6), ylim=(-0.6, 4.6), yticks=[])
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)


def feed_forward_figure():
    """Lesson 06: the module with its shapes, each width drawn."""
    axis = plt.subplots(figsize=(10, 2.8))[1]
    parts = [(0, 1, "x\n(T, 256)", "#E4E4E4"), (4, 4, "hidden units\n(T, 1024)", "#F0E442"),
             (11, 1, "output\n(T, 256)", "#E4E4E4")]  # fmt: skip
    for left, width, text, colour in parts:
        axis.add_patch(plt.Rectangle((left, 0), width, 1.2, fc=colour, ec="#555555"))
        axis.text(left + width / 2, 1.45, text, ha="center")
    for start, end, text in ((1.1, 3.9, "W1, b1\nReLU"), (8.1, 10.9, "W2, b2")):
        arrow(axis, (start, 0.6), (end, 0.6), lw=2)
        axis.text((start + end) / 2, 0.75, text, ha="center")
    axis.set(xlim=(-0.5, 12.5), ylim=(-0.1, 2.4))
    axis.set_title("Wider, negative numbers to zero, and narrow again; each row by itself")
    axis.axis("off")


def arrows_figure(meaning, mixes):
    """Lesson 04: vectors of two dimensions as arrows, and dashed what attention mixes of them."""
    axis = plt.subplots(figsize=(4.6, 4.6))[1]
    style = dict(lw=1.5, shrinkA=0, shrinkB=0)
    for word in ("play", "piano", "football"):
        arrow(axis, (0, 0), meaning[word], color="black", **style)
        axis.annotate(word, meaning[word], (6, 4), textcoords="offset points")
    for word, mix in mixes.items():
        arrow(axis, (0, 0), mix.tolist(), color=COLOURS["wrong"], linestyle="--", **style)
        axis.annotate(f"beside {word}", mix.tolist(), (6, -4), textcoords="offset points")
    axis.set(xlim=(-0.1, 2.6), ylim=(-0.1, 2.6), xlabel="music", ylabel="sport", aspect="equal")


def heads_maps(looks, word):
    """Lesson 04: where a word looks, head by head: `looks` {title: (tokens, weights (H, T))}."""
    figure, axes = plt.subplots(1, len(looks), figsize=(11, 3.4), layout="constrained")
    for axis, (title, (tokens, rows)) in zip(axes, looks.items()):
        heads = [f"head {number + 1}" for number in range(len(rows))]
        axis.imshow(rows, vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(tokens)), tokens, rotation=60, ha="right", rotation_mode="anchor")
        axis.set_yticks(range(len(heads)), heads)
        axis.set(title=f"where {word} looks beside {title}")
    figure.colorbar(axes[0].images[0], ax=axes, label="attention weight")


def recap_figure():
    """Lesson 04: multi-head attention from x to its output, as boxes with their shapes."""
    axis = plt.subplots(figsize=(11, 4.6))[1]
    box = dict(boxstyle="round,pad=0.45", ec="#555555")
    kinds = {"data": "#E4E4E4", "matrix": "#F0E442", "head": "#8DBFE3"}
    places = [
        (0.0, 2, "x\n(T, D)", "data"),
        *((1.7, 3 - row, f"W$^{name}$\n(D, D)", "matrix") for row, name in enumerate("QKV")),
        *((3.6, 3 - row, f"{name}\n(H, T, d$_k$)", "data")
          for row, name in enumerate(("queries", "keys", "values"))),
        (6.0, 2.5, "weights: softmax of\nqueries · keys / √d$_k$\n(H, T, T)", "head"),
        (7.9, 1.6, "weights · values\n(H, T, d$_k$)", "head"),
        (9.5, 2, "heads side\nby side\n(T, D)", "data"),
        (10.9, 2, "W$^O$\n(D, D)", "matrix"),
        (12.2, 2, "output\n(T, D)", "data"),
    ]  # fmt: skip
    for x, y, text, kind in places:
        axis.text(x, y, text, ha="center", va="center", size=11, bbox={**box, "fc": kinds[kind]})
    ways = [((0.35, 2), (1.25, 3)), ((0.35, 2), (1.25, 2)), ((0.35, 2), (1.25, 1)),
            *(((2.1, y), (3.0, y)) for y in (1, 2, 3)), ((4.2, 3), (5.0, 2.7)),
            ((4.2, 2), (5.0, 2.35)), ((4.2, 1), (7.05, 1.5)), ((6.9, 2.2), (7.2, 1.85)),
            ((8.65, 1.75), (8.95, 1.9)), ((10.05, 2), (10.5, 2)),
            ((11.3, 2), (11.7, 2))]  # fmt: skip
    for start, end in ways:
        arrow(axis, start, end, color="#555555", lw=1.2, shrinkA=0, shrinkB=0)
    axis.set(xlim=(-0.5, 12.8), ylim=(0.4, 3.6), title="Multi-head attention, from x to its output")
    axis.axis("off")


def two_ways_figure():
    """Lesson 16: how the piano reaches the verb, through play and by the decoder's own look."""
    axis = plt.subplots(figsize=(10, 3.4))[1]
    box = dict(boxstyle="round,pad=0.5", ec="#555555")
    for x, y, text, colour in (
        (0.0, 2.4, "play\n(the same in\nevery sentence)", "#E4E4E4"),
        (0.0, 0.4, "piano", "#E4E4E4"),
        (3.6, 2.4, "play,\nof a piano", "#8DBFE3"),
        (7.6, 1.4, "the decoder,\nbefore the verb", "#8DBFE3"),
        (10.2, 1.4, "弹 pluck", "#F0E442"),
    ):
        axis.text(x, y, text, ha="center", va="center", size=12, bbox={**box, "fc": colour})
    for start, end in (
        ((0.95, 2.4), (3.0, 2.4)), ((0.4, 0.6), (3.0, 2.1)), ((4.2, 2.3), (6.65, 1.65)),
        ((0.45, 0.4), (6.65, 1.15)), ((8.5, 1.4), (9.6, 1.4)),
    ):  # fmt: skip
        arrow(axis, start, end, color="#555555", lw=1.5, shrinkA=0, shrinkB=0)
    axis.text(5.5, 2.45, "first way: alone enough\nfor 105 of 144", ha="left", va="center")
    axis.text(4.2, 0.35, "second way: alone enough\nfor 65 of 144", ha="left", va="center")
    axis.text(2.0, 2.62, "encoder", ha="center", color="#555555")
    axis.set(xlim=(-1, 11), ylim=(-0.1, 3.1), title="Two ways lead from piano to its verb")
    axis.axis("off")


def cut_figure(rows, heads):
    """Lesson 04: two tokens (2, 6) with the borders of three heads, and the heads (3, 2, 2)."""
    owner = torch.arange(3).repeat_interleave(2).repeat(2, 1)
    colours = ListedColormap(["#8DBFE3", "#F0E442", "#DDA0C4"])
    axes = plt.subplots(1, 4, figsize=(10, 1.9), width_ratios=[3, 1, 1, 1])[1]
    pictures = [(rows, owner, "unflatten: (T, H, d_k)")]
    pictures += [(heads[h], torch.full((2, 2), h), f"head {h}: (T, d_k)") for h in range(3)]
    for axis, (values, groups, title) in zip(axes, pictures):
        axis.imshow(groups, cmap=colours, vmin=0, vmax=2, aspect="auto")
        for row, column in np.ndindex(*values.shape):
            text = values[row, column].item()
            axis.text(column, row, text, ha="center", va="center", fontsize=14)
        axis.set(title=title, xticks=[], yticks=[0, 1], xlabel="dimensions", ylabel="token")
    for border in (1.5, 3.5):
        axes[0].axvline(border, color="black", linewidth=2)


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


def parameter_bars(rows):
    """Lesson 06: where the parameters of models are, {model: {part: number}}, as bars of parts."""
    axis = plt.subplots(figsize=(9, 2.8))[1]
    colours = {"embeddings": "#E4E4E4", "attention": "#BBBBBB", "feed-forward": COLOURS["lit"]}
    left = [0.0] * len(rows)
    for part, colour in colours.items():
        shares = [row[part] / sum(row.values()) for row in rows.values()]
        bars = axis.barh(list(rows), shares, left=left, color=colour, label=part)
        axis.bar_label(bars, [f"{share:.0%}" for share in shares], label_type="center")
        left = [a + b for a, b in zip(left, shares)]
    for position, row in enumerate(rows.values()):
        axis.text(1.01, position, f"{sum(row.values()) / 1e6:.0f} M", va="center")
    axis.set(title="Where the parameters are", xlim=(0, 1), xticks=[])
    axis.invert_yaxis()
    axis.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 0))


def framed_part(axis, x, name):
    """A part of a layer as a rounded box with its name, a sum as a circle."""
    shape = "circle,pad=0.2" if name == "+" else "round,pad=0.4"
    frame = {"boxstyle": shape, "fc": "#E4E4E4", "ec": "#555555"}
    axis.text(x, 0, name, ha="center", va="center", fontsize=11, bbox=frame)


def norm_places_figure():
    """Lesson 07: where the norm stands on the way through a sublayer, post-norm and pre-norm."""
    axes = plt.subplots(2, 1, figsize=(7, 4))[1]
    forms = {
        "post-norm (the paper)": ["sublayer", "+", "norm"],
        "pre-norm": ["norm", "sublayer", "+"],
    }
    for axis, (title, parts) in zip(axes, forms.items()):
        arrow(axis, (0, 0), (8, 0), lw=2)
        for position, part in enumerate(parts):
            framed_part(axis, 2 + 2 * position, part)
        plus = 2 + 2 * parts.index("+")
        arrow(axis, (plus, 1), (plus, 0.25), lw=2)
        axis.plot([0.5, 0.5, plus], [0, 1, 1], color="black", lw=2)
        axis.text(0.7, 1.1, "shortcut: x")
        axis.set(title=title, xlim=(-0.2, 8.2), ylim=(-0.8, 1.5))
        axis.axis("off")


def sublayers_in_a_row(axis, names):
    """Pre-norm sublayers with their shortcuts, and around them a frame: one layer, N in a row."""
    width = 5 * len(names) + 0.4
    layer = plt.Rectangle((0.75, -0.65), width, 2.1, fill=False, edgecolor="#555555", ls="--")
    axis.add_patch(layer)
    axis.text(0.9, 1.52, "a layer, N of them in a row", color="#555555")
    for number, name in enumerate(names):
        start = 1.1 + 5 * number
        plus = start + 4.4
        axis.plot([start, start, plus], [0, 0.95, 0.95], color="black", lw=1.5)
        arrow(axis, (plus, 0.95), (plus, 0.2), lw=1.5)
        axis.text(start + 0.15, 1.05, "shortcut")
        for position, part in ((start + 0.95, "norm"), (start + 2.6, name), (plus, "+")):
            framed_part(axis, position, part)


def encoder_figure():
    """Lesson 08: the encoder from its input to the memory, pre-norm, one of its layers framed."""
    axis = plt.subplots(figsize=(11, 2.6))[1]
    axis.set(xlim=(-0.6, 14.9), ylim=(-0.9, 1.75))
    arrow(axis, (0.5, 0), (14, 0), lw=1.5)
    sublayers_in_a_row(axis, ["self-\nattention", "feed-\nforward"])
    framed_part(axis, 12.3, "norm")
    axis.text(0.4, 0, "input", ha="right", va="center")
    axis.text(14.05, 0, "memory", ha="left", va="center")
    axis.axis("off")


def decoder_figure():
    """Lesson 09: the decoder from what is written to the next token, which is read again."""
    axis = plt.subplots(figsize=(11, 3))[1]
    axis.set(xlim=(-1.2, 21.4), ylim=(-2.3, 1.75))
    arrow(axis, (0.5, 0), (20, 0), lw=1.5)
    sublayers_in_a_row(axis, ["masked\nself-\nattention", "cross-\nattention", "feed-\nforward"])
    for position, part in ((17.3, "norm"), (18.9, "logits")):
        framed_part(axis, position, part)
    arrow(axis, (8.7, -1.3), (8.7, -0.45), lw=1.5, color=COLOURS["encoder"])
    axis.text(8.7, -1.4, "memory", ha="center", va="top", color=COLOURS["encoder"])
    axis.text(0.4, 0, "written\nso far", ha="right", va="center")
    axis.text(20.05, 0, "next\ntoken", ha="left", va="center")
    axis.plot([20.6, 20.6, -0.4], [-0.6, -2.1, -2.1], color="black", lw=1.5)
    arrow(axis, (-0.4, -2.1), (-0.4, -0.6), lw=1.5)
    axis.axis("off")


def layer_flow_figure(words, word):
    """Lesson 08: words through one encoder layer; only self-attention leads from one to another.

    The arrows into `word` are coloured.
    """
    axis = plt.subplots(figsize=(9, 3.6))[1]
    stages = ["input", "after self-attention", "after feed-forward"]
    style = dict(shrinkA=9, shrinkB=9)
    for to, name in enumerate(words):
        colour, fill = (COLOURS["wrong"], COLOURS["lit"]) if name == word else ("#CCCCCC", "white")
        for start in range(len(words)):
            arrow(axis, (start, 0), (to, 1), color=colour, zorder=1 + (name == word), **style)
        arrow(axis, (to, 1), (to, 2), color="#555555", **style)
        axis.plot([to] * 3, range(3), "o", markersize=16, color=fill, markeredgecolor="black")
        axis.text(to, -0.4, name, ha="center")
    axis.set_yticks(range(3), stages)
    axis.set(xlim=(-0.5, len(words) - 0.3), ylim=(-0.6, 2.5), xticks=[])
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)


def framed_map(axis, weights, rows, columns, frames, title):
    """Lesson 08: an attention map with its numbers, in each row the column that was expected."""
    attention_heatmap(weights, rows, columns, title, axis)
    for row, expected in enumerate(frames):
        frame = dict(fill=False, edgecolor=COLOURS["encoder"], lw=4, zorder=3)
        axis.add_patch(plt.Rectangle((expected - 0.5, row - 0.5), 1, 1, **frame))
        for column, weight in enumerate(weights[row].tolist()):
            colour = "black" if weight > 0.6 else "white"
            axis.text(column, row, f"{weight:.2f}", ha="center", va="center", color=colour)


def cache_steps(tokens):
    """Lesson 09: which keys and values each step computes, without a KV cache and with one."""
    written = [*tokens[1:], "<eos>"]
    widths = range(1, len(tokens) + 1)
    axes = plt.subplots(2, len(tokens), figsize=(9, 2.8), width_ratios=widths)[1]
    for row, name in ((0, "no cache"), (1, "cache")):
        for step, axis in enumerate(axes[row]):
            for position in range(step + 1):
                cached = row == 1 and position < step
                colour = "#CCCCCC" if cached else COLOURS["dev"]
                axis.add_patch(plt.Rectangle((position, 0), 0.9, 1, color=colour))
                middle = dict(ha="center", va="center", fontsize=13 if position else 10)
                axis.text(position + 0.45, 0.5, tokens[position], **middle)
            axis.set(xlim=(0, step + 1), ylim=(0, 1.05), xticks=[], yticks=[])
            if row == 0:
                axis.set_title(f"step {step + 1}\n→ {written[step]}", fontsize=12)
            axis.spines[:].set_visible(False)
        axes[row, 0].set_ylabel(name)


def circle_figure(before, after):
    """Lesson 05: points (N, 3) before a norm and after it, which puts them on one circle."""
    figure = plt.figure(figsize=(9, 4.2))
    titles = ("before: anywhere in space", "after: all on one circle")
    for number, (title, points) in enumerate(zip(titles, (before, after)), start=1):
        axis = figure.add_subplot(1, 2, number, projection="3d")
        axis.scatter(*points.T, c=range(len(points)), cmap="viridis", depthshade=False)
        axis.view_init(elev=50, azim=15)
        axis.set(title=title, xlabel="first", ylabel="second", zlabel="third")


def readers_figure(maps, text):
    """Lesson 08: what two readers attend to, runners in layer 1 and questions in layer 2.

    `maps`: for each reader the weights (S, S) of its two layers.
    """
    runners = text.index("?")
    ratios = dict(height_ratios=[runners, 2.4], layout="constrained")
    axes = plt.subplots(2, 2, figsize=(12, 6), **ratios)[1]
    answers = [text.index(asked) + 1 for asked in text[runners + 1 :]]
    names = ("one reader", "another reader")
    for column, (name, (first, second)) in enumerate(zip(names, maps)):
        title = f"{name}, layer 1: the runners"
        expected = list(range(runners - 1))
        framed_map(axes[0, column], first[1:runners], text[1:runners], text, expected, title)
        asked = text[runners + 1 :]
        title = f"{name}, layer 2: the questions"
        framed_map(axes[1, column], second[runners + 1 :], asked, text, answers, title)

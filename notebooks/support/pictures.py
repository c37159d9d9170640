"""The figures that notebooks share, their style, the map of the course."""

import base64
import functools
import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.core.pylabtools import print_figure
from IPython.display import display
from matplotlib import font_manager
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox
from PIL import Image

from engine.fonts import CHINESE, chinese_font
from notebooks.multi_head_attention import scaled_dot_product_attention
from utils import ROOT

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
CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Noto Sans CJK JP",
    "Arial Unicode MS",
)


DENSITY = 1.75  # pixels of a saved picture for each pixel on the page


def installed_font():
    """The name of a font of the system's that can show Chinese, or None."""
    fonts = font_manager.fontManager.ttflist
    installed = {font.name for font in fonts if Path(font.fname) != CHINESE}
    return next((name for name in CJK_FONTS if name in installed), None)


def cjk_font():
    """A font that can show Chinese: the system's, else the Noto Sans CJK that mplfonts ships."""
    name = installed_font()
    if name is None:
        path = CHINESE
        font_manager.fontManager.addfont(path)
        name = font_manager.FontProperties(fname=path).get_name()
    return name


def use_style():
    """Sets matplotlib up once: fonts for Latin and Chinese, sizes for a projector, no clutter."""
    plt.rcParams.update(
        {
            "font.family": ["DejaVu Sans", cjk_font()],
            "font.size": 11,
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": plt.cycler(
                color=["#0072B2", "#C08000", "#009E73", "#CC79A7", "#A33B00", "#3B9AD6", "#000000"]
            ),
            "image.cmap": "cividis",
        }
    )


use_style()


def picture(figure, alt):
    """Data and metadata of a figure that is displayed: a PNG that is sharp on dense screens too.

    The metadata say its size on the page, in pixels, and a text for those who cannot see it.
    """
    drawn = Image.open(io.BytesIO(print_figure(figure, "png", dpi=DENSITY * figure.dpi)))
    width, height = (round(side / DENSITY) for side in drawn.size)
    png = in_few_colours(drawn)
    data = {"image/png": base64.b64encode(png).decode(), "text/plain": repr(figure)}
    return data, {"image/png": {"alt": alt, "width": width, "height": height}}


def in_few_colours(image):
    """The bytes of a picture as a PNG of at most 256 colours: half the size, and no eye sees it."""
    written = io.BytesIO()
    few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(written, "png", optimize=True)
    return written.getvalue()


def show(alt, figure=None):
    """Displays a figure, or the newest, with a text for those who cannot see it; closes it."""
    figure = figure or plt.gcf()
    data, metadata = picture(figure, alt)
    display(data, metadata=metadata, raw=True)
    plt.close(figure)


# The parts of the Transformer on the map: notebook, label, left, bottom, width, height. A frame
# stands before what it holds.
FRAMES = (8, 9, 10)
MAP = [
    (1, "01 data preparation: English left, Chinese right", 0.6, 0.0, 7.8, 0.6),
    (10, "10 Transformer", 0.0, 0.85, 8.95, 10.15),
    (2, "02 input embedding", 0.6, 1.1, 3.2, 0.55),
    (3, "03 positional encoding", 0.6, 1.95, 3.2, 0.55),
    (2, "02 input embedding", 5.2, 1.1, 3.2, 0.55),
    (3, "03 positional encoding", 5.2, 1.95, 3.2, 0.55),
    (8, "08 encoder: N layers", 0.2, 2.75, 3.8, 5.15),
    (9, "09 decoder: N layers", 4.9, 2.75, 3.9, 7.05),
    (5, "05 norm", 0.6, 3.4, 3.2, 0.42),
    (4, "04 self-attention", 0.6, 3.88, 3.2, 0.55),
    (7, "07 add", 0.6, 4.49, 3.2, 0.42),
    (5, "05 norm", 0.6, 5.3, 3.2, 0.42),
    (6, "06 feed-forward", 0.6, 5.78, 3.2, 0.55),
    (7, "07 add", 0.6, 6.39, 3.2, 0.42),
    (5, "05 norm", 0.6, 7.3, 3.2, 0.42),
    (5, "05 norm", 5.2, 3.4, 3.2, 0.42),
    (4, "04 masked self-attention", 5.2, 3.88, 3.2, 0.55),
    (7, "07 add", 5.2, 4.49, 3.2, 0.42),
    (5, "05 norm", 5.2, 5.3, 3.2, 0.42),
    (4, "04 cross-attention", 5.2, 5.78, 3.2, 0.55),
    (7, "07 add", 5.2, 6.39, 3.2, 0.42),
    (5, "05 norm", 5.2, 7.2, 3.2, 0.42),
    (6, "06 feed-forward", 5.2, 7.68, 3.2, 0.55),
    (7, "07 add", 5.2, 8.29, 3.2, 0.42),
    (5, "05 norm", 5.2, 9.2, 3.2, 0.42),
    (10, "10 generator", 5.2, 10.15, 3.2, 0.6),
    (11, "11 make_model:\nthe first weights", 9.6, 10.0, 2.8, 0.95),
    (12, "12 label smoothing", 9.6, 8.7, 2.8, 0.6),
    (13, "13 loss", 9.6, 7.4, 2.8, 0.6),
    (14, "14 optimiser\nand schedule", 9.6, 5.6, 2.8, 0.95),
    (15, "15 training:\nagain and again", 9.6, 3.8, 2.8, 0.95),
    (16, "16 translation", 9.6, 2.3, 2.8, 0.6),
    (0, "00 setup", 9.6, 1.0, 2.8, 0.6),
]
# What one layer is: left, bottom, width, height.
LAYERS = [(0.3, 3.13, 3.6, 3.82), (5.1, 3.13, 3.6, 5.72)]
# Each is a line through points. The first three: the memory, the scores, the Chinese that the loss
# compares them with.
ARROWS = [
    [(3.8, 7.51), (4.45, 7.51), (4.45, 6.05), (5.2, 6.05)],
    [(8.4, 10.45), (9.25, 10.45), (9.25, 7.7), (9.6, 7.7)],
    [(8.4, 0.3), (12.75, 0.3), (12.75, 7.7), (12.4, 7.7)],
    [(2.2, 0.6), (2.2, 1.1)],
    [(6.8, 0.6), (6.8, 1.1)],
    [(2.2, 1.65), (2.2, 1.95)],
    [(6.8, 1.65), (6.8, 1.95)],
    [(2.2, 2.5), (2.2, 3.4)],
    [(6.8, 2.5), (6.8, 3.4)],
    [(2.2, 4.91), (2.2, 5.3)],
    [(6.8, 4.91), (6.8, 5.3)],
    [(6.8, 6.81), (6.8, 7.2)],
    [(2.2, 6.81), (2.2, 7.3)],
    [(6.8, 8.71), (6.8, 9.2)],
    [(6.8, 9.62), (6.8, 10.15)],
    [(11, 8.7), (11, 8)],
    [(11, 7.4), (11, 6.55)],
    [(11, 5.6), (11, 4.75)],
    [(9.6, 10.8), (8.95, 10.8)],
    [(9.6, 4.27), (8.95, 4.27)],
    [(8.95, 2.6), (9.6, 2.6)],
]


def shortcut(left, bottom, width, height):
    """The line from before a sublayer's norm to this box, which adds it: outside of both stacks."""
    middle = left + width / 2
    end = bottom + height / 2
    edge, side = (left, left - 0.2) if left < 4 else (left + width, left + width + 0.2)
    start = bottom - 1.28
    return [(middle, start), (side, start), (side, end), (edge, end)]


def simple_map():
    """The model in one line: who hands what to whom."""
    axis = plt.subplots(figsize=(10, 2.2))[1]
    texts = ((0, "We play\nthe piano."), (9.4, "我们弹钢琴。"))
    boxes = ((2.6, "encoder", "encoder"), (6.4, "decoder", "decoder"))
    for x, text in texts:
        axis.text(x, 0, text, ha="center", va="center", size=13)
    for x, text, colour in boxes:
        frame = {"boxstyle": "round,pad=0.7", "fc": "white", "ec": COLOURS[colour], "lw": 2}
        axis.text(x, 0, text, ha="center", va="center", size=13, bbox=frame)
    arrow = {"arrowstyle": "-|>", "color": "#555555", "lw": 1.4}
    for start, end in ((0.8, 1.75), (3.45, 5.5), (7.3, 8.3)):
        axis.annotate("", (end, 0), (start, 0), arrowprops=arrow)
    axis.text(4.5, 0.15, "a vector for\neach English word", ha="center", va="bottom", size=11)
    back = arrow | {"connectionstyle": "arc3,rad=-0.35"}
    axis.annotate("", (6.4, -0.24), (9.2, -0.25), arrowprops=back)
    axis.text(7.9, -1.0, "what is written so far", ha="center", va="center", size=11)
    axis.set(xlim=(-0.9, 10.5), ylim=(-1.2, 0.9))
    axis.axis("off")
    show("English goes into the encoder, a vector for each word from there to the decoder, which "
         "writes Chinese and reads what it has written")  # fmt: skip


def series_map(notebook, notes=()):
    """The whole course as one picture, like the paper's Figure 1, the part of this notebook lit.

    The norm stands before each sublayer and once behind each stack, as in `small` (notebook 07).

    `notes` are texts (x, y, text) to be written beside the arrows.
    """
    figure, axis = plt.subplots(figsize=(10, 7.4))
    arrows = list(ARROWS)
    for number, label, left, bottom, width, height in MAP:
        frame = number in FRAMES and height > 1
        colour = COLOURS["lit"] if number == notebook else "#F7F7F7" if frame else "#E4E4E4"
        line = "--" if frame and number == 10 else "-"
        shape = "round,pad=0,rounding_size=0.12"
        box = FancyBboxPatch(
            (left, bottom), width, height, shape, fc=colour, ec="#555555", lw=0.8, ls=line
        )
        axis.add_patch(box)
        if frame:  # the name left of the arrow that comes in, what it holds on the right
            name, _, holds = label.partition(": ")
            height_of_text = bottom + (height - 0.35 if number == 10 else 0.17)
            axis.text(left + 0.12, height_of_text, name, va="center", size=12)
            axis.text(left + width / 2 + 0.25, height_of_text, holds, va="center", size=12)
        else:
            place = (left + width / 2, bottom + height / 2)
            axis.text(*place, label, ha="center", va="center", size=12)
        if number == 7:
            arrows.append(shortcut(left, bottom, width, height))
    for left, bottom, width, height in LAYERS:
        axis.add_patch(
            plt.Rectangle((left, bottom), width, height, fill=False, ec="#555555", lw=1, ls=":")
        )
    for points in arrows:
        axis.plot(*zip(*points), color="#555555", lw=1, solid_capstyle="butt")
        arrow = {"arrowstyle": "-|>", "color": "#555555", "lw": 1, "shrinkA": 0, "shrinkB": 0}
        axis.annotate("", points[-1], points[-2], arrowprops=arrow)
    for x, y, text in notes:
        box = {"fc": "white", "ec": "none", "pad": 0.5}
        axis.text(x, y, text, size=12, color=COLOURS["train"], va="center", bbox=box)
    axis.set(xlim=(-0.1, 12.9), ylim=(-0.1, 11.1))
    axis.axis("off")
    lit = " and ".join(
        sorted({" ".join(label.split()) for number, label, *_ in MAP if number == notebook})
    )
    show(f"Map of the course: the parts of the Transformer by notebook. Lit here: {lit}", figure)


LESSONS = (
    "setup data embedding positions attention norm feed-forward sublayer encoder decoder "
    "Transformer make_model smoothing loss optimiser training translation"
).split()


def course_strip(notebook):
    """The course as a row of lessons, this notebook's lit."""
    axis = plt.subplots(figsize=(10, 1.3))[1]
    for number, name in enumerate(LESSONS):
        colour = COLOURS["lit"] if number == notebook else "#E4E4E4"
        axis.add_patch(plt.Rectangle((number, 0), 0.9, 0.6, fc=colour, ec="#555555", lw=0.8))
        axis.text(number + 0.45, 0.3, f"{number:02}", ha="center", va="center", size=11)
        axis.text(number + 0.3, 0.7, name, rotation=30, size=10)
    axis.set(xlim=(-0.1, 18.2), ylim=(-0.05, 1.6))
    axis.axis("off")
    show(f"The seventeen lessons in a row, {notebook:02} lit: {LESSONS[notebook]}")


SIDES = [
    (7, 0, "left", "center"),
    (-7, 0, "right", "center"),
    (0, 6, "center", "bottom"),
    (0, -6, "center", "top"),
    (5, 5, "left", "bottom"),
    (-5, 5, "right", "bottom"),
    (5, -5, "left", "top"),
    (-5, -5, "right", "top"),
]


def label_points(axis, points, names, colours):
    """Writes each name beside its point (x, y), over no other point or name where there is room."""
    axis.figure.canvas.draw()  # from here on the points have their places on the screen
    taken = [Bbox([[x - 12, y - 8], [x + 12, y + 8]]) for x, y in axis.transData.transform(points)]
    for number, (point, name, colour) in enumerate(zip(points, names, colours)):
        others = taken[:number] + taken[number + 1 :]
        for *offset, across, upright in SIDES:
            label = axis.annotate(
                name, point, offset, ha=across, va=upright, color=colour, textcoords="offset points"
            )
            label.set_in_layout(False)
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in others) or offset == list(SIDES[-1][:2]):
                break
            label.remove()
        taken.append(box)


def attention_heatmap(
    weights, rows, columns, title, axis=None, row_name="query", column_name="key"
):
    """One attention map: weights (len(rows), len(columns)) from 0 to 1, tokens on both axes."""
    if axis is None:
        size = (1.8 + 0.42 * len(columns), 1.4 + 0.42 * len(rows))
        axis = plt.subplots(figsize=size)[1]
    image = axis.imshow(
        torch.as_tensor(weights).float().cpu().numpy(), vmin=0, vmax=1, aspect="auto"
    )
    axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    axis.set(title=title, xlabel=column_name, ylabel=row_name)
    if axis.get_subplotspec().is_last_col():  # one colour bar for maps side by side
        axis.figure.colorbar(image, ax=axis, label="weight")
    return axis


def number_map(numbers, rows, columns, title, column_name, row_name):
    """A table of numbers (len(rows), len(columns)) as coloured cells with the numbers in them."""
    axis = plt.subplots(figsize=(2.4 + 0.9 * len(columns), 1.6 + 0.5 * len(rows)))[1]
    axis.imshow(numbers, aspect="auto", cmap="Blues")
    highest = np.max(numbers)
    for (row, column), number in np.ndenumerate(numbers):
        colour = "white" if number > highest / 2 else "black"
        axis.text(column, row, number, ha="center", va="center", color=colour)
    axis.set_xticks(range(len(columns)), columns, rotation=30, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    axis.set(title=title, xlabel=column_name, ylabel=row_name)
    return axis


@functools.cache
def chinese_css():
    """Style that lends a browser the characters of the box where the system has no Chinese font.

    It is half a megabyte, for the viewer, what widgets write and what cells print; else nothing.
    """
    if installed_font():
        return ""
    known = ROOT / "data_small" / "model" / "vocabulary.tgt.json"
    font = base64.b64encode(chinese_font(known.read_text(encoding="utf-8"))).decode()
    return f"""
        @font-face {{ font-family: Lent; src: url(data:font/woff;base64,{font}); }}
        .attention-viewer, .jupyter-widgets, .widget-label {{
            font-family: var(--jp-ui-font-family, sans-serif), Lent !important;
        }}
        .jp-OutputArea-output pre {{ font-family: var(--jp-code-font-family), Lent !important; }}
    """


def mask_figure(mask, rows, columns, title, axis=None, colour="encoder"):
    """A boolean mask (len(rows), len(columns)): True, may attend, in the colour of who looks."""
    if axis is None:
        axis = plt.subplots(figsize=(1.6 + 0.42 * len(columns), 1.3 + 0.42 * len(rows)))[1]
    axis.imshow(
        torch.as_tensor(mask).cpu().numpy(),
        vmin=0,
        vmax=1,
        aspect="auto",
        cmap=ListedColormap(["#EEEEEE", COLOURS[colour]]),
    )
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="white", linewidth=2)
    axis.tick_params(which="minor", length=0)
    axis.set(title=title, xlabel="key (attended to)", ylabel="query (attends)")
    return axis


def cells_figure(lines):
    """Rows of cells with text, one below the other: `lines` maps a row's name to its texts.

    A text that is None is a grey cell: padding.
    """
    longest = max(map(len, lines.values()))
    axis = plt.subplots(figsize=(1.6 + 0.75 * longest, 0.6 * len(lines)))[1]
    for height, texts in enumerate(lines.values()):
        for place, text in enumerate(texts):
            colour = "#DDDDDD" if text is None else "white"
            axis.add_patch(plt.Rectangle((place, height), 1, 0.8, fc=colour, ec="#555555", lw=0.8))
            axis.text(
                place + 0.5, height + 0.4, "" if text is None else text, ha="center", va="center"
            )
    axis.set_yticks([height + 0.4 for height in range(len(lines))], list(lines))
    axis.tick_params(length=0)
    axis.set(xlim=(0, longest), ylim=(len(lines), -0.1), xticks=[])
    axis.spines[:].set_visible(False)
    return axis


@torch.no_grad()
def heads_figure(attention, x, words, word):
    """What one word goes through in self-attention, from its vector to its output, head by head.

    `attention` is a MultiHeadAttention, x (1, T, d_model) what it reads, `word` a position.
    """
    heads = attention.num_heads
    query, key, value = (
        attention.split(layer(x))[0] for layer in (attention.query, attention.key, attention.value)
    )  # (H, T, d_k)
    mixed, weights = (
        part[:, 0] for part in scaled_dot_product_attention(query[:, word, None], key, value)
    )  # (H, d_k) and (H, T)
    output = attention.output(mixed.flatten())
    rows = {
        f"the vector of {words[word]}": x[0, word][None],
        "query": query[:, word],
        "attention\nweights": weights,
        "mixed\nvalues": mixed,
        "output": output[None],
    }
    figure, axes = plt.subplots(len(rows), heads, figsize=(10, 5.6), height_ratios=[1, 1, 4, 1, 1])
    for line, (name, parts) in zip(axes, rows.items()):
        if len(parts) == 1:  # one strip as wide as all heads together
            for axis in line[1:]:
                axis.remove()
            place = line[0].get_subplotspec()
            line[0].set_subplotspec(place.get_gridspec()[place.rowspan.start, :])
        for head, (axis, part) in enumerate(zip(line, parts)):
            if name.startswith("attention"):
                axis.bar(words, part, color=COLOURS["encoder"])
                axis.set(ylim=(0, 1), yticks=[0, 1] if head == 0 else [])
                axis.tick_params("x", rotation=60)
            else:
                axis.imshow(part[None], aspect="auto", cmap="PuOr", vmin=-2, vmax=2)
                axis.set(xticks=[], yticks=[])
            if name == "query":
                axis.set_title(f"head {head + 1}", size=12)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", size=12)
    return figure


# where the words of a sentence stand in a drawing, and who attends to whom
PLACES = {"others": (0, 0), "object": (1.5, 0), "play": (3, 0), "decoder": (2.25, 1)}
ATTENDING = [
    ("others", "object"),
    ("play", "object"),
    ("decoder", "object"),
    ("decoder", "play"),
]


def attention_closed(axis, closed, names, widths=None):
    """Draws between which words attention is closed, red, and where it is open, grey.

    An arrow leads from what is attended to, to who attends. `names` are those of PLACES. `widths`
    may have how thick an open arrow is drawn, under its pair.
    """
    for who, whom in ATTENDING:
        shut = (who, whom) in closed
        style = {
            "arrowstyle": "-|>",
            "color": COLOURS["wrong"] if shut else "#777777",
            "linestyle": ":" if shut else "-",
            "lw": 1.6 if shut else widths[who, whom] if widths else 1.2,
            "shrinkA": 8 if who == "decoder" else 20,
            "shrinkB": 10 if who == "decoder" else 24,
        }
        axis.annotate("", PLACES[who], PLACES[whom], arrowprops=style)
        if shut:
            middle = np.mean([PLACES[who], PLACES[whom]], axis=0)
            axis.text(*middle, "×", color=COLOURS["wrong"], ha="center", va="center", size=20)
    for name, place in PLACES.items():
        colour = COLOURS["decoder" if name == "decoder" else "encoder"]
        axis.text(*place, names[name], ha="center", va="center", color=colour)
    axis.set(xlim=(-0.5, 3.4), ylim=(-0.25, 1.25))
    axis.axis("off")


def account_chart(account, label, largest=8, axis=None):
    """The `largest` parts of a ledger as bars, and the sum of the others below them."""
    ranked = sorted(account, key=lambda name: -abs(account[name]))
    parts = {name: account[name] for name in ranked[:largest]}
    parts[f"{len(ranked) - largest} others together"] = sum(account[n] for n in ranked[largest:])
    if axis is None:
        axis = plt.subplots(figsize=(7, 0.8 + 0.36 * len(parts)))[1]
    colours = [COLOURS["right" if value > 0 else "wrong"] for value in parts.values()]
    bars = axis.barh(list(parts), list(parts.values()), color=colours)
    axis.bar_label(bars, fmt="{:.2f}", padding=3)
    axis.axvline(0, color="#555555", lw=0.8)
    axis.margins(x=0.15)
    axis.set(xlabel=label)
    axis.invert_yaxis()
    return axis


def closed_chart(closed, counts, of, guess):
    """What is right when attention is closed: a drawing, and a bar for verbs and one for nouns.

    `closed` and `counts` have under each name the closed pairs, and how many verbs and nouns are
    right `of` so many; `guess` verbs are right without reading anything.
    """
    figure, axes = plt.subplots(
        len(closed), 2, figsize=(9, 1.3 * len(closed)), width_ratios=[1, 1.4]
    )
    names = {"others": "others", "object": "piano", "play": "play", "decoder": "decoder"}
    for (left, right), (name, pairs) in zip(axes, closed.items()):
        attention_closed(left, pairs, names)
        bars = right.barh(["verbs", "nouns"], counts[name], color=[COLOURS["train"], "#999999"])
        right.bar_label(bars, padding=3)
        right.axvline(guess, color="#555555", lw=1, ls=":")
        right.set(xlim=(0, of), xticks=[])
        right.set_title(name, loc="left", size=12)
        right.invert_yaxis()
    axes[-1, 1].set(xticks=[0, guess, of], xlabel="right")
    return figure


def curves(x, series, title, x_label, y_label, axis=None, colours=None, **options):
    """Lines over one x: `series` maps names to y values; those in COLOURS get their own colour."""
    axis = axis or plt.subplots(figsize=(7, 3.6))[1]
    for number, (name, values) in enumerate(series.items()):
        axis.plot(
            x, values, label=name, color=(colours or COLOURS).get(name, f"C{number}"), **options
        )
    axis.set(title=title, xlabel=x_label, ylabel=y_label)
    if len(series) > 1:
        axis.legend(frameon=False)
    return axis


def training_curves(records, axes=None, clip=None):
    """A run's log over its steps: loss, BLEU on dev, learning rate, norm of the gradient."""
    axes = list(plt.subplots(2, 2, figsize=(9, 6.5))[1].flat if axes is None else axes)
    for axis in axes:
        axis.clear()

    def column(name):
        """Steps and values of the records that have it."""
        points = [(record["step"], record[name]) for record in records if name in record]
        return zip(*points) if points else ([], [])

    smoothed = dict(label="train, label smoothing and dropout", color="#BBBBBB", linewidth=1)
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
    figure, axes = plt.subplots(1, 2, figsize=(10, 1.2 + 0.34 * len(rows)), sharey=True)
    titles = ("Loss on dev: left is better", "Beam search on dev: right is better")
    units = ("nats per token", "BLEU")
    for axis, key, title, unit in zip(axes, ("dev_loss", "beam"), titles, units):
        axis.axvspan(min(rows[0][key]), max(rows[0][key]), color="#DDDDDD")
        for place, row in enumerate(rows):
            colour = COLOURS["train"] if place else "black"
            heights = place + np.linspace(-0.12, 0.12, len(row[key]))  # so that no dot hides one
            axis.plot(row[key], heights, "o", color=colour, alpha=0.7)
        axis.set(title=title, xlabel=unit)
        axis.grid(axis="y", color="#EEEEEE")
    axes[0].set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes[0].invert_yaxis()
    return axes

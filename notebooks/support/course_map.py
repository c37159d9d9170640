"""The map of the course: what the site links and the lessons show, one part lit."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from notebooks.support.pictures import COLOURS, arrow, show


def stack(left, *sublayers):
    """The parts of a layer of the encoder or the decoder, and the last norm: as in MAP.

    Each sublayer has a norm below and a sum above it.
    """
    parts = []
    for number, label in enumerate(sublayers):
        bottom = 3.4 + 1.9 * number
        parts += [
            (5, "05 norm", left, bottom, 3.2, 0.42),
            (int(label[:2]), label, left, bottom + 0.48, 3.2, 0.55),
            (7, "07 add", left, bottom + 1.09, 3.2, 0.42),
        ]
    return [*parts, (5, "05 norm", left, 3.5 + 1.9 * len(sublayers), 3.2, 0.42)]


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
    *stack(0.6, "04 self-attention", "06 feed-forward"),
    *stack(5.2, "04 masked self-attention", "04 cross-attention", "06 feed-forward"),
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
# Where one goes up from a part to the next, in the middle of encoder and decoder.
BOTH = [(0.6, 1.1), (1.65, 1.95), (2.5, 3.4), (4.91, 5.3)]
UPWARDS = {
    2.2: [*BOTH, (6.81, 7.3)],
    6.8: [*BOTH, (6.81, 7.2), (8.71, 9.2), (9.62, 10.15)],
}
# Each is a line through points. The first three: the memory, the scores, the Chinese that the loss
# compares them with.
ARROWS = [
    [(3.8, 7.51), (4.45, 7.51), (4.45, 6.05), (5.2, 6.05)],
    [(8.4, 10.45), (9.25, 10.45), (9.25, 7.7), (9.6, 7.7)],
    [(8.4, 0.3), (12.75, 0.3), (12.75, 7.7), (12.4, 7.7)],
    *([(x, start), (x, end)] for x, steps in UPWARDS.items() for start, end in steps),
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
    for x, text in ((0, "We play\nthe piano."), (9.4, "我们弹钢琴。")):
        axis.text(x, 0, text, ha="center", va="center", size=13)
    for x, name in ((2.6, "encoder"), (6.4, "decoder")):
        frame = {"boxstyle": "round,pad=0.7", "fc": "white", "ec": COLOURS[name], "lw": 2}
        axis.text(x, 0, name, ha="center", va="center", size=13, bbox=frame)
    style = {"color": "#555555", "lw": 1.4}
    for start, end in ((0.8, 1.75), (3.45, 5.5), (7.3, 8.3)):
        arrow(axis, (start, 0), (end, 0), **style)
    axis.text(4.5, 0.15, "a vector for\neach English word", ha="center", va="bottom", size=11)
    arrow(axis, (9.2, -0.25), (6.4, -0.24), connectionstyle="arc3,rad=-0.35", **style)
    axis.text(7.9, -1.0, "what is written so far", ha="center", va="center", size=11)
    axis.set(xlim=(-0.9, 10.5), ylim=(-1.2, 0.9))
    axis.axis("off")
    show()


def series_map(*notebooks, notes=()):
    """The whole course as one picture, like the paper's Figure 1, the parts of these notebooks lit.

    The norm stands before each sublayer and once behind each stack, as in `small` (notebook 07).

    `notes` are texts (x, y, text) to be written beside the arrows.
    """
    axis = plt.subplots(figsize=(10, 7.4))[1]
    arrows = list(ARROWS)
    for number, label, left, bottom, width, height in MAP:
        frame = number in FRAMES and height > 1
        colour = COLOURS["lit"] if number in notebooks else "#F7F7F7" if frame else "#E4E4E4"
        line = dict(ec="#555555", lw=0.8, ls="--" if frame and number == 10 else "-")
        shape = "round,pad=0,rounding_size=0.12"
        axis.add_patch(FancyBboxPatch((left, bottom), width, height, shape, fc=colour, **line))
        if frame:  # the name left of the arrow that comes in, what it holds on the right
            name, _, holds = label.partition(": ")
            height_of_text = bottom + (height - 0.35 if number == 10 else 0.17)
            axis.text(left + 0.12, height_of_text, name, va="center", size=12)
            axis.text(left + width / 2 + 0.25, height_of_text, holds, va="center", size=12)
        else:
            center = (left + width / 2, bottom + height / 2)
            axis.text(*center, label, ha="center", va="center", size=12)
        if number == 7:
            arrows.append(shortcut(left, bottom, width, height))
    line = dict(color="#555555", lw=1)
    for left, bottom, *size in LAYERS:
        axis.add_patch(plt.Rectangle((left, bottom), *size, fill=False, ls=":", **line))
    for points in arrows:
        axis.plot(*zip(*points), solid_capstyle="butt", **line)
        arrow(axis, points[-2], points[-1], shrinkA=0, shrinkB=0, **line)
    for x, y, text in notes:
        box = {"fc": "white", "ec": "none", "pad": 0.5}
        axis.text(x, y, text, size=12, color=COLOURS["train"], va="center", bbox=box)
    axis.set(xlim=(-0.1, 12.9), ylim=(-0.1, 11.1))
    axis.axis("off")
    show()


def shapes_map(notebook, batch, shapes):
    """The map with the shapes of a pass through the model beside its arrows.

    `shapes` are those of `record_shapes` for this batch.
    """
    left, right = 2.35, 6.95  # beside the arrows of encoder and decoder
    notes = [
        (left, 0.85, f"ids {tuple(batch.src.shape)}"),
        (right, 0.85, f"ids {tuple(batch.tgt_in.shape)}"),
        (left, 1.8, shapes["src_embedding"][0]),
        (right, 1.8, shapes["tgt_embedding"][0]),
        (left, 2.63, shapes["positions"][0]),
        (right, 2.63, shapes["positions"][1]),
        (left, 8.2, f"memory {shapes['encoder'][0]}"),
        (right, 9.95, shapes["decoder"][0]),
        (5.35, 7.0, shapes["decoder.layers.0.cross_attention.output"][0]),
        (9.4, 9.55, f"logits {shapes[''][0]}"),
    ]
    series_map(notebook, notes=notes)


def labels():
    """All texts of the map, each once; of a frame both halves, too."""
    return list(dict.fromkeys(text for _, label, *_ in MAP for text in (label, *label.split(": "))))

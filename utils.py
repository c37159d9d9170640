"""What every notebook needs besides the model: the device, seeds, and the pictures."""

import importlib.util
import random
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib import font_manager
from matplotlib.colors import ListedColormap

ROOT = Path(__file__).resolve().parent

# One colour for each thing throughout, from the Okabe-Ito palette, which colour-blind readers can tell apart.
COLOURS = {
    "train": "#0072B2",
    "dev": "#E69F00",
    "encoder": "#56B4E9",
    "decoder": "#009E73",
    "cross": "#CC79A7",
    "wrong": "#D55E00",
    "right": "#009E73",
}
CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei",
    "SimHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Noto Sans CJK JP", "Arial Unicode MS",
)  # fmt: skip


def device():
    """Where to compute: CUDA if there is one, then Apple's MPS, then the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def seed_everything(seed):
    """Makes Python's, NumPy's and PyTorch's random numbers the same in every run."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def cjk_font():
    """The name of a font that can show Chinese: the system's if it has one, else the Noto Sans CJK that mplfonts ships."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    name = next((name for name in CJK_FONTS if name in installed), None)
    if name is None:
        folder = Path(importlib.util.find_spec("mplfonts").submodule_search_locations[0])
        path = folder / "fonts" / "NotoSansCJKsc-Regular.otf"
        font_manager.fontManager.addfont(path)
        name = font_manager.FontProperties(fname=path).get_name()
    return name


def use_style():
    """Sets matplotlib up once: a font for Latin and one for Chinese letters, sizes that a projector shows, no clutter."""
    plt.rcParams.update(
        {
            "font.family": ["DejaVu Sans", cjk_font()],
            "font.size": 11,
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": plt.cycler(
                color=["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000"]
            ),
            "image.cmap": "cividis",
        }
    )


use_style()


def attention_heatmap(weights, rows, columns, title, axis=None, row_name="query", column_name="key"):
    """One attention map: weights (len(rows), len(columns)) between 0 and 1, the tokens along both axes."""
    if axis is None:
        size = (1.8 + 0.42 * len(columns), 1.4 + 0.42 * len(rows))
        axis = plt.subplots(figsize=size)[1]
    image = axis.imshow(torch.as_tensor(weights).float().cpu(), vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    axis.set(title=title, xlabel=column_name, ylabel=row_name)
    axis.figure.colorbar(image, ax=axis, label="weight")
    return axis


def mask_figure(mask, rows, columns, title, axis=None):
    """A boolean mask (len(rows), len(columns)): True, may attend, is filled."""
    if axis is None:
        axis = plt.subplots(figsize=(1.6 + 0.42 * len(columns), 1.3 + 0.42 * len(rows)))[1]
    axis.imshow(
        torch.as_tensor(mask).cpu(), vmin=0, vmax=1, aspect="auto", cmap=ListedColormap(["#EEEEEE", COLOURS["encoder"]])
    )
    axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    axis.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="white", linewidth=2)
    axis.tick_params(which="minor", length=0)
    axis.set(title=title, xlabel="key (attended to)", ylabel="query (attends)")
    return axis


def curves(x, series, title, x_label, y_label, axis=None, colours=None, **options):
    """Lines over one x: `series` maps a name to its y values; names in COLOURS get their own colour."""
    axis = axis or plt.subplots(figsize=(7, 3.6))[1]
    for number, (name, values) in enumerate(series.items()):
        axis.plot(x, values, label=name, color=(colours or COLOURS).get(name, f"C{number}"), **options)
    axis.set(title=title, xlabel=x_label, ylabel=y_label)
    if len(series) > 1:
        axis.legend(frameon=False)
    return axis


def training_curves(records, axes=None):
    """Loss on train and dev, and the learning rate, over the steps of a run's log."""
    axes = plt.subplots(1, 2, figsize=(10, 3.4))[1] if axes is None else axes
    for axis in axes:
        axis.clear()
    steps = [record["step"] for record in records]
    evaluated = [record for record in records if "dev_loss" in record]
    curves(steps, {"train": [record["loss"] for record in records]}, "Loss", "step", "nats per target token", axes[0])
    axes[0].plot(
        [record["step"] for record in evaluated],
        [record["dev_loss"] for record in evaluated],
        "o-",
        label="dev",
        color=COLOURS["dev"],
    )
    axes[0].lines[0].set_label("train (smoothed)")
    axes[0].legend(frameon=False)
    curves(
        steps,
        {"rate": [record["learning_rate"] for record in records]},
        "Learning rate",
        "step",
        "learning rate",
        axes[1],
    )
    return axes

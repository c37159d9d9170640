"""Trains a Transformer: `python train.py --data data_small --config small --run runs/small`."""

import io
from dataclasses import dataclass
from pathlib import Path

from engine.startup import tune_process

tune_process()  # before PyTorch

import tyro

from engine.checks import check_name
from engine.devices import DeviceName, choose_device
from engine.errors import InputError, end_at_signals, run_command, what_to_do
from engine.files import write_whole
from engine.options import parse_command
from engine.run import is_first, leave_processes, run_training
from engine.run_config import RunConfig
from engine.run_folder import RunFolder
from engine.scoring import print_samples
from utils import ROOT


@dataclass(frozen=True)
class TrainCommand:
    """Train a Transformer. The same command again goes on where it stopped."""

    settings: tyro.conf.OmitArgPrefixes[RunConfig]
    data: Path = ROOT / "data_small"  # folder with train and dev: data_large/README.md has formats
    config: str = "small"  # preset, as in notebook 00; the other options change it
    run: Path | None = None  # folder that the run is written to; runs/CONFIG if not given
    start: Path | None = None  # begin with vocabularies, weights and settings of this run
    restart: bool = False  # begin anew; the run that is there goes when the new one is evaluated
    # where to compute; auto: CUDA if there is one, else the CPU; mps: Apple's GPU
    device: DeviceName | None = None
    plot: Path | None = None  # train nothing: draw the run's log into this picture file


def train_command(argv):
    """Parses, settles where to compute, and trains."""
    command = parse_command(TrainCommand, argv, "train.py", preset="small")
    choose_device(command.device)
    return train_with(command)


def plot_log(run, picture):
    """Draws the log of a `RunFolder`, while it trains or later, into a picture file."""
    from notebooks.support.pictures import training_curves  # only who draws loads matplotlib

    if picture.suffix.lower() not in (".png", ".svg", ".pdf", ".jpg"):
        raise InputError(f"{picture}: give a picture file that ends in .png, .svg, .pdf or .jpg")
    records = run.read_log()
    if not records:
        raise InputError(f"{run.path}: holds no log yet. Is it the folder of a run that has begun?")
    figure = training_curves(records, clip=run.read_config().max_grad_norm)[0].figure
    drawn = io.BytesIO()
    figure.savefig(drawn, format=picture.suffix[1:].lower())
    try:
        write_whole(picture, drawn.getvalue())
    except OSError as error:
        raise OSError(f"{picture}: not written ({error.strerror}). {what_to_do(error)}") from None


def train_with(command):
    """Trains, and prints how it ended."""
    if command.start and not command.run:
        raise InputError("--start begins a run that is none of a preset: give it a --run")
    check_name("the preset's name", command.config)  # a folder in runs/ is called so
    run = RunFolder(command.run or ROOT / "runs" / command.config)
    if command.plot:
        default = RunConfig.preset(command.config)
        more = command.restart or command.data != ROOT / "data_small"
        if more or command.settings != default:
            raise InputError("--plot draws, and trains nothing: leave the training's options out")
        plot_log(run, command.plot)
        return 0
    options = command.restart, print_samples, command.start
    records = run_training(command.data, command.settings, run.path, *options)
    if is_first():
        losses = [record for record in records if "dev_loss" in record]
        best = min(losses, key=lambda record: record["dev_loss"])
        summary = f"best dev loss {best['dev_loss']:.3f} nats a token at step {best['step']}"
        print(f"{run.path}: finished at step {records[-1]['step']}; {summary}")
    leave_processes()
    return 0


def main(argv=None):
    """The command line. Returns the exit status."""
    return run_command(train_command, argv)


if __name__ == "__main__":
    end_at_signals()
    raise SystemExit(main())

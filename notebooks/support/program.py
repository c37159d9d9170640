"""The code of all seventeen lessons, and a program that trains with it and translates.

    python transformer.py DATA --out RUN < sentences.txt
    torchrun --nproc-per-node 2 transformer.py DATA --out RUN --bfloat16 --pieces 2

DATA holds train.tsv and dev.tsv, in each line a source sentence, a tab and its translation. A
training that was stopped goes on, and a finished one only translates standard input. The presets
stand in PRESETS, under lesson 00. For more use the course's own train.py and translate.py.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_model

from notebooks.data_preparation import (
    TokenBatchSampler,
    TranslationDataset,
    add_marks,
    make_dataloader,
    make_tokenizer,
    make_tokenizers,
    pad_rows,
    read_pairs,
)
from notebooks.label_smoothing import LabelSmoothing
from notebooks.loss import BatchLoss, evaluate
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import make_optimizer
from notebooks.setup import PRESETS, Config
from notebooks.training import train
from notebooks.translation import beam_search


@dataclass(frozen=True)
class Settings(Config):
    """The settings of a model and its training."""

    eval_steps: int = 250
    patience: int = 0
    keep: str = "best"
    grad_accum_steps: int = 1
    dtype: str = "float32"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--out", type=Path, default=Path("run"), help="folder that is written to")
    parser.add_argument("--config", choices=PRESETS, default="small", help="preset of lesson 00")
    parser.add_argument("--steps", type=int, help="updates of the weights")
    parser.add_argument("--pieces", type=int, default=1, help="into which each batch is split")
    parser.add_argument("--bfloat16", action="store_true", help="matrix products in 16 bits")
    given = parser.parse_args()
    changes = {"steps": given.steps} if given.steps else {}
    changes |= {"grad_accum_steps": given.pieces}
    changes |= {"dtype": "bfloat16"} if given.bfloat16 else {}
    config = Settings(**PRESETS[given.config] | changes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rank = int(os.environ.get("RANK", "0"))
    if "WORLD_SIZE" in os.environ:  # torchrun has started several processes
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group()

    pairs, dev_pairs = (read_pairs(given.data / f"{split}.tsv") for split in ("train", "dev"))
    if config.tie_embeddings == "three-way":  # one vocabulary, of subwords of both languages
        texts = [text for pair in pairs for text in pair]
        source = target = make_tokenizer(texts, "subwords", config.src, config)
    else:
        source, target = make_tokenizers(pairs, config)
    train_set, dev_set = (
        TranslationDataset(part, source, target, config.max_length) for part in (pairs, dev_pairs)
    )
    sampler = TokenBatchSampler(dev_set.lengths, config.batch_tokens, shuffle=False)
    dev_batches = [batch.to(device) for batch in make_dataloader(dev_set, sampler)]

    torch.manual_seed(config.seed)
    model = make_model(config, len(source), len(target)).to(device)
    optimizer, scheduler = make_optimizer(model, config)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    given.out.mkdir(parents=True, exist_ok=True)

    def measure(step):
        return {"dev_loss": evaluate(BatchLoss(model, LabelSmoothing(0)), dev_batches)}

    def show(record):
        if rank == 0:
            print(*(f"{name} {value:.5g}" for name, value in record.items()), sep=", ", flush=True)

    train(
        parts, LabelSmoothing(config.label_smoothing), train_set, config, given.out,
        measure=measure, after_step=lambda step: False, on_record=show,
    )  # fmt: skip
    if rank:
        return
    load_model(model.eval(), given.out / "model.safetensors")
    for line in sys.stdin:
        ids = source.encode(line.strip())[: config.max_length]
        src = pad_rows([add_marks(ids, [])[0]]).to(device)
        (_, best), *_ = beam_search(model, src, config.max_length)[0]
        print(target.decode(best) if ids else "", flush=True)


if __name__ == "__main__":
    main()

"""What an exported folder is worth: `python benchmarks/exported.py [--run RUN]`, 4 minutes.

Prints for each form, in 32 bits and in 8, the size of the folder, corpus BLEU and chrF on the test
set of data_small, greedy and with a beam of 4, and how many translations are Translator's.
"""

import argparse
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from engine.corpus.formats import read_split
from engine.export.folder import export
from engine.run_folder import BOX
from engine.scoring import measure
from engine.translator import Translator
from utils import ROOT


def lines_of(folder, texts, beam_size):
    """What run.py makes of texts."""
    command = [sys.executable, str(folder / "run.py"), "--beam-size", str(beam_size)]
    given = "\n".join(texts) + "\n"
    options = dict(capture_output=True, text=True, encoding="utf-8", check=True)
    return subprocess.run(command, input=given, **options).stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=BOX)
    run = parser.parse_args().run
    translator = Translator.load(run, device="cpu")
    texts, references = zip(*read_split(ROOT / "data_small", "test", translator.config))
    with tempfile.TemporaryDirectory() as place:
        folders = {}
        for form, int8 in product(("ctranslate2", "onnx"), (False, True)):
            name = form + " int8" * int8
            folders[name] = Path(place) / name
            export(run, folders[name], form, int8)
        for beam_size in (1, 4):
            print("greedy search" if beam_size == 1 else f"a beam of {beam_size}")
            ours = translator.translate(list(texts), beam_size)
            written = {name: lines_of(folder, texts, beam_size) for name, folder in folders.items()}
            for name, lines in {"Translator": ours, **written}.items():
                scores = measure(lines, references, translator.config.tgt)
                equal = sum(one == other for one, other in zip(lines, ours))
                print(f"{name:22} BLEU {scores['bleu']:5.2f}  chrF {scores['chrf']:5.2f}", end="  ")
                print(f"equal {equal} of {len(ours)}", flush=True)
        for name, folder in folders.items():
            size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
            print(f"{name:22} {size:5.1f} MB")
        print(scores["bleu_signature"], scores["chrf_signature"], sep="\n")


if __name__ == "__main__":
    main()

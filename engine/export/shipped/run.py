"""Translates: `python run.py "Good morning."`, or lines on standard input to lines of output.

In a program: `from run import Model`, then `Model().translate(["Good morning."])`. It needs the
libraries tokenizers and the engine of `settings.json`, ctranslate2 or onnxruntime; nothing else.
"""

import argparse
import errno
import hashlib
import json
import sys
from pathlib import Path

from plain_text import (
    InputError,
    join_words,
    numbered_lines,
    numbered_texts,
    one_line,
    rounds,
    same_file,
)


class Model:
    """What this folder translates with. Raises ValueError or OSError where a file is damaged."""

    def __init__(self, folder=None):
        from runtime import Engine
        from tokenizers import Tokenizer

        folder = Path(folder or __file__).resolve()
        folder = folder if folder.is_dir() else folder.parent
        self.settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        for name, digest in self.settings["files"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                raise ValueError(f"{folder / name}: is not as it was written. Take a whole copy")
        files = (str(folder / f"{side}.json") for side in ("source", "target"))
        self.source, self.target = map(Tokenizer.from_file, files)
        self.engine = Engine(folder, self.source, self.target)

    def length(self, text):
        """How many tokens a text has; what is behind the first `max_length` is not translated."""
        return len(self.source.encode(one_line(text)).ids)

    def translate(self, texts, beam_size=4, batch_size=32, first=1):
        """One translation for each text, the first of which is line `first`."""
        if isinstance(texts, str):  # would be taken for a list of characters
            raise TypeError("give a list of texts, as in translate([text])")
        for name, size, most in (("beam_size", beam_size, 100), ("batch_size", batch_size, 10_000)):
            if type(size) is not int or not 1 <= size <= most:
                raise ValueError(f"{name} is {size!r}: give a whole number from 1 to {most}")
        texts = [one_line(text) for text in texts]
        longest = self.settings["max_length"]
        written = [""] * len(texts)
        rows = [encoding.ids for encoding in self.source.encode_batch(texts)]
        for number, row in enumerate(rows, start=first):
            if len(row) > longest:
                print(f"line {number}: cut after {longest} tokens", file=sys.stderr)
        rows = [row[:longest] for row in rows]
        order = sorted((n for n, row in enumerate(rows) if row), key=lambda n: len(rows[n]))
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            limits = [min(2 * len(rows[n]) + 12, longest + 1) for n in numbers]
            batch = [rows[n] for n in numbers]
            translations = self.engine.search(batch, limits, beam_size, self.settings["alpha"])
            for number, limit, ids in zip(numbers, limits, translations):
                written[number] = self.join(ids[: limit - 1])
        return written

    def join(self, ids):
        """The text of these ids; of words no space before a closing mark or after an opening."""
        if self.settings["join"] != "words":
            return self.target.decode(ids)
        _, language = self.settings["languages"]
        return join_words(map(self.target.id_to_token, ids), language)


def main():
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Translate texts, or the lines of standard input.")
    parser.add_argument("text", nargs="*")
    parser.add_argument("--beam-size", type=int, default=4, help="1 is greedy search; default 4")
    options = parser.parse_args()
    if not 1 <= options.beam_size <= 100:
        parser.error("--beam-size must be from 1 to 100")
    try:
        if sys.stdout:  # None: closed
            sys.stdout.reconfigure(encoding="utf-8")
        model = Model()
        lines = numbered_texts(options.text)
        if sys.stdin and not options.text:
            if same_file(sys.stdin.fileno(), sys.stdout):
                raise InputError("standard input: would be read and written at once")
            lines = numbered_lines(sys.stdin.buffer, "standard input")
        for batch in rounds(lines):  # each line is answered as it comes, many together
            numbers, texts = zip(*batch)
            translations = model.translate(texts, options.beam_size, first=numbers[0])
            print(*map(one_line, translations), sep="\n", flush=True)
    except BrokenPipeError:
        return 141
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        hint = "Export the folder again" if error.name == "runtime" else f"pip install {error.name}"
        print(f"error: {error}. Try: {hint}", file=sys.stderr)
        return 2
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # a damaged folder: told in one line
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        full = getattr(error, "errno", None) == errno.ENOSPC  # where standard output goes
        hint = "Make room" if full else "If the folder is not whole, export it again"
        print(f"error: {message}. {hint}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

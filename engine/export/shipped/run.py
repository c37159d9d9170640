"""Translates: `python run.py "Good morning."`, or lines on standard input to lines of output.

In a program: `from run import Model`, then `Model().translate_typed(["Good morning."])`. It needs
the libraries tokenizers, ctranslate2 and sentencex, and nothing else.
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

from plain_text import InputError, join_words, numbered_lines, numbered_texts, one_line, rounds
from typed_text import sentences_of, translate_typed


class Model:
    """What this folder translates with."""

    def __init__(self, folder=None):
        import ctranslate2
        from tokenizers import Tokenizer

        folder = Path(folder or Path(__file__).parent).resolve()
        self.settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        files = (str(folder / f"{side}.json") for side in ("source", "target"))
        self.source, self.target = map(Tokenizer.from_file, files)
        self.engine = ctranslate2.Translator(str(folder))

    def length(self, line):
        """The tokens of its longest sentence; more than `max_length` are not translated."""
        sentences = sentences_of(one_line(line), list(self.settings["languages"])[0])
        return max(len(self.source.encode(sentence).ids) for sentence, _ in sentences)

    def translate_typed(self, lines, **options):
        """Translates lines as people type them, one for each."""
        return translate_typed(self.translate, lines, list(self.settings["languages"]), **options)

    def translate(self, texts, beam_size=4, batch_size=32, numbers=None):
        """One translation for each text; `numbers` are those of their lines."""
        longest = self.settings["max_length"]
        rows = [code.ids for code in self.source.encode_batch([one_line(text) for text in texts])]
        for number, row in zip(numbers or itertools.count(1), rows):
            if len(row) > longest:
                print(f"line {number}: cut after {longest} tokens", file=sys.stderr)
        rows = [row[:longest] for row in rows]
        written = [""] * len(rows)
        order = sorted((n for n, row in enumerate(rows) if row), key=lambda n: len(rows[n]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            limits = [min(2 * len(rows[n]) + 12, longest + 1) for n in batch]
            translations = self.search([rows[n] for n in batch], max(limits), beam_size)
            for n, limit, ids in zip(batch, limits, translations):
                written[n] = self.join(ids[: limit - 1])
        return written

    def search(self, rows, limit, beam_size):
        """The ids of a translation for each row of ids, without EOS."""
        names = [[self.source.id_to_token(number) for number in row] for row in rows]
        options = {"beam_size": beam_size, "max_decoding_length": limit}
        # a translation may be empty
        results = self.engine.translate_batch(names, min_decoding_length=0, **options)
        return [[*map(self.target.token_to_id, result.hypotheses[0])] for result in results]

    def join(self, ids):
        """The text of these ids; of words no space before a closing mark or after an opening."""
        if self.settings["join"] != "words":
            return self.target.decode(ids)
        _, language = self.settings["languages"]
        return join_words(map(self.target.id_to_token, ids), language)


def translate_all(texts, beam_size):
    """Prints the translations of texts, or of standard input's lines as they come."""
    model = Model()
    lines = numbered_texts(texts)
    if sys.stdin and not texts:
        lines = numbered_lines(sys.stdin.buffer, "standard input")
    for batch in rounds(lines):  # each line is answered as it comes, many together
        numbers, lines_of_batch = zip(*batch)
        options = {"first": numbers[0], "beam_size": beam_size}
        translations = model.translate_typed(lines_of_batch, **options)
        print(*map(one_line, translations), sep="\n", flush=True)


def main():
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Translate texts, or the lines of standard input.")
    parser.add_argument("text", nargs="*")
    parser.add_argument("--beam-size", type=int, default=4, help="1 is greedy search; default 4")
    options = parser.parse_args()
    if not 1 <= options.beam_size <= 100:
        parser.error("--beam-size must be from 1 to 100")
    if sys.stdout:  # None: closed
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        translate_all(options.text, options.beam_size)
    except (BrokenPipeError, KeyboardInterrupt) as error:
        return 141 if isinstance(error, BrokenPipeError) else 130
    except ModuleNotFoundError as error:
        print(f"error: {error}. Try: pip install {error.name}", file=sys.stderr)
        return 2
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # a damaged folder: told in one line
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(f"error: {message}. If the folder is not whole, export it again", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

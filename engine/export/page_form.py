"""A run as a page that translates in a browser, opened from the disk: index.html, with its weights.

The page computes with `page/engine.js`, the model once more in JavaScript. It knows the course's
own classes, so with edited ones no page is written. tests/test_translating_page.py compares both.
"""

import base64
import json
import os
import shutil
from pathlib import Path

import torch

from engine.errors import InputError, what_to_do
from engine.export.tokenizer_files import BLANKS, names, word_pattern
from engine.files import check_folder, fresh_name, read_json, write_whole
from engine.fonts import chinese_font
from engine.languages import name_of
from engine.lessons import refuse_edited
from engine.plain_text import APOSTROPHE, CLOSING, INVISIBLE, OPENING
from engine.run_folder import BOX, RunFolder, is_the_box
from engine.translator import Translator, quotes_of
from notebooks.data_preparation import (
    EOS,
    CharacterSegmenter,
    SubwordSegmenter,
    WordSegmenter,
)
from utils import ROOT

PAGE = ROOT / "engine" / "export" / "page"
SCRIPTS = ("engine.js", "account.js", "attention_viewer.js", "shown.js", "typed_text.js",
           "answering.js", "words.js", "reading.js", "writing.js", "searching.js", "breaking.js",
           "why.js", "transplant.js", "ledger.js", "cut.js", "page.js")  # fmt: skip
FILES = ("index.html", "weights.js", "chinese.woff")
PLAYED = {
    "chess": "We play chess.",
    "piano": "We play the piano.",
    "football": "We play football.",
    "tennis": "We play tennis.",
    "violin": "We play the violin.",
    "dog": "We play with the dog.",
}
EXAMPLES = [
    "We play the violin every day.",
    "The dog bit the man.",
    "She plays the piano every evening.",
    "Can you swim?",
]


def export_page(run, out):
    """Writes a run as a page into the folder `out`, all or nothing; replaces a page of this kind.

    Raises InputError for anything else there, for a run that the page could not compute, and where
    lessons were edited.
    """
    check_folder(out, "--out")
    out = Path(os.path.realpath(out))  # behind a link the folder is exchanged, and the link stays
    check_place(out)
    refuse_edited()
    translator = Translator.load(run, device="cpu")
    check_form(translator)
    round_weights(translator.model)
    file = describe(translator)
    file["settings"] |= shown(run, translator)
    temporary = fresh_name(out)
    try:
        temporary.mkdir(parents=True)
        text = page()
        written = {sign for sign in text if not sign.isascii()}.union(*file["settings"]["target"])
        write_whole(temporary / "index.html", text)
        write_whole(temporary / "weights.js", f"const WEIGHTS = {json.dumps(file)};\n")
        write_whole(temporary / "chinese.woff", chinese_font("".join(sorted(written))))
        check_place(out)
        replace_folder(out, temporary)
    except OSError as error:
        raise OSError(f"{out}: could not be written ({error}). {what_to_do(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(out, new):
    """Puts a new folder in the place of an earlier one, which is removed when the new one is there.

    Raises OSError, naming the earlier one's new name, where it cannot be removed.
    """
    earlier = fresh_name(out)
    if out.exists():
        shutil.copymode(out, new)
        out.rename(earlier)
    new.rename(out)
    if earlier.exists():
        shutil.rmtree(earlier)


def check_place(out):
    """Raises InputError unless `out` is free, or a page that was written here before."""
    there = {path.name for path in out.iterdir()} if out.is_dir() else {"a file"}
    if out.exists() and there and not {"index.html", "weights.js"} <= there <= set(FILES):
        raise InputError(f"{out}: is there already, and no translating page. Give another --out")


def check_form(translator):
    """Raises InputError for a run whose form the page's engine does not know."""
    source = translator.source.segmenter
    target = translator.target.segmenter
    words = f"its source is split by {type(source).__name__}"
    problems = {
        f"{words}, which the page cannot do": type(source) is not WordSegmenter
        and type(source) is not CharacterSegmenter,
        "its source words are found by jieba, which a page has not": source.__class__
        is WordSegmenter
        and source.language == "zh",
        "it writes subwords, which the page cannot join": isinstance(target, SubwordSegmenter),
        "its widths are no multiples of 4": translator.config.d_model % 4
        or translator.config.d_ff % 4,
    }
    for reason, wrong in problems.items():
        if wrong:
            raise InputError(f"{reason}. A page can be made of a run of words or characters")


@torch.no_grad()
def round_weights(model):
    """Rounds a model's weights to the 16 bits that the page holds."""
    for parameter in model.parameters():
        parameter.copy_(parameter.half())
        if not parameter.isfinite().all():
            raise InputError("its weights are too large for 16 bits: no page can be made of them")


def describe(translator):
    """All that the engine needs, in the form of JSON: settings, tokens and weights."""
    config = translator.config
    target = translator.target.segmenter
    every = isinstance(translator.source.segmenter, CharacterSegmenter)
    settings = {
        "languages": [name_of(config.src), name_of(config.tgt)],
        "codes": [config.src, config.tgt],
        "max_length": config.max_length,
        "alpha": translator.alpha,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "d_model": config.d_model,
        "norm_place": config.norm,
        "source": names(translator.source),
        "target": names(translator.target),
        "token": r"[\s\S]" if every else javascript(word_pattern()),
        "blank": javascript(BLANKS),
        "invisible": INVISIBLE.pattern,
        "apostrophe": APOSTROPHE.pattern,
        "quotes": quotes_of(translator.source),
        "lowercase": not every and translator.source.segmenter.lowercase,
        "spaced": isinstance(target, WordSegmenter) and target.language != "zh",
        "dash": getattr(target, "language", None) == "en",
        "opening": "".join(sorted(OPENING)),
        "closing": "".join(sorted(CLOSING)),
    }
    tensors = {}
    parts = []
    offsets = {}
    size = 0
    for name, tensor in translator.model.state_dict().items():
        pointer = tensor.data_ptr()  # tied ones share their numbers
        if pointer not in offsets:
            offsets[pointer] = size
            parts.append(tensor.half().numpy().tobytes())
            size += tensor.numel()
        tensors[name] = [offsets[pointer], *tensor.shape]
    weights = base64.b64encode(b"".join(parts)).decode()
    return {"settings": settings, "tensors": tensors, "weights": weights}


def javascript(pattern):
    """A pattern of Oniguruma as JavaScript writes it."""
    return pattern.replace(r"\x{", r"\u{")


def shown(run, translator):
    """What the page shows besides: sentences to try, the six of the course, glosses, its training.

    A run from another language than English has sentences of its log to try.
    """
    config = translator.config
    source = translator.source
    known = config.src == "en" and "play" in source.vocabulary.tokens
    examples = list(EXAMPLES)
    if config.src != "en":
        samples = [
            sample for record in RunFolder(run).read_log() for sample in record.get("samples", ())
        ]
        examples = list(dict.fromkeys(sentence for sentence, _ in samples))[:5]
        examples = examples or [source.decode(list(range(EOS + 1, EOS + 6)))]
    trained = max((record["step"] for record in RunFolder(run).read_log()), default=config.steps)
    trained_on = ["tokens", f"{trained:,}", f"{config.batch_tokens:,}"]
    breaks = []
    if is_the_box(run):
        breaks = read_json(BOX / "breaks.json")["rows"]  # tools/breaks.py has measured them
        pairs = (ROOT / "data_small" / "train.tsv").read_bytes().count(b"\n")
        trained_on = ["pairs", f"{config.steps:,}", f"{pairs:,}"]
    glosses = read_json(PAGE / "glosses.json") if config.tgt == "zh" else {}
    return {
        "examples": examples,
        "played": PLAYED if known else {},
        "glosses": [glosses.get(token, "") for token in names(translator.target)],
        "trained_on": trained_on,
        "breaks": breaks,
    }


def page():
    """The text of index.html: its style and its scripts are inlined."""

    def read(name):
        return (PAGE / name).read_text(encoding="utf-8")

    filled = read("index.html").replace("/*STYLE*/", read("page.css"))
    filled = filled.replace("/*WORDS*/", read("words.json").strip())
    return filled.replace("/*SCRIPT*/", "\n".join(map(read, SCRIPTS)))

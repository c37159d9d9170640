"""The course in another language: its prose as gettext catalogues, `translations/LANGUAGE/*.po`.

    python tools/catalogue.py update|check [LANGUAGE] [--complete]

A message is a block of Markdown (a paragraph, a list, a table, a heading), what is read in code
(catalogue_code.py), in solutions too, or a text in a picture. What code prints and formulas that
stand alone are the English notebook's. There is no second set of notebooks: a copy of the course in
another language is made of the English one and the catalogue. Its pictures are English until it is
executed.

A block that is meant to differ, since it explains Chinese to those who read none, has "differs" in
its translator's comment; it is not compared.
"""

import argparse
import difflib
import json
import re
import sys
from functools import partial
from pathlib import Path

import nbformat
import polib
from catalogue_code import code_messages, translated_code
from catalogue_faults import faults
from student import HOW_TO_WORK

from engine.errors import InputError, run_command
from engine.files import read_json, write_whole
from notebooks.support.course_map import labels
from notebooks.support.words import NUMBER

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "translations"
UTILS = "utils.py"  # what `check` says
PICTURES = "notebooks/support/words.json"  # what stands in pictures, of all lessons
PAGES = (
    "README.md",
    "docs/install.md",
    "docs/own_data.md",
    "docs/export.md",
    "docs/speed.md",
    "notebooks/README.md",
    "data_small/README.md",
    "data_small/model/README.md",
    "data_large/README.md",
)
VIEWER = "engine/export/page/attention_viewer.js"  # stands in notebooks and on pages, too
SCRIPTS = sorted((ROOT / VIEWER).parent.glob("*.js"))
# of the translating page, which has its words with it
PAGE_FILES = ("engine/export/page/index.html",
              *(path.relative_to(ROOT).as_posix() for path in SCRIPTS))  # fmt: skip
# The site's own words: they stand as _("…") or word("…") in these, or on the map of the course.
SITE = ("tools/pages.py", *PAGE_FILES)
WORD = re.compile(r'\b(?:_|word)\(\s*"([^"]+)"|data-word>([^<]+)<')
TOLD = {"alt", "caption"}  # of a picture, in its cell's metadata
ALIKE = 0.6  # a changed block that is as like its former self keeps the translation, as fuzzy
BLOCK = re.compile(r"(?m)(?:^```[\s\S]*?```|^\$\$[\s\S]*?\$\$|[^\n]|\n(?!\n))+")
PYTHON = re.compile(r"```python\n([\s\S]*)```")  # a fenced block of it, as solutions have one
# what no reader reads as words: code, formulas that stand alone, tags, pictures without a text
# (but a fence marked as text is read: pseudocode, and commands with what they do behind them)
WORDLESS = re.compile(r"```(?!text)[\s\S]*```|(    .*\n?)+|\$\$[\s\S]*\$\$|(<[^>]+>\s*)+|[^\w]*")


def blocks(text):
    """The blocks of a Markdown text: what stands between empty lines; fenced blocks are whole."""
    return [block for part in BLOCK.findall(text) if (block := part.strip("\n"))]


def is_message(block):
    """Whether there is something to translate."""
    return not WORDLESS.fullmatch(block)


def texts_of(markdown):
    """The messages of a Markdown text; of a block of Python, those of its code."""
    for block in blocks(markdown):
        if code := PYTHON.fullmatch(block):
            yield from code_messages(code[1])
        elif is_message(block):
            yield block


def sources():
    """{name of a catalogue: the path of its source from the root}: notebooks, then pages."""
    notebooks = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    names = [path.relative_to(ROOT).as_posix() for path in notebooks] + [*PAGES, HOW_TO_WORK, UTILS]
    return {catalogue_of(name): name for name in names} | {"site": SITE[0]}


def catalogue_of(name):
    """The name of the catalogue of a notebook or a page: 04_multi_head_attention, data_small."""
    path = Path(name)
    return path.stem if path.suffix == ".ipynb" else "_".join(path.with_suffix("").parts)


def texts(name, text):
    """The messages of a file, a list for each cell of a notebook."""
    if name == UTILS:
        return [code_messages(text)]
    if name.endswith(".md"):
        return [texts_of(text)]
    cells = nbformat.reads(text, as_version=4).cells
    return [
        code_messages(cell.source) if cell.cell_type == "code" else texts_of(cell.source)
        for cell in cells
    ]


def messages(name):
    """{block: the numbers of the texts it stands in} of a file, in their order.

    The texts of pictures come last.
    """
    if name == SITE[0]:
        return {one: [] for one in own_words(SITE) + labels()}
    text = (ROOT / name).read_text(encoding="utf-8")
    positions = {}
    for number, part in enumerate(texts(name, text)):
        for block in part:
            numbers = positions.setdefault(block, [])
            numbers += [number] if number not in numbers else []
    if name.endswith(".ipynb"):
        for one in pictured(nbformat.reads(text, as_version=4)):
            positions.setdefault(one, [])
    return positions


def own_words(files):
    """The words that stand as such in these files."""
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
    return ["".join(groups) for text in texts for groups in WORD.findall(text)]


def about_pictures(cell):
    """The texts for those who cannot see a cell's picture ("alt"), and its caption: two dicts."""
    shown = cell.metadata.get("mystnb", {})
    return shown.get("image", {}), shown.get("figure", {})


def pictured(notebook):
    """The texts about a notebook's pictures and in them.

    Of those that differ in numbers alone, the first. Those on the map of the course are the site's.
    """
    every = []
    for cell in notebook.cells:
        every += [about[key] for about in about_pictures(cell) for key in TOLD if key in about]
        for output in cell.get("outputs", ()):
            every += output.get("metadata", {}).get("image/png", {}).get("texts", ())
    own = [text for text in every if text not in labels()]
    return list({NUMBER.sub("{}", text): text for text in reversed(own)}.values())[::-1]


def next_place(numbers, match):
    """The field {place} for a number, which matched, among those of its text, each used once."""
    index = numbers.index(match[0])
    numbers[index] = None
    return f"{{{index}}}"


def number_patterns(texts, words):
    """{text: its translation} of those in `words`, with {} for numbers, and {0} for the first."""
    patterns = {}
    for text in filter(words.get, texts):
        place = partial(next_place, NUMBER.findall(text))
        patterns[NUMBER.sub("{}", text)] = NUMBER.sub(place, words[text])
    return patterns


def verdict(line, words, verdicts):
    """A line that `check` has printed, in the language of both catalogues."""
    name, _, result = line.partition(": ")
    said = {"name": words.get(name, name), "result": verdicts.get(result, result)}
    return verdicts.get("{name}: {result}", "{name}: {result}").format(**said)


def picture_words(language):
    """{text of a picture: its translation} with {} and {0} for numbers, of all lessons."""
    patterns = number_patterns(labels(), translations(language, "site"))
    for name, source in sources().items():
        if source.endswith(".ipynb"):
            texts = pictured(nbformat.read(ROOT / source, as_version=4))
            patterns |= number_patterns(texts, translations(language, name))
    return patterns


def path_of(language, name):
    """The file of a catalogue."""
    return FOLDER / language / f"{name}.po"


def read(language, name):
    """A catalogue, or an empty one."""
    path = path_of(language, name)
    try:
        catalogue = polib.pofile(str(path)) if path.exists() else polib.POFile()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: no catalogue in UTF-8 ({error}). Is it damaged?") from None
    catalogue.wrapwidth = 0  # a line of the file is a line of the text
    return catalogue


def languages():
    """The languages of the course besides English: folders with a terms.json."""
    return sorted(path.parent.name for path in FOLDER.glob("*/terms.json"))


def update(language):
    """Brings a language's catalogues up to date; returns how many entries are empty, and fuzzy.

    New blocks become empty entries, changed ones fuzzy entries with what their former selves had;
    what is no longer in the source stays at the end, as obsolete.
    """
    (FOLDER / language).mkdir(parents=True, exist_ok=True)
    empty = fuzzy = 0
    for name, source in sources().items():
        old = read(language, name)
        known = {entry.msgid: entry for entry in old}
        current = messages(source)
        left = [entry for text, entry in known.items() if text not in current and entry.msgstr]
        new = polib.POFile(wrapwidth=0)
        new.metadata = {"Language": language, "MIME-Version": "1.0",
                        "Content-Type": "text/plain; charset=utf-8",
                        "Content-Transfer-Encoding": "8bit"}  # fmt: skip
        for text, numbers in current.items():
            entry = known.get(text) or entry_like(text, left)
            entry.obsolete = False
            entry.occurrences = [(source, str(number)) for number in numbers]
            new.append(entry)
            empty += not entry.msgstr
            fuzzy += entry.fuzzy
        for entry in left:
            entry.obsolete = True
            new.append(entry)
        new.save(str(path_of(language, name)))
    return empty, fuzzy


def entry_like(text, left):
    """The entry of a block that has none yet: fuzzy, taken from `left`, if one there is like it."""
    alike = difflib.get_close_matches(text, [entry.msgid for entry in left], 1, ALIKE)
    if not alike:
        return polib.POEntry(msgid=text)
    former = next(entry for entry in left if entry.msgid == alike[0])
    left.remove(former)
    entry = polib.POEntry(msgid=text, msgstr=former.msgstr, flags=["fuzzy"])
    entry.previous_msgid = former.previous_msgid or former.msgid  # what msgstr translates
    return entry


def translations(language, name):
    """{block: its translation} of those that are translated and not fuzzy."""
    return {one.msgid: one.msgstr for one in read(language, name).translated_entries()}


UNTRANSLATED = "<!-- not translated yet -->\n"


def translated(text, words):
    """A Markdown text with its blocks in the other language, or as they are, and marked."""
    return "\n\n".join(translated_block(block, words) for block in blocks(text))


def translated_block(block, words):
    """A block in the other language, or as it is, and marked."""
    if code := PYTHON.fullmatch(block):
        return f"```python\n{translated_code(code[1], words)}```"
    return words.get(block, as_it_is(block)) if is_message(block) else block


def as_it_is(block):
    """A block that is not translated, marked; a solution still begins as one."""
    if block.startswith("<details>"):
        return f"{block}\n{UNTRANSLATED[:-1]}"
    return UNTRANSLATED + block


def in_language(language, name, text):
    """The text of a file in a language: of one of `sources`, of the viewer, or of PICTURES."""
    if name == PICTURES:
        return json.dumps(picture_words(language), ensure_ascii=False, indent=1) + "\n"
    if name == UTILS:
        return translated_code(text, translations(language, name.removesuffix(".py")))
    if name == VIEWER:
        words = translations(language, "site")

        def own(word):
            return word[0].replace(word[1], words.get(word[1], word[1]))

        return re.sub(r'\bword\(\s*"([^"]+)"', own, text)
    if catalogue_of(name) not in sources() or name == SITE[0]:
        return text
    words = translations(language, catalogue_of(name))
    if name.endswith(".md"):
        return translated(text, words) + "\n"
    verdicts = translations(language, catalogue_of(UTILS))
    notebook = nbformat.reads(text, as_version=4)
    notebook.metadata["language"] = language
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = translated(cell.source, words)
        elif cell.cell_type == "code":
            cell.source = translated_code(cell.source, words)
            for about in about_pictures(cell):
                for key in TOLD & about.keys():
                    about[key] = words.get(about[key], about[key])
        for output in cell.get("outputs", ()) if "check" in cell.metadata.get("tags", ()) else ():
            lines = output.text.splitlines()
            output.text = "".join(verdict(line, words, verdicts) + "\n" for line in lines)
    return nbformat.writes(notebook) + "\n"


def check(language):
    """What is wrong with a language's catalogues, and what is not translated, a line each."""
    problems = []
    missing = []
    # {English term in small letters: what it may become}, {forbidden pattern: what is better}
    files = (FOLDER / language / f"{name}.json" for name in ("terms", "forbidden"))
    terms = [read_json(path) for path in files if path.exists()]
    for name, source in sources().items():
        entries = {entry.msgid: entry for entry in read(language, name)}
        for text in messages(source):
            entry = entries.get(text)
            begin = " ".join(text.split())[:40]
            if entry is None or not entry.msgstr or entry.fuzzy:
                missing.append(f"{name}: {begin}: not translated")
            elif "differs" not in entry.tcomment:
                wrong = faults(text, entry.msgstr, *terms)
                problems += [f"{name}: {begin}: {one}" for one in wrong]
    for path, text in front_pages(language).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            problems.append(f"{path.name} is old: run tools/catalogue.py update")
    return problems, missing


def front_pages(language):
    """{path: text} of what is made of catalogues and kept: README, and words of the page in all."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    ours = own_words(PAGE_FILES)
    words = {}
    for one in languages():
        pairs = translations(one, "site").items()
        words[one.split("_")[0]] = {text: there for text, there in pairs if text in ours}
    compiled = json.dumps(words, ensure_ascii=False, indent=1) + "\n"
    return {
        ROOT / f"README.{language.split('_')[0]}.md": in_language(language, "README.md", text),
        ROOT / "engine" / "export" / "page" / "words.json": compiled,
    }


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("task", choices=("update", "check"))
    parser.add_argument("language", nargs="?", default="zh_CN")
    meaning = "`check` refuses blocks without a translation, and those to look over"
    parser.add_argument("--complete", action="store_true", help=meaning)
    given = parser.parse_args(arguments)
    if not re.fullmatch("[a-z]{2,3}(_[A-Z]{2})?", given.language):
        parser.error(f"{given.language!r}: give a language, as zh_CN")
    if given.task == "check" and not (FOLDER / given.language).is_dir():
        parser.error(f"{given.language} has no catalogues yet: begin with `update`")
    if given.task == "update":
        empty, fuzzy = update(given.language)
        for path, text in front_pages(given.language).items():
            write_whole(path, text)
        print(f"{given.language}: {empty} blocks without a translation, {fuzzy} to look over")
        return 0
    wrong, missing = check(given.language)
    wrong += missing if given.complete else []
    state = f"{len(missing) or 'no'} blocks to translate or look over"
    print("\n".join(wrong) or f"{given.language}: {state}, nothing else is wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

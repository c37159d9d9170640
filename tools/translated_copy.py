"""Writes the whole course in another language, ready to be worked in.

    python tools/translated_copy.py [LANGUAGE] [--out FOLDER] [--execute]

A copy is written again over a former one: what its reader has changed is left alone. Its pictures
are English until it is executed.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from catalogue import ROOT, in_language, languages
from student import LEFT_OUT, TEXTS, changed, tracked_files
from tidy import tidied

from engine.errors import InputError, run_command
from engine.files import at_home, file_digest, read_json, write_json, write_whole

WRITTEN = ".written.json"  # what a copy held when it was made, by which a reader's edits are known
CHANGED = {
    "Makefile": [  # it uses the environment outside, with the copy's own notebooks
        (r"^BIN := \.venv/bin$", "BIN := ../.venv/bin\nexport PYTHONPATH := $(CURDIR)"),
        (r"^\.venv/\w+:.*\n(\t.*\n)+\n", ""),
        (r"(?<=: )\.venv/(?=\w)", "../.venv/"),
        (r"\n\Z", "\n../.venv/%:\n\t$(MAKE) -C .. .venv/$*\n"),
    ],
    "README.md": [(r"^## For teachers\n(.|\n)*?(?=^## )", "")],  # its tools stay outside
}
EXECUTED = " executed"  # behind the digest of a notebook that was
ALONE = tuple(name for name in LEFT_OUT if name != "notebooks/README.md")  # what stays outside


def write(language, out):
    """Writes the whole course in a language to the folder `out`; returns the files left alone.

    Those are what a reader has changed since a copy was made there.
    """
    listed = out / WRITTEN
    if language not in languages():
        known = ", ".join(languages())
        raise InputError(f"{language}: the course has no such language. Give one of: {known}")
    if out.exists() and not listed.exists():
        raise InputError(f"{out}: is there already, and no copy of the course. Give another folder")
    written = read_json(listed) if out.exists() else {}
    left = []
    for name in tracked_files(ALONE):
        path = out / name
        content = content_of(language, name)
        digest = hashlib.sha256(content).hexdigest()
        noted = str(written.get(name, ""))
        if path.exists():
            # like the new one: an earlier call wrote it and was stopped before it noted that
            if file_digest(path) not in (noted.removesuffix(EXECUTED), digest):
                left.append(name)
                continue
            if noted.endswith(EXECUTED) and cells_of(path.read_bytes()) == cells_of(content):
                continue  # its pictures took 20 minutes
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, path)  # with its rights
        write_whole(path, content)
        written[name] = digest
    write_json(listed, written)
    return left


def cells_of(notebook):
    """What stands in the cells of a notebook's bytes."""
    return [cell["source"] for cell in json.loads(notebook)["cells"]]


def content_of(language, name):
    """The bytes of a file as a copy has it."""
    content = (ROOT / name).read_bytes()
    if not name.endswith(TEXTS):
        return content
    text = content.decode()
    if name == "Makefile":
        text = changed(name, text)
    for pattern, replacement in CHANGED.get(name, ()):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return in_language(language, name, text).encode()


def execute(out):
    """Executes a copy's notebooks in their order, so that their pictures speak its language."""
    written = read_json(out / WRITTEN)
    environment = {**os.environ, "PYTHONPATH": str(out.absolute())}
    for path in sorted((out / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        noted = written.get(f"notebooks/{path.name}", "")
        if noted.removesuffix(EXECUTED) != file_digest(path):
            continue  # a reader's own, or changed by one
        command = ["-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", path.name]
        options = dict(cwd=path.parent, env=environment, capture_output=True, encoding="utf-8")
        done = subprocess.run([sys.executable, *command], **options)
        if done.returncode:
            raise InputError(f"{path} cannot be executed: {done.stderr.strip()[-1000:]}")
        notebook = tidied(nbformat.read(path, as_version=4))
        write_whole(path, nbformat.writes(notebook) + "\n")
        written[f"notebooks/{path.name}"] = file_digest(path) + EXECUTED
        write_json(out / WRITTEN, written)
        print(f"executed: {path}", flush=True)


def main(arguments=None):
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("language", nargs="?", default="zh_CN")
    parser.add_argument("--out", type=Path, default=ROOT / "chinese", help="the copy's folder")
    meaning = "run its notebooks, 20 minutes, so that their pictures speak its language"
    parser.add_argument("--execute", action="store_true", help=meaning)
    given = parser.parse_args(arguments)
    out = at_home(given.out)
    left = write(given.language, out)
    print(f"{out}: the course in {given.language}. In it: make lab")
    for name in left:
        print(f"left as you have changed it: {out / name}")
    if given.execute:
        execute(out)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, None))

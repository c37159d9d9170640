"""Files that are written whole or not at all, and JSON that is checked as it is read."""

import contextlib
import hashlib
import json
import os
import secrets
from dataclasses import fields
from datetime import UTC, datetime

from engine.errors import InputError


def at_home(path):
    """The path with `~` as the user's home folder: the shell expands it only as a word begins.

    Raises InputError where it means nothing.
    """
    with contextlib.suppress(RuntimeError):  # ~nobody
        path = path.expanduser()
    if str(path)[:1] in ("~", "$"):
        raise InputError(f"{path}: nobody expands its beginning. Write the whole path")
    return path


def check_folder(path, option):
    """Raises InputError for a path that no folder of ours can have, given by this option."""
    wrong, hint = None, "Give another folder"
    if os.path.realpath(path) == os.path.realpath("."):
        wrong, hint = "is the current folder", "Give one of its own"
    elif os.path.islink(path) and not os.path.isdir(path):
        wrong, hint = "is a link to no folder", "Remove it, or give another"
    elif not_utf8(os.path.abspath(path)):  # some libraries cannot open a file there
        wrong = "has a name that is not UTF-8"
    if wrong:
        raise InputError(f"{option} {path} {wrong}. {hint}")


def not_utf8(text):
    """Whether it holds bytes that Python could not read as UTF-8."""
    return any("\ud800" <= sign <= "\udfff" for sign in str(text))


def file_digest(path):
    """SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fresh_name(path):
    """A name beside `path` that nothing has yet, for what is renamed to `path` when it is whole."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")


def write_whole(path, content):
    """Writes text (as UTF-8) or bytes all or nothing: under a fresh name, then renamed.

    Raises OSError when it cannot be written; what was at `path` is kept then.
    """
    temporary = fresh_name(path)
    try:
        # x: only a new file, through no link; who may read it is decided by the umask
        with open(temporary, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not error.filename:  # the disk is full
            error.filename = str(path)
        raise


def write_json(path, content, indent=1):
    """Writes JSON, all or nothing."""
    write_whole(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def write_rows(path, content):
    """Writes JSON whose lists have one row a line, all or nothing."""
    parts = []
    for name, value in content.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in value)
            text = f"[\n{rows}\n ]"
        parts.append(f" {json.dumps(name)}: {text}")
    write_whole(path, "{\n" + ",\n".join(parts) + "\n}\n")


def read_json(path):
    """The object in a JSON file. Raises InputError when it is missing, cut short or no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: missing. Is the folder a complete run?") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON, cut short? ({error})") from None
    if type(content) is not dict:
        raise InputError(f"{path}: holds no JSON object. Is it a file of ours?")
    return content


def read_form(path, form):
    """A dataclass that checks itself, from the JSON file that it was written to.

    A field that the file lacks has its default, and what the dataclass has no more is ignored.
    Raises InputError, naming the file, for what is wrong with it.
    """
    names = {field.name for field in fields(form)}
    content = {name: value for name, value in read_json(path).items() if name in names}
    try:
        return form(**content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def utc_now():
    """The time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")

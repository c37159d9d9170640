"""Texts in and out: bytes become lines, a text one line, tokens a text.

Exported folders have this file, so it imports Python's own library only.
"""

import io
import os
import queue
import re
import stat
import threading
from unicodedata import category, combining, normalize

WRONG = re.compile("[\0\udc80-\udcff]")  # NUL, and Python's stand-ins for bad bytes
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # line ends, ESC and other orders to a terminal
# soft hyphen, zero-width space, marks of direction, word joiner, byte order mark; and joiners of
# signs behind a Latin letter: other scripts, and emoji, need them
INVISIBLE = re.compile(
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
    "|(?<=[A-Za-zÀ-ɏ])[\u200c\u200d]+"
)
APOSTROPHE = re.compile("(?<=[A-Za-zÀ-ɏ])[’ʼ‘´`＇](?=[A-Za-zÀ-ɏ])")  # don’t, don´t
# a sign that is in both has no space on either side
OPENING = set("([{“‘«‹„‚¿¡#/")
CLOSING = set(".,;:!?)]}”’»›…%'/।॥،؛؟۔։።")
ADDRESS = re.compile("://|^www[.]")
PART = re.compile("[^\\W_]|/")  # what would become a part of an address
END = object()


class InputError(Exception):
    """A mistake in the user's input: a file, an option, a run folder.

    It is printed in one line, which says what was wrong, where, and what to do. The exit status
    is 2.
    """


def numbered_lines(file, name):
    """Yields (line number from 1, text without its line end) of a buffered binary file, UTF-8.

    A byte order mark at its start is dropped. Raises InputError at the first bad byte, and at NUL.
    """
    head = file.peek(1)  # a file that has CR and no LF comes from an old Mac
    end = "\r" if b"\r" in head[:-1] and b"\n" not in head else "\n"
    text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline=end)
    for number, line in enumerate(text, start=1):
        if wrong := WRONG.search(line):
            byte = len(line[: wrong.start()].encode("utf-8", "surrogateescape")) + 1
            kind = "not UTF-8 but UTF-16, or no text" if wrong[0] == "\0" else "not UTF-8"
            where = f"{name}, line {number}, byte {byte}"
            raise InputError(f"{where}: {kind}. Save the file as UTF-8 and start again")
        yield number, line.rstrip("\r\n")


def numbered_texts(texts):
    """Yields (number from 1, text) of a program's arguments. InputError: one is no UTF-8."""
    for number, text in enumerate(texts, start=1):
        if any("\ud800" <= sign <= "\udfff" for sign in text):  # Python's stand-ins for bad bytes
            raise InputError(f"text {number}: not UTF-8. Give it in a file by --input, or as UTF-8")
        yield number, text


def same_file(source, stream):
    """Whether a stream writes into this very file on a disk, a path or an open file's number."""
    try:
        ours = os.stat(source)
        return stat.S_ISREG(ours.st_mode) and os.path.samestat(ours, os.fstat(stream.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or a stream that is none
        return False


def one_line(text):
    """A text in Unicode's NFC, its control characters and white space of any kind single spaces.

    Signs that only say where a word may be broken are dropped, and an apostrophe is the straight
    one. Of combining marks in a row 30 are kept, as in Unicode's stream-safe form: NFC takes the
    square of their number.
    """
    before = None
    while text != before and not text.isascii():  # what is dropped may let signs combine
        before = text
        text = normalize("NFC", "".join(without_long_runs(INVISIBLE.sub("", text))))
    text = text.replace("\u2011", "-")  # the hyphen that breaks no line
    return " ".join(CONTROL.sub(" ", APOSTROPHE.sub("'", text)).split())


def without_long_runs(text):
    """Yields the signs of a text, but those that are the 31st combining mark in a row, or later."""
    marks = 0
    for sign in text:
        marks = marks + 1 if combining(sign) else 0
        if marks <= 30:
            yield sign


def quotes_that_turn(tokens):
    """The quotes that close in this text though they open elsewhere, or the other way round.

    German has „so“ and »so«, English “so”. And those that open and close by turns: Swedish ”so”.
    """
    turned = {high for low, high in ("„“", "‚‘") if low in tokens}
    by_turns = {'"', "'"} if tokens.count("'") % 2 == 0 else {'"'}
    for left, right in ("«»", "‹›", "“”"):
        lefts, rights = tokens.count(left), tokens.count(right)
        if lefts == 0 and rights % 2 == 0 and "„" not in tokens:
            by_turns.add(right)
        if left != "“" and 0 < lefts == rights and tokens.index(right) < tokens.index(left):
            turned |= {left, right}
    return turned, by_turns


def join_words(tokens, language):
    """The text of these tokens: no space before a closing mark or after an opening one.

    Straight quotes open and close by turns; an odd single one is an apostrophe. Others open or
    close by `quotes_that_turn`. A sign of money and ~ open before a number, a stroke or ~ between
    two numbers has spaces, and a dash has none in English. Nothing is glued to an address that
    would become a part of it.
    """
    tokens = list(tokens)
    text = ""
    glue = True
    turned, by_turns = quotes_that_turn(tokens)
    counts = dict.fromkeys(by_turns, 0)
    address = False  # whether an address was written since the last space
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""]):
        opening = token in (CLOSING if token in turned else OPENING)
        closing = token in (OPENING if token in turned else CLOSING)
        number = after[:1].isdecimal()
        if token == "—":
            opening = closing = language == "en"
        elif token and category(token[-1]) == "Sc":
            opening = number
        elif token == "~":
            opening = number and not before[-1:].isdecimal()
        elif token == "/" and number and before[-1:].isdecimal():
            opening = closing = False
        if token in by_turns:
            counts[token] += 1
            opening = counts[token] % 2 == 1
            closing = not opening
        glue = (glue or closing) and not (address and PART.search(token))
        text += token if glue else " " + token
        address = bool(ADDRESS.search(token)) or (address and glue)
        glue = opening
    return text


def rounds(lines, size=2000):
    """Yields lists of what has been read since the last one: at least one line, at most `size`.

    A thread reads `lines`, an iterator, at most `size` lines ahead. An error while reading is
    raised after the lines before it.
    """
    waiting = queue.Queue(size)

    def read():
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(END)
        except Exception as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    last = None
    while last is None:
        batch = [waiting.get()]
        while len(batch) < size and not waiting.empty():  # nobody else takes from it
            batch.append(waiting.get())
        if batch[-1] is END or isinstance(batch[-1], Exception):
            last = batch.pop()
        if batch:
            yield batch
    if last is not END:
        raise last

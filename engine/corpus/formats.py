"""The files of a data folder, and the pairs in them, in any format."""

import csv
import gzip
import io
import itertools
import json
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import InputError
from engine.languages import NAMES
from engine.text_files import damaged, kept_pairs, read_lines, split_files, strip_pair

TABLE_ROWS = 10_000  # rows of a Parquet file that are held at a time


def list_files(folder, split, config):
    """All files of a split by their format: {extension: paths}."""
    kinds = ("tsv", "csv", "json", "jsonl", config.src)
    texts = [kind + packing for kind in kinds for packing in ("", ".gz")]
    files = {name: split_files(folder, split, name) for name in [*texts, "parquet"]}
    return {name: paths for name, paths in files.items() if paths}


def find_files(folder, split, config):
    """The files of one split, which must be in one format: (extension, files).

    A file is a tuple of one path, or of two for halves aligned line by line.
    """
    files = list_files(folder, split, config)
    if len(files) > 1:
        raise InputError(
            f"{folder}: {split} is there as .{' and as .'.join(files)}. Keep one of them"
        )
    if not files:
        texts = (
            f"{split}.tsv, .csv, .jsonl, .json, or {split}.{config.src} with {split}.{config.tgt}"
        )
        wrong = f"holds no {texts} (each also as .gz), and no {split}.parquet"
        names = sorted(path.name for path in Path(folder).iterdir())
        raise InputError(f"{folder}: {wrong}. It holds {', '.join(names[:6]) or 'nothing'}")
    extension, paths = files.popitem()
    if extension.split(".")[0] != config.src:
        return extension, [(path,) for path in paths]
    other = config.tgt + extension.removeprefix(config.src)
    files = [(path, path.with_name(path.name.removesuffix(extension) + other)) for path in paths]
    for path, half in files:
        if not half.exists():
            raise InputError(f"{path}: its other half {half.name} is missing beside it")
    return extension, files


# pairs


def read_rows(extension, file, config):
    """Yields a (source, target) for each line or row of one file, None where it holds none."""
    if extension == "parquet":
        yield from table_rows(*file, config)
    elif len(file) == 2:
        yield from aligned_lines(*file)
    elif extension.startswith("csv"):
        yield from csv_rows(*file, config)
    else:
        parse = parse_tsv if extension.startswith("tsv") else read_json_pair
        heads = {name for side in column_names(config) for name in side}
        opened = []  # lines in which a quote opens a cell and does not close
        for number, line in read_lines(*file):
            cells = line.split("\t")[:2] if extension.startswith("tsv") else []
            if any(cell.startswith('"') and cell.count('"') % 2 for cell in cells):
                opened.append(number)
            if number == 1 and {part.strip().lower() for part in line.split("\t")[:2]} <= heads:
                raise InputError(f"{file[0]}, line 1: names the columns. Leave it out")
            yield parse(line, config)
        if opened:
            wrong = f"a quote opens a cell and does not close, in {len(opened)} lines"
            hint = "Did a cell of a spreadsheet hold a line break? Save it as .csv"
            print(f"{file[0]}, line {opened[0]}: {wrong}. {hint}", file=sys.stderr)


def column_names(config):
    """What the columns of the source and of the target may be called."""
    sides = (config.src, "source"), (config.tgt, "target")
    return [(code, NAMES.get(code, code), other) for code, other in sides]


def csv_rows(path, config):
    """Yields (source, target) of a .csv file whose first line names the columns (RFC 4180)."""
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
    with opened as binary, io.TextIOWrapper(binary, "utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        begun = 1  # the line in which a row begins
        try:
            places = csv_columns(path, next(rows, []), config)
            begun = rows.line_num + 1
            for row in rows:
                if row:
                    yield tuple(row[n] for n in places) if len(row) > max(places) else None
                begun = rows.line_num + 1
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8 ({error}). Save it as CSV UTF-8") from None
        except csv.Error as error:
            hint = "Is a quote not closed, or not doubled inside a quoted cell?"
            raise InputError(f"{path}, line {begun}: {error}. {hint}") from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise damaged(path, error) from None


def csv_columns(path, head, config):
    """The places of source and target by a first row. InputError where it names none."""
    head = [name.strip().lower() for name in head]
    sides = column_names(config)
    places = [next((head.index(name) for name in side if name in head), None) for side in sides]
    if None in places:
        names = " and ".join(side[0] for side in sides)
        raise InputError(f"{path}, line 1: names no columns {names}, but {', '.join(head)}")
    return places


def aligned_lines(path, other):
    """Yields (source, target) of two files. InputError unless they have as many lines."""
    counts = [0, 0]
    for row in itertools.zip_longest(read_lines(path), read_lines(other), fillvalue=(0, "")):
        counts = [count + (number > 0) for count, (number, _) in zip(counts, row)]
        yield tuple(text for _, text in row)
    if counts[0] != counts[1]:
        counted = f"{path} has {counts[0]} lines and {other.name} {counts[1]}"
        raise InputError(f"{counted}: they must match line by line")


def table_rows(path, config):
    """Yields (source, target) of a Parquet file, None where one of them is no text.

    Raises InputError for a damaged one, in which a value may point outside its memory.
    """
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=TABLE_ROWS):
                batch.validate(full=True)
                table = pa.Table.from_batches([batch]).flatten()  # a struct's fields: STRUCT.FIELD
                columns = [
                    find_column(path, table, code, config) for code in (config.src, config.tgt)
                ]
                for row in zip(*columns):
                    yield row if all(isinstance(text, str) for text in row) else None
    except (OSError, ValueError, TypeError, LookupError, pa.ArrowException) as error:
        raise damaged(path, error) from None


def find_column(path, table, code, config):
    """The values of a language's column: by its code or name, alone or in a struct."""
    names = next(side for side in column_names(config) if side[0] == code)
    for name in [*(f"translation.{name}" for name in names), *names]:
        if name in table.column_names:
            return table[name].to_pylist()
    columns = ", ".join(table.column_names)
    raise InputError(f"{path}: has the columns {columns}, and no {code}, alone or in `translation`")


def parse_tsv(line, config):
    """(source, target) of a line of a .tsv file; None if it has no tab."""
    pair = line.split("\t")[:2]
    if len(pair) < 2:
        return None
    return (pair[1], pair[0]) if config.target_first else (pair[0], pair[1])


def read_json_pair(line, config):
    """The pair in one JSON object: by ISO code or English name, plain or under "translation".

    None if it is not there.
    """
    try:
        row = json.loads(line)
        row = row["translation"] if isinstance(row.get("translation"), dict) else row
        sides = [next(filter(None, map(row.get, names)), None) for names in column_names(config)]
        "".join(sides).encode()  # fails for half a character, which JSON can spell
        return tuple(sides)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def read_split(data, split, config):
    """The pairs of one split of a data folder, in any format: a list of (source, target) texts.

    They are in the order of the split's files. Lines without a pair or with an empty side are
    skipped, counted and reported on stderr. Raises InputError, naming the file, for a missing or
    empty split, bytes that are not UTF-8, or a file in which no line holds a pair.
    """
    extension, files = find_files(data, split, config)
    pairs = []
    for file in files:
        rows = read_rows(extension, file, config)
        pairs += kept_pairs(file[0], [*map(strip_pair, rows)], config)
    tell_quoted(data, split, [text for pair in pairs for text in pair])
    return pairs


def tell_quoted(data, split, texts):
    """Says on stderr if texts are in quotes as spreadsheets write them: "so", with "" for one."""
    quoted = [text for text in texts if len(text) > 1 and text[0] == text[-1] == '"']
    doubled = sum('""' in text[1:-1].strip('"') for text in quoted)
    if doubled or 2 * len(quoted) > len(texts):
        hint = "These are read as text. Save the file without quotes around cells"
        count = f"{len(quoted)} of {len(texts)} texts of {split} are in quotes"
        print(f"{data}: {count}, some perhaps by a spreadsheet. {hint}", file=sys.stderr)


def present_splits(data, config):
    """The splits to read. Train comes last: what is wrong with a small file is found at once."""
    return ["dev", *(["test"] if list_files(data, "test", config) else []), "train"]

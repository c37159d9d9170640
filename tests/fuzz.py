"""Damages the files of a run and of a data folder in random ways, and runs the programs on them.

    python tests/fuzz.py --examples 10000        (`make fuzz`)

Whatever a file holds, a program ends within 20 seconds with exit status 0 or 2; with 2 it has told
one line, and neither a traceback nor a change outside the folder that it writes to. Each example
runs in a forked child of this one warm process, which has a single thread. What fails is made as
small as possible and printed by Hypothesis. Linux only.
"""

import argparse
import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

if __name__ == "__main__":  # before torch is loaded
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from tqdm import tqdm

from utils import ROOT

sys.path.insert(0, str(ROOT))  # where the programs and the engine are
import engine.corpus.prepare
import train
import translate
from engine.run_config import RunConfig
from engine.training_run import run_training
from notebooks.setup import replace

SECONDS = 20  # a program that takes longer hangs
MEMORY = 8 << 30  # address space of a child: a size that nobody has must end in one line
SETTINGS = dict(steps=2, eval_steps=1, warmup_steps=1, batch_tokens=200)
OPTIONS = "--config tiny --steps 2 --eval-steps 1 --warmup-steps 1 --batch-tokens 200".split()
OUTSIDE = Path("..") / "outside" / "kept.txt"  # where a link leads, from a folder of files
VALUES = [None, True, False, 0, 1, -1, 0.5, 1e308, float("nan"), float("inf"), 2**63, 10**30, "",
          "word", "../x", "\0", "\ud800", [], {}, [[]], [1, "a"], {"a": 1}, ["a", "a"]]  # fmt: skip
SPACES = [" ", "  ", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x1b", "\r"]


def make_folders(base):
    """An unfinished run and its data folder, the same data as .jsonl and Parquet, prepared too."""
    data, run = base / "data", base / "run"
    data.mkdir(parents=True)
    for split, number in (("train", 60), ("dev", 10), ("test", 5)):
        lines = (ROOT / "data_small" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        lines = lines[:number]
        (data / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if split == "test":
            continue
        (base / "lines").mkdir(exist_ok=True)
        (base / "columns").mkdir(exist_ok=True)
        rows = [dict(zip(("en", "zh"), line.split("\t"))) for line in lines]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (base / "lines" / f"{split}.jsonl").write_text(text, encoding="utf-8")
        parquet.write_table(pa.Table.from_pylist(rows), base / "columns" / f"{split}.parquet")
    config = replace(RunConfig.preset("tiny"), **SETTINGS)
    engine.corpus.prepare.prepare(base / "lines", config, base / "prepared")
    run_training(data, config, run)
    shutil.rmtree(run / "checkpoints" / "step-2")
    (base / "outside").mkdir()
    (base / "outside" / "kept.txt").write_text("kept")


def commands(work):
    """Name: (program, its command line, the folder whose files are damaged, and may change)."""
    run, data, lines, columns = (work / name for name in ("run", "data", "lines", "columns"))
    at_run, anew = ["--run", run, *OPTIONS], ["--run", work / "new", *OPTIONS]
    return {
        "score": (translate.main, ["--run", run, "--score", data, "--split", "dev"], run),
        "train": (train.main, ["--data", data, *at_run], run),
        "restart": (train.main, ["--data", data, "--restart", *at_run], run),
        "tsv": (train.main, ["--data", data, *anew], data),
        "score tsv": (translate.main, ["--run", run, "--score", data, "--split", "dev"], data),
        "input": (translate.main, ["--run", run, "--input", data / "test.tsv"], data),
        "jsonl": (train.main, ["--data", lines, *anew], lines),
        "prepared": (train.main, ["--data", lines, *anew], work / "prepared"),
        "parquet": (train.main, ["--data", columns, *anew], columns),
    }


def cut(content, draw):
    return content[: place(content, draw)]


def flip(content, draw):
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 8))):
        if changed:
            at = min(place(content, draw), len(changed) - 1)
            changed[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(changed)


def overwrite(content, draw):
    at, new = place(content, draw), draw(st.binary(max_size=40))
    return content[:at] + new + content[at + len(new) :]


def insert(content, draw):
    at = place(content, draw)
    return content[:at] + draw(st.binary(min_size=1, max_size=40)) + content[at:]


def repeat(content, draw):
    return content * draw(st.integers(0, 3))


def white_space(content, draw):
    at = place(content, draw)
    return content[:at] + draw(st.sampled_from(SPACES)).encode() + content[at:]


def place(content, draw):
    """A position in these bytes, often near the start, where the structure of a file stands."""
    near = st.integers(0, min(200, len(content)))
    return draw(st.one_of(near, st.integers(0, len(content))))


def change_json(content, draw):
    """One value of the JSON in this file, or in its first line, or in its header, is another."""
    start, end = 0, len(content)
    if content[8:9] == b"{":  # safetensors: eight bytes of length, then JSON
        start, end = 8, 8 + int.from_bytes(content[:8], "little")
    elif b"\n" in content.strip() and content[:2] != b"{\n":  # a log: JSON lines
        end = content.index(b"\n")
    try:
        tree = json.loads(content[start:end])
    except ValueError:
        return overwrite(content, draw)
    entries = [(tree, key) for key in keys(tree)]
    for node, key in entries:
        entries += [(node[key], inner) for inner in keys(node[key])][:20]
        if len(entries) > 200:
            break
    if not entries:
        return json.dumps(draw(st.sampled_from(VALUES))).encode()
    node, key = draw(st.sampled_from(entries))
    how = draw(st.sampled_from(["replace", "delete", "add"]))
    if how == "delete":
        del node[key]
    elif how == "add" and isinstance(node, dict):
        node[draw(st.sampled_from(["new", "", "step"]))] = draw(st.sampled_from(VALUES))
    else:
        node[key] = draw(st.sampled_from(VALUES))
    new = json.dumps(tree).encode()
    if start:
        return len(new).to_bytes(8, "little") + new + content[end:]
    return new + content[end:]


def keys(node):
    if isinstance(node, dict):
        return list(node)
    return range(min(len(node), 20)) if isinstance(node, list) else []


WAYS = [cut, flip, overwrite, insert, white_space, repeat, change_json]


def damage(path, draw):
    """Damages one file, in place. Returns how."""
    way = draw(st.sampled_from([*WAYS, change_json, "delete", "folder", "link"]))
    if way == "delete":
        path.unlink()
    elif way == "link":
        path.unlink()
        path.symlink_to(OUTSIDE)
    elif way == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(way(path.read_bytes(), draw))
    return way if isinstance(way, str) else way.__name__


def state(folder):
    """The names and bytes of all in a folder, as one number."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(repr((str(path), len(content))).encode() + content)
    return digest.hexdigest()


def run_child(program, argv, cwd, output):
    """Runs a program in a forked child. Returns its exit status, or a text if it hangs or dies."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.chdir(cwd)
            engine.corpus.prepare.PREPARED = cwd.parent / "prepared"
            for stream, file in enumerate((os.devnull, output, output)):
                os.dup2(os.open(file, os.O_RDWR | os.O_APPEND), stream)
            sys.stdin, sys.stdout, sys.stderr = (open(n, m) for n, m in enumerate("rww"))  # noqa: SIM115
            status = program([str(part) for part in argv])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 99
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else f"died of signal {-code}"
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"hangs: over {SECONDS} seconds"


def try_one(pristine, draw):
    """One example: damages, runs, and asserts what must hold."""
    with tempfile.TemporaryDirectory(dir=pristine.parent) as scratch:
        work, output = Path(scratch) / "work", Path(scratch) / "output"
        shutil.copytree(pristine, work)
        output.touch()
        name = draw(st.sampled_from(sorted(commands(work))))
        program, argv, folder = commands(work)[name]
        ways = []
        for _ in range(draw(st.integers(1, 3))):
            files = [str(path.relative_to(work)) for path in folder.rglob("*") if path.is_file()]
            if files:
                name_of_file = draw(st.sampled_from(sorted(files)))
                ways.append((name_of_file, damage(work / name_of_file, draw)))
        cwd = work / "outside"
        may_change = {work / "new", work / "run", work / "prepared"}
        before = {path: state(path) for path in work.iterdir() if path not in may_change}
        status = run_child(program, argv, cwd, output)
        text = output.read_text(encoding="utf-8", errors="replace")
        what = f"{name} after {ways}: status {status}\n{text}"
        judge(status, text, what)
        after = {path: state(path) for path in work.iterdir() if path not in may_change}
        assert after == before, f"{what}\nit changed what is not its own"
        return name, status


def judge(status, text, what):
    """Asserts that a program ended as it must, by its exit status and all that it has told."""
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert status in (0, 2), what
    assert "Traceback" not in text and len(errors) == (1 if status == 2 else 0), what


def fuzz(examples, number=None):
    """Tries so many examples, chosen by a seed. Prints how often each program ended how."""
    counts = {}
    with tempfile.TemporaryDirectory() as base:
        pristine, warm = Path(base) / "pristine", Path(base) / "warm"
        with open(os.devnull, "w") as nowhere:
            with contextlib.redirect_stderr(nowhere), contextlib.redirect_stdout(nowhere):
                make_folders(pristine)
                for name in commands(warm):  # loads all libraries, once
                    shutil.copytree(pristine, warm)
                    engine.corpus.prepare.PREPARED = warm / "prepared"
                    program, argv, _ = commands(warm)[name]
                    assert program([str(part) for part in argv]) == 0, name
                    shutil.rmtree(warm)
        with tqdm(total=examples, disable=not sys.stderr.isatty()) as bar:

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=number is None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            )
            @given(st.data())
            def every(data):
                key = try_one(pristine, data.draw)
                counts[key] = counts.get(key, 0) + 1
                bar.update()

            (every if number is None else seed(number)(every))()
    for (name, status), count in sorted(counts.items()):
        print(f"{name:10} exit status {status}: {count:6,}")
    print(f"{sum(counts.values()):,} examples, nothing found")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, help="of the examples; always the same without it")
    given_options = parser.parse_args()
    warnings.filterwarnings("ignore", category=HypothesisWarning)
    torch.set_num_threads(1)
    tqdm.monitor_interval = 0  # no thread of its own
    fuzz(given_options.examples, given_options.seed)

"""Damages the files of a run and of a data folder in random ways, and runs the programs on them.

    python tests/fuzz.py --examples 10000        (`make fuzz`)

Whatever a file holds, a program ends within 20 seconds with exit status 0 or 2; with 2 it has told
one line, and neither a traceback nor a change outside the folder that it writes to. A file may also
become a link, or a setting another one that is possible, which has to be told. Each example runs in
a forked child of this one warm process, which has a single thread. What fails is made as small as
possible and printed by Hypothesis. Linux only.
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
from pathlib import Path

if __name__ == "__main__":  # before torch is loaded
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

import datasets
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from tqdm import tqdm

import data_large.prepare
from notebooks.setup import Config, replace
from notebooks.support.training_run import run_training
from utils import ROOT

sys.path.insert(0, str(ROOT))  # where the programs are
import train
import translate

SECONDS = 20  # a program that takes longer hangs
MEMORY = 8 << 30  # address space of a child: a size that nobody has must end in one line
OPTIONS = ["--config", "tiny", "--steps", "4", "--eval-steps", "2", "--warmup-steps", "2"]
SETTINGS = dict(steps=4, eval_steps=2, warmup_steps=2)
OUTSIDE = Path("..") / "outside" / "kept.txt"  # where a link leads, from a folder of files
VALUES = [None, True, False, 0, 1, -1, 0.5, 1e308, float("nan"), float("inf"), 2**63, 10**30, "",
          "word", "../x", "\0", "\ud800", [], {}, [[]], [1, "a"], {"a": 1}, ["a", "a"]]  # fmt: skip
# settings of `tiny` that are possible, and without which its weights mean nothing
POSSIBLE = dict(
    num_heads=4, norm="post", sharing="three-way", src="de", src_segmentation="characters"
)
SPACES = [" ", "  ", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x1b", "\r"]


def make_folders(base):
    """An unfinished run and its data folder, the same data as .jsonl and Parquet, prepared too."""
    data, run = base / "data", base / "run"
    data.mkdir()
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
        datasets.Dataset.from_list(rows).save_to_disk(str(base / "saved" / split))
    (base / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "dev"]}')
    config = replace(Config.preset("tiny"), **SETTINGS)
    data_large.prepare.prepare(base / "lines", config, 1, base / "prepared")
    run_training(data, config, run)
    shutil.rmtree(run / "checkpoints" / "step-4")


def commands(work):
    """Name: (program, its command line, the folder whose files are damaged, and may change)."""
    run, data = work / "run", work / "data"
    lines, columns, saved = work / "lines", work / "columns", work / "saved"
    at_run, anew = ["--run", run, *OPTIONS], ["--run", work / "new", *OPTIONS]
    return {
        "translate": (translate.main, ["--run", run, "Good morning.", "Yes."], run),
        "setting": (translate.main, ["--run", run, "Good morning."], run),
        "score": (translate.main, ["--run", run, "--score", data, "--split", "dev"], run),
        "train": (train.main, ["--data", data, *at_run], run),
        "restart": (train.main, ["--data", data, "--restart", *at_run], run),
        "plot": (train.main, ["--run", run, "--plot", run / "log.png"], run),
        "tsv": (train.main, ["--data", data, *anew], data),
        "score tsv": (translate.main, ["--run", run, "--score", data, "--split", "dev"], data),
        "input": (translate.main, ["--run", run, "--input", data / "test.tsv"], data),
        "jsonl": (train.main, ["--data", lines, *anew], lines),
        "prepared": (train.main, ["--data", lines, *anew], work / "prepared"),
        "parquet": (train.main, ["--data", columns, *anew], columns),
        "saved": (train.main, ["--data", saved, *anew], saved),
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


def swap(content, draw):
    one, two = sorted((place(content, draw), place(content, draw)))
    return content[two:] + content[one:two] + content[:one]


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
    places = [(tree, key) for key in keys(tree)]
    for node, key in places:
        places += [(node[key], inner) for inner in keys(node[key])][:20]
        if len(places) > 200:
            break
    if not places:
        return json.dumps(draw(st.sampled_from(VALUES))).encode()
    node, key = draw(st.sampled_from(places))
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


WAYS = [cut, flip, overwrite, insert, white_space, swap, repeat, change_json]


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
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found.update(repr((str(path), len(content))).encode() + content)
    return found.hexdigest()


def run_child(program, argv, cwd, told):
    """Runs a program in a forked child. Returns its exit status, or a text if it hangs or dies."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.chdir(cwd)
            data_large.prepare.PREPARED = cwd.parent / "prepared"
            for stream in (0, 1, 2):
                os.dup2(
                    os.open(os.devnull if stream == 0 else told, os.O_RDWR | os.O_APPEND), stream
                )
            sys.stdin, sys.stdout, sys.stderr = (open(n, m) for n, m in enumerate("rww"))  # noqa: SIM115
            status = program([str(part) for part in argv])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 99
        except BaseException:
            import traceback

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
        work, told = Path(scratch) / "work", Path(scratch) / "told"
        shutil.copytree(pristine, work)
        told.touch()
        name = draw(st.sampled_from(sorted(commands(work))))
        program, argv, folder = commands(work)[name]
        ways = []
        if name == "setting":  # what is wrong is known, and has to be told
            setting = draw(st.sampled_from(sorted(POSSIBLE)))
            config = json.loads((work / "run" / "config.json").read_text())
            config[setting] = POSSIBLE[setting]
            (work / "run" / "config.json").write_text(json.dumps(config))
            ways.append(setting)
        for _ in range(draw(st.integers(1, 3)) if name != "setting" else 0):
            files = [str(path.relative_to(work)) for path in folder.rglob("*") if path.is_file()]
            if files:
                name_of_file = draw(st.sampled_from(sorted(files)))
                ways.append((name_of_file, damage(work / name_of_file, draw)))
        cwd = work / "outside"
        may_change = {work / "new", work / "run", work / "prepared"}
        before = {path: state(path) for path in work.iterdir() if path not in may_change}
        status = run_child(program, argv, cwd, told)
        text = told.read_text(encoding="utf-8", errors="replace")
        what = f"{name} after {ways}: status {status}\n{text}"
        judge(status, text, what)
        assert name != "setting" or status == 2, what
        after = {path: state(path) for path in work.iterdir() if path not in may_change}
        assert after == before, f"{what}\nit changed what is not its own"
        return name, status


def judge(status, text, what):
    """Asserts that a program ended as it must, by its exit status and all that it has told."""
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert status in (0, 2), what
    assert "Traceback" not in text and len(errors) == (1 if status == 2 else 0), what


def fuzz(examples, seed=None):
    """Tries so many examples. Prints how often each program ended how."""
    counts = {}
    with tempfile.TemporaryDirectory() as base:
        pristine = Path(base) / "pristine"
        (pristine / "outside").mkdir(parents=True)
        (pristine / "outside" / "kept.txt").write_text("kept")
        with contextlib.redirect_stderr(open(os.devnull, "w")):  # noqa: SIM115
            make_folders(pristine)
            data_large.prepare.PREPARED = pristine / "prepared"
            for name, (program, argv, _) in commands(pristine).items():  # loads all libraries, once
                shutil.rmtree(pristine / "new", ignore_errors=True)
                with contextlib.redirect_stdout(open(os.devnull, "w")):  # noqa: SIM115
                    assert program([str(part) for part in argv]) == 0, name
        make_again(pristine)
        with tqdm(total=examples, disable=not sys.stderr.isatty()) as bar:

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=seed is None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            )
            @given(st.data())
            def every(data):
                key = try_one(pristine, data.draw)
                counts[key] = counts.get(key, 0) + 1
                bar.update()

            (every if seed is None else hypothesis_seed(seed)(every))()
    for (name, status), number in sorted(counts.items()):
        print(f"{name:10} exit status {status}: {number:6,}")
    print(f"{sum(counts.values()):,} examples, nothing found")


def make_again(pristine):
    """The folders as they were before the libraries were loaded."""
    for name in ("data", "run", "lines", "columns", "new", "prepared"):
        shutil.rmtree(pristine / name, ignore_errors=True)
    with contextlib.redirect_stderr(open(os.devnull, "w")):  # noqa: SIM115
        make_folders(pristine)


def hypothesis_seed(number):
    from hypothesis import seed

    return seed(number)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, help="of the examples; always the same without it")
    given_options = parser.parse_args()
    import warnings

    warnings.filterwarnings("ignore", category=HypothesisWarning)
    torch.set_num_threads(1)
    os.cpu_count = lambda: 1  # as many processes prepare data
    tqdm.monitor_interval = 0  # no thread of its own
    fuzz(given_options.examples, given_options.seed)

"""Tests the course on the lowest and on the newest versions of every dependency
that pyproject.toml allows, and on the old ones that hosted notebooks have.

    python tools/versions.py [lowest|newest|hosted ...]

For each, uv chooses the versions and fills an environment of its own under runs/versions (some GB:
PyTorch's default build), and the tests and the notebooks 00 to 14 run there. (15 and 16, whose code
the tests run too, would double the time.) What came out is written, with the date, to
tests/versions.md.
"""

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "tests" / "versions.md"
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest", "hosted": "highest"}
# what hosted notebooks (Colab) keep old: newer ones break the page that they are used on
HOSTED = [
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    "ipywidgets==7.7.1",
    "pyarrow==18.1.0",
    "numpy==2.0.2",
]
TESTS = {
    "tests": ["tests/"],
    "notebooks": ["--nbval", *sorted((ROOT / "notebooks").glob("[01][0-9]_*.ipynb"))[:15]],
}


def uv(*arguments):
    """Runs uv; an error of its own ends the program."""
    subprocess.run(["uv", *map(str, arguments)], cwd=ROOT, check=True)


def environment(name):
    """Makes the environment anew; returns its folder."""
    folder = ROOT / "runs" / "versions" / name
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    uv("venv", "--quiet", "--clear", "--python", sys.executable, folder)
    chosen = folder / "requirements.txt"
    fixed = folder / "fixed.txt"
    fixed.write_text("\n".join(HOSTED) if name == "hosted" else "")
    uv(
        "pip",
        "compile",
        "--quiet",
        "--resolution",
        RESOLUTIONS[name],
        "--extra",
        "dev",
        "--python-version",
        python,
        "--constraint",
        fixed,
        "--output-file",
        chosen,
        "pyproject.toml",
    )
    uv("pip", "install", "--quiet", "--python", folder, "--requirement", chosen)
    uv("pip", "install", "--quiet", "--python", folder, "--no-deps", "--editable", ROOT)
    return folder


def direct_versions(folder):
    """{package: version} of what pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = project["dependencies"] + project["optional-dependencies"]["dev"]
    chosen = (folder / "requirements.txt").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", chosen, flags=re.MULTILINE))
    names = sorted(re.match(r"[\w-]+", line)[0].lower() for line in named)
    return {name: pins[name] for name in names}


def run_tests(folder):
    """{tests or notebooks: pytest's closing line}."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PYTHONUTF8": "1"}
    closing = {}
    for name, arguments in TESTS.items():
        command = [folder / "bin" / "python", "-m", "pytest", *arguments]
        lines = []
        options = dict(cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)
        with subprocess.Popen(command, **options) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.strip())
        closing[name] = lines[-1].strip("= ") + (
            "" if process.returncode == 0 else f" (exit status {process.returncode})"
        )
    return closing


def write_report(results):
    """A table of the versions, and the closing lines."""
    names = list(results)
    packages = sorted(set().union(*(versions for versions, _ in results.values())))
    rows = [[name, *(results[column][0].get(name, "") for column in names)] for name in packages]
    rows += [[f"**{test}**", *(results[column][1][test] for column in names)] for test in TESTS]
    where = f"Python {platform.python_version()}, {platform.machine()}"
    lines = [
        "# The lowest and the newest versions",
        "",
        f"Written by `make versions` on {datetime.date.today()}, {where}.",
        "",
        f"| | {' | '.join(names)} |",
        "| --- " * (len(names) + 1) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "names", nargs="*", default=list(RESOLUTIONS), metavar="|".join(RESOLUTIONS)
    )
    results = {}
    for name in parser.parse_args().names:
        folder = environment(name)
        results[name] = direct_versions(folder), run_tests(folder)
    write_report(results)
    print(f"written: {REPORT}")
    closing = [line for _, lines in results.values() for line in lines.values()]
    return int(any("failed" in line or "error" in line for line in closing))


if __name__ == "__main__":
    sys.exit(main())

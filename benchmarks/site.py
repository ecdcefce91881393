"""Measure how long a site takes to write, and write the end of docs/site.md.

    python -m benchmarks.site [RESULTS]    # 10,000 by default: minutes

Each figure is of `etharness site` as a process of its own, its start and imports included.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.decoding import machine
from benchmarks.history import KINDS, UNITS, nights
from harness import Result, Subject, open_store

PAGE = Path(__file__).resolve().parent.parent / "docs/site.md"
TABLE = re.compile(r"(?<=<!-- benchmarks.site -->\n).*?(?=<!-- end -->)", re.DOTALL)
OPERATORS = 16
"""As many as the keyword spotter has that comes with the package."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a command took: seconds of a processor, and files written."""

    cpu: float
    files: int


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    made = nights(OPERATORS)
    with tempfile.TemporaryDirectory() as folder:
        history, site = Path(folder) / "history.sqlite", Path(folder) / "site"
        add(history, count, made)
        first = write(history, site)
        again = write(history, site)
        add(history, len(KINDS) * UNITS, made)
        more = write(history, site)
        files = [path for path in site.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
    units = len(KINDS) * UNITS
    rows = [
        ("the whole site", first),
        ("again, without new results", again),
        (f"one more night of {units} results", more),
    ]
    lines = [
        "",
        f"{count:,} generated results of {units} models on units with {OPERATORS} operators each: "
        f"{len(files):,} files, {size / 1e6:.0f} MB. Written by `benchmarks/site.py` on "
        f"{machine()}, one measurement each, including the start of the command:",
        "",
        "| | CPU seconds | files written |",
        "|---|--:|--:|",
        *(f"| {what} | {item.cpu:.1f} | {item.files:,} |" for what, item in rows),
        "",
        "",
    ]
    text = "\n".join(lines)
    PAGE.write_text(TABLE.sub(lambda _: text, PAGE.read_text()))
    print(text)


def add(history: Path, count: int, made: Iterator[tuple[Result, Subject]]) -> None:
    with open_store(str(history)) as store:
        for result, subject in islice(made, count):
            store.add(result, subject)


def write(history: Path, site: Path) -> Written:
    before = _cpu()
    command = [sys.executable, "-m", "harness", "site", str(history), "-o", str(site), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return Written(_cpu() - before, len(json.loads(done.stdout)["written"]))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

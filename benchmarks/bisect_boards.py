"""Real bisections on an emulated board: 200 commits, one of which makes an operator slower.

    python -m benchmarks.bisect_boards

Each commit has a model file; from one commit on its first operator, a matrix product, has more
rows. The command is `etharness run`, which builds nothing, so that the time is that of the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bisect_study import COMMITS, SIZES
from benchmarks.verdict_counts import PAGE, write_section
from tests.support.bisections import make_repository
from tests.support.sixty import sixty

ROOT: Final = Path(__file__).resolve().parent.parent
BOARD: Final = "qemu-mps2-an385"
OPERATORS: Final = 3


@dataclass(frozen=True, slots=True)
class BoardBisection:
    """A bisection that was run.

    Attributes:
        size: Share of rows that the bad commits have more.
        change: Change of the operator's time that it reported.
        right: Whether it found the right commit.
        runs: Runs that it took.
        commits: Commits that it ran.
        seconds: Time of all runs.
    """

    size: float
    change: float
    right: bool
    runs: int
    commits: int
    seconds: float


def bisect_board(size: float, number: int) -> BoardBisection:
    """Make a repository, and run a bisection in it."""
    chance = np.random.default_rng([1, round(100 * size), number])
    first_bad = int(chance.integers(1, COMMITS + 1))
    with tempfile.TemporaryDirectory() as scratch:
        models = [sixty(operators=OPERATORS), sixty(0, size, operators=OPERATORS)]
        places = range(COMMITS + 1)
        files = ({"model.pte": models[n >= first_bad], "number": b"%d" % n} for n in places)
        make_repository(Path(scratch), files)
        run = f"run --board {BOARD} --model model.pte --runs 2 -q -o {{output}}"
        bisect = f"bisect --good c0 --bad c{COMMITS} --metric operator:*mm* --json --"
        harness = [sys.executable, "-m", "harness"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*harness, *bisect.split(), *harness, *run.split()],
            cwd=scratch,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
        )
    found = json.loads(done.stdout)
    subjects = [commit["subject"] for commit in found["suspects"]]
    right = subjects == [f"change {first_bad}"]
    return BoardBisection(
        size, found["change"], right, found["runs"], len(found["commits"]), found["seconds"]
    )


def table(found: list[BoardBisection]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"On {BOARD}, whose clock counts instructions, with the bundled C kernels:"
    yield ""
    yield "| more rows | operator slower by | right | runs | commits run | seconds of all runs |"
    yield "|---|---|---|---|---|---|"
    for one in found:
        yield (
            f"| {one.size:.0%} | {one.change:.2%} | {'yes' if one.right else 'no'} | {one.runs} | "
            f"{one.commits} | {one.seconds:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2, help="bisections per size")
    options = parser.parse_args()
    found = []
    for number in range(options.repeats):
        for size in SIZES:
            found.append(bisect_board(size, number))
            print(found[-1], flush=True)
    found.sort(key=lambda one: one.size)
    write_section("benchmarks/bisect_boards.py", table(found), PAGE.with_name("bisect.md"))


if __name__ == "__main__":
    main()

"""Measures the sixty-operator network and slower variants of it again and again, on a real target.

    python -m benchmarks.verdict_pool POOL.jsonl --sessions 200

A session is short: each variant runs once, in random order, each in a process of its own. What was
measured is kept a line per run, so that a pool can grow and its sessions can be made nights of.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness import Metric, measure
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.runs.source import subject_of
from tests.support.sixty import sixty

BASELINE, UNCHANGED = "baseline", "unchanged"
"""The network, and the same again under another name."""

SLOWER = {"sigmoid": 4, "mm": 30, "tanh": 31, "mul": 41, "largest mm": 57}
"""Operators that are slower in a variant, by its name."""

EXECUTIONS = 50
SHARE = 0.03
STATISTICS = ("p10", "min", "p50", "avg")


class PooledRun(msgspec.Struct, frozen=True, array_like=True):
    """A run.

    Attributes:
        session: The session it was part of.
        variant: Which variant ran.
        seconds: What the run took, by the clock on the wall.
        values: By statistic, what ``Pool.metrics`` were.
    """

    session: int
    variant: str
    seconds: float
    values: dict[str, list[float]]


class Pool(msgspec.Struct):
    """What was measured: of what the values are, and the runs by session and variant."""

    metrics: tuple[Metric, ...] = ()
    sessions: dict[int, dict[str, PooledRun]] = {}


def read_pool(path: Path) -> Pool:
    """Read what there is; a session that was cut off is left out."""
    if not path.exists():
        return Pool()
    first, *lines = path.read_bytes().splitlines()
    sessions: dict[int, dict[str, PooledRun]] = {}
    for line in lines:
        run = msgspec.json.decode(line, type=PooledRun)
        sessions.setdefault(run.session, {})[run.variant] = run
    whole = {number: runs for number, runs in sessions.items() if len(runs) == 2 + len(SLOWER)}
    return Pool(msgspec.json.decode(first, type=tuple[Metric, ...]), whole)


def run_session(
    number: int, models: dict[str, Path], scratch: Path
) -> Iterator[tuple[tuple[Metric, ...], PooledRun]]:
    """Run every variant once, and yield it with its metrics, of which all have the same."""
    for variant in random.sample(list(models), len(models)):
        began = time.monotonic()
        request = RunRequest("native", models[variant], EXECUTIONS, scratch / "run", commit=variant)
        outcome = run_model(request)
        seconds = time.monotonic() - began
        subject = subject_of(outcome.trace, outcome.result)
        found = {statistic: measure(subject, statistic) for statistic in STATISTICS}
        values = {
            statistic: [sample.value for sample in samples.values()]
            for statistic, samples in found.items()
        }
        yield tuple(found[STATISTICS[0]]), PooledRun(number, variant, round(seconds, 3), values)


def write_models(directory: Path) -> dict[str, Path]:
    """Write the variants' files, and return them by name."""
    slower: dict[str, int | None] = {BASELINE: None, UNCHANGED: None, **SLOWER}
    models = {name: directory / f"{name.replace(' ', '_')}.pte" for name in slower}
    for name, path in models.items():
        path.write_bytes(sixty(slower[name], SHARE))
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--sessions", type=int, default=200)
    arguments = parser.parse_args()
    arguments.pool.parent.mkdir(parents=True, exist_ok=True)
    pool = read_pool(arguments.pool)
    first = max(pool.sessions, default=-1) + 1
    with tempfile.TemporaryDirectory() as scratch, arguments.pool.open("ab") as out:
        models = write_models(Path(scratch))
        for number in range(first, first + arguments.sessions):
            for metrics, run in run_session(number, models, Path(scratch)):
                if not pool.metrics:
                    pool.metrics = metrics
                    out.write(msgspec.json.encode(metrics) + b"\n")
                out.write(msgspec.json.encode(run) + b"\n")
            out.flush()


if __name__ == "__main__":
    main()

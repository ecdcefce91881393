"""Have a night of 64 simulated units with faults from a seed, and write the end of docs/nights.md.

    python -m benchmarks.night [--units 64] [--repeats 2] [--seed 7]    # ten minutes and more

The units are firmware processes of this host behind TCP ports (``tests/support/rack``); the night
is ``etharness nightly``, with all its processes on the same processors.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.decoding import machine
from tests.support.rack import draw
from tests.support.rack.night import Sample
from tests.support.rack.serve import names
from tests.support.rack.whole import Disturbance, Setting, Told, whole_night

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/nights.md"
HEADING = "## Measured\n"
MEBIBYTE = 1 << 20
MODELS = 2
TAKEN = 2
"""Units that somebody else has all night, and as many at first."""
DISTURBANCES = (
    (0.1, Disturbance.CLOCK_FORWARD),
    (0.25, Disturbance.KILLED),
    (0.45, Disturbance.CLOCK_BACK),
    (0.6, Disturbance.KILLED),
    (0.75, Disturbance.STORE_DOWN),
)
PATIENCE = 5.0
"""Deadlines of the boards are so much longer than in tests: there are 32 units to a processor."""
LONGEST_S = 3600.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.night")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="where the rack and the night are to stay")
    given = parser.parse_args()
    setting = Setting(
        seed=given.seed,
        units=given.units,
        repeats=given.repeats,
        faults=draw(given.seed, names(given.units)[2 * TAKEN :], MODELS * given.repeats),
        disturbances=DISTURBANCES,
        patience=PATIENCE,
        short=TAKEN,
        long=TAKEN,
        timeout_s=LONGEST_S,
    )
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        told = whole_night((given.keep or Path(scratch)) / "rack", setting)
    print(told.said[-1])
    command = f"python -m benchmarks.night --units {given.units} --repeats {given.repeats} "
    lines = page(told, f"{command}--seed {given.seed}")
    text = PAGE.read_text().partition(HEADING)[0] + HEADING + "\n".join(lines) + "\n"
    PAGE.write_text(text)
    print(text.partition(HEADING)[2])
    wrong = [*told.wrong, *(f"{row.kind}: {row.elsewhere}" for row in told.rows if row.elsewhere)]
    if wrong:
        raise SystemExit("\n".join(["not as it should be:", *wrong]))


def page(told: Told, command: str) -> Iterator[str]:
    setting = told.setting
    yield ""
    yield f"Written by `benchmarks/night.py` on {machine()}."
    yield ""
    yield f"{setting.units} units, {setting.steps} planned runs of {len(setting.models)} models,"
    yield f"seed {setting.seed}. To repeat it: `{command}`."
    yield ""
    yield "| fault | injected | expected | attributed to | retried | passed in the end |"
    yield "|---|---|---|---|---|---|"
    for row in told.rows:
        landed = ", ".join(f"{owner} {count}" for owner, count in sorted(row.landed.items()))
        cells = (row.kind, row.injected, row.expected, landed, row.retried, row.passed)
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    yield "`cut off`: the nightly run was killed during that attempt, so the attempt was repeated;"
    yield "`not met`: nothing was run on the unit after the fault."
    yield ""
    yield "| event or result | count |"
    yield "|---|---|"
    yield from (f"| {what} | {count} |" for what, count in _whole(told))
    yield ""
    yield "| resource | start | maximum | end | per 100 attempts |"
    yield "|---|---|---|---|---|"
    for number, grouped in groupby(told.samples, key=lambda sample: sample.process):
        # The first one is of the interpreter as it starts.
        yield from _resources(number, list(grouped)[1:])


def _whole(told: Told) -> Iterator[tuple[str, object]]:
    for kind in Disturbance:
        yield kind, told.disturbed[kind]
    yield "planned runs", told.setting.steps
    yield "finished attempts", told.attempts
    yield "attempts interrupted and repeated", told.interrupted
    yield "passed", told.counts["pass"]
    yield "of these on a later attempt", told.counts["flaky"]
    yield "not run, on units that were taken out or in use", told.counts["not run"]
    yield "failures without an injected fault", len(told.books.unexplained)
    yield "lost", len(told.books.lost)
    yield "reported or stored twice", len(told.books.duplicated)
    yield "leases left", len(told.leases_left)
    yield "connections to a unit in use by another process", told.intruders
    yield "exit codes of the processes", ", ".join(map(str, told.codes))
    yield "wall time", f"{told.seconds:.0f} s"
    yield "attempts per minute", f"{60 * told.attempts / told.seconds:.0f}"


def _resources(number: int, samples: Sequence[Sample]) -> Iterator[str]:
    memory = [sample.resident / MEBIBYTE for sample in samples]
    ended = [sample.ended for sample in samples]
    half = len(samples) // 2
    for what, values, form in (
        ("memory, MiB", memory, ".1f"),
        ("open files", [float(sample.files) for sample in samples], ".0f"),
    ):
        # The second half, because at first modules are loaded and units start.
        slope = 0.0
        if len(set(ended[half:])) > 1:
            slope = 100 * statistics.linear_regression(ended[half:], values[half:]).slope
        cells = [format(value, form) for value in (values[0], max(values), values[-1])]
        yield f"| process {number}: {what} | {' | '.join(cells)} | {slope:+.2f} |"


if __name__ == "__main__":
    main()

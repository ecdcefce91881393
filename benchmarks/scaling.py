"""Measure how far one host goes, and write docs/scaling.md.

    python -m benchmarks.scaling [--rows 10000000] [units] [store] [queries]

Each part that is named, or all, is measured once more and kept in out/scaling.json; the page has
the median of all that is there, and the range. ``queries`` needs some 3.5 GB for ten million rows
while it lasts, and half an hour.
"""

from __future__ import annotations

import argparse
import json
import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import scale_queries, scale_store, scale_units
from benchmarks.decoding import machine

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/scaling.md"
KEPT = ROOT / "out/scaling.json"
MIB = 1 << 20
MARK = "<!-- measured -->\n"
"""Between what is written by hand and what is measured."""


def main() -> None:
    parts: dict[str, Callable[[argparse.Namespace], Any]] = {
        "units": lambda _: scale_units.measure(),
        "store": lambda _: scale_store.measure(),
        "queries": lambda given: scale_queries.measure(given.rows),
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all by default")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for part in () if given.page else given.parts or parts:
        kept.setdefault(part, []).append(parts[part](given))
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(kept))
    if missing := [part for part in parts if part not in kept]:
        print(f"not measured yet, so the page stays as it is: {', '.join(missing)}")
        return
    lines = [*of_units(kept["units"]), *of_store(kept["store"]), *of_queries(kept["queries"])]
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + "\n".join(lines) + "\n")


def times(samples: Sequence[object]) -> str:
    return "once" if len(samples) == 1 else f"{len(samples)} times"


def paragraph(*parts: str) -> Iterator[str]:
    yield from textwrap.wrap(" ".join(parts), 120, break_on_hyphens=False)


def spread(values: Sequence[float], digits: int = 1, scale: float = 1.0) -> str:
    """The median, and the range where there is one."""
    low, middle, high = (f"{scale * f(values):,.{digits}f}" for f in (min, statistics.median, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def of_units(samples: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield ""
    yield from paragraph(
        f"Measured by `benchmarks/scaling.py` on {machine()}. Wall-clock times vary with other",
        "work on the machine, CPU times vary less. The tables list medians and the range of all",
        "repetitions.",
    )
    yield ""
    yield "## Simulated units on one host"
    yield ""
    yield from paragraph(
        f"`etharness run` of kws_int8 with {scale_units.EXECUTIONS} executions; each run starts a",
        f"board. Measured {times(samples)}.",
    )
    for board, counts in scale_units.UNITS.items():
        of_board = [sample[board] for sample in samples]
        memory = spread([each["memory"] / MIB for each in of_board], 0)
        failed = sum(unit["failed"] for each in of_board for unit in each["units"].values())
        yield ""
        yield f"**{board}**: {memory} MiB for one run, tool and board; {failed} runs failed."
        yield ""
        yield "| units at once | runs per minute | CPU seconds per run |"
        yield "|---|---|---|"
        for units in map(str, counts):
            measured = [each["units"][units] for each in of_board]
            rate = spread([60 * one["runs"] / one["s"] for one in measured])
            cpu = spread([one["cpu_s"] / one["runs"] for one in measured], 2)
            yield f"| {units} | {rate} | {cpu} |"


def of_store(samples: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield ""
    yield "## Results stored per second"
    yield ""
    yield from paragraph(
        "Each result has 500 rows of operators and is one transaction. Each writer is a process.",
        "PostgreSQL has its default settings and is reached over TCP on the same host.",
        f"Measured {times(samples)}.",
    )
    yield ""
    yield "| writers | SQLite | PostgreSQL |"
    yield "|---|---|---|"
    for writers in map(str, scale_store.WRITERS):
        one, other = (
            spread([sample[kind][writers] for sample in samples])
            for kind in ("SQLite", "PostgreSQL")
        )
        yield f"| {writers} | {one} | {other} |"


def of_queries(samples: Sequence[dict[str, Any]]) -> Iterator[str]:
    sample = samples[-1]
    one, other = sample["SQLite"], sample["PostgreSQL"]
    rows = one["rows"]
    yield ""
    yield f"## Queries of {rows['operator times']:,} rows"
    yield ""
    boards, models = len(scale_queries.BOARDS), len(scale_queries.MODELS)
    yield from paragraph(
        f"The history has {rows['results']:,} results of {boards} boards with",
        f"{scale_queries.UNITS} units each and {models} models, and {rows['metrics']:,} different",
        f"metrics. The table lists wall-clock milliseconds of {scale_queries.REPEATS} repetitions",
        "in one process. The first repetition may read from the disk.",
    )
    yield ""
    yield "| query | SQLite | PostgreSQL |"
    yield "|---|---|---|"
    for what, times in one["asked"].items():
        yield f"| {what} | {spread(times, 1, 1000)} | {spread(other['asked'][what], 1, 1000)} |"
    ours, theirs = (f"{store['size'] / 2**30:.2f} GiB" for store in (one, other))
    yield f"| size on disk | {ours} | {theirs} |"


if __name__ == "__main__":
    main()

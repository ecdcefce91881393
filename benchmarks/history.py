"""Measure the history of results on both databases, and write the end of docs/history.md.

    python -m benchmarks.history [ROWS]    # a million rows of operators by default: minutes
    python -m benchmarks.history copy [RESULTS]    # copies alone; 10,000 results by default

Both hold the same results and are asked the same, one after the other in this process. The server
is the benchmark's own, on a socket, with its defaults; the file is in the temporary folder.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path

from benchmarks.decoding import machine
from harness import Result, Selection, Subject, open_store
from harness.analyze.statistics import EXECUTIONS
from harness.check.history.measure import TIME_STATISTICS
from harness.extensions.history.copying import copy_history
from harness.history.store import Store
from tests.support.postgresql import server
from tests.support.results import made, trace_with

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/history.md"
HEADING = "## How fast\n"
COPY_HEADING = "## How fast a copy is\n"
OPERATORS = 60
COPY_OPERATORS = 6
RUNS = 10
KINDS = [*product(("board a", "board b", "board c", "board d"), ("kws.pte", "vww.pte"))]
UNITS = 8
REPEATS = 7


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured on one database; times are seconds, medians.

    Attributes:
        added: Rows of operators that were added per second while it was filled.
        asked: By the question.
        size: Bytes on the disk.
    """

    added: float
    asked: dict[str, float]
    size: int


def main() -> None:
    if sys.argv[1:2] == ["copy"]:
        measure_copies(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        file = Path(scratch) / "history.sqlite"
        running = stack.enter_context(server(durable=True))
        places = {
            "SQLite": (
                str(file),
                lambda: sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*")),
            ),
            "PostgreSQL": (running.new_database(), running.size),
        }
        found = {}
        for name, (url, size) in places.items():
            with open_store(url) as store:
                found[name], filled = measure(store, rows, size)
    before, _, after = PAGE.read_text().partition(HEADING)
    text = "\n".join(page(found, filled)) + "\n"
    copies = "".join(after.partition(COPY_HEADING)[1:])
    PAGE.write_text(before + HEADING + text + (f"\n{copies}" if copies else ""))
    print(text)
    measure_copies(10_000)


def measure_copies(count: int) -> None:
    """Copy so many results to a server and back, and write the end of the page."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        running = stack.enter_context(server(durable=True))
        urls = [str(Path(scratch) / "first.sqlite"), running.new_database()]
        urls.append(str(Path(scratch) / "last.sqlite"))
        stores = [stack.enter_context(open_store(url)) for url in urls]
        for result, subject in islice(nights(COPY_OPERATORS), count):
            stores[0].add(result, subject)
        rows = []
        for source, target, what in (
            (stores[0], stores[1], "SQLite to PostgreSQL"),
            (stores[1], stores[2], "PostgreSQL to SQLite"),
        ):
            reading = seconds(partial(read_all, source))
            copying = seconds(partial(copy_history, source, target))
            print(f"{what}: {reading:.1f} s, {copying:.1f} s", flush=True)
            rows.append(f"| {what} | {reading:.1f} s | {copying:.1f} s | {copying / reading:.1f} |")
        operators = stores[0].info().rows["operator times"]
    lines = [
        "",
        f"Written by `benchmarks/history.py copy` on {machine()}, one measurement each.",
        "",
        f"{count:,} results with {COPY_OPERATORS} operators, {operators:,} operator rows.",
        "*Reading* reads every result and every series of FROM; *copy* reads and writes all rows.",
        "",
        "| | reading | copy | ratio |",
        "|---|---|---|---|",
        *rows,
    ]
    text = "\n".join(lines) + "\n"
    before = PAGE.read_text().partition(COPY_HEADING)[0].rstrip("\n")
    PAGE.write_text(f"{before}\n\n{COPY_HEADING}{text}")
    print(text)


def read_all(store: Store) -> None:
    """Read every result, and all its numbers, through the interface for programs."""
    results = len(store.results())
    for of in store.tested():
        for executions in EXECUTIONS:
            store.history(
                *of,
                statistics=TIME_STATISTICS,
                executions=executions,
                baseline=None,
                window=results,
            )


def measure(store: Store, rows: int, size: Callable[[], int]) -> tuple[Figures, tuple[int, int]]:
    """Fill a store with so many rows of operators, then ask it."""
    began = time.perf_counter()
    results = 0
    spent = 0.0
    for result, subject in nights():
        if results % 200 == 0 and store.info().rows["operator times"] >= rows:
            break
        before = time.perf_counter()
        store.add(result, subject)
        spent += time.perf_counter() - before
        results += 1
    there = store.info().rows["operator times"]
    print(f"{store.location}: {there:,} rows, {time.perf_counter() - began:.0f} s", flush=True)
    board, model = KINDS[0]
    of = (board, model, "forward")
    adding = iter([made(f"x{n}", board=board, model=model) for n in range(REPEATS)])
    subject = next(nights())[1]

    def add_one() -> None:
        store.add(next(adding).result, subject)

    questions: dict[str, Callable[[], object]] = {
        "adding one result": add_one,
        "querying the newest 200 results of a board and model, all operators": (
            lambda: store.history(*of)
        ),
        "querying the newest 20 of them": lambda: store.history(*of, window=20),
        "querying one operator in all results of a board and model": (
            lambda: store.history(*of, window=100_000, pattern="native_call_7")
        ),
        "listing the newest 50 results of all boards": lambda: store.results(Selection(newest=50)),
    }
    asked = {what: median(action) for what, action in questions.items()}
    return Figures(there / spent, asked, size()), (there, results)


def nights(operators: int = OPERATORS) -> Iterator[tuple[Result, Subject]]:
    """Results night after night, each kind on each of its units, with times that differ."""
    subjects = [
        made("x", trace_with(times(seed, operators), allocated=100 + seed)).subject
        for seed in range(16)
    ]
    for subject in subjects:
        subject.operators, subject.allocators  # noqa: B018 - computed before anything is measured
    night = 0
    while True:
        for number, ((board, model), unit) in enumerate(product(KINDS, range(UNITS))):
            item = made(
                f"{night}-{number}",
                subjects[0].trace,
                board=board,
                model=model,
                unit=f"unit {unit}",
                session=f"night {night}",
                commit=f"{night:040x}",
                started_utc=f"{2020 + night // 336}-{night // 28 % 12 + 1:02}-{night % 28 + 1:02}",
            )
            yield item.result, subjects[(night + number) % len(subjects)]
        night += 1


def times(seed: int, operators: int) -> dict[str, list[int]]:
    """Times of operators, run by run."""
    return {
        f"native_call_{operator}": [
            10_000 * (operator + 1) + 37 * ((seed * 31 + operator * 7 + run * 3) % 11)
            for run in range(RUNS)
        ]
        for operator in range(operators)
    }


def median(action: Callable[[], object]) -> float:
    """Seconds that ``action`` takes, the median of several times."""
    return statistics.median([seconds(action) for _ in range(REPEATS)])


def seconds(action: Callable[[], object]) -> float:
    """Seconds that ``action`` takes once."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


def page(found: dict[str, Figures], filled: tuple[int, int]) -> Iterator[str]:
    rows, results = filled
    one, other = found["SQLite"], found["PostgreSQL"]
    yield ""
    yield f"Written by `benchmarks/history.py` on {machine()}."
    yield ""
    units = len(KINDS) * UNITS
    of = f"{results:,} results, {OPERATORS} operators, {units} units"
    yield f"With {rows:,} operator rows: {of},"
    yield "all statistics of all, cold and warm executions. Each time is the median wall time."
    yield ""
    yield "| | SQLite | PostgreSQL | ratio |"
    yield "|---|---|---|---|"
    yield (
        f"| operator rows added per second, one writer, a transaction per result | "
        f"{one.added:,.0f} | {other.added:,.0f} | {other.added / one.added:.2f} |"
    )
    for what in one.asked:
        ours, theirs = one.asked[what], other.asked[what]
        yield f"| {what} | {1000 * ours:.1f} ms | {1000 * theirs:.1f} ms | {theirs / ours:.2f} |"
    yield (
        f"| bytes on disk per operator row, including everything else | {one.size / rows:.0f} | "
        f"{other.size / rows:.0f} | {other.size / one.size:.2f} |"
    )


if __name__ == "__main__":
    main()

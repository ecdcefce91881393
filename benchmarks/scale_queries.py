"""How long a large history takes to answer, on both databases: a part of docs/scaling.md.

The rows are made in bulk: one result of each kind is added as a run adds it, and what it made is
repeated night after night, on every unit, with times that differ.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert, select, text

from harness import HistoryLimits, HistoryRef, Selection, Summary, open_store, parse_baseline
from harness.history.entries import provenance_of
from harness.history.store import Store
from harness.history.tables import NUMBER, RESULT, TIME, Interned
from tests.support.postgresql import Server, server
from tests.support.results import Made, made, trace_with

BOARDS = ("nucleo-h743zi", "nucleo-f446re", "nrf52840dk", "rpi-pico2")
MODELS = ("kws.pte", "vww.pte", "ic.pte", "ad.pte")
UNITS = 8
OPERATORS = 166
"""With all, cold and warm executions: some 500 rows of each result."""
REPEATS = 7
DAY_US = 86_400_000_000
AT_ONCE = 20
"""Results that are inserted in one statement."""


def measure(rows: int) -> dict[str, Any]:
    """Fill both databases with so many rows of operators, and ask them."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCALING_DIR")) as scratch:
        file = Path(scratch) / "history.sqlite"
        found["SQLite"] = of_store(
            str(file), rows, lambda: sum(f.stat().st_size for f in file.parent.glob("history*"))
        )
    with ExitStack() as stack:
        running: Server = stack.enter_context(server(durable=True))
        found["PostgreSQL"] = of_store(running.new_database(), rows, running.size)
    return found


def of_store(url: str, rows: int, size: Callable[[], int]) -> dict[str, Any]:
    with open_store(url) as store:
        began = time.perf_counter()
        results = fill(store, rows)
        if not store.database.is_sqlite:
            with store.database.writing() as connection:
                connection.execute(text("ANALYZE"))
        filled_s = time.perf_counter() - began
        print(f"{store.location}: {results:,} results in {filled_s:.0f} s", flush=True)
        found = {what: timed(ask) for what, ask in questions(store, url).items()}
        counts = store.info().rows
    for what, times in found.items():
        print(f"  {statistics.median(times):8.3f} s  {what}", flush=True)
    return {"asked": found, "size": size(), "rows": counts, "filled_s": filled_s}


def questions(store: Store, url: str) -> dict[str, Callable[[], object]]:
    board, model = BOARDS[0], MODELS[0]
    of = (board, model, "forward")
    item = example(board, model, "judged")
    more = iter([example(board, model, f"more {number}") for number in range(REPEATS)])

    def judged() -> object:
        """As `run --baseline last:30` does: both statistics, of all units of the type."""
        reference = HistoryRef(url, parse_baseline("last:30"))
        return reference.fetch(provenance_of(item.result), HistoryLimits())

    def add() -> None:
        one = next(more)
        store.add(one.result, one.subject)

    def listed() -> None:
        command = [sys.executable, "-m", "harness", "history", "list", "--history", url]
        subprocess.run(command, check=True, capture_output=True)

    return {
        "`history list`: the newest 50 results": lambda: store.results(Selection(newest=50)),
        "the same as a command, including the start of Python": listed,
        "`history list` of one unit": lambda: store.results(Selection(unit="unit 3", newest=50)),
        "`history list` of a commit": lambda: store.results(Selection(commit=f"{7:040x}")),
        "`history show`: all operators in the newest 20 results of a board and model": lambda: (
            store.tested(),
            store.history(*of, window=20, baseline=None),
        ),
        "the last 30 results of a board, model and unit": lambda: store.history(
            *of, unit="unit 3", baseline=parse_baseline("last:30"), window=30
        ),
        "`run --baseline last:30`: 200 results, two statistics": judged,
        "one operator in all results of a board and model": lambda: store.history(
            *of, window=1_000_000, pattern="native_call_7", baseline=None
        ),
        "one operator in all results of a unit": lambda: store.history(
            *of, unit="unit 3", window=1_000_000, pattern="native_call_7", baseline=None
        ),
        "adding a result of 500 rows": add,
        "`history info`: count of all rows": store.info,
    }


def fill(store: Store, rows: int) -> int:
    """Add results of all kinds until there are so many rows of operators; how many results."""
    kinds = [*product(BOARDS, MODELS)]
    originals = {kind: example(*kind, "original " + " ".join(kind)) for kind in kinds}
    for item in originals.values():
        store.add(item.result, item.subject)
    with store.database.reading() as connection:
        sources = {
            (row.board_id, row.model_id): row for row in connection.execute(select(RESULT))
        }.values()
        templates = [
            (
                dict(source._mapping),
                [dict(row._mapping) for row in connection.execute(of_result(TIME, source.id))],
                [dict(row._mapping) for row in connection.execute(of_result(NUMBER, source.id))],
            )
            for source in sources
        ]
    per_night = UNITS * sum(len(times) for _, times, _ in templates)
    chance = np.random.default_rng(1)
    count, number = 0, 10_000
    for night in range(1 + rows // per_night):
        texts = [f"{night:040x}", f"night {night}", *(f"unit {unit}" for unit in range(UNITS))]
        with store.database.writing() as connection:
            interned = Interned()
            interned.intern(connection, texts)
            known = interned.names
        for some in batches_of(repeated(templates, night, known, number, chance)):
            with store.database.writing() as connection:
                insert_all(connection, some)
            count += len(some)
        number += len(templates) * UNITS
    return count + len(kinds)


def of_result(table: Any, number: int) -> Any:
    return select(table).where(table.c.result_id == number)


def repeated(
    templates: list[Any], night: int, known: dict[str, int], number: int, chance: Any
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]]:
    for (result, times, numbers), unit in product(templates, range(UNITS)):
        level = 1 + 0.02 * chance.standard_normal()
        new = result | {
            "id": number,
            "own_id": f"{night}-{number}",
            "started_us": result["started_us"] + night * DAY_US + unit,
            "unit_id": known[f"unit {unit}"],
            "commit_id": known[f"{night:040x}"],
            "session_id": known[f"night {night}"],
        }
        timed_rows = [
            {
                column: number
                if column == "result_id"
                else value * level
                if column in Summary.__struct_fields__ and column != "count"
                else value
                for column, value in row.items()
            }
            for row in times
        ]
        yield new, timed_rows, [row | {"result_id": number} for row in numbers]
        number += 1


def batches_of(items: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def insert_all(connection: Any, some: list[Any]) -> None:
    of_tables = {
        RESULT: [result for result, _, _ in some],
        TIME: [row for _, times, _ in some for row in times],
        NUMBER: [row for _, _, numbers in some for row in numbers],
    }
    for table, rows in of_tables.items():
        if connection.dialect.name == "postgresql":
            copy(connection, table, rows)
        else:
            connection.execute(insert(table), rows)


def copy(connection: Any, table: Any, rows: list[dict[str, Any]]) -> None:
    """Insert as PostgreSQL does it fastest; only the time of questions is measured."""
    names = [column.name for column in table.columns]
    statement = f"COPY {table.name} ({', '.join(names)}) FROM STDIN"
    with connection.connection.cursor() as cursor, cursor.copy(statement) as rows_in:
        for row in rows:
            rows_in.write_row([row[name] for name in names])


def example(board: str, model: str, own_id: str) -> Made:
    """A result of 500 rows; the operators of each model have names of their own, too."""
    times = {
        f"native_call_{number}" if number % 2 else f"{model} {number}": [
            10_000 * (number + 1) + 37 * ((number * 7 + run * 3) % 11) for run in range(10)
        ]
        for number in range(OPERATORS)
    }
    trace = trace_with(times, allocated=4096)
    started = "2026-06-01T00:00:00+00:00"
    return made(own_id, trace, board=board, model=model, unit="unit 0", started_utc=started)


def timed(action: Callable[[], object]) -> list[float]:
    """Seconds that ``action`` takes, again and again."""
    taken = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        action()
        taken.append(time.perf_counter() - before)
    return taken

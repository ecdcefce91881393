"""How many results per second a store takes from one writer or several: for docs/scaling.md.

Each writer is a process with a connection of its own, as the runs of a rack are; the server is
reached over TCP with a password, as hosts share one.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy  # noqa: F401 - once, before writers are forked

from benchmarks.scale_queries import example
from harness import open_store
from tests.support.postgresql import server

WRITERS = (1, 2, 4, 8)
RESULTS = 160
"""Of all writers together, 500 rows each."""

FORK = multiprocessing.get_context("fork")


def measure() -> dict[str, Any]:
    """Results per second of every number of writers, once, into a new store each."""
    found: dict[str, Any] = {"SQLite": {}, "PostgreSQL": {}}
    with tempfile.TemporaryDirectory() as scratch, server(durable=True, tcp=True) as running:
        running.execute("CREATE ROLE lab LOGIN PASSWORD 'secret'")
        for writers in WRITERS:
            name = running.name_of(running.new_database())
            running.execute(f"ALTER DATABASE {name} OWNER TO lab")
            places = {
                "SQLite": str(Path(scratch) / f"{writers}.sqlite"),
                "PostgreSQL": running.url_of("lab", "secret", name),
            }
            for kind, url in places.items():
                found[kind][str(writers)] = of_writers(url, writers)
                print(f"{kind}, {writers}: {found[kind][str(writers)]:.1f} results/s", flush=True)
    return found


def of_writers(url: str, writers: int) -> float:
    open_store(url).close()
    ready, go = FORK.Barrier(writers + 1), FORK.Event()

    def write(writer: int) -> None:
        items = [
            example("board", "kws.pte", f"{writer}-{number}")
            for number in range(RESULTS // writers)
        ]
        with open_store(url) as store:
            store.add(items[0].result, items[0].subject)  # it knows the names then
            ready.wait()
            go.wait()
            for item in items[1:]:
                store.add(item.result, item.subject)

    processes = [FORK.Process(target=write, args=(writer,)) for writer in range(writers)]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    go.set()
    for process in processes:
        process.join()
    taken = time.perf_counter() - began
    assert not any(process.exitcode for process in processes)
    with open_store(url) as store:
        assert store.info().rows["results"] == RESULTS
    return (RESULTS - writers) / taken

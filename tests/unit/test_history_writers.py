"""Several processes that write one history at once, and some that are killed while they do."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy  # noqa: F401 - once, before children are forked

from harness import InfrastructureError, Selection, entry_of, measure, open_store
from harness.history.store import Store
from tests.support.results import Made, made, trace_with

pytestmark = pytest.mark.slow

FORK = multiprocessing.get_context("fork")
KWS = ("native", "kws.pte", "forward")


def result(number: int) -> Made:
    """A result with operators of its own and some that all have."""
    times = {name: [number + 1, number + 2] for name in ("a", "b", "c", f"own {number}")}
    return made(f"r{number:03}", trace_with(times, allocated=64), session=f"s{number % 3}")


def in_child(action: Callable[[], None]) -> multiprocessing.process.BaseProcess:
    process = FORK.Process(target=action)
    process.start()
    return process


def check_whole(url: str, expected: set[str]) -> None:
    """Every result that is there is there whole, once, and is one of ``expected``."""
    with open_store(url) as store:
        entries = {entry.provenance.id: entry for entry in store.results()}
        assert len(entries) == store.info().rows["results"]
        history = store.history(*KWS, baseline=None, window=10_000)
    assert set(entries) <= expected
    for place, origin in enumerate(history.results):
        item = result(int(origin.id[1:]))
        assert entries[origin.id] == entry_of(item.result, item.subject)[0]
        samples = {
            series.metric: series.samples[series.results.index(place)]
            for series in history.series
            if place in series.results
        }
        assert samples == measure(item.subject)


@pytest.mark.attack(
    "Nights and history", "eight processes that add the same results", "each result is stored once"
)
def test_eight_processes_add_each_result_once(empty_url: str, tmp_path: Path) -> None:
    """All of them add all results, each in an order of its own, to a history that nobody made."""
    writers, count = 8, 12

    def write(seed: int) -> None:
        order = random.Random(seed).sample(range(count), count)
        items = [result(number) for number in order]
        while not (tmp_path / "go").exists():
            time.sleep(0.001)
        with open_store(empty_url) as store:
            added = sum(store.add(item.result, item.subject) for item in items)
        (tmp_path / f"added{seed}").write_text(str(added))

    processes = [in_child(lambda seed=seed: write(seed)) for seed in range(writers)]  # type: ignore[misc]
    (tmp_path / "go").touch()
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    counts = [int((tmp_path / f"added{seed}").read_text()) for seed in range(writers)]
    assert sum(counts) == count
    check_whole(empty_url, {f"r{number:03}" for number in range(count)})


@pytest.mark.attack(
    "Nights and history",
    "kill -9 of a process that adds results",
    "only complete results are stored",
)
def test_a_killed_writer_leaves_whole_results(store_url: str) -> None:
    """Killed at any moment: of what it was adding there is all or nothing, and the rest goes on."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    count = 30
    expected = {f"r{number:03}" for number in range(count)}
    items = [result(number) for number in range(count)]
    for _ in range(4):

        def write() -> None:
            with open_store(store_url) as store:
                for item in items:
                    store.add(item.result, item.subject)
                    store.remove(Selection(ids=[item.result.id]))
                    store.add(item.result, item.subject)

        process = in_child(write)
        time.sleep(chance.uniform(0.02, 0.25))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(600)
        check_whole(store_url, expected)
    if "://" not in store_url:
        with closing(sqlite3.connect(store_url)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with open_store(store_url) as store:
        there = {entry.provenance.id for entry in store.results()}
        added = [store.add(item.result, item.subject) for item in items]
        assert added.count(False) == len(there)
        assert {entry.provenance.id for entry in store.results()} == expected
    check_whole(store_url, expected)


def test_a_writer_waits_for_another_and_counts_it(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    one, other = result(1), result(2)
    waiting: list[Store] = []

    def wait() -> bool:
        with open_store(str(file), deadline_s=600) as patient:
            waiting.append(patient)
            return patient.add(other.result, other.subject)

    with open_store(str(file)) as store:
        store.add(one.result, one.subject)
        with closing(sqlite3.connect(file, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            assert len(store.results()) == 1, "readers do not wait"
            with (
                open_store(str(file), deadline_s=0.3) as impatient,
                pytest.raises(InfrastructureError, match=r"stayed locked for 0\.3 s"),
            ):
                impatient.add(other.result, other.subject)
            with ThreadPoolExecutor() as threads:
                added = threads.submit(wait)
                while not (waiting and waiting[0].retries):
                    assert not added.done()
                    time.sleep(0.01)
                holder.execute("COMMIT")
                assert added.result(600)
        assert not store.add(other.result, other.subject)


def test_a_reader_waits_while_a_file_is_being_made(tmp_path: Path) -> None:
    """Whoever turns a new file into one with a log has it alone, and readers must not fail."""
    file = tmp_path / "h.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InfrastructureError, match="stayed locked"):
            open_store(str(file), deadline_s=0.5)
        with ThreadPoolExecutor() as threads:  # a child would share what SQLite knows of locks
            waiting = threads.submit(lambda: open_store(str(file)).close())
            time.sleep(0.3)
            assert not waiting.done()
            holder.execute("COMMIT")
            waiting.result(600)

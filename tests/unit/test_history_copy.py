"""Copies of a history: killed, with other writers, continued, and refused."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import CopyOutcome, Decision, Metric, Selection, UsageError, open_store
from harness.extensions.history.copying import copy_history
from harness.history.store import Store
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.history_copies import everything
from tests.support.postgresql import Server
from tests.support.results import Made, made, run_directory, trace_with

UNRECORDED = ""

FORK = multiprocessing.get_context("fork")
KWS = ("native", "kws.pte", "forward")
TIMES = {"a": [10, 20], "OPERATOR_CALL": [500]}


def result(number: int, **facts: Any) -> Made:
    """A result with operators of its own and some that all have."""
    times = {name: [number + 1, number + 2] for name in ("a", "b", f"own {number}")}
    started = f"2026-11-21T00:00:{number:02}+00:00"
    return made(
        f"r{number:02}", trace_with(times, allocated=64), **{"started_utc": started, **facts}
    )


def fill(store: Store, count: int) -> None:
    for number in range(count):
        item = result(number)
        store.add(item.result, item.subject)


def decision(reason: str, second: int = 0) -> Decision:
    return Decision(
        kind="accepted",
        unit="native",
        metric=Metric("operator", "a", "", "ns"),
        since_utc="2026-11-21T00:00:00+00:00",
        at_utc="2026-11-21T00:00:05+00:00",
        reason=reason,
        who="jane",
        made_utc=f"2026-11-22T00:00:{second:02}+00:00",
    )


@pytest.fixture
def other_url(store_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An empty history on the other database than ``store_url``."""
    if "://" in store_url:
        return str(tmp_path / "other.sqlite")
    running: Server = request.getfixturevalue("postgresql")
    return running.new_database()


@pytest.mark.attack(
    "Nights and history", "kill -9 of a copy between histories", "the new history is empty"
)
@pytest.mark.slow
def test_a_killed_copy_leaves_nothing(store_url: str, other_url: str) -> None:
    with open_store(store_url) as source:
        fill(source, 9)
        source.set_baseline("v1", ["r01", "r02"])
    open_store(other_url).close()

    def copy() -> None:
        def killed(_stage: str, done: int, total: int) -> None:
            if done > total / 2:
                os.kill(os.getpid(), signal.SIGKILL)

        with open_store(store_url) as source, open_store(other_url) as target:
            copy_history(source, target, killed)

    process = FORK.Process(target=copy)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with open_store(store_url) as source, open_store(other_url) as target:
        assert target.results() == []
        assert copy_history(source, target) == CopyOutcome(results=9, baselines=1, decisions=0)
        assert everything(target) == everything(source)


def test_a_copy_goes_on_as_the_history_would(store_url: str, other_url: str) -> None:
    """Names and results have further numbers, and a decision and a baseline can be added."""
    with open_store(store_url) as source, open_store(other_url) as target:
        fill(source, 3)
        source.set_baseline("v1", ["r00"])
        source.record_decisions(*KWS, UNRECORDED, [decision("first")])
        copy_history(source, target)
        for store in (source, target):
            item = result(3)
            assert store.add(item.result, item.subject)
            store.record_decisions(*KWS, UNRECORDED, [decision("second")])
            store.set_baseline("v2", ["r03"])
        assert [item.reason for item in target.decisions()] == ["first", "second"]
        assert everything(target)["histories"] == everything(source)["histories"]
        assert target.baseline_results("v2") == ["r03"]


def test_the_source_is_copied_as_it_was(store_url: str, other_url: str) -> None:
    with open_store(store_url) as source, open_store(other_url) as target:
        fill(source, 3)
        before = source.results()

        def meanwhile(_stage: str, done: int, _total: int) -> None:
            if not done:
                item = result(4)
                source.add(item.result, item.subject)

        assert copy_history(source, target, meanwhile).results == 3
        assert target.results() == before


@pytest.mark.slow
def test_another_process_that_adds_results_waits(store_url: str, other_url: str) -> None:
    with open_store(store_url) as source:
        fill(source, 20)
    open_store(other_url).close()
    begun = FORK.Event()

    def write() -> None:
        begun.wait(60)
        with open_store(other_url) as target:
            fill(target, 30)

    process = FORK.Process(target=write)
    process.start()
    with open_store(store_url) as source, open_store(other_url) as target:
        assert copy_history(source, target, lambda *_: begun.set()).results == 20
        process.join(60)
        assert process.exitcode == 0
        assert len(target.results()) == 30
        own = Selection(ids=[entry.provenance.id for entry in source.results()])
        assert target.results(own) == source.results()


@pytest.fixture
def stores(tmp_path: Path) -> Any:
    """Two histories in files; the first has three results."""
    with (
        open_store(str(tmp_path / "a.sqlite")) as source,
        open_store(str(tmp_path / "b.sqlite")) as target,
    ):
        fill(source, 3)
        yield source, target


def test_a_history_that_has_something_is_refused(stores: tuple[Store, Store]) -> None:
    source, target = stores
    item = result(7)
    target.add(item.result, item.subject)
    with pytest.raises(UsageError, match=r"b\.sqlite is not empty") as raised:
        copy_history(source, target)
    assert "copy to a new file" in raised.value.hint
    assert [entry.provenance.id for entry in target.results()] == ["r07"]


def test_a_history_is_not_copied_to_itself(tmp_path: Path, store_url: str) -> None:
    if "://" in store_url:
        again = store_url.replace("postgres@", "postgres:unused@")
    else:
        (tmp_path / "link.sqlite").symlink_to(store_url)
        again = str(tmp_path / "link.sqlite")
    with (
        open_store(store_url) as store,
        open_store(again) as same,
        pytest.raises(UsageError, match="are the same history"),
    ):
        copy_history(store, same)


@pytest.mark.attack(
    "Nights and history",
    "a copy to a read-only history",
    "refused before anything is copied",
)
def test_a_target_that_may_only_be_read_is_refused(
    stores: tuple[Store, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = stores
    monkeypatch.setattr(os, "access", lambda *_: False)
    with (
        open_store(str(tmp_path / "b.sqlite")) as target,
        pytest.raises(UsageError, match=r"b\.sqlite is not writable"),
    ):
        copy_history(source, target)
    with open_store(str(tmp_path / "a.sqlite")) as read_only:
        monkeypatch.undo()
        with open_store(str(tmp_path / "c.sqlite")) as target:
            assert copy_history(read_only, target).results == 3


def test_a_server_that_may_only_be_read_is_refused(
    stores: tuple[Store, Store], postgresql: Server
) -> None:
    source, target = stores
    url = postgresql.new_database()
    open_store(url).close()
    postgresql.execute("CREATE ROLE copy_reader LOGIN", "postgres")
    grant = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO copy_reader"
    postgresql.execute(grant, postgresql.name_of(url))
    with open_store(url.replace("postgres@", "copy_reader@")) as guest:
        with pytest.raises(UsageError, match="is not writable"):
            copy_history(source, guest)
        with open_store(url) as owner:
            assert copy_history(source, owner).results == 3
        assert copy_history(guest, target).results == 3


def test_the_command_copies_to_a_server(
    tmp_path: Path, postgresql: Server, etharness: Callable[..., CommandResult]
) -> None:
    for number in range(2):
        run_directory(tmp_path / f"out/run{number}", made(f"r{number}"), TIMES)
    file, url = tmp_path / "h.sqlite", postgresql.new_database()
    etharness("history", "add", tmp_path / "out", "--history", file)
    etharness("history", "baseline", "set", "v1", "r0", "--history", file)
    etharness("history", "accept", "a", "--reason", "known", "--history", file)
    code, out, err = etharness("history", "copy", file, url)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.endswith("2 results, 1 baseline and 1 decision copied"), text
    back = tmp_path / "back.sqlite"
    copied = document("history-copy", etharness("history", "copy", url, back, "--json").out)
    assert copied == {"results": 2, "baselines": 1, "decisions": 1, "nights": 0}
    code, _, err = etharness("history", "copy", file, url)
    assert code == 2
    assert "is not empty" in err
    code, _, err = etharness("history", "copy", tmp_path / "none.sqlite", url)
    assert code == 2
    assert "not found" in err
    code, _, err = etharness("history", "copy", file, file)
    assert code == 2
    assert "are the same history" in err


def test_run_directories_can_go(tmp_path: Path, etharness: Callable[..., CommandResult]) -> None:
    """The history reads them once: series, baselines, decisions and verdicts remain without."""
    file, moved = tmp_path / "h.sqlite", tmp_path / "moved.sqlite"
    for number in range(6):
        started = f"2026-09-21T00:00:{number:02}+00:00"
        times = {"a": [100 + number] * 5, "OPERATOR_CALL": [500] * 5}
        run_directory(tmp_path / f"old/run{number}", made(f"r{number}", started_utc=started), times)
    new = run_directory(tmp_path / "new", made("new"), {**TIMES, "a": [300] * 5})
    etharness("history", "add", tmp_path / "old", "--history", file)
    etharness("history", "baseline", "set", "v1", "--last", "5", "--history", file)
    etharness("history", "accept", "a", "--reason", "known", "--history", file)

    def answers(history: Path) -> list[CommandResult]:
        compare = ("check", new, "--history", history, "--baseline")
        return [
            etharness("history", "show", "a", "--json", "--history", history),
            etharness("history", "baseline", "list", "--json", "--history", history),
            etharness(*compare, "name:v1", "--json"),
            etharness(*compare, "last:20", "--json"),
        ]

    before = answers(file)
    assert [answer.code for answer in before] == [0, 0, 1, 1]
    compared = [re.findall('"code": "(H..)"', answer.out) for answer in before[2:]]
    assert all(compared), "both verdicts depend on the history"
    shutil.rmtree(tmp_path / "old")
    assert answers(file) == before
    assert etharness("history", "copy", file, moved).code == 0
    assert answers(moved) == before

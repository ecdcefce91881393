"""Copies of a history: killed and begun again, with other writers, refused, and checked."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness import (
    CopyOutcome,
    Decision,
    Failure,
    Metric,
    Selection,
    UsageError,
    VerdictRecord,
    open_store,
)
from harness.extensions.history.copying import copy_history
from harness.history import results
from harness.history.store import Store
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.history_copies import everything
from tests.support.postgresql import Server
from tests.support.results import Made, made, run_directory, trace_with, unmet

UNRECORDED = ""
UNFINISHED = "Unfinished"

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
    "Nights and history", "kill -9 of a copy between histories", "it continues where it stopped"
)
@pytest.mark.slow
def test_a_killed_copy_goes_on_where_it_was(store_url: str, other_url: str) -> None:
    """Killed within a transaction: the batches before it stay, and are not copied again."""
    with open_store(store_url) as source:
        fill(source, 9)
        source.set_baseline("v1", ["r01", "r02"])
    open_store(other_url).close()

    def copy() -> None:
        add, calls = results.add, iter(range(9))

        def killed(*arguments: Any) -> Any:
            if next(calls) == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return add(*arguments)

        results.add = killed  # type: ignore[assignment]
        with open_store(store_url) as source, open_store(other_url) as target:
            copy_history(source, target, batch=2)

    process = FORK.Process(target=copy)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with open_store(store_url) as source, open_store(other_url) as target:
        assert [entry.provenance.id for entry in target.results()] == ["r00", "r01", "r02", "r03"]
        outcome = copy_history(source, target, batch=2)
        assert outcome == CopyOutcome(results=9, copied=5, verdicts=0, baselines=1, decisions=0)
        assert everything(target) == everything(source)


def test_writers_of_both_histories_do_no_harm(store_url: str, other_url: str) -> None:
    """Between batches: new results, one of a run that has ended, a baseline and a removal."""
    whole = result(1)
    begun = replace(whole.result, failure=Failure(UNFINISHED, "cut off", ""), exit_code=75)
    with open_store(store_url) as source, open_store(other_url) as target:
        for item in (result(0), Made(begun, whole.subject), *map(result, range(2, 6))):
            source.add(item.result, item.subject)

        def meanwhile(stage: str, done: int, _total: int) -> None:
            if (stage, done) == ("copying", 2):
                source.add(whole.result, whole.subject)
                for store, number in ((source, 6), (target, 7), (target, 4)):
                    item = result(number)
                    store.add(item.result, item.subject)
                source.set_baseline("v1", ["r00", "r06"])
                source.remove(Selection(ids=["r05"]))

        outcome = copy_history(source, target, batch=2, progress=meanwhile)
        ids = [entry.provenance.id for entry in target.results()]
        assert ids == ["r00", "r01", "r02", "r03", "r04", "r06", "r07"]
        assert (outcome.results, outcome.baselines) == (5, 1)
        assert target.baseline_results("v1") == ["r00", "r06"]
        own = Selection(ids=[f"r{number:02}" for number in range(7)])
        assert target.results(own) == source.results()


@pytest.mark.slow
def test_another_process_that_adds_the_same_results(store_url: str, other_url: str) -> None:
    with open_store(store_url) as source:
        fill(source, 20)
    open_store(other_url).close()

    def write() -> None:
        with open_store(other_url) as target:
            fill(target, 30)

    process = FORK.Process(target=write)
    process.start()
    with open_store(store_url) as source, open_store(other_url) as target:
        assert copy_history(source, target, batch=3).results == 20
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


def test_a_result_that_differs_is_named(stores: tuple[Store, Store]) -> None:
    source, target = stores
    item = result(1)
    target.add(item.result, made("r01", trace_with({"a": [11, 2]})).subject)
    with pytest.raises(UsageError, match=r"b\.sqlite differs from .*a\.sqlite in 1 results: r01$"):
        copy_history(source, target, replace_verdicts=True)
    assert len(target.results()) == 3, "the others were copied"


def test_a_verdict_is_replaced_on_request(stores: tuple[Store, Store]) -> None:
    source, target = stores
    copy_history(source, target)
    source.record_verdict("r01", VerdictRecord(False, "b.toml", (unmet("H01"),)))
    with pytest.raises(UsageError, match="in 1 results: r01") as raised:
        copy_history(source, target)
    assert "--replace-verdicts" in raised.value.hint
    assert copy_history(source, target, replace_verdicts=True).verdicts == 1
    assert everything(target) == everything(source)


def test_decisions_are_continued_in_their_order(stores: tuple[Store, Store]) -> None:
    source, target = stores
    for made_in, reason in ((source, "first"), (source, "second")):
        made_in.record_decisions(*KWS, UNRECORDED, [decision(reason)])
    assert copy_history(source, target).decisions == 2
    target.record_decisions(*KWS, UNRECORDED, [decision("third")])
    assert copy_history(source, target).decisions == 0
    assert copy_history(target, source).decisions == 1
    assert [item.reason for item in source.decisions()] == ["first", "second", "third"]
    source.record_decisions(*KWS, UNRECORDED, [decision("fourth")])
    target.record_decisions(*KWS, UNRECORDED, [decision("another")])
    with pytest.raises(
        UsageError, match=r"different decisions about .* on native: .*fourth; .*ano"
    ):
        copy_history(source, target)
    assert [item.reason for item in target.decisions()][2:] == ["third", "another"]


def test_the_newer_baseline_of_a_name_stays(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = stores

    def set_at(store: Store, day: int, *ids: str) -> None:
        class _Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime(2026, 11, day, tzinfo=UTC)

        monkeypatch.setattr("harness.history.triage.datetime", _Clock)
        store.set_baseline("v1", ids)

    set_at(source, 1, "r00")
    assert copy_history(source, target).baselines == 1
    set_at(target, 2, "r01")
    assert copy_history(source, target).baselines == 0
    assert target.baseline_results("v1") == ["r01"]
    set_at(source, 3, "r01", "r02")
    assert copy_history(source, target).baselines == 1
    assert target.baselines() == source.baselines()
    set_at(target, 3, "r00")
    with pytest.raises(UsageError, match="baseline 'v1' has other results") as raised:
        copy_history(source, target)
    assert "etharness history baseline remove" in raised.value.hint


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
            assert copy_history(read_only, target).copied == 3


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
            assert copy_history(source, owner).copied == 3
        assert copy_history(guest, target).copied == 3


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
    assert text.endswith("2 results, 1 baselines and 1 decisions copied; 2 results compared"), text
    copied = document("history-copy", etharness("history", "copy", url, file, "--json").out)
    assert copied == {
        "results": 2,
        "copied": 0,
        "verdicts": 0,
        "baselines": 0,
        "decisions": 0,
        "nights": 0,
    }
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

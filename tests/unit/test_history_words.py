"""How baselines are written, what cannot be kept, and how series look on a terminal."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from harness import (
    BaselineRef,
    Failure,
    FormatError,
    Losses,
    Stack,
    Subject,
    TraceSummary,
    UsageError,
    entry_of,
    measure,
    open_store,
    parse_baseline,
    write_ed00,
)
from harness.check.history.measure import history_numbers
from harness.extensions.history.report import print_entries, print_history
from harness.history.database import Database, parse_url
from harness.history.results import add
from harness.history.tables import Interned, ensure_schema
from harness.records.result import microseconds
from harness.runs.history import add_directory, add_reported
from tests.support.reported import reported
from tests.support.results import Made, made, run_directory, trace_with
from tests.support.traces import EventSpec, RunSpec, trace_of

KWS = ("native", "kws.pte", "forward")


@given(
    st.one_of(
        st.integers(1, 10**9).map(lambda count: BaselineRef("last", str(count))),
        st.text("0123456789abcdef", min_size=4).map(lambda text: BaselineRef("commit", text)),
        st.text(min_size=1)
        .filter(lambda text: text == text.strip())
        .map(lambda text: BaselineRef("name", text)),
    )
)
def test_a_baseline_is_read_as_it_is_written(ref: BaselineRef) -> None:
    assert parse_baseline(str(ref)) == parse_baseline(f" {ref} ") == ref


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(
            (text, "invalid baseline")
            for text in ("", "v1", "20", ":", "name:", "tag:v1", "name: ")
        ),
        *(
            (f"last:{text}", "invalid count")
            for text in ("0", "-1", "x", "1.5", "\u00b2", "\u0661")
        ),
        ("commit:abc", "commit prefix too short"),
    ],
)
def test_what_is_no_baseline_says_how_one_is_written(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        parse_baseline(text)
    assert raised.value.hint


def test_operators_that_nobody_could_tell_apart_are_counted() -> None:
    """As of two clocks of one name; the first is kept."""
    item = made("x", trace_with({"a": [5], "b": [1]}))
    assert history_numbers(item.subject).indistinct == 0
    [first, _] = item.subject.operators
    same = replace(first, ns=replace(first.ticks, p50=99.0))
    item.subject.operators.append(same)
    kept = history_numbers(item.subject)
    assert kept.indistinct == entry_of(item.result, item.subject)[0].indistinct == 1
    assert [summaries["all"].p50 for summaries in kept.times.values()] == [5, 1, 6]  # and their sum


def test_sizes_are_kept() -> None:
    trace = dataclasses.replace(trace_with({}), stacks=(Stack(0, 70, 90), Stack(1, 80, 90)))
    subject = Subject(trace, log_bytes=10, image={"text": 5, "bss": 6})
    sizes = {
        metric.name: sample.value
        for metric, sample in measure(subject).items()
        if metric.kind == "result"
    }
    assert sizes == {"log_bytes": 10, "stack_used": 80, "text_bytes": 5, "bss_bytes": 6}


@pytest.mark.parametrize("own_id", ["", "x" * 201, "a\nb", "a\0"])
def test_an_id_that_is_none_is_refused(tmp_path: Path, own_id: str) -> None:
    item = made(own_id)
    directory = run_directory(tmp_path / "run", item, {"a": [1]}, digests=False)
    with open_store(str(tmp_path / "h.sqlite")) as store:
        with pytest.raises(FormatError, match="invalid result id"):
            store.add(item.result, item.subject)
        added = add_directory(store, directory)
        assert (added.state, added.id) == ("refused", own_id)
        assert store.results() == []


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    item = made("x")
    item = Made(replace(item.result, started_utc="at noon"), item.subject)
    directory = run_directory(tmp_path / "run", item, {"a": [1]}, digests=False)
    with open_store(str(tmp_path / "h.sqlite")) as store:
        with pytest.raises(FormatError, match="invalid time 'at noon'"):
            store.add(item.result, item.subject)
        assert add_directory(store, directory).reason.startswith("invalid time 'at noon'")
        assert store.info().rows["names"] == 0, "nothing of it is there"


def test_times_of_all_zones_are_one_order() -> None:
    same = ("2026-11-21T10:00:00+00:00", "2026-11-21T10:00:00", "2026-11-21T08:00:00-02:00")
    assert len({microseconds(text) for text in same}) == 1
    assert microseconds("1970-01-02") == 86_400_000_000
    assert microseconds("1969-12-31T23:59:59.999999") == -1


def test_another_writer_may_be_first(tmp_path: Path) -> None:
    """Between the look and the insertion; on SQLite nothing comes between, on a server it may."""
    database = Database(parse_url(str(tmp_path / "h.sqlite")), 5, create=True)
    ensure_schema(database)
    item = made("x")
    entry, kept = entry_of(item.result, item.subject)
    assert database.write(lambda c: add(c, entry, kept, Interned()))
    assert not database.write(lambda c: add(c, entry, kept, Interned()))
    database.close()


def test_an_empty_database_that_is_read_only_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "h.sqlite"
    file.touch()
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match=r"is empty, .* the database is read-only"):
        open_store(str(file))


def test_what_is_damaged_is_added_with_what_can_be_read(tmp_path: Path) -> None:
    directory = run_directory(tmp_path / "cut", made("cut"), digests=False)
    trace = trace_of(RunSpec([EventSpec("a", 0, 5)]), RunSpec([EventSpec("a", 0, 7)]))
    data = bytearray(write_ed00(trace))
    (directory / "trace.etdp").write_bytes(data + b"behind it")
    with open_store(str(tmp_path / "h.sqlite")) as store:
        added = add_directory(store, directory)
        [entry] = store.results()
    assert (added.state, added.reason) == ("added", "its trace is damaged in 1 place")
    assert entry.provenance.id == "cut"


def test_a_failed_run_with_an_unreadable_trace_is_added_without_it(tmp_path: Path) -> None:
    item = made("x", failure=Failure("LinkError", "gone", ""), exit_code=75)
    directory = run_directory(tmp_path / "run", item, {"a": [1]}, digests=False)
    (directory / "trace.etlog").write_bytes(b"no log")
    with open_store(str(tmp_path / "h.sqlite")) as store:
        added = add_directory(store, directory)
        [entry] = store.results()
    assert added.state == "added"
    assert added.reason.startswith("cannot read its trace: ")
    assert (entry.failure, entry.sound) == ("LinkError", False)


def test_a_trace_without_a_run_is_no_result(tmp_path: Path) -> None:
    add_reported(str(tmp_path / "h.sqlite"), reported(result=None))
    assert not (tmp_path / "h.sqlite").exists()


def test_losses_are_those_of_the_result_where_there_is_no_trace() -> None:
    names = TraceSummary.__struct_fields__
    numbers = {name: index for index, name in enumerate(names)}
    summary = TraceSummary(**{**numbers, "sha256": ""})  # type: ignore[arg-type]
    entry, _ = entry_of(replace(made("x").result, trace=summary))
    assert entry.losses == Losses(
        events=numbers["dropped_events"],
        blocks=numbers["dropped_blocks"],
        values=numbers["dropped_values"],
        runs=numbers["dropped_runs"],
        chunks=numbers["missing_chunks"],
        records=numbers["missing_records"],
    )
    assert not entry.sound


@pytest.mark.parametrize("pattern", ["a", "*"])
def test_a_terminal_shows_bars(tmp_path: Path, pattern: str) -> None:
    with open_store(str(tmp_path / "h.sqlite")) as store:
        for number in range(8):
            item = made(f"r{number}", trace_with({"a": [100 + number], "b": [1]}))
            store.add(item.result, item.subject)
        found = store.history(*KWS, pattern=pattern)
        entries = store.results()
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, color_system=None)
    print_history(console, found, pattern)
    assert "▁▂▃▄▅▆▇█" in out.getvalue()
    print_entries(console, entries, detailed=True)
    assert "2 of 2" in out.getvalue()

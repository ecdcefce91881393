"""Hardware counters of a real run: in its report, its budget, its history and its exports."""

from __future__ import annotations

import json
from collections.abc import MutableSequence
from pathlib import Path

import msgspec
import pytest

import harness
from harness import EXECUTION, Result, export_trace, open_store, write_ed00
from harness.extensions.budgets.suggest import suggest
from harness.inspector import Event, Inspector

pytestmark = pytest.mark.sim

COUNTERS = ("cycles", "instret")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    """Two executions under QEMU, which counts an instruction as a cycle."""
    return harness.run(
        "small_int8",
        board="qemu-riscv32-virt",
        runs=2,
        counters=COUNTERS,
        output=tmp_path_factory.mktemp("counters") / "run",
    )


def test_instructions_of_operators_are_the_same_in_every_execution(run: harness.Run) -> None:
    assert run.passed
    found = run.operators("native_call_*")
    assert found
    for operator in found:
        counts = operator.counters["instret"]
        assert counts.count == operator.count
        assert counts.min == counts.max > 0


def test_the_invariants_of_counters_were_checked(run: harness.Run) -> None:
    codes = [check.code for check in run.verdict.checks]
    assert codes.count("I19") == len(COUNTERS)
    assert codes.count("I20") >= len(COUNTERS)


def test_the_report_has_the_counts_and_cycles_per_instruction(
    run: harness.Run, tmp_path: Path
) -> None:
    for name in ("report.html", "report.md"):
        run.report(tmp_path / name)
        text = (tmp_path / name).read_text()
        assert "Hardware counters" in text
        assert "cycles/instr" in text
    run.report(tmp_path / "report.json")
    [document] = json.loads((tmp_path / "report.json").read_text())["runs"]
    execution = next(item for item in document["scopes"] if item["name"] == EXECUTION)
    operators = sum(item["counters"]["instret"]["p50"] for item in document["operators"])
    assert 0 < operators < execution["counters"]["instret"]["p50"]


def test_one_instruction_less_than_measured_fails_a_suggested_budget(
    run: harness.Run, tmp_path: Path
) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(suggest([run.subject], margin=0.0))
    assert run.check(path).passed
    measured = int(run.operator(EXECUTION).counters["instret"].max)
    tighter = path.read_text().replace(f"{measured:_}", f"{measured - 1:_}")
    path.write_text(tighter)
    failed = run.check(path).worst_failures
    assert {check.code for check in failed} == {"B13"}


def test_the_history_has_a_series_of_each_counter(run: harness.Run, tmp_path: Path) -> None:
    result = msgspec.json.decode((run.path / "result.json").read_bytes(), type=Result)
    with open_store(str(tmp_path / "history.sqlite")) as store:
        assert store.add(result, run.subject)
        history = store.history(
            result.board, "small_int8.pte", "forward", settings=result.settings.key
        )
    names = {
        series.metric.statistic for series in history.series if series.metric.kind == "counter"
    }
    assert names == set(COUNTERS)


def test_exports_have_the_counts_of_every_event(run: harness.Run) -> None:
    document = json.loads(export_trace(run.trace, "json").data)
    counted = [event["counts"] for event in document["events"] if event.get("counts")]
    assert len(counted) == int((run.trace.counts[:, 0] >= 0).sum())
    events = json.loads(export_trace(run.trace, "kineto").data)["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "C"} >= set(COUNTERS)


def test_the_inspector_has_a_column_of_each_counter(run: harness.Run) -> None:
    pytest.importorskip("pandas")
    inspector = Inspector(str(run.path))
    frame = inspector.to_dataframe()
    assert [*frame.columns][-2:] == ["p50 (cycles)", "p50 (instret)"]
    found = dict(zip(frame["event_name"], frame["p50 (instret)"], strict=True))
    assert found[EXECUTION] == run.operator(EXECUTION).counters["instret"].p50
    for block in inspector.event_blocks:
        assert isinstance(block.events, MutableSequence)
        block.events.insert(0, Event("mine"))
    changed = inspector.to_dataframe()
    assert changed["p50 (instret)"].isna().sum() == len(inspector.event_blocks)


def test_without_counters_the_inspector_has_no_further_column(run: harness.Run) -> None:
    pytest.importorskip("pandas")
    plain = Inspector(etdump_data=write_ed00(run.trace)).to_dataframe()
    assert not [name for name in plain.columns if "instret" in name]

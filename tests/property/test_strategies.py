"""The exported strategies keep what they promise, so that other people's tests can rely on it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    DELEGATE_CALL,
    EXECUTION,
    OPERATOR_CALL,
    ClockDomain,
    FormatError,
    Kind,
    Subject,
    Trace,
    durations,
    operator_statistics,
    read_dumps,
    read_ed00,
    read_log,
    strategies,
    write_ed00,
)
from harness.analyze.ticks import unwrap

_Drawn = TypeVar("_Drawn")


@given(strategies.executions(delegates=True))
@settings(max_examples=60)
def test_an_execution_is_what_it_says(execution: strategies.Execution) -> None:
    trace = execution.trace
    assert [block.name for block in trace.blocks] == ["Execute"] * execution.runs
    lasted = durations(trace)
    names = [trace.text(int(name)) for name in trace.name]
    own = [row for row, name in enumerate(names) if name in execution.operators]
    shape = (execution.runs, len(execution.operators))
    assert lasted[own].reshape(shape).tolist() == execution.durations
    assert [names[row] for row in own] == execution.operators * execution.runs

    timeline = unwrap(trace)
    assert set(timeline.backward_steps) == set(timeline.reversed_events) == {0}
    cpu = timeline.end[trace.clock == 0].tolist()
    assert all(before <= after for before, after in pairwise(cpu))
    within = Subject(trace).tree.parent.tolist()
    for row, name in enumerate(names):
        if name == EXECUTION:
            assert within[row] == -1
        elif name == "npu_job":
            assert names[within[row]] == DELEGATE_CALL
        elif name in execution.operators and name != DELEGATE_CALL:
            assert names[within[row]] == OPERATOR_CALL
    assert {op.ticks.count for op in operator_statistics(trace)} == {execution.runs}


def examples(strategy: st.SearchStrategy[_Drawn], count: int) -> list[_Drawn]:
    """What Hypothesis draws, the same every time."""
    drawn: list[_Drawn] = []

    @given(strategy)
    @settings(max_examples=count, derandomize=True, database=None)
    def collect(example: _Drawn) -> None:
        drawn.append(example)

    collect()
    return drawn


def wraps(trace: Trace) -> bool:
    """An event of a counter that counts up ends at a smaller reading than it begins."""
    return not trace.clocks[0].down and bool((trace.end < trace.start)[trace.clock == 0].any())


def test_executions_come_with_wraps_and_delegates_and_without() -> None:
    drawn = [item.trace for item in examples(strategies.executions(delegates=True), 60)]
    assert {wraps(trace) for trace in drawn} == {True, False}
    assert {bool(trace.delegated.any()) for trace in drawn} == {True, False}
    plain = examples(strategies.executions(runs=2), 20)
    assert {item.runs for item in plain} == {2}
    assert not any(item.trace.delegated.any() for item in plain)


@given(
    strategies.traces(max_blocks=2, max_events=3, kinds=(Kind.PROFILE, Kind.ALLOCATION)),
    strategies.clock_domains(min_bits=12, max_bits=16, rated=True),
    strategies.device_logs(max_records=3, losses=False),
)
@settings(max_examples=50)
def test_bounds_are_kept(trace: Trace, clock: ClockDomain, log: strategies.DeviceLog) -> None:
    assert len(trace.blocks) <= 2
    assert all(block.count <= 3 for block in trace.blocks)
    assert Kind.DEBUG not in trace.kind
    assert 12 <= clock.bits <= 16
    assert clock.hz is not None
    read = read_log(log.image())
    assert len(read) <= 3
    assert not read.losses.any


@given(strategies.ed00_files(max_blocks=2), strategies.ed00_files(prefixed=False, max_blocks=1))
@settings(max_examples=25)
def test_files_are_read(either: bytes, bare: bytes) -> None:
    assert bare[4:8] == b"ED00"
    for file in (either, bare):
        assert read_ed00(write_ed00(read_ed00(file))) == read_ed00(file)


@given(strategies.timelines(max_events=4))
@settings(max_examples=50)
def test_a_timeline_is_its_trace_unwrapped(timeline: strategies.DrawnTimeline) -> None:
    unwrapped = unwrap(timeline.trace(), timeline.jitter)
    assert np.diff(unwrapped.end).tolist() == np.diff(timeline.ends).tolist()
    assert len(timeline.trace(1)) == len(timeline.ends) - 1


@given(st.data())
@settings(max_examples=50)
def test_what_accidents_leave_is_still_a_file(data: st.DataObject) -> None:
    whole = strategies.device_logs(max_records=4, counters=True).map(lambda log: log.image())
    left = data.draw(strategies.damaged(whole, most=2))
    assert left
    with suppress(FormatError):
        assert read_dumps(left).dumps


def test_traces_of_narrow_counters_have_wraps() -> None:
    narrow = strategies.clock_domains(max_bits=8)
    drawn = examples(strategies.wrapped_traces(clocks=narrow), 30)
    assert {trace.clocks[0].bits for trace in drawn} == {8}
    assert any(wraps(trace) for trace in drawn)


def test_without_hypothesis_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['hypothesis'] = None\nimport harness.strategies"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1
    assert "UsageError: harness.strategies needs a package that is not installed" in done.stderr


@pytest.mark.parametrize("name", strategies.__all__)
def test_everything_exported_is_explained(name: str) -> None:
    first, _, _ = (getattr(strategies, name).__doc__ or "").partition("\n")
    assert first.endswith(".")

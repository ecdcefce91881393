"""Statistics keep every repeat; totals find every allocator."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness import (
    AllocatorTotals,
    Block,
    ClockDomain,
    Kind,
    Subject,
    Summary,
    Trace,
    operator_statistics,
    read_log,
)
from tests.support.logs import CompactLog

SYSTICK = ClockDomain("systick", Fraction(25_000_000), 32)
WIDE = ClockDomain("wide", None, 64)


def looped() -> Trace:
    """A loop body three times per run, with a wrap in the second run."""
    log = CompactLog()
    for start in (0, 0xFFFFFFF0):
        log.block("Execute")
        for length in (10, 30, 100):
            log.profile("body", start, start + length, instruction=4)
        log.profile("other", 0, 1, instruction=4).profile("body", 0, 7, chain=1, instruction=4)
    log.block("Default").profile("body", 0, 1, instruction=4)
    return read_log(log.image(), [SYSTICK])


def test_every_repeat_counts_within_a_run_and_across_runs() -> None:
    body = operator_statistics(looped(), "Execute")[0]
    assert body.rows.tolist() == [0, 1, 2, 5, 6, 7]
    assert body.ticks.count == 6
    assert body.ticks.total == 280
    assert (body.ticks.min, body.ticks.p50, body.ticks.max) == (10, 30, 100)
    assert body.ns is not None
    assert body.ns.p50 == 1200
    assert body.ns.count == 6


def test_groups_come_in_first_seen_order_and_differ_by_any_key() -> None:
    groups = operator_statistics(looped())
    assert [(op.block, op.name, op.chain) for op in groups] == [
        ("Execute", "body", 0),
        ("Execute", "other", 0),
        ("Execute", "body", 1),
        ("Default", "body", 0),
    ]
    assert operator_statistics(looped(), "nowhere") == []


def test_delegate_ids_and_clocks_set_operators_apart() -> None:
    trace = Trace.unset(
        5, names=["a", "b"], blocks=[Block("", 0, 5)], clocks=[SYSTICK, ClockDomain("npu", None)]
    )
    trace.clock[:] = 0, 0, 0, 0, 1
    trace.delegate_int[:] = -1, 3, -1, -1, -1
    trace.delegate_str[:] = -1, -1, 1, -1, -1
    groups = operator_statistics(trace)
    assert [op.rows.tolist() for op in groups] == [[0, 3], [1], [2], [4]]
    assert groups[2].delegate_str == "b"
    assert groups[3].ns is None
    assert groups[0].name == ""


def test_only_profile_events_are_operators() -> None:
    trace = Trace.unset(2, blocks=[Block("", 0, 2)], clocks=[SYSTICK])
    trace.kind[:] = Kind.ALLOCATION, Kind.DEBUG
    assert operator_statistics(trace) == []


def summarise(ticks: np.ndarray) -> Summary:
    """The statistics of one operator with these durations."""
    trace = Trace.unset(
        len(ticks), names=["op"], blocks=[Block("Execute", 0, len(ticks))], clocks=[WIDE]
    )
    trace.name[:], trace.clock[:], trace.end[:] = 0, 0, ticks
    [operator] = operator_statistics(trace.sealed())
    assert operator.ticks is not None
    return operator.ticks


def test_statistics_agree_with_numpy() -> None:
    ticks = np.random.default_rng(0).integers(0, 2**40, 101).astype(np.uint64)
    summary = summarise(ticks)
    assert summary.total == sum(ticks.tolist())
    assert summary.avg == pytest.approx(float(np.mean(ticks.astype(float))))
    assert summary.p90 == pytest.approx(float(np.percentile(ticks.astype(float), 90)))
    assert summary.std == pytest.approx(float(np.std(ticks.astype(float))))


def test_a_sum_beyond_64_bits_does_not_wrap() -> None:
    assert summarise(np.full(4, 2**63 - 1024, np.uint64)).total == 2.0**65 - 2**12


def test_allocators_are_totalled_over_blocks() -> None:
    log = CompactLog().block("Default").allocator("method").allocator("unused")
    log.allocation(1, 100).allocation(1, 300)
    log.block("Execute").allocation(1, -100).allocation(1, 5000, failed=True)
    assert Subject(read_log(log.image())).allocators == [
        AllocatorTotals("method", 1, 2, 300, 400, 300, 1, 5000),
        AllocatorTotals("unused", 2, 0, 0, 0, 0, 0, 0),
    ]


def test_an_undeclared_allocator_is_shown_by_its_id() -> None:
    trace = Trace.unset(1, blocks=[Block("Execute", 0, 1)], clocks=[SYSTICK])
    trace.kind[:], trace.allocator[:], trace.size[:] = Kind.ALLOCATION, 3, 64
    (totals,) = Subject(trace).allocators
    assert (totals.name, totals.label, totals.total_bytes) == (None, "allocator 3", 64)

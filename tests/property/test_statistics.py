"""Statistics of many operators are those of each one by itself."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Block, ClockDomain, Trace, operator_statistics
from harness.analyze.blocks import equal_rows, in_groups
from harness.analyze.statistics import largest_operators
from tests.support.examples import examples

CLOCKS = (
    ClockDomain("ns", Fraction(10**9)),
    ClockDomain("cpu", Fraction(3_000_000), 32),
    ClockDomain("npu", None, 24, down=True),
)

EVENTS = st.lists(
    st.tuples(
        st.integers(-1, 2),
        st.sampled_from([-1, 0, 2**31 - 1]),
        st.integers(0, 2),
        st.integers(0, 2**23),
    ),
    max_size=60,
)


def trace_of(events: list[tuple[int, int, int, int]], sizes: list[int]) -> Trace:
    """Blocks of these sizes, the last one with the rest; in turns named Execute and Other."""
    blocks, first = [], 0
    for number, size in enumerate([*sizes, len(events)]):
        count = min(size, len(events) - first)
        blocks.append(Block(("Execute", "Other")[number % 2], first, count))
        first += count
    trace = Trace.unset(len(events), names=["a", "b", "c"], blocks=blocks, clocks=CLOCKS)
    for row, (name, chain, clock, length) in enumerate(events):
        trace.name[row], trace.chain[row], trace.clock[row] = name, chain, clock
        start, end = (7, 7 + length) if not CLOCKS[clock].down else (7, (7 - length) % 2**24)
        trace.start[row], trace.end[row] = start, end
    return trace.sealed()


@given(EVENTS, st.lists(st.integers(0, 20), max_size=5))
@settings(max_examples=examples(100))
def test_each_operator_has_the_statistics_of_its_own_durations(
    events: list[tuple[int, int, int, int]], sizes: list[int]
) -> None:
    trace = trace_of(events, sizes)
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for block in trace.blocks:
        for row in range(block.first, block.first + block.count):
            groups[(block.name, *events[row][:3])].append(row)
    operators = operator_statistics(trace)
    assert [op.rows.tolist() for op in operators] == sorted(groups.values())
    for op in operators:
        ticks = np.array([events[row][3] for row in op.rows], np.float64)
        assert (op.ticks.count, op.ticks.total) == (len(ticks), ticks.sum())
        assert (op.ticks.min, op.ticks.max) == (ticks.min(), ticks.max())
        expected = [*np.percentile(ticks, (10, 50, 90)), ticks.mean(), ticks.std()]
        found = [op.ticks.p10, op.ticks.p50, op.ticks.p90, op.ticks.avg, op.ticks.std]
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-6)
        if op.clock.hz is None:
            assert op.ns is None
        else:
            assert op.ns is not None
            assert op.ns.total == float(Fraction(op.ticks.total) * 10**9 / op.clock.hz)
            assert op.ns.p50 == pytest.approx(op.ticks.p50 * 1e9 / float(op.clock.hz))
        parts = [part for part in (op.cold, op.warm) if part]
        assert sum(part.count for part in parts) == op.ticks.count
        assert sum(part.total for part in parts) == pytest.approx((op.ns or op.ticks).total)


@given(EVENTS, st.lists(st.integers(0, 20), max_size=5), st.integers(1, 9))
@settings(max_examples=examples(60))
def test_the_largest_operators_are_those_with_the_longest_total_times(
    events: list[tuple[int, int, int, int]], sizes: list[int], most: int
) -> None:
    trace = trace_of(events, sizes)
    every = operator_statistics(trace)
    found, others = largest_operators(trace, most)
    assert (len(found), others) == (min(most, len(every)), max(len(every) - most, 0))
    by_rows = {tuple(op.rows.tolist()): op for op in every}
    places = [[*by_rows].index(tuple(op.rows.tolist())) for op in found]
    assert places == sorted(places)
    for op in found:
        same = by_rows.pop(tuple(op.rows.tolist()))
        assert (op.times, op.cold, op.warm, op.share) == (
            same.times,
            same.cold,
            same.warm,
            same.share,
        )
    shortest = min((op.times.total for op in found), default=0.0)
    assert all(op.times.total <= shortest * (1 + 1e-12) for op in by_rows.values())


@given(
    st.integers(1, 12).flatmap(
        lambda count: st.lists(
            st.lists(
                st.one_of(st.integers(0, 3), st.integers(-(2**62), 2**62)),
                min_size=count,
                max_size=count,
            ),
            min_size=1,
            max_size=6,
        )
    )
)
def test_rows_have_one_number_when_all_their_keys_are_equal(keys: list[list[int]]) -> None:
    rows = list(zip(*keys, strict=True))
    numbers = equal_rows([np.array(key, np.int64) for key in keys])
    ranks = {row: rank for rank, row in enumerate(sorted(set(rows)))}
    assert numbers.tolist() == [ranks[row] for row in rows]
    order, starts = in_groups(numbers)
    groups = [group.tolist() for group in np.split(order, starts[1:])]
    assert groups == [
        [place for place, other in enumerate(rows) if other == row] for row in dict.fromkeys(rows)
    ]


def test_many_wide_keys_do_not_overflow() -> None:
    wide = np.arange(2**16)
    keys = [wide[::-1], wide, wide, wide, wide, wide]
    assert equal_rows(keys).tolist() == wide[::-1].tolist()

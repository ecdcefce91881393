"""Hardware counters: per operator and in the call tree, and a missing count is never a 0."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from harness import (
    EXECUTION,
    NO_COUNT,
    ClockDomain,
    EmptyEvents,
    FormatError,
    HardwareCounter,
    NodeCounts,
    Operator,
    OperatorTimes,
    Subject,
    Trace,
    merged_tree,
    operator_statistics,
    read_log,
)
from harness.analyze.call_tree import own_counts
from harness.strategies import DeviceLog, EventSpec, Execution, RunSpec, executions, trace_of

COUNTERS = (HardwareCounter("cycles"), HardwareCounter("instret"))


def counted(*calls: tuple[int, ...]) -> Trace:
    """One execution per item: a kernel with these counts, or without any, in its execution."""
    return trace_of(
        *(
            RunSpec(
                [
                    EventSpec("kernel", 10, 20, instruction=1, counts=counts),
                    EventSpec(EXECUTION, 0, 30, chain=-1, counts=(100, 80)),
                ]
            )
            for counts in calls
        ),
        counters=COUNTERS,
    )


def operator(trace: Trace, name: str) -> Operator:
    (found,) = (item for item in operator_statistics(trace) if item.name == name)
    return found


def test_an_operator_has_statistics_of_each_counter() -> None:
    kernel = operator(counted((30, 20), (50, 20), (34, 20)), "kernel")
    cycles, instret = kernel.counters["cycles"], kernel.counters["instret"]
    assert (cycles.count, cycles.total, cycles.p50) == (3, 114, 34)
    assert (cycles.min, cycles.max) == (30, 50)
    assert (instret.min, instret.max, instret.std) == (20, 20, 0)


def test_a_count_that_is_missing_is_left_out_of_the_statistics() -> None:
    kernel = operator(counted((30, 20), (), (NO_COUNT, 26)), "kernel")
    assert len(kernel.rows) == 3
    assert (kernel.counters["cycles"].count, kernel.counters["cycles"].avg) == (1, 30)
    assert (kernel.counters["instret"].count, kernel.counters["instret"].avg) == (2, 23)


def test_an_operator_without_any_count_of_a_counter_does_not_have_it() -> None:
    assert operator(counted((NO_COUNT, 0)), "kernel").counters.keys() == {"instret"}
    assert operator(counted(()), "kernel").counters == {}


def test_operators_of_a_run_carry_their_counters() -> None:
    kernel = OperatorTimes(operator(counted((30, 20), (50, 20)), "kernel"))
    assert kernel.counters["cycles"].max == 50
    assert kernel.counters["instret"].p50 == 20


def test_the_tree_has_what_an_execution_counted_itself() -> None:
    root, kernel = merged_tree(Subject(counted((30, 20), (50, 20))).tree)
    assert root.counters["cycles"] == NodeCounts(2, 200, 120)
    assert root.counters["instret"] == NodeCounts(2, 160, 120)
    assert kernel.counters["cycles"] == NodeCounts(2, 80, 80)


def test_the_part_of_a_parent_is_unknown_where_a_child_has_no_count() -> None:
    root, kernel = merged_tree(Subject(counted((30, 20), (NO_COUNT, 20))).tree)
    assert root.counters["cycles"] == NodeCounts(2, 200, None)
    assert root.counters["instret"] == NodeCounts(2, 160, 120)
    assert kernel.counters["cycles"] == NodeCounts(1, 30, 30)


def test_the_part_of_a_parent_is_unknown_where_its_counter_wrapped() -> None:
    root, _ = merged_tree(Subject(counted((101, 20))).tree)
    assert root.counters["cycles"].own is None
    assert root.counters["instret"].own == 60


@given(executions(delegates=True, counters=COUNTERS))
def test_the_parts_of_all_events_of_a_tree_add_up_to_its_root(execution: Execution) -> None:
    trace = execution.trace
    tree = Subject(trace).tree
    own = own_counts(tree)
    for block in trace.blocks:
        last = block.first + block.count - 1
        mine = own[block.first : last + 1]
        assert (own[last] >= 0).all()
        assert mine[(mine >= 0).all(axis=1)].sum(axis=0).tolist() == trace.counts[last].tolist()


def test_the_cost_of_an_event_with_counters_is_read_modulo_the_clocks_width() -> None:
    """A 24-bit clock that wraps while the empty events are measured."""
    log = DeviceLog().counter("cycles").counting(9, 2**24 - 100, 35).profile("conv", 0, 9)
    clock = ClockDomain("systick", None, 24)
    assert read_log(log.image(), [clock]).empty_events == (EmptyEvents(9, 135),)
    down = DeviceLog().counter("cycles").counting(9, 235, 100)
    assert read_log(down.image(), [replace(clock, down=True)]).empty_events[0].cost == 15


@pytest.mark.parametrize(
    ("events", "times", "field"), [(0, 1, "COUNTING events"), (9, 2, "COUNTING")]
)
def test_a_wrong_cost_of_an_event_is_an_error(events: int, times: int, field: str) -> None:
    log = DeviceLog().counter("cycles")
    for _ in range(times):
        log.counting(events, 0, 100)
    with pytest.raises(FormatError) as caught:
        read_log(log.image())
    assert caught.value.field == field

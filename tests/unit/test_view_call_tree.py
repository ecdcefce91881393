"""Who is inside whom, where times alone do not say it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from harness import HOST_NANOSECONDS, NO_CLOCK, Block, ClockDomain, Kind, Subject, Trace, read_log
from harness.analyze.call_tree import call_tree
from tests.support.logs import CompactLog, profile_trace

CPU = ClockDomain("cpu", Fraction(1_000_000), 32)
NPU = ClockDomain("npu", None, 32)


def test_events_of_a_delegate_on_another_clock_stand_below_its_call() -> None:
    log = CompactLog().block("Execute")
    log.delegate("layer 1").profile(None, 7000, 7010, instruction=3, clock=1)
    log.delegate("job").profile(None, 6990, 7050, instruction=3, clock=1)
    log.profile("DELEGATE_CALL", 10, 40, instruction=3)
    log.delegate("job").profile(None, 7100, 7130, instruction=4, clock=1)
    log.profile("DELEGATE_CALL", 50, 80, instruction=4).profile("Method::execute", 0, 90, chain=-1)
    tree = Subject(read_log(log.image(), [CPU, NPU])).tree
    assert tree.parent.tolist() == [1, 2, 5, 4, 5, -1]
    assert tree.depth.tolist() == [3, 2, 1, 2, 1, 0]
    # A DELEGATE_CALL keeps its whole time: what the NPU counts cannot be taken from it.
    assert tree.own.tolist() == [10, 50, 30, 30, 30, 30]
    assert not tree.ambiguous.any()
    times = tree.nanoseconds(tree.own)
    assert times[[2, 4, 5]].tolist() == [30e3, 30e3, 30e3]
    assert np.isnan(times[[0, 1, 3]]).all()


def test_events_that_a_delegate_logs_afterwards_nest_by_their_times_in_any_order() -> None:
    log = CompactLog().block("Execute")
    for name, start, end in (("job", 12, 30), ("layer 1", 12, 20), ("layer 2", 20, 28)):
        log.delegate(name).profile(None, start, end, instruction=3)
    log.profile("DELEGATE_CALL", 10, 40, instruction=3)
    tree = Subject(read_log(log.image(), [CPU])).tree
    assert tree.parent.tolist() == [3, 0, 0, -1]
    assert tree.own.tolist() == [2, 8, 8, 12]


def test_foreign_ticks_in_a_file_without_clocks_lead_nothing_astray() -> None:
    log = CompactLog().block("Execute")
    log.profile("native_call", 101, 104).profile("OPERATOR_CALL", 100, 105)
    log.delegate("job").profile(None, 0xF0000000, 0xF0000020, instruction=1)
    log.delegate("job").profile(None, 5, 6, instruction=1)
    log.profile("DELEGATE_CALL", 110, 140, instruction=1)
    log.profile("Method::execute", 90, 150, chain=-1)
    tree = Subject(read_log(log.image(), [CPU])).tree
    assert tree.parent.tolist() == [1, 5, 4, 4, 5, -1]
    assert tree.own.tolist() == [3, 2, 0x20, 1, 30, 25]


def test_a_kernel_that_a_delegate_calls_is_within_the_delegates_call() -> None:
    log = CompactLog().block("Execute").delegate("before").profile(None, 1, 2, clock=1)
    log.profile("native_call", 12, 18)
    log.delegate("after").profile(None, 3, 4, clock=1).profile("DELEGATE_CALL", 10, 20)
    assert Subject(read_log(log.image(), [CPU, NPU])).tree.parent.tolist() == [3, 3, 3, -1]


def test_a_delegate_without_a_call_is_within_what_was_open_for_certain() -> None:
    log = CompactLog().block("Default")
    log.delegate("early").profile(None, 1, 2, chain=-1, clock=1)
    log.profile("before", 110, 115, chain=-1)
    log.delegate("init").profile(None, 3, 4, chain=-1, clock=1)
    log.profile("next", 120, 130, chain=-1).profile("Method::init", 100, 140, chain=-1)
    tree = Subject(read_log(log.image(), [CPU, NPU])).tree
    # "init" may have been logged in "next"; of "early" nothing is certain.
    assert tree.parent.tolist() == [-1, 4, 4, 4, -1]
    assert tree.ambiguous_rows.tolist() == [0, 2]


def test_a_delegate_without_a_call_on_the_tracers_clock_is_where_its_ticks_say() -> None:
    log = CompactLog().block("Default")
    log.delegate("EthosUBackend::init()").profile(None, 110, 120, chain=-1)
    log.profile("Method::init", 100, 140, chain=-1)
    tree = Subject(read_log(log.image(), [CPU])).tree
    assert tree.parent.tolist() == [1, -1]
    assert tree.own.tolist() == [10, 30]
    assert not tree.ambiguous.any()


def test_allocations_and_values_have_a_place_and_values_take_time() -> None:
    log = CompactLog().block("Execute").allocator("temporary")
    log.allocation(1, 64, tick=12).profile("OPERATOR_CALL", 10, 20)
    log.allocation(1, -64, tick=25).allocation(1, 8, tick=30)
    log.profile("OPERATOR_CALL", 30, 30, instruction=1).profile("Method::execute", 5, 50, chain=-1)
    tree = Subject(read_log(log.image(), [CPU])).tree
    assert tree.parent.tolist() == [1, 5, 5, 4, 5, -1]
    # Whether the last piece was taken before its operator or in it, nobody can tell.
    assert tree.ambiguous_rows.tolist() == [3]

    trace = profile_trace([20, 10, 5], [24, 30, 40], CPU)
    kind = trace.kind.copy()
    kind[0] = Kind.DEBUG
    trace.kind.setflags(write=True)
    trace.kind[:] = kind
    tree = Subject(trace).tree
    assert tree.parent.tolist() == [1, 2, -1]
    assert tree.own.tolist() == [4, 16, 15]


def test_values_without_a_time_are_within_the_next_scope_of_their_instruction() -> None:
    trace = Trace.unset(4, blocks=[Block("Execute", 0, 4)], clocks=[HOST_NANOSECONDS])
    trace.kind[[0, 2]] = Kind.DEBUG
    trace.clock[[1, 3]] = 0
    trace.chain[:3] = 0
    trace.instruction[:3] = [7, 7, 8]
    trace.start[[1, 3]], trace.end[[1, 3]] = [10, 0], [20, 30]
    tree = Subject(trace.sealed()).tree
    assert tree.parent.tolist() == [1, 3, 3, -1]
    assert tree.nanoseconds(tree.own).tolist() == [0, 10, 0, 20]
    assert trace.clock[0] == NO_CLOCK


def test_blocks_and_tracers_have_trees_of_their_own() -> None:
    images = []
    for number in (0, 1):
        log = CompactLog()
        log.tracer = number
        log.block("Execute").profile("a", 10, 20).block("Execute").profile("b", 10, 30, chain=-1)
        images.append(log.image())
    trace = read_log(b"".join(images), [CPU])
    assert Subject(trace).tree.parent.tolist() == [-1] * 4
    assert call_tree(trace, across_blocks=True).parent.tolist() == [1, -1, 3, -1]


def test_a_small_step_back_neither_hides_time_nor_invents_it() -> None:
    # The inner event ends two ticks after the outer one, and a third ends before it starts.
    tree = Subject(profile_trace([12, 15, 10], [22, 14, 20], CPU)).tree
    assert tree.parent.tolist() == [2, 2, -1]
    assert tree.total.tolist() == [10, 0, 10]
    assert tree.own.tolist() == [10, 0, 2]
    assert tree.backward.tolist() == [False, True, False]


def test_an_empty_trace_has_an_empty_tree() -> None:
    tree = Subject(Trace.unset(0).sealed()).tree
    assert len(tree.parent) == len(tree.own) == len(tree.ambiguous_rows) == 0


def test_steps_of_a_delegate_shorter_than_a_tick_are_taken_one_after_the_other() -> None:
    log = CompactLog().block("Execute")
    for name, start, end in (("1", 12, 12), ("2", 12, 12), ("3", 12, 30)):
        log.delegate(name).profile(None, start, end, instruction=3)
    log.profile("DELEGATE_CALL", 10, 40, instruction=3)
    tree = Subject(read_log(log.image(), [CPU])).tree
    assert tree.parent.tolist() == [3, 3, 3, -1]
    assert tree.ambiguous_rows.tolist() == [0, 1]

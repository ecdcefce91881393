"""Blocks say which run they were, of which sequence, and whether the first after loading."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from harness import ClockDomain, Losses, Subject, Trace, operator_statistics, read_log
from tests.support.logs import CompactLog

CPU = ClockDomain("cpu", Fraction(1_000_000), 32)


def loaded_twice() -> Trace:
    log = CompactLog()
    for _load in range(2):
        log.block("Default").profile("Method::init", 0, 5, chain=-1)
        log.profile("Program::load_method", 0, 9, chain=-1)
        for length in (40, 10, 20):
            log.block("Execute").profile("add", 0, length)
            if length == 20:
                log.profile("add", 30, 36)
            log.profile("Method::execute", 0, 2 * length, chain=-1)
    return read_log(log.image(), [CPU])


def test_the_first_execution_after_each_load_is_cold() -> None:
    found = Subject(loaded_twice()).runs
    assert [run.order for run in found if run.cold] == [1, 5]
    assert [run.executes for run in found] == [False, True, True, True] * 2
    assert [run.index for run in found] == [0, 0, 1, 2, 1, 3, 4, 5]
    assert [run.events for run in found] == [2, 2, 2, 3] * 2
    # A repeat more makes another sequence.
    assert [run.signature for run in found] == [0, 1, 1, 3, 0, 1, 1, 3]

    add = operator_statistics(loaded_twice(), "Execute")[0]
    assert add.cold is not None
    assert add.warm is not None
    assert (add.cold.count, add.cold.avg) == (2, 40e3)
    assert (add.warm.count, add.warm.min, add.warm.max) == (6, 6e3, 20e3)
    init = operator_statistics(loaded_twice(), "Default")[0]
    assert (init.cold, init.warm) == (None, None)


def test_nothing_is_called_cold_when_earlier_runs_may_be_missing() -> None:
    for losses in (Losses(runs=1), Losses(chunks=1)):
        found = Subject(replace(loaded_twice(), losses=losses)).runs
        assert not any(run.cold for run in found)
        assert sum(run.executes for run in found) == 6


def test_where_executions_are_filtered_out_other_events_tell() -> None:
    log = CompactLog().block("Default").profile("Method::init", 0, 5, chain=-1)
    log.block("Execute").profile("add", 0, 1).block("Execute").profile("add", 0, 1).block("Idle")
    found = Subject(read_log(log.image(), [CPU])).runs
    assert [run.executes for run in found] == [False, True, True, False]
    assert [run.cold for run in found] == [False, True, False, False]


def test_each_tracer_has_runs_of_its_own() -> None:
    images = []
    for number in (0, 1):
        log = CompactLog()
        log.tracer = number
        for _run in range(2):
            log.block("Execute").profile("Method::execute", 0, 1, chain=-1)
        images.append(log.image())
    found = Subject(read_log(b"".join(images), [CPU])).runs
    assert [(run.tracer, run.index, run.cold) for run in found] == [
        (0, 0, True),
        (0, 1, False),
        (1, 0, True),
        (1, 1, False),
    ]
    assert Subject(Trace.unset(0)).runs == []

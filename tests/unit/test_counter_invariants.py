"""Invariants of hardware counters: sound runs pass, and every kind of damage is caught."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import (
    EXECUTION,
    NO_COUNT,
    Check,
    ClockDomain,
    CoreRecord,
    HardwareCounter,
    Losses,
    Subject,
    evaluate,
)
from harness.strategies import EventSpec, Execution, RunSpec, executions, trace_of
from tests.support.counter_mutations import COUNTER_KINDS
from tests.support.mutations import Draft

CORE: Final = CoreRecord(1, 0.5, 4)
MHZ: Final = ClockDomain("cpu", Fraction(100_000_000), 32)
NAMES: Final = ("cycles", "instret", "jumps", "branches", "branches_taken", "compressed")


def sound(executions: int = 2, **facts: object) -> Subject:
    """Executions of two kernels on a core that retires one instruction per cycle."""
    runs = [
        RunSpec(
            [
                EventSpec("conv", at, at + 40, instruction=0, counts=(40, 30, 2, 9, 6, 11)),
                EventSpec("relu", at + 40, at + 50, instruction=1, counts=(10, 10, 0, 1, 0, 0)),
                EventSpec(EXECUTION, at, at + 60, chain=-1, counts=(60, 45, 4, 12, 7, 15)),
            ]
        )
        for at in range(0, 100 * executions, 100)
    ]
    trace = trace_of(*runs, clock=MHZ, counters=[HardwareCounter(name) for name in NAMES])
    return Subject(trace, core=CORE, **facts)


def changed(subject: Subject, row: int, name: str, value: int) -> Subject:
    counts = subject.trace.counts.copy()
    counts[row, NAMES.index(name)] = value
    return replace(subject, trace=replace(subject.trace, counts=counts).sealed())


def failed(subject: Subject) -> list[Check]:
    found = [check for check in evaluate(subject).checks if check.code in ("I19", "I20")]
    return [check for check in found if not check.passed]


def test_a_sound_run_passes_a_check_of_each_counter() -> None:
    checks = [check for check in evaluate(sound()).checks if check.code in ("I19", "I20")]
    assert failed(sound()) == []
    assert [check.subject for check in checks if check.code == "I19"] == [
        f"counter {name}" for name in NAMES
    ]
    assert len([check for check in checks if check.code == "I20"]) == len(NAMES) + 5


@pytest.mark.parametrize("kind", COUNTER_KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_every_kind_of_damage_is_caught(kind: str, seed: int) -> None:
    draft = Draft(sound(), Random(f"{kind} {seed}"))
    COUNTER_KINDS[kind](draft)
    assert failed(draft.changed)


def test_a_reason_names_the_event_and_the_counts() -> None:
    (found,) = failed(changed(sound(), 0, "compressed", 16))
    assert (found.code, found.subject, found.measured) == ("I19", "counter compressed", 1)
    assert found.reason == (
        "1 scope counts less than its events; the first is Method::execute (instruction 0, "
        "block 0): 15, its events 16"
    )


def test_only_a_core_that_is_known_is_asked_for_a_cycle_per_instruction() -> None:
    faster = changed(sound(), 1, "cycles", 9)
    assert [check.rule for check in failed(faster)] == ["instret are no more than cycles"]
    assert failed(replace(faster, core=None)) == []
    assert failed(replace(faster, core=CoreRecord(2, 1, 8))) == []


def test_a_missing_count_is_no_evidence() -> None:
    assert failed(changed(sound(), 2, "cycles", NO_COUNT)) == []
    assert failed(changed(sound(), 0, "branches", NO_COUNT)) == []


def test_a_counter_that_can_wrap_within_a_scope_is_no_evidence() -> None:
    narrow = tuple(HardwareCounter(name, 8) for name in NAMES)
    about = changed(sound(), 2, "cycles", 3)
    assert failed(replace(about, trace=replace(about.trace, counters=narrow))) == []
    assert failed(about) != []


def test_nothing_is_said_where_events_are_missing_or_nothing_was_counted() -> None:
    about = changed(sound(), 0, "cycles", 61)
    lossy = replace(about.trace, losses=Losses(events=1))
    assert failed(replace(about, trace=lossy)) == []
    empty = np.zeros((len(about.trace), 0), np.int64)
    plain = replace(about.trace, counters=(), counts=empty)
    checks = evaluate(replace(about, trace=plain)).checks
    assert not [check for check in checks if check.code in ("I19", "I20")]


@pytest.mark.parametrize("zero", [NAMES, *((name,) for name in NAMES[2:])])
def test_a_counter_that_is_0_in_every_event_fails_no_check(zero: tuple[str, ...]) -> None:
    subject = sound(executions=4)
    counts = subject.trace.counts.copy()
    for name in zero:
        counts[:, NAMES.index(name)] = 0
    if "branches" in zero:
        counts[:, NAMES.index("branches_taken")] = 0  # there are no more of these
    trace = replace(subject.trace, counts=counts).sealed()
    verdict = evaluate(replace(subject, trace=trace))
    assert {"I03", "I19", "I20"} <= {check.code for check in verdict.checks}
    assert not verdict.failures + verdict.warnings


@given(
    executions(
        delegates=True,
        clock=MHZ,
        counters=[HardwareCounter("loads", 63), HardwareCounter("stores")],
    ),
    st.data(),
)
def test_an_event_that_counts_more_than_the_whole_execution_is_caught(
    execution: Execution, data: st.DataObject
) -> None:
    trace = execution.trace
    assert failed(Subject(trace)) == []
    block = data.draw(st.sampled_from(trace.blocks))
    last = block.first + block.count - 1
    kernels = [
        row
        for row in range(block.first, last)
        if not trace.delegated[row] and trace.text(int(trace.name[row])) in execution.operators
    ]
    row = data.draw(st.sampled_from(kernels))
    counts = trace.counts.copy()
    counts[row, 0] = counts[last, 0] + 1
    found = failed(Subject(replace(trace, counts=counts).sealed()))
    assert {check.subject for check in found} == {"counter loads"}

"""Invariants where they judge with care: warnings and notes, and what is no evidence."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import harness
from harness import HOST_NANOSECONDS, Check, ClockDomain, EmptyEvents, Losses, Subject, evaluate
from harness.strategies.traces import EventSpec, RunSpec, trace_of
from tests.conftest import FIXTURES
from tests.support.logs import profile_trace


def executed(*ops: str, at: int = 0) -> RunSpec:
    """A run of operators that take 10 ticks each."""
    events = [
        EventSpec(name, at + 20 * place, at + 20 * place + 10, instruction=place)
        for place, name in enumerate(ops)
    ]
    end = at + 20 * len(ops)
    return RunSpec([*events, EventSpec("Method::execute", at, end, chain=-1)])


def the(code: str, subject: Subject) -> Check | None:
    found = [check for check in evaluate(subject).checks if check.code == code]
    assert len(found) <= 1
    return found[0] if found else None


def test_what_executorch_recorded_is_sound() -> None:
    trace = harness.load(FIXTURES / "kws_f32_executorch.etdp").trace
    checks = evaluate(Subject(trace)).checks
    codes = {check.code for check in checks}
    assert codes == {"I01", "I02", "I03", "I04", "I10", "I27", "B05"}
    assert all(check.passed for check in checks)


def test_a_log_that_covers_too_much_time_is_checked_without_its_call_tree() -> None:
    ends = [0, 2**61, 2**62, 3 * 2**61, 0] * 3
    trace = profile_trace(ends, ends, ClockDomain("c", None, 63))
    checks = evaluate(Subject(trace)).checks
    assert [check.reason for check in checks if check.code == "I04"] == [
        "events on clock 'c' span more than 2**62 ticks in start or end; "
        "the declared width or direction of a counter may be wrong"
    ]
    assert "I01" not in {check.code for check in checks}, "nesting needs the tree"


def test_operators_that_take_less_than_an_empty_event_are_one_warning() -> None:
    trace = trace_of(executed("a", "b", "OPERATOR_CALL"), executed("a", "b", at=1000))
    short = the("I05", Subject(trace, probe=Fraction(21, 2)))
    assert short is not None
    assert (short.severity, short.passed, short.measured) == ("warning", False, 2.0)
    assert "2 of 2 operators shorter than an empty event (10.5 ticks)" in short.reason
    assert "a (instruction 0): 10.0; b (instruction 1): 10.0" in short.reason
    enough = the("I05", Subject(trace, probe=Fraction(10)))
    assert enough is not None
    assert enough.passed
    assert the("I05", Subject(trace)) is None
    # With hardware counters an event costs more than the probe at start-up.
    counting = replace(trace, empty_events=(EmptyEvents(4, 42),))
    assert the("I05", Subject(counting)) == the("I05", Subject(counting, probe=Fraction(1)))
    found = the("I05", Subject(counting))
    assert found is not None
    assert not found.passed
    assert "shorter than an empty event with these counters (10.5 ticks): " in found.reason


def test_operators_that_are_too_short_do_not_matter_beside_long_ones() -> None:
    def share(ticks: int) -> RunSpec:
        events = [EventSpec("a", 0, 10), EventSpec("b", 20, 20 + ticks, instruction=1)]
        return RunSpec([*events, EventSpec("Method::execute", 0, 30 + ticks, chain=-1)])

    for ticks, passes in ((900, False), (1100, True)):
        found = the("I05", Subject(trace_of(share(ticks)), probe=Fraction(11)))
        assert found is not None
        assert found.passed is passes
        assert "1 of 2 operators shorter than an empty event" in found.reason


def test_few_events_are_no_evidence_of_a_clock() -> None:
    assert the("I03", Subject(profile_trace([5] * 7, [5] * 7, HOST_NANOSECONDS))) is None
    still = the("I03", Subject(profile_trace([5] * 8, [5] * 8, HOST_NANOSECONDS)))
    assert still is not None
    assert still.reason == "the clock reads 5 in all 8 events"


def test_a_coarse_clock_counts() -> None:
    coarse = [tick for tick in range(10) for _ in range(40)]
    ends = [*coarse[:-1], coarse[-1] + 1]
    fine = the("I03", Subject(profile_trace(coarse, ends, HOST_NANOSECONDS)))
    assert fine is not None
    assert fine.passed


def test_a_clock_that_stops_after_it_counted_is_a_warning() -> None:
    starts = [*range(0, 400, 4), *[500] * 40]
    ends = [*range(2, 402, 4), *[500] * 40]
    stops = the("I03", Subject(profile_trace(starts, ends, HOST_NANOSECONDS)))
    assert stops is not None
    assert (stops.severity, stops.passed) == ("warning", False)
    assert stops.reason.startswith("40 consecutive events from ")


def test_runs_that_differ_are_a_note_where_nobody_knows_what_ran() -> None:
    runs = [executed(*ops, at=1000 * place) for place, ops in enumerate(["ab", "ab", "abc", "ab"])]
    subject = Subject(trace_of(*runs))
    differ = the("I10", subject)
    assert differ is not None
    assert (differ.severity, differ.passed) == ("note", False)
    assert "1 of 3 warm executions differ" in differ.reason
    ours = the("I10", replace(subject, runs_requested=4, runs_completed=4))
    assert ours is not None
    assert ours.failed
    # The first run after loading may differ; where events were lost, nothing is known.
    cold = Subject(trace_of(executed("abc"), *runs[1:2], runs[3]), runs_requested=3)
    alike = the("I10", cold)
    assert alike is not None
    assert alike.passed
    lossy = replace(subject.trace, losses=Losses(events=1))
    assert the("I10", Subject(lossy)) is None


def test_what_has_no_name_is_said_to_have_none() -> None:
    taken = EventSpec(allocated=-8)
    runs = [replace(executed("a", at=at), name="", allocators=("",)) for at in (0, 1000, 2000)]
    runs[0] = replace(runs[0], events=[taken, *runs[0].events])
    checks = evaluate(Subject(trace_of(*runs), arena_capacity=8)).checks
    subjects = {check.code: check.subject for check in checks}
    assert subjects["I10"] == subjects["I07"] == subjects["I08"] == "(no name)"

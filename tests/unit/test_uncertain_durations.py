"""Durations that may hide wraps of a narrow counter are unknown everywhere, and I22 says why."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from harness import (
    DELEGATE_CALL,
    EXECUTION,
    Block,
    ClockDomain,
    Ping,
    Subject,
    Trace,
    evaluate,
    host_times,
    operator_statistics,
    unknown_durations,
)
from harness.analyze.placement import quality_of_run
from harness.analyze.ticks import ambiguous_durations
from tests.support.logs import profile_trace

NARROW = ClockDomain("narrow", Fraction(10**6), 16, tolerance_ppm=50.0)


def test_wraps_that_only_the_host_has_seen_make_all_durations_unknown() -> None:
    restart, later = Ping(-1000, 1000, 1, 0), 200_000
    after = Ping(later * 1000 - 1000, later * 1000 + 1000, 1, later % 2**16)
    trace = profile_trace([100], [200], NARROW, [EXECUTION])
    [quality] = quality_of_run(trace, [after], restart)
    assert quality.silent_wraps == 3
    hidden = replace(trace, hidden_wraps=quality.silent_wraps)
    assert not unknown_durations(trace).any()
    assert unknown_durations(hidden).all()
    [operator] = operator_statistics(hidden)
    assert (operator.unknown, operator.ticks, operator.share) == (1, None, None)
    [check] = [check for check in evaluate(Subject(hidden)).checks if check.code == "I22"]
    assert check.failed
    assert "the host's readings show 3 wraps that the log does not" in check.reason
    assert "16 bits (65.536 ms)" in check.reason
    assert not any(check.code == "I22" for check in evaluate(Subject(trace)).checks)


def test_wraps_that_the_operators_of_an_execution_show_are_not_hidden() -> None:
    # Between both ends of the operators a gap and an operator take more than a wrap together.
    starts, ends = [100, 100_000], [40_000, 150_000]
    trace = Trace.unset(
        3, names=["op", EXECUTION], blocks=[Block("Execute", 0, 3)], clocks=[NARROW]
    )
    trace.clock[:] = 0
    trace.name[:] = [0, 0, 1]
    trace.chain[:2], trace.instruction[:2] = 0, [0, 1]
    trace.start[:] = np.array([*starts, 50]) % 2**16
    trace.end[:] = np.array([*ends, 150_010]) % 2**16
    restart, later = Ping(-1000, 1000, 1, 0), 160_000
    after = Ping(later * 1000 - 1000, later * 1000 + 1000, 1, later % 2**16)
    times = host_times(trace.sealed(), [after], restart)
    assert times.placement.silences == ()
    assert times.placement.start.tolist() == [*starts, 50]
    assert times.placement.end.tolist() == [*ends, 150_010]


def test_a_delegate_whose_call_has_room_for_another_wrap_is_unknown() -> None:
    npu = ClockDomain("npu", Fraction(10**6), 8)
    cpu = ClockDomain("cpu", Fraction(10**6), 32)
    for length, uncertain in ((250, False), (400, True)):
        trace = Trace.unset(
            2, names=["npu_op", DELEGATE_CALL], blocks=[Block("Execute", 0, 2)], clocks=[cpu, npu]
        )
        trace.name[:], trace.clock[:] = [0, 1], [1, 0]
        trace.chain[:] = trace.instruction[:] = 0
        trace.start[:], trace.end[:] = [7, 1000], [107, 1000 + length]
        assert ambiguous_durations(trace.sealed()).tolist() == [uncertain, False]

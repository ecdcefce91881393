"""Time where ExecuTorch's Inspector has it wrong, its number beside ours (docs/differences.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools import Inspector
from executorch.devtools.inspector import TimeScale

from harness import (
    HOST_NANOSECONDS,
    Block,
    ClockDomain,
    Ping,
    Steadiness,
    Trace,
    align,
    durations,
    operator_statistics,
    read_ed00,
    write_ed00,
)
from harness.analyze.converters import Function, Rate, parse_time_scales, rescale, time_scale
from harness.analyze.placement import place
from harness.analyze.ticks import unwrap

pytestmark = pytest.mark.oracle

UP32 = ClockDomain("cycles", Fraction(10**9), 32)
SINCE_1970 = 1_767_225_600_000_000_000
DELEGATE = 3


@dataclass(frozen=True)
class Shown:
    """What Inspector says of an event."""

    raw: list[float]
    start: float


def dump(events: Sequence[tuple[int, int]], *, delegate: bool = False) -> bytes:
    """An ED00 file of events with these raw ticks, one instruction each."""
    count = len(events)
    names = [] if delegate else [f"op{number}" for number in range(count)]
    trace = Trace.unset(
        count, names=names, blocks=[Block("Execute", 0, count)], clocks=[HOST_NANOSECONDS]
    )
    trace.clock[:] = trace.chain[:] = 0
    for row, (start, end) in enumerate(events):
        trace.instruction[row], trace.start[row], trace.end[row] = row, start, end
        if delegate:
            trace.delegate_int[row] = DELEGATE
        else:
            trace.name[row] = row
    return write_ed00(trace.sealed())


def theirs(
    data: bytes, source: Any = TimeScale.CYCLES, target: Any = TimeScale.CYCLES, **options: Any
) -> list[Shown]:
    inspector = Inspector(
        etdump_data=data, source_time_scale=source, target_time_scale=target, **options
    )
    events = [event for block in inspector.event_blocks for event in block.events]
    return [Shown(event.perf_data.raw, event.start_time[0]) for event in events]


def raws(shown: Sequence[Shown]) -> list[float]:
    return [event.raw[0] for event in shown]


@pytest.mark.parametrize(
    ("start", "end", "wrong", "right"),
    [
        (0xFFFFFFFF, 0, 0, 1),
        (0xFFFFFFF0, 0x10, 31, 32),
        (0x80000000, 0x7FFFFFFF, 2**32 - 2, 2**32 - 1),
    ],
)
def test_a_wrap_loses_a_tick(start: int, end: int, wrong: int, right: int) -> None:
    data = dump([(start, end)])
    assert raws(theirs(data)) == [wrong]
    assert durations(read_ed00(data, UP32)).tolist() == [right]


@pytest.mark.parametrize("bits", [8, 16, 24, 31, 48, 56, 63])
def test_counters_of_other_widths_wrap_wrongly_or_not_at_all(bits: int) -> None:
    start, end = 2**bits - 16, 16
    data = dump([(start, end)])
    if bits > 32:
        with pytest.raises(ValueError, match="to be less than 4294967295"):
            theirs(data)
    else:
        assert raws(theirs(data)) == [2**32 - 1 - start + end]
    trace = read_ed00(data, ClockDomain("c", None, bits))
    assert durations(trace).tolist() == [32]
    down = read_ed00(dump([(end, start)]), ClockDomain("c", None, bits, down=True))
    assert durations(down).tolist() == [32]


def test_a_wrap_of_a_delegate_reads_as_weeks() -> None:
    """Converted first and unwrapped then: 32 ns are 4,294,963,000 ms."""
    data = dump([(0xFFFFFFF0, 0x10)], delegate=True)
    [wrong] = raws(theirs(data, TimeScale.NS, TimeScale.MS))
    assert wrong == pytest.approx(4_294_963_000, abs=1)
    [operator] = operator_statistics(read_ed00(data, UP32))
    assert operator.ns is not None
    assert operator.ns.max == 32.0


def test_a_wrap_within_a_converted_event_is_undone_after_the_conversion() -> None:
    data = dump([(0xFFFFFFF0, 0x10)], delegate=True)

    def convert(_: object, time: float) -> float:
        return time * 3 / 8 + 1000

    [wrong] = raws(theirs(data, delegate_time_scale_converter=convert))
    assert wrong > 2.6e9
    scaled = rescale(read_ed00(data, UP32), [time_scale(DELEGATE, Function(convert, "ns"))])
    [operator] = operator_statistics(scaled)
    assert operator.ns is not None
    assert operator.ns.max == 12.0
    exact = rescale(read_ed00(data), parse_time_scales({"*": "8/3 GHz, 32 bits"}))
    assert operator_statistics(exact)[0].ns == operator.ns


def test_a_converter_gets_the_same_id_and_the_same_ticks_without_a_wrap() -> None:
    """Where the incumbent is right, so are we, with the same calls."""
    data = dump([(1000, 1250)], delegate=True)
    calls: list[tuple[object, object]] = []

    def convert(identity: object, time: float) -> float:
        calls.append((identity, time))
        return time * 2 + 7

    assert raws(theirs(data, delegate_time_scale_converter=convert)) == [500]
    theirs_called, calls[:] = calls.copy(), []
    scaled = rescale(read_ed00(data), [time_scale("*", Function(convert, "ns"))])
    assert calls == theirs_called == [("3", 1000), ("3", 1250)]
    assert operator_statistics(scaled)[0].ns.max == 500.0  # type: ignore[union-attr]


def test_a_small_step_back_reads_as_a_wrap() -> None:
    data = dump([(10, 9)])
    assert raws(theirs(data)) == [2**32 - 2]
    timeline = unwrap(read_ed00(data, UP32))
    assert (timeline.end - timeline.start).tolist() == [-1]
    assert timeline.reversed_events == (1,)


def test_a_step_back_of_a_64_bit_clock_closes_the_file() -> None:
    data = dump([(0, 5), (2**40, 2**40 - 1)])
    with pytest.raises(ValueError, match="to be less than 4294967295"):
        theirs(data)
    timeline = unwrap(read_ed00(data))
    assert (timeline.end - timeline.start).tolist() == [5, -1]
    assert timeline.reversed_events == (1,)


def test_starts_jump_back_when_the_counter_wraps() -> None:
    data = dump([(0xFFFFFFF0, 0xFFFFFFF5), (5, 15)])
    assert [event.start for event in theirs(data)] == [0xFFFFFFF0, 5]
    assert unwrap(read_ed00(data, UP32)).start.tolist() == [0, 0x15]


def test_starts_are_neither_scaled_nor_converted() -> None:
    scales = TimeScale.NS, TimeScale.MS
    [event] = theirs(dump([(5_000_000, 7_000_000)]), *scales)
    assert (event.raw, event.start) == ([2.0], 5_000_000)
    data = dump([(5_000_000, 7_000_000)], delegate=True)
    [event] = theirs(data, *scales, delegate_time_scale_converter=lambda _, time: time * 100)
    assert (event.raw, event.start) == ([2e8], 5_000_000)
    scaled = rescale(read_ed00(data), [time_scale("*", lambda _, time: time * 100)])
    clock = scaled.clocks[int(scaled.clock[0])]
    assert clock.hz is not None
    # Its function gives milliseconds.
    assert int(scaled.start[0]) / clock.hz == Fraction(500_000_000, 1000)


@pytest.mark.parametrize(("lasted", "wrong_ms"), [(100, 0.0), (1000, 0.0009765625)])
def test_delegates_times_are_rounded_before_they_are_subtracted(
    lasted: int, wrong_ms: float
) -> None:
    ends = [(SINCE_1970, SINCE_1970 + lasted)]
    data = dump(ends, delegate=True)
    assert raws(theirs(data, TimeScale.NS, TimeScale.MS)) == [wrong_ms]
    assert raws(theirs(dump(ends), TimeScale.NS, TimeScale.MS)) == [lasted / 1e6]
    assert operator_statistics(read_ed00(data))[0].ns.max == lasted  # type: ignore[union-attr]


def test_ticks_of_delegates_are_rounded_even_without_a_conversion() -> None:
    ends = [(SINCE_1970, SINCE_1970 + 1)], [(SINCE_1970, SINCE_1970 + 1000)]
    assert [raws(theirs(dump(e, delegate=True)))[0] for e in ends] == [0, 1024]
    ours = [int(durations(read_ed00(dump(e, delegate=True)))[0]) for e in ends]
    assert ours == [1, 1000]


def test_an_event_longer_than_the_counter_is_short_and_nothing_says_so() -> None:
    """2**32 + 5 ticks read as 5: no event by itself can tell. Pings around it do, and we say so."""
    data = dump([(100, 105)])
    assert raws(theirs(data)) == [5]
    trace = read_ed00(data, UP32)
    begin, end = 10**9, 10**9 + 2**32 + 1000
    pings = [Ping(begin, begin + 50, 0, 90), Ping(end, end + 50, 0, 90 + 1000)]
    alignment = align(pings, UP32, Steadiness(Fraction(50)))
    placement = place(trace, alignment, [0, 1])
    assert (placement.silences, placement.late.tolist()) == ((1,), [1])


def test_a_counter_that_counts_down_is_taken_for_steps_back() -> None:
    data = dump([(1000, 900)])
    assert raws(theirs(data)) == [2**32 - 1 - 1000 + 900]
    assert durations(read_ed00(data, ClockDomain("c", None, 24, down=True))).tolist() == [100]


def test_the_width_of_a_delegates_counter_may_differ_from_the_cpus() -> None:
    """24 bits beside a CPU clock of 64: the incumbent has one rule for all events."""
    data = dump([(2**24 - 10, 22)], delegate=True)
    [wrong] = raws(theirs(data))
    assert wrong == 2**32 - 1 - (2**24 - 10) + 22
    scaled = rescale(read_ed00(data), [time_scale("*", Rate(Fraction(10**9), bits=24))])
    assert durations(scaled).tolist() == [32]

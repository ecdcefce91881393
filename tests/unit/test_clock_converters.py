"""Time scales of delegates: which events they mean, and what becomes of their ticks."""

from __future__ import annotations

import re
from fractions import Fraction
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from harness import (
    HOST_NANOSECONDS,
    NO_NAME,
    Block,
    ClockDomain,
    Trace,
    UsageError,
    durations,
    operator_statistics,
)
from harness.analyze.converters import Function, Rate, parse_time_scales, rescale, time_scale
from harness.analyze.ticks import to_nanoseconds

GROUP = "etdump_harness.time_scales"

CPU = ClockDomain("systick", Fraction(25_000_000), 32)


def delegated(*events: tuple[int, int, int | str], clock: ClockDomain = HOST_NANOSECONDS) -> Trace:
    """From (start, end, debug id), each in a chain and instruction of its own: (0, row)."""
    names = list(dict.fromkeys(i for _, _, i in events if isinstance(i, str)))
    trace = Trace.unset(
        len(events),
        names=[*names, "DELEGATE_CALL"],
        blocks=[Block("", 0, len(events))],
        clocks=[clock],
    )
    trace.clock[:] = 0
    trace.chain[:] = 0
    trace.instruction[:] = np.arange(len(events))
    for row, (start, end, identity) in enumerate(events):
        trace.start[row], trace.end[row] = start, end
        if isinstance(identity, str):
            trace.delegate_str[row] = names.index(identity)
        else:
            trace.delegate_int[row] = identity
    return trace.sealed()


def nanoseconds(trace: Trace) -> list[float]:
    ticks = durations(trace)
    return [
        float(to_nanoseconds(ticks[row : row + 1], trace.clocks[number])[0])
        for row, number in enumerate(trace.clock.tolist())
    ]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100 MHz", Rate(Fraction(10**8))),
        ("32768Hz", Rate(Fraction(32768))),
        ("48e6/1001 kHz", Rate(Fraction(48 * 10**9, 1001))),
        ("0.5 GHz, 24 bits", Rate(Fraction(5 * 10**8), bits=24)),
        ("3/8", Rate(Fraction(3, 8), relative=True)),
        ("1_000 hz, 16 bits, down", Rate(Fraction(1000), bits=16, down=True)),
        ("2, up", Rate(Fraction(2), relative=True, down=False)),
    ],
)
def test_rates_are_written_as_people_write_them(text: str, rate: Rate) -> None:
    assert time_scale("*", text).scale == rate


@pytest.mark.parametrize("text", ["", "fast", "-3 MHz", "1/0", "0 Hz", "5 MHz, 65 bits", "3 bits"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid rate"):
        time_scale("*", text)


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        (7, [0]),
        ("7", [0, 3]),
        ("[78]", [0, 1, 3]),
        ("npu_*", [2]),
        ("NPU_*", []),
        ("*", [0, 1, 2, 3]),
        (re.compile(r"npu_\w+|8"), [1, 2]),
        (re.compile("npu"), []),
        ("Backend*", [1]),
    ],
)
def test_a_pattern_means_ids_names_and_backends(
    pattern: int | str | re.Pattern[str], rows: list[int]
) -> None:
    trace = delegated((0, 8, 7), (0, 8, 8), (0, 8, "npu_conv"), (0, 8, "7"), (0, 8, -1))
    scaled = rescale(
        trace, [time_scale(pattern, Fraction(1, 2))], {(0, 1): "BackendX", (0, 4): "BackendX"}
    )
    assert np.flatnonzero(scaled.clock).tolist() == rows
    assert nanoseconds(scaled) == [16.0 if row in rows else 8.0 for row in range(5)]


def test_an_events_name_is_matched_too() -> None:
    trace = delegated((0, 8, 7))
    named = Trace.unset(1, names=["matmul"], blocks=trace.blocks, clocks=trace.clocks)
    named.clock[:], named.end[:], named.delegate_int[:], named.name[:] = 0, 8, 7, 0
    assert nanoseconds(rescale(named.sealed(), [time_scale("mat*", 2)])) == [4.0]


def test_the_first_scale_that_means_an_event_counts() -> None:
    trace = delegated((0, 8, 7), (0, 8, 8))
    scaled = rescale(trace, parse_time_scales({"7": "2 GHz", "*": "4 GHz"}))
    assert nanoseconds(scaled) == [4.0, 2.0]
    assert [clock.name for clock in scaled.clocks] == ["ns", "ns [7]", "ns [*]"]
    assert trace.clocks == (HOST_NANOSECONDS,)


def test_a_wrap_within_an_event_is_right_at_the_width_of_the_delegates_counter() -> None:
    trace = delegated((2**24 - 6, 4, 1))
    assert nanoseconds(rescale(trace, parse_time_scales({"*": "1 GHz, 24 bits"}))) == [10.0]
    # As our own ED00 copies have it: the end beyond the range.
    copied = delegated((2**24 - 6, 2**24 + 4, 1))
    assert nanoseconds(rescale(copied, parse_time_scales({"*": "1 GHz, 24 bits"}))) == [10.0]
    down = delegated((4, 2**16 - 6, 1))
    assert nanoseconds(rescale(down, parse_time_scales({"*": "1 GHz, 16 bits, down"}))) == [10.0]


def test_a_reading_that_the_counter_cannot_have_is_an_error() -> None:
    with pytest.raises(UsageError, match="event 0 began at 65536, which a counter of 16 bits"):
        rescale(delegated((65_536, 65_540, 1)), parse_time_scales({"*": "1 GHz, 16 bits"}))


def test_an_affine_function_gives_durations_and_starts() -> None:
    """3 us per tick and an offset, in milliseconds, as ExecuTorch's signature has it."""
    seen = []

    def convert(name: str, time: float) -> float:
        seen.append((name, time))
        return time * 0.003 + 5

    trace = delegated((1000, 1500, 3), (2000, 2100, "conv"))
    scaled = rescale(trace, [time_scale("*", convert)])
    assert seen == [("3", 1000), ("3", 1500), ("conv", 2000), ("conv", 2100)]
    assert nanoseconds(scaled) == pytest.approx([1_500_000, 300_000])
    assert scaled.start.tolist() == pytest.approx([8 * 10**9, 11 * 10**9], abs=2)  # picoseconds
    assert scaled.clocks[1].hz == 10**12


def test_a_function_sees_a_counter_unwrapped() -> None:
    trace = delegated((2**16 - 6, 4, 1), (50, 60, 1))
    function = Function(lambda _, time: 2 * time, "us", Rate(Fraction(1), bits=16))
    scaled = rescale(trace, [time_scale("*", function)])
    assert nanoseconds(scaled) == [20_000.0, 20_000.0]
    assert scaled.start.tolist() == [2 * (2**16 - 6) * 10**6, 2 * (2**16 + 50) * 10**6]


def test_a_counter_that_counts_down_goes_up_for_a_function() -> None:
    trace = delegated((4, 2**16 - 6, 1), clock=ClockDomain("c", None, 16, down=True))
    seen: list[float] = []
    function = Function(lambda _, time: seen.append(time) or time, "ns")
    assert nanoseconds(rescale(trace, [time_scale(1, function)])) == [10.0]
    assert seen == [2**16 - 4, 2**16 + 6]


def test_times_since_1970_fit_in_nanoseconds_and_a_rate_keeps_each() -> None:
    start = 1_767_225_600_000_000_000
    trace = delegated((start, start + 100, 1))
    function = rescale(trace, [time_scale("*", lambda _, time: time / 1e6)])
    assert function.clocks[1].hz == 10**9
    assert nanoseconds(function)[0] in (0.0, 244.0)  # what a float of milliseconds can tell
    assert nanoseconds(rescale(trace, [time_scale("*", 1)])) == [100.0]


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda _, time: time / 0, "ZeroDivisionError"),
        (lambda _, time: float("nan"), "NaN"),
        (lambda _, time: None, "TypeError"),
    ],
)
def test_a_function_that_fails_is_named_with_what_it_got(function: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=rf"'x\*'.*\('xy', 3\).*{complaint}"):
        rescale(delegated((3, 4, "xy")), [time_scale("x*", function)])


def test_entry_points_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tests.unit.test_clock_converters"
    points = EntryPoints(
        EntryPoint(name, f"{module}:{name}", GROUP) for name in ("in_ms", "as_text", "no_scale")
    )
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: points if group == GROUP else ()
    )
    trace = delegated((0, 8, 7))
    assert nanoseconds(rescale(trace, parse_time_scales({"*": "@in_ms"}))) == [4e6]
    assert nanoseconds(rescale(trace, parse_time_scales({"*": "@as_text"}))) == [4.0]
    with pytest.raises(UsageError, match="invalid time scale"):
        parse_time_scales({"*": "@no_scale"})
    with pytest.raises(UsageError, match="entry point 'other' not found") as caught:
        parse_time_scales({"*": "@other"})
    assert "as_text, in_ms, no_scale" in caught.value.hint


def in_ms(_: str, time: float) -> float:
    return time / 2


as_text = "2 GHz"
no_scale = None


def test_what_is_wrong_with_a_scale_is_said() -> None:
    with pytest.raises(UsageError, match=r"time scale 're:\(': invalid regular expression"):
        parse_time_scales({"re:(": "1 GHz"})
    with pytest.raises(UsageError, match="time scale 'x': invalid rate 'fast'"):
        parse_time_scales({"x": "fast"})
    with pytest.raises(
        UsageError, match="the rate is 3/8 times that of clock 'c', which is unknown"
    ):
        rescale(delegated((0, 1, 1), clock=ClockDomain("c", None)), parse_time_scales({"*": "3/8"}))
    with pytest.raises(ValueError, match="unit 'h'"):
        Function(lambda _, time: time, "h")


def test_only_events_of_delegates_are_meant() -> None:
    trace = delegated((0, 8, -1))
    assert trace.delegate_str[0] == NO_NAME
    assert rescale(trace, parse_time_scales({"*": "2"})) == trace


def test_statistics_are_on_the_new_scale() -> None:
    trace = rescale(delegated((0, 30, 1), clock=CPU), parse_time_scales({"re:.*": "3/8, 24 bits"}))
    [operator] = operator_statistics(trace)
    assert operator.clock == ClockDomain("systick [.*]", Fraction(9_375_000), 24)
    assert operator.ns is not None
    assert operator.ns.p50 == 3200.0

"""Time scales of delegates: what the ticks of their events mean, where the log does not say so.

An ED00 file names no clock, so what a delegate counted by itself looks like ticks of the CPU. A
time scale says for which events that is wrong, and how they count: by a rate, or a function. The
trace is left alone; ``rescale`` gives another one whose events are on clocks of their own.

A rate is exact: ticks stay, and the clock gets that rate, width and direction. A function has the
signature of ExecuTorch's ``delegate_time_scale_converter``: of the delegate's debug id as text and
a time in ticks, it gives the time in some unit. It converts points in time, so a duration is
``f(start + ticks) - f(start)``, where ``ticks`` is the modular difference and ``start`` is
unwrapped, counted from where the counter read zero last before the first event. Any ``f`` of the
form ``a * time + b`` gives right durations and starts, also across a wrap. What ``f`` rounds is
lost: one that gives milliseconds since 1970 as a float cannot tell 100 ns apart. A rate can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.unwrap import unwrap
from harness.errors import UsageError
from harness.records.clock_domain import ClockDomain
from harness.records.trace import NO_CLOCK, Kind, Trace

GROUP: Final = "etdump_harness.time_scales"
"""Group of entry points: rates as text, or functions."""

Number = int | float
Convert = Callable[[str, Number], Number]
"""ExecuTorch's signature: (debug id as text, time in ticks) to time in some unit."""

UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_PICOSECONDS, _NANOSECONDS = Fraction(10**12), Fraction(10**9)
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Function:
    """A function from ticks to time.

    Attributes:
        convert: The function.
        unit: Unit of what it gives: ns, us, ms or s. ExecuTorch's default target scale is ms.
        counter: Width and direction of the counter whose ticks it gets, if not those of the clock
            that the log names; its rate does not matter.
    """

    convert: Convert
    unit: str = "ms"
    counter: Rate | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r} is none of {', '.join(UNITS)}")


@dataclass(frozen=True)
class DelegateTimeScale:
    """What the ticks of some delegates' events mean.

    Attributes:
        pattern: Which events: an integer debug id; an ``fnmatch`` pattern, case-sensitive, on the
            debug id as text, the event's name, or the name of the backend where that is known; or
            a compiled regular expression, which must match the whole of one of these.
        scale: What their ticks mean.
    """

    pattern: int | str | re.Pattern[str]
    scale: Rate | Function

    @cached_property
    def text(self) -> str:
        """The pattern, as text."""
        return str(self.pattern.pattern if isinstance(self.pattern, re.Pattern) else self.pattern)

    def matches(self, name: str) -> bool:
        """Whether a name is one of those meant. An integer pattern means no name."""
        if isinstance(self.pattern, re.Pattern):
            return self.pattern.fullmatch(name) is not None
        return isinstance(self.pattern, str) and fnmatchcase(name, self.pattern)

    def events(self, trace: Trace, backends: Mapping[tuple[int, int], str]) -> _Bools:
        """Which events are meant, shape (n,); only those with a delegate's debug id can be."""
        numbers, inverse = np.unique(trace.delegate_int, return_inverse=True)
        of_number = [
            n != -1 and (self.pattern == n or self.matches(str(n))) for n in numbers.tolist()
        ]
        found: _Bools = np.array(of_number, np.bool_)[inverse]
        # The last is what NO_NAME (-1) finds.
        named = np.array([*(self.matches(name) for name in trace.names), False], np.bool_)
        found |= named[trace.delegate_str] | named[trace.name]
        for (chain, instruction), backend in backends.items():
            if self.matches(backend):
                found |= (trace.chain == chain) & (trace.instruction == instruction)
        timed = (trace.kind == Kind.PROFILE) & (trace.clock != NO_CLOCK)
        meant: _Bools = found & trace.delegated & timed
        return meant


def time_scale(pattern: int | str | re.Pattern[str], scale: object) -> DelegateTimeScale:
    """Make a time scale of a rate (``Rate``, text, number: a multiple) or a function.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(scale, str):
        scale = _entry_point(scale[1:]) if scale.startswith("@") else parse_rate(scale)
    if isinstance(scale, int | Fraction) and not isinstance(scale, bool):
        scale = Rate(Fraction(scale), relative=True)
    elif not isinstance(scale, Rate | Function) and callable(scale):
        scale = Function(scale)
    if not isinstance(scale, Rate | Function):
        raise UsageError(
            f"{scale!r} is no time scale",
            hint="give a rate such as '100 MHz', a fraction, or a function of (id, time)",
        )
    return DelegateTimeScale(pattern, scale)


def parse_time_scales(texts: Mapping[str, str]) -> list[DelegateTimeScale]:
    """Read patterns and what they mean as text: a rate, or ``@NAME`` for an entry point.

    A pattern that begins with ``re:`` is a regular expression.

    Raises:
        UsageError: A pattern or a rate is none; the message says which.
    """
    scales = []
    for pattern, scale in texts.items():
        try:
            compiled = re.compile(pattern[3:]) if pattern.startswith("re:") else pattern
            scales.append(time_scale(compiled, scale))
        except re.error as error:
            raise UsageError(f"time scale {pattern!r}: no regular expression: {error}") from error
        except UsageError as error:
            raise UsageError(f"time scale {pattern!r}: {error.message}", hint=error.hint) from error
    return scales


def _entry_point(name: str) -> object:
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none is installed"
        raise UsageError(
            f"no entry point {name!r} in the group {GROUP!r}",
            hint=f"there are: {known}; a package adds one in its [project.entry-points]",
        )
    loaded: object = found[name].load()
    return parse_rate(loaded) if isinstance(loaded, str) else loaded


def rescale(
    trace: Trace,
    scales: Sequence[DelegateTimeScale],
    backends: Mapping[tuple[int, int], str] | None = None,
) -> Trace:
    """Put delegates' events on the clocks that their time scales say.

    Args:
        trace: What was logged.
        scales: The first that means an event is the one that counts.
        backends: Names of backends by chain and instruction, where the program is known.

    Returns:
        The same events, some on further clocks. Those of a function have ticks of a picosecond, or
        of a nanosecond where 64 bits would not hold them, rounded to the nearest.

    Raises:
        UsageError: A scale does not fit the events it means; the message says how.
    """
    left = np.ones(len(trace), np.bool_)
    for scale in scales:
        chosen = scale.events(trace, backends or {}) & left
        left &= ~chosen
        for number in np.unique(trace.clock[chosen]).tolist():
            trace = _on_own_clock(trace, scale, np.flatnonzero(chosen & (trace.clock == number)))
    return trace


def _on_own_clock(trace: Trace, scale: DelegateTimeScale, rows: npt.NDArray[np.int64]) -> Trace:
    """Move events of one clock to a new one."""
    domain = trace.clocks[trace.clock[rows[0]]]
    name = f"{domain.name} [{scale.text}]"
    if isinstance(scale.scale, Rate):
        own = scale.scale.of(domain, name)
    else:
        counter = scale.scale.counter or Rate(Fraction(1))
        own = replace(counter, value=Fraction(1), relative=False).of(domain, name)
    beyond = np.flatnonzero(trace.start[rows] > np.uint64(own.modulus - 1))
    if len(beyond):
        row = int(rows[beyond[0]])
        raise UsageError(
            f"time scale {scale.text!r}: event {row} began at {int(trace.start[row])}, which a "
            f"counter of {own.bits} bits does not read",
            hint="correct the width, or the pattern",
        )
    if len(trace.clocks) == NO_CLOCK:
        raise UsageError(f"time scale {scale.text!r}: a trace has at most {NO_CLOCK} clocks")
    clock = trace.clock.copy()
    clock[rows] = len(trace.clocks)
    moved = replace(trace, clocks=(*trace.clocks, own), clock=clock).sealed()
    if isinstance(scale.scale, Function):
        return _converted(moved, scale, scale.scale, rows)
    return moved


def _converted(
    trace: Trace, scale: DelegateTimeScale, function: Function, rows: npt.NDArray[np.int64]
) -> Trace:
    """Apply a function to the last clock of a trace, which stamped these events."""
    own, timeline = trace.clocks[-1], unwrap(trace)
    reading = timeline.origins[-1] or 0
    origin = -reading % own.modulus if own.down else reading
    nanoseconds = []
    for row in rows.tolist():
        name = debug_id(trace, row)
        both = int(timeline.start[row]), int(timeline.end[row])
        times = [_call(function, scale.text, name, origin + ticks) for ticks in both]
        nanoseconds += [time * UNITS[function.unit] for time in times]
    largest = max(map(abs, nanoseconds))
    hz = _PICOSECONDS if largest * 1000 < 2**62 else _NANOSECONDS
    readings = [round(time * (hz / 10**9)) % 2**64 for time in nanoseconds]
    start, end = trace.start.copy(), trace.end.copy()
    start[rows], end[rows] = np.array(readings, np.uint64).reshape(-1, 2).T
    clocks = (*trace.clocks[:-1], ClockDomain(own.name, hz))
    return replace(trace, clocks=clocks, start=start, end=end).sealed()


def debug_id(trace: Trace, row: int) -> str:
    """The debug id of a delegate's event, as text: what functions are given."""
    return trace.text(int(trace.delegate_str[row])) or str(int(trace.delegate_int[row]))


def _call(function: Function, scale: str, name: str, time: int) -> Fraction:
    try:
        result: Any = function.convert(name, time)
        return Fraction(result)
    except Exception as error:
        raise UsageError(
            f"time scale {scale!r}: the function failed for ({name!r}, {time}): "
            f"{type(error).__name__}: {error}",
            hint="it gets the delegate's debug id as text and ticks, and gives a finite number",
        ) from error


_UNITS: Final = {"hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}


_NUMBER = r"[0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?"


_TEXT: Final = re.compile(
    rf"\s*({_NUMBER}(?:\s*/\s*{_NUMBER})?)\s*(hz|khz|mhz|ghz)?"
    r"((?:\s*,\s*(?:[0-9]+ bits?|down|up))*)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rate:
    """How a counter counts, as far as it differs from what the log says.

    Attributes:
        value: Ticks per second, or how many times the rate of the clock that the log names.
        relative: Whether it is the latter.
        bits: Width of the counter; None for that of the clock that the log names.
        down: Whether it counts down; None for the direction of that clock.
    """

    value: Fraction
    relative: bool = False
    bits: int | None = None
    down: bool | None = None

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError(f"a rate of {self.value} is not positive")
        if self.bits is not None and not 8 <= self.bits <= 64:
            raise ValueError(f"a width of {self.bits} bits is not within 8 to 64")

    def of(self, domain: ClockDomain, name: str) -> ClockDomain:
        """The clock of events that the log has on ``domain``.

        Raises:
            UsageError: The rate is relative to one that nobody knows.
        """
        if self.relative and domain.hz is None:
            raise UsageError(
                f"{self.value} times the rate of clock {domain.name!r} is not known, as that rate "
                "is not",
                hint="state the rate in Hz, kHz, MHz or GHz",
            )
        return ClockDomain(
            name,
            self.value * domain.hz if self.relative and domain.hz is not None else self.value,
            domain.bits if self.bits is None else self.bits,
            domain.down if self.down is None else self.down,
        )


def parse_rate(text: str) -> Rate:
    """Read a rate: a number with a unit (Hz, kHz, MHz, GHz), or a bare number for a multiple.

    A number is a decimal or a fraction. Behind it, apart by commas, may follow the width of the
    counter (``24 bits``) and its direction (``down``, ``up``).

    Example:
        >>> parse_rate("100 MHz, 24 bits").value
        Fraction(100000000, 1)
        >>> parse_rate("3/8").relative
        True

    Raises:
        UsageError: It is no rate.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no rate",
            hint="write it as '100 MHz', '48e6/1001 Hz, 24 bits, down', or '3/8' for a multiple of "
            "the rate that the log says",
        )
    number, unit, options = match.groups()
    try:
        parts = [Fraction(part.strip()) for part in number.split("/")]
        value = parts[0] / parts[1] if len(parts) > 1 else parts[0]
        bits = re.search(r"([0-9]+) bit", options)
        direction = re.search(r"down|up", options.lower())
        return Rate(
            value * _UNITS[unit.lower()] if unit else value,
            relative=unit is None,
            bits=int(bits[1]) if bits else None,
            down=direction[0] == "down" if direction else None,
        )
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{text!r} is no rate: {error}") from error

"""Times and counts of delegates: clocks that the log does not record, counts in metadata.

A time scale: an ED00 file names no clock, so ticks of a delegate's own counter look like ticks of
the CPU. The scale selects delegate events and gives their clock, as a rate or a function.
``rescale`` returns a new trace with these events on clocks of their own.

A rate is exact: ticks are kept, and the clock gets the rate, width and direction. A function has
the signature of ExecuTorch's ``delegate_time_scale_converter``: it maps the delegate's debug id as
text and a time in ticks to a time in some unit. It converts points in time, so a duration is
``f(start + ticks) - f(start)``; ``ticks`` is the modular difference, and ``start`` is unwrapped,
counted from the last zero of the counter before the first event. Any ``f(time) = a * time + b``
gives correct durations and starts, also across a wrap. Rounding in ``f`` is lost: milliseconds
since 1970 as a float cannot resolve 100 ns. A rate has no such loss.

A metadata layout: a delegate whose hardware has counters of its own, such as the performance
monitor of an Ethos-U, reads them when a job ends and logs them as the event's metadata:
little-endian unsigned integers, one behind the other. A layout names them: ``"npu_macs:u32,
npu_bytes:u32"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import unwrap
from harness.errors import UsageError
from harness.records.trace import NO_CLOCK, NO_COUNT, ClockDomain, HardwareCounter, Kind, Trace

GROUP: Final = "etdump_harness.time_scales"
"""Group of entry points: rates as text, or functions."""

Number = int | float
Convert = Callable[[str, Number], Number]
"""ExecuTorch's signature: (debug id as text, time in ticks) to time in some unit."""

UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_HERTZ: Final = {"hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}
_NUMBER = r"[0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?"
_RATE: Final = re.compile(
    rf"\s*({_NUMBER}(?:\s*/\s*{_NUMBER})?)\s*(hz|khz|mhz|ghz)?"
    r"((?:\s*,\s*(?:[0-9]+ bits?|down|up))*)\s*",
    re.IGNORECASE,
)

_PICOSECONDS, _NANOSECONDS = Fraction(10**12), Fraction(10**9)
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate, width and direction of a counter, relative to the clock in the log.

    Attributes:
        value: Ticks per second, or a multiple of the rate of the clock in the log.
        relative: Whether ``value`` is a multiple.
        bits: Width of the counter; None for the width of the clock in the log.
        down: Whether it counts down; None for the direction of the clock in the log.
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
        """Return the clock for events that the log has on ``domain``.

        Raises:
            UsageError: The rate is relative to an unknown rate.
        """
        if self.relative and domain.hz is None:
            raise UsageError(
                f"the rate is {self.value} times that of clock {domain.name!r}, which is unknown",
                hint="give the rate in Hz, kHz, MHz or GHz",
            )
        return ClockDomain(
            name,
            self.value * domain.hz if self.relative and domain.hz is not None else self.value,
            domain.bits if self.bits is None else self.bits,
            domain.down if self.down is None else self.down,
        )


@dataclass(frozen=True, slots=True)
class Function:
    """A function from ticks to time.

    Attributes:
        convert: The function.
        unit: Unit of its results: ns, us, ms or s. ExecuTorch's default target scale is ms.
        counter: Width and direction of the counter of its input ticks, if they differ from the
            clock in the log; the rate is ignored.
    """

    convert: Convert
    unit: str = "ms"
    counter: Rate | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unknown unit {self.unit!r}: use {', '.join(UNITS)}")


@dataclass(frozen=True)
class DelegatePattern:
    """A choice of delegate events.

    Attributes:
        pattern: Selects events: an integer debug id; a case-sensitive ``fnmatch`` pattern on the
            debug id as text, the event name, or the backend name if known; or a compiled regular
            expression that must match one of these completely.
    """

    pattern: int | str | re.Pattern[str]

    @cached_property
    def text(self) -> str:
        """The pattern, as text."""
        return str(self.pattern.pattern if isinstance(self.pattern, re.Pattern) else self.pattern)

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a name. An integer pattern matches no name."""
        if isinstance(self.pattern, re.Pattern):
            return self.pattern.fullmatch(name) is not None
        return isinstance(self.pattern, str) and fnmatchcase(name, self.pattern)

    def events(self, trace: Trace, backends: Mapping[tuple[int, int], str]) -> _Bools:
        """Return True for selected events, shape (n,); only events with a delegate debug id."""
        numbers, inverse = np.unique(trace.delegate_int, return_inverse=True)
        of_number = [
            n != -1 and (self.pattern == n or self.matches(str(n))) for n in numbers.tolist()
        ]
        found: _Bools = np.array(of_number, np.bool_)[inverse]
        # The last entry is for NO_NAME (-1).
        named = np.array([*(self.matches(name) for name in trace.names), False], np.bool_)
        found |= named[trace.delegate_str] | named[trace.name]
        for (chain, instruction), backend in backends.items():
            if self.matches(backend):
                found |= (trace.chain == chain) & (trace.instruction == instruction)
        timed = (trace.kind == Kind.PROFILE) & (trace.clock != NO_CLOCK)
        meant: _Bools = found & trace.delegated & timed
        return meant


_PatternT = TypeVar("_PatternT", bound=DelegatePattern)


@dataclass(frozen=True)
class DelegateTimeScale(DelegatePattern):
    """The clock of some delegate events.

    Attributes:
        scale: Rate of their ticks, or function to convert them.
    """

    scale: Rate | Function


def time_scale(pattern: int | str | re.Pattern[str], scale: object) -> DelegateTimeScale:
    """Return a time scale from a rate (``Rate``, text, or a number as a multiple) or a function.

    Raises:
        UsageError: ``scale`` is neither.
    """
    if isinstance(scale, str):
        scale = _entry_point(scale[1:]) if scale.startswith("@") else parse_rate(scale)
    if isinstance(scale, int | Fraction) and not isinstance(scale, bool):
        scale = Rate(Fraction(scale), relative=True)
    elif not isinstance(scale, Rate | Function) and callable(scale):
        scale = Function(scale)
    if not isinstance(scale, Rate | Function):
        raise UsageError(
            f"invalid time scale {scale!r}",
            hint="use a rate such as '100 MHz', a fraction, or a function of (id, time)",
        )
    return DelegateTimeScale(pattern, scale)


def parse_time_scales(texts: Mapping[str, str]) -> list[DelegateTimeScale]:
    """Return time scales from a mapping of patterns to rates, or to ``@NAME`` of an entry point.

    A pattern that begins with ``re:`` is a regular expression.

    Raises:
        UsageError: A pattern or a rate is invalid; the message names it.
    """
    return _parse_each("time scale", texts, time_scale)


def _parse_each(
    kind: str,
    texts: Mapping[str, str],
    parse: Callable[[str | re.Pattern[str], str], _PatternT],
) -> list[_PatternT]:
    """Parse each pattern and text; an error names the pattern."""
    found = []
    for pattern, text in texts.items():
        try:
            found.append(parse(parse_pattern(pattern), text))
        except UsageError as error:
            raise UsageError(f"{kind} {pattern!r}: {error.message}", hint=error.hint) from error
    return found


def parse_pattern(text: str) -> str | re.Pattern[str]:
    """Return a pattern; one that begins with ``re:`` is a regular expression.

    Raises:
        UsageError: The regular expression is invalid.
    """
    if not text.startswith("re:"):
        return text
    try:
        return re.compile(text[3:])
    except re.error as error:
        raise UsageError(
            f"invalid regular expression: {error}",
            hint="leave out re: for a pattern with * and ?",
        ) from error


def parse_rate(text: str) -> Rate:
    """Parse a rate: a number with a unit (Hz, kHz, MHz, GHz), or a bare number for a multiple.

    A number is a decimal or a fraction. The width of the counter (``24 bits``) and its direction
    (``down``, ``up``) may follow, separated by commas.

    Examples:
        >>> parse_rate("100 MHz, 24 bits").value
        Fraction(100000000, 1)
        >>> parse_rate("3/8").relative
        True

    Raises:
        UsageError: The text is not a rate.
    """
    match = _RATE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"invalid rate {text!r}",
            hint="write '100 MHz', '48e6/1001 Hz, 24 bits, down', or '3/8' for a multiple of the "
            "rate in the log",
        )
    number, unit, options = match.groups()
    try:
        parts = [Fraction(part.strip()) for part in number.split("/")]
        value = parts[0] / parts[1] if len(parts) > 1 else parts[0]
        bits = re.search(r"([0-9]+) bit", options)
        direction = re.search(r"down|up", options.lower())
        return Rate(
            value * _HERTZ[unit.lower()] if unit else value,
            relative=unit is None,
            bits=int(bits[1]) if bits else None,
            down=direction[0] == "down" if direction else None,
        )
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(
            f"invalid rate {text!r}: {error}", hint="write for example '100 MHz, 24 bits'"
        ) from error


def _entry_point(name: str) -> object:
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted(found)) or "(empty)"
        raise UsageError(
            f"entry point {name!r} not found in group {GROUP!r}",
            hint=f"installed: {known}; packages add them in [project.entry-points]",
        )
    loaded: object = found[name].load()
    return parse_rate(loaded) if isinstance(loaded, str) else loaded


def rescale(
    trace: Trace,
    scales: Sequence[DelegateTimeScale],
    backends: Mapping[tuple[int, int], str] | None = None,
) -> Trace:
    """Move delegate events to the clocks of their time scales.

    Args:
        trace: The trace.
        scales: For each event the first matching scale applies.
        backends: Names of backends by chain and instruction, if the program is known.

    Returns:
        The same events, some on additional clocks. Results of a function are rounded to ticks of
        1 ps, or of 1 ns if 64 bits would overflow.

    Raises:
        UsageError: A scale does not fit its events; the message says why.
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
    own = trace.clocks[-1]
    nanoseconds = []
    for name, *both in delegate_times(trace, rows):
        times = [_call(function, scale.text, name, time) for time in both]
        nanoseconds += [time * UNITS[function.unit] for time in times]
    largest = max(map(abs, nanoseconds))
    hz = _PICOSECONDS if largest * 1000 < 2**62 else _NANOSECONDS
    readings = [round(time * (hz / 10**9)) % 2**64 for time in nanoseconds]
    start, end = trace.start.copy(), trace.end.copy()
    start[rows], end[rows] = np.array(readings, np.uint64).reshape(-1, 2).T
    clocks = (*trace.clocks[:-1], ClockDomain(own.name, hz))
    return replace(trace, clocks=clocks, start=start, end=end).sealed()


def delegate_times(trace: Trace, rows: npt.NDArray[np.int64]) -> Iterator[tuple[str, int, int]]:
    """Yield debug id, start and end of delegate events, the arguments of a function.

    Both times are in ticks since the last zero of the event's counter before its first event: the
    readings themselves as long as the counter does not wrap, and more after a wrap.
    """
    timeline = unwrap(trace)
    zeros = [
        -(reading or 0) % domain.modulus if domain.down else reading or 0
        for reading, domain in zip(timeline.origins, trace.clocks, strict=True)
    ]
    columns = (trace.clock[rows], timeline.start[rows], timeline.end[rows])
    for row, clock, start, end in zip(
        rows.tolist(), *(column.tolist() for column in columns), strict=True
    ):
        yield debug_id(trace, row), zeros[clock] + start, zeros[clock] + end


def debug_id(trace: Trace, row: int) -> str:
    """Return the debug id of a delegate event as text, the first argument of a function."""
    return trace.text(int(trace.delegate_str[row])) or str(int(trace.delegate_int[row]))


def _call(function: Function, scale: str, name: str, time: int) -> Fraction:
    try:
        result: Any = function.convert(name, time)
        return Fraction(result)
    except Exception as error:
        raise UsageError(
            f"time scale {scale!r}: the function failed for ({name!r}, {time}): "
            f"{type(error).__name__}: {error}",
            hint="the function takes the delegate's debug id as text and a time in ticks, and "
            "returns a finite number",
        ) from error


def _ethos_u(events: int) -> str:
    fields = [f"ethosu_event{number}:u32" for number in range(events)]
    return ", ".join(["ethosu_cycles:u64", *fields])


LAYOUTS: Final = {"ethos-u": _ethos_u(4), "ethos-u85": _ethos_u(8)}
"""Layouts with a name: the cycle counter of Arm's driver, then its event counters."""

_FIELD: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*:\s*u(8|16|32|64)\s*")
_MOST_BITS: Final = 63
"""Width of the largest count that a trace can hold."""


@dataclass(frozen=True)
class MetadataLayout(DelegatePattern):
    """What the metadata of some delegate events contains.

    Attributes:
        counters: Names and widths in bits of the integers, in their order.
    """

    counters: tuple[tuple[str, int], ...]

    @property
    def names(self) -> list[str]:
        """The names of the counters."""
        return [name for name, _ in self.counters]

    def counts(self, metadata: bytes) -> list[int]:
        """Return the counts in an event's metadata; NO_COUNT for those that it is too short for."""
        found, at = [], 0
        for _, bits in self.counters:
            part = metadata[at : at + bits // 8]
            value = int.from_bytes(part, "little")
            complete = len(part) == bits // 8 and value < 2**_MOST_BITS
            found.append(value if complete else NO_COUNT)
            at += bits // 8
        return found


def parse_layouts(texts: Mapping[str, str]) -> list[MetadataLayout]:
    """Return layouts from a mapping of patterns of delegate events to layouts as text.

    Raises:
        UsageError: A pattern or a layout is invalid; the message names it.
    """
    return _parse_each("metadata of", texts, _parse_layout)


def _parse_layout(pattern: str | re.Pattern[str], text: str) -> MetadataLayout:
    text = LAYOUTS.get(text.strip(), text)
    matches = [_FIELD.fullmatch(part) for part in text.split(",")]
    found = [(match[1], int(match[2])) for match in matches if match is not None]
    names = [name for name, _ in found]
    if len(found) < len(matches) or len(set(names)) < len(names):
        raise UsageError(
            f"invalid layout {text!r}",
            hint="write for example 'npu_macs:u32, npu_bytes:u32', each name once, or a name: "
            + ", ".join(LAYOUTS),
        )
    return MetadataLayout(pattern, tuple(found))


def check_names(layouts: Sequence[MetadataLayout], counters: Sequence[str]) -> None:
    """Check that counters of delegates and of the core have different names.

    Raises:
        UsageError: One has the name of another.
    """
    for layout in layouts:
        for name in layout.names:
            if name in counters:
                raise UsageError(
                    f"metadata of {layout.text!r}: the core has a counter {name}, too",
                    hint="choose another name in the board file, such as npu_" + name,
                )


def with_metadata_counts(
    trace: Trace,
    layouts: Sequence[MetadataLayout],
    backends: Mapping[tuple[int, int], str] | None = None,
) -> Trace:
    """Return the trace with counters of delegates, as far as events have metadata of these layouts.

    Args:
        trace: The trace.
        layouts: For each event the first matching layout applies.
        backends: Names of backends by chain and instruction, if the program is known.

    Raises:
        UsageError: A counter has the name of one that the core has.
    """
    check_names(layouts, [counter.name for counter in trace.counters])
    left = trace.metadata[:, 1] > 0
    columns: dict[str, dict[int, int]] = {}
    widths: dict[str, int] = {}
    for layout in layouts:
        chosen = layout.events(trace, backends or {}) & left
        left &= ~chosen
        for name, bits in layout.counters if chosen.any() else ():
            columns.setdefault(name, {})
            widths[name] = max(widths.get(name, 0), min(bits, _MOST_BITS))
        for row in np.flatnonzero(chosen).tolist():
            counts = layout.counts(trace.metadata_of(row) or b"")
            for name, count in zip(layout.names, counts, strict=True):
                columns[name][row] = count
    if not columns:
        return trace
    added = np.full((len(trace), len(columns)), NO_COUNT, np.int64)
    for place, counts_of_row in enumerate(columns.values()):
        added[list(counts_of_row), place] = list(counts_of_row.values())
    return replace(
        trace,
        counters=(*trace.counters, *(HardwareCounter(name, widths[name]) for name in columns)),
        counts=np.hstack([trace.counts, added]),
    ).sealed()

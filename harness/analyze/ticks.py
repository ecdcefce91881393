"""Durations in ticks and their conversion to time: integers until the last moment."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from harness.records.clock_domain import ClockDomain
from harness.records.trace import NO_CLOCK, Trace

Ticks = npt.NDArray[np.uint64]
_EXACT = 2**53  # every integer up to here is a float64


def mask(domain: ClockDomain) -> int:
    """Return the largest reading of the counter; ``& mask`` computes modulo its range."""
    return domain.modulus - 1


def forward(domain: ClockDomain, start: Ticks, end: Ticks) -> Ticks:
    """Return the ticks from reading ``start`` to reading ``end`` of a counter, below one wrap.

    ``(end - start) mod 2**bits`` for a counter that counts up, ``(start - end) mod 2**bits`` for
    one that counts down; exact for every width, as uint64 arithmetic is itself modulo 2**64.
    """
    difference = start - end if domain.down else end - start
    return difference & np.uint64(mask(domain))


def durations(trace: Trace) -> Ticks:
    """Return the duration of every event in ticks of its clock domain, shape (n,).

    Durations are modular differences, exact for events shorter than one wrap of the counter; longer
    events cannot be recognized. Events without a time (NO_CLOCK) have 0.
    """
    result = np.zeros(len(trace), np.uint64)
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero(trace.clock == number)
        result[rows] = forward(domain, trace.start[rows], trace.end[rows])
    return result


def without_wraps(trace: Trace) -> Trace:
    """Return the same events with each end set to start plus duration, as 64-bit readings.

    For readers that subtract without regard to the counter's width, such as ExecuTorch's Inspector.
    """
    return replace(
        trace,
        end=trace.start + durations(trace),
        clocks=tuple(replace(clock, bits=64, down=False) for clock in trace.clocks),
    ).sealed()


def nanoseconds_per_tick(domain: ClockDomain) -> Fraction | None:
    """Return the exact length of a tick in nanoseconds, or None if the rate is unknown."""
    return None if domain.hz is None else Fraction(1_000_000_000) / domain.hz


def exact_nanoseconds(ticks: int, domain: ClockDomain) -> Fraction:
    """Convert ``ticks`` to nanoseconds exactly.

    Raises:
        ValueError: The rate of the domain is unknown.
    """
    length = nanoseconds_per_tick(domain)
    if length is None:
        raise ValueError(f"clock {domain.name!r} has no known rate")
    return ticks * length


def to_nanoseconds(
    ticks: npt.NDArray[np.uint64] | npt.NDArray[np.int64], domain: ClockDomain
) -> npt.NDArray[np.float64]:
    """Convert ticks, never negative, to nanoseconds, same shape.

    With a tick of p/q ns the result is the float64 nearest to ``ticks * p / q`` while
    ``ticks * p`` and q stay below 2**53 (17 days at 240 MHz), else within 1 ulp.

    Raises:
        ValueError: The rate of the domain is unknown.
    """
    length = exact_nanoseconds(1, domain)
    p, q = length.numerator, length.denominator
    largest = int(ticks.max(initial=0))
    if q == 1 and p == 1:
        return ticks.astype(np.float64)
    if largest * p < _EXACT and q < _EXACT:
        return (ticks.astype(np.uint64) * np.uint64(p)).astype(np.float64) / float(q)
    if largest * p < 2**64 and q < 2**32 and p < 2**32:
        whole, rest = np.divmod(ticks.astype(np.uint64), np.uint64(q))
        scaled = (rest * np.uint64(p)).astype(np.float64) / float(q)
        return (whole * np.uint64(p)).astype(np.float64) + scaled
    exact = [float(tick * length) for tick in ticks.ravel().tolist()]
    return np.array(exact, np.float64).reshape(ticks.shape)


def event_nanoseconds(trace: Trace, ticks: Ticks) -> npt.NDArray[np.float64]:
    """Convert ticks of events to nanoseconds, shape (n,): 0 without a time, NaN without a rate.

    Args:
        trace: The trace.
        ticks: Ticks of every event on its own clock, shape (n,).
    """
    result = np.full(len(ticks), np.nan)
    result[trace.clock == NO_CLOCK] = 0.0
    for number, domain in enumerate(trace.clocks):
        if domain.hz is not None:
            rows = trace.clock == number
            result[rows] = to_nanoseconds(ticks[rows], domain)
    return result

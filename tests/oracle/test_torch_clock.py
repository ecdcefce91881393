"""The PyTorch profiler's own clock: what it makes of a reading agrees with our bounds of it."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("torch._C._profiler", reason="needs torch")

from torch._C import _profiler as profiler

from harness import ClockDomain, Ping, align

pytestmark = pytest.mark.oracle

COUNTER = ClockDomain("approximate clock", None, 64)
"""The time-stamp counter, of a rate that nobody tells us."""

PINGS = 200


def read(clock: object) -> tuple[int, int, int]:
    """Host time before, counter, host time after."""
    before = time.time_ns()
    ticks = clock()  # type: ignore[operator]
    return before, ticks, time.time_ns()


def test_the_profilers_converter_agrees_within_the_brackets() -> None:
    """It aligns clocks at the ends of its own life; we from our pings around the same readings."""
    if not hasattr(profiler, "_get_approximate_time"):
        pytest.skip("this torch does not show its clock")
    converter = profiler._ApproximateClockToUnixTimeConverter()
    pings = [read(profiler._get_approximate_time) for _ in range(PINGS)]
    time.sleep(0.05)
    subjects = [read(profiler._get_approximate_time) for _ in range(PINGS)]
    time.sleep(0.05)
    pings += [read(profiler._get_approximate_time) for _ in range(PINGS)]

    alignment = align([Ping(a, b, 0, ticks) for a, ticks, b in pings], COUNTER)
    assert len(alignment.epochs) == 1, [epoch.stretch.begins for epoch in alignment.epochs]
    first = pings[0][1]
    instants = alignment.instants(np.array([ticks - first for _, ticks, _ in subjects], np.int64))
    assert instants.known.all()
    half = instants.half_width
    assert half is not None
    brackets = np.array([(a, b) for a, _, b in subjects], np.int64)
    # The truth is in the bracket of each subject and within our bounds: these must meet.
    assert (instants.low <= brackets[:, 1]).all()
    assert (instants.high >= brackets[:, 0]).all()
    # torch's estimate is off by at most its own error, which its brackets bound, as they do ours.
    torch = np.array([converter.to_unix_ns(ticks) for _, ticks, _ in subjects], np.int64)
    widest = int((brackets[:, 1] - brackets[:, 0]).max())
    outside = np.maximum(np.maximum(instants.low - torch, torch - instants.high), 0)
    assert int(np.median(outside)) <= widest
    assert int(np.median(np.abs(instants.mid - torch))) <= half + widest

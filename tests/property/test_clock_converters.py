"""Whatever the counter, converted events last and begin as they did."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Block, ClockDomain, Trace, durations
from harness.analyze.converters import Function, Rate, rescale, time_scale
from harness.analyze.ticks import nanoseconds_per_tick, unwrap
from tests.support.examples import examples

slopes = st.fractions(Fraction(1, 50), 50, max_denominator=50)


@given(
    bits=st.integers(8, 40),
    down=st.booleans(),
    begin=st.integers(0, 2**44),
    steps=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=1, max_size=8),
    slope=slopes,
    offset=st.integers(-(10**6), 10**6),
)
@settings(max_examples=examples(150), deadline=None)
def test_rates_and_affine_functions_agree_with_the_truth(
    bits: int,
    down: bool,
    begin: int,
    steps: list[tuple[int, int]],
    slope: Fraction,
    offset: int,
) -> None:
    """Ticks of ``slope`` ns: as a rate and as a function, the wrapped timeline comes back."""
    domain = ClockDomain("delegate", 10**9 / slope, bits, down)
    trace = Trace.unset(
        len(steps), blocks=[Block("", 0, len(steps))], clocks=[ClockDomain("cpu", Fraction(10**6))]
    )
    truth, now = [], begin
    for row, (gap, length) in enumerate(steps):
        now += gap % min(domain.modulus - 1, 100)
        start, now = now, now + length % min(domain.modulus - 1, 100)
        truth.append((start, now))
        for column, tick in ((trace.start, start), (trace.end, now)):
            column[row] = (-tick if down else tick) % domain.modulus
    trace.clock[:], trace.delegate_int[:] = 0, 5
    trace.sealed()
    counter = Rate(10**9 / slope, bits=bits, down=down)
    function = Function(lambda _, time: Fraction(time) * slope + offset, "ns", counter)  # type: ignore[arg-type,return-value]
    for scale in (counter, function):
        scaled = rescale(trace, [time_scale("5", scale)])
        [clock] = {scaled.clocks[number] for number in scaled.clock.tolist()}
        timeline, tolerance = unwrap(scaled, jitter=0), Fraction(1, 1000)
        lasted = [int(d) * nanoseconds_per_tick(clock) for d in durations(scaled)]
        began = [int(t) * nanoseconds_per_tick(clock) for t in timeline.start.tolist()]
        for row, (start, end) in enumerate(truth):
            assert abs(lasted[row] - (end - start) * slope) <= tolerance
            assert abs(began[row] - (start - truth[0][0]) * slope) <= 2 * tolerance
        assert np.array_equal(scaled.instruction, trace.instruction)

"""A delegate's clock is bounded by the calls around its events, and chained to the host's."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from hypothesis import given, settings
from hypothesis import strategies as st

from harness import NO_NAME, Block, ClockDomain, Ping, Trace, host_times
from harness.analyze.placement import quality_of_run
from tests.support.clocks import TrueClock
from tests.support.examples import examples


@dataclass(frozen=True)
class System:
    """A CPU and an NPU, both clocks true; the trace of some calls; pings around it."""

    clocks: tuple[TrueClock, TrueClock]
    trace: Trace
    jobs: list[tuple[Fraction, Fraction]]
    pings: list[Ping]
    restart: Ping


@st.composite
def systems(draw: st.DrawFn) -> System:
    ratio = draw(st.sampled_from([Fraction(3, 8), Fraction(1), Fraction(16, 3)]))
    off = Fraction(draw(st.integers(-50, 50)), 10**6)
    cpu_domain = ClockDomain("cpu", Fraction(25_000_000), 32, draw(st.booleans()))
    npu_domain = ClockDomain("npu", 25_000_000 * ratio, draw(st.sampled_from([16, 24, 32])))
    begin = Fraction(draw(st.integers(0, 2**50)))
    cpu = TrueClock(cpu_domain, [(begin, Fraction(25, 1000) * (1 + off))])
    drift = Fraction(draw(st.integers(-50, 50)), 10**6)
    phase = Fraction(draw(st.integers(0, 2**40)), 7)
    npu = TrueClock(npu_domain, [(begin, Fraction(25, 1000) * ratio * (1 + drift))], phase)
    # Gaps below half a wrap of the NPU's counter, and all together below a wrap of the CPU's, which
    # is read before and after them: nothing is said of the tolerance.
    wraps = Fraction(npu_domain.modulus, 25_000_000 * ratio), Fraction(cpu_domain.modulus, 10**8)
    wrap = int(min(wraps) * 10**9)
    gap, job = st.integers(0, wrap // 4), st.integers(0, wrap // 16)
    margin = st.integers(0, wrap // 64)
    now, calls, jobs, rows = begin + 1000, [], [], []
    for idle, submit, lengths, over in draw(
        st.lists(st.tuples(gap, margin, st.lists(job, min_size=1, max_size=2), margin), max_size=6)
    ):
        now += idle
        called = now
        now += submit
        for length in lengths:
            jobs.append((now, now + length))
            rows.append((1, now, now + length))
            now += length
        now += over
        calls.append((called, now))
        rows.append((0, called, now))
    trace = Trace.unset(
        len(rows),
        names=["DELEGATE_CALL"],
        blocks=[Block("Execute", 0, len(rows))],
        clocks=[cpu_domain, npu_domain],
    )
    for row, (clock, start, end) in enumerate(rows):
        stamps = (cpu, npu)[clock]
        trace.clock[row] = clock
        trace.name[row] = NO_NAME if clock else 0
        trace.start[row] = stamps.reading(floor(stamps.ticks(start)))
        trace.end[row] = stamps.reading(floor(stamps.ticks(end)))
    delay = st.integers(0, 10**5)
    pings = []
    for _ in range(draw(st.integers(1, 3))):
        there, back = draw(delay), draw(delay)
        pings.append(cpu.ping(now, now + there, now + there + back, epoch=1))
        now += there + back
    return System(
        (cpu, npu), trace.sealed(), jobs, pings, cpu.ping(begin - 3000, begin, begin + 500, epoch=1)
    )


@given(systems())
@settings(max_examples=examples(200), deadline=None)
def test_bounds_cover_when_the_npu_worked(system: System) -> None:
    times = host_times(system.trace, system.pings, system.restart)
    npu = times.delegates.get(1)
    if not system.jobs:
        assert npu is None
        return
    assert npu is not None
    assert npu.outside == 0
    # Gaps below half a wrap are settled; one epoch, unless a single reading is all there is.
    assert len(npu.alignment.epochs) == 1
    on_cpu, on_host = npu.placement.instants(npu.alignment), times.instants(1)
    cpu = system.clocks[0]
    zero = floor(cpu.ticks(cpu.rates[0][0]))
    for number, job in enumerate(system.jobs):
        for which, true in enumerate(job):
            if on_cpu[which].known[number]:
                tick = cpu.ticks(true) - zero
                assert int(on_cpu[which].low[number]) <= tick <= int(on_cpu[which].high[number])
            if on_host[which].known[number]:
                low, high = on_host[which].low[number], on_host[which].high[number]
                assert int(low) <= true <= int(high)
    assert on_cpu[0].known.all() == (not npu.alignment.epochs[0].unbounded)


@given(systems())
@settings(max_examples=examples(60), deadline=None)
def test_qualities_count_what_they_say(system: System) -> None:
    qualities = quality_of_run(system.trace, system.pings, system.restart)
    found = {quality.clock: quality for quality in qualities}
    if not (system.trace.clock == 0).any():
        assert found == {}
        return
    assert set(found) == ({"cpu", "npu"} if system.jobs else {"cpu"})
    cpu = found["cpu"]
    assert cpu.reference == "host"
    assert cpu.placed == cpu.bounded == cpu.events
    assert cpu.readings == 1 + len(system.pings)
    assert (cpu.silent_wraps, cpu.unsettled, cpu.unknown) == (0, 0, "")
    if system.jobs:
        npu = found["npu"]
        assert npu.reference == "cpu"
        assert npu.events == npu.placed == npu.readings == len(system.jobs)
        if npu.half_width_ns is not None and cpu.half_width_ns is not None:
            assert npu.half_width_ns >= 0

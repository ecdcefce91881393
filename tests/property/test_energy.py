"""Energy of any executions with any losses: inside the bounds, or refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from harness import EXECUTION, ClockDomain, Trace
from harness.extensions.energy.event_energy import EdgeError, align_recording, event_energy
from harness.extensions.energy.recording import Recording
from tests.support.currents import decoded, true_run, with_losses, words_of
from tests.support.traces import EventSpec, RunSpec, trace_of

CLOCK = ClockDomain("cycles", Fraction(16_000_000), 32)
PER_US = 16


@st.composite
def executions(draw: st.DrawFn) -> Trace:
    """Up to six executions of up to four operators, with pauses between them."""
    operators = draw(st.lists(st.integers(20, 3000), min_size=1, max_size=4))
    alike = draw(st.booleans())
    at, runs = 1000, []
    for _ in range(draw(st.integers(1, 6))):
        start, events = at, []
        at += 8
        for number, us in enumerate(operators):
            us = us if alike else draw(st.integers(20, 3000))
            events.append(EventSpec(f"op{number}", at, at + us * PER_US, instruction=number))
            at += us * PER_US + 12
        events.append(EventSpec(EXECUTION, start, at, chain=-1, instruction=-1))
        runs.append(RunSpec(events))
        at += draw(st.integers(1, 3000)) * PER_US
    return trace_of(*runs, clock=CLOCK)


@given(executions(), st.integers(0, 2**32), st.integers(0, 3))
def test_the_truth_is_inside_the_bounds_or_nothing_is_said(
    trace: Trace, seed: int, gaps: int
) -> None:
    random = np.random.default_rng(seed)
    true = true_run(trace, random)
    recording: Recording = decoded(with_losses(words_of(true, random), random, gaps))
    try:
        energy = event_energy(align_recording(trace, recording))
    except EdgeError as error:
        event(f"refused: {error.args[0].rpartition('pin')[2]}")
        return
    joules, known = true.joules(), energy.known
    event("measured" if known.any() else "nothing certain")
    assert (joules[known] >= energy.low[known]).all()
    assert (joules[known] <= energy.high[known]).all()
    assert (energy.peak[known] >= energy.amperes[known] * (1 - 1e-9)).all()

"""Narrow counters: every duration that is not called ambiguous is the true one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    EXECUTION,
    OPERATOR_CALL,
    Block,
    ClockDomain,
    Trace,
    durations,
    operator_statistics,
)
from harness.analyze.ticks import ambiguous_durations, unwrap
from tests.support.examples import examples


@dataclass
class Timeline:
    """True scopes in the order in which they end, in ticks that never wrap."""

    rows: list[tuple[str, int, int, int, int]] = field(default_factory=list)  # name, chain, ...
    blocks: list[Block] = field(default_factory=list)

    def trace(self, clock: ClockDomain, phase: int) -> Trace:
        """The same as read from a counter."""
        names = list(dict.fromkeys(name for name, *_ in self.rows))
        trace = Trace.unset(len(self.rows), names=names, blocks=self.blocks, clocks=[clock])
        trace.clock[:] = 0
        for row, (name, chain, instruction, start, end) in enumerate(self.rows):
            trace.name[row] = names.index(name)
            trace.chain[row], trace.instruction[row] = chain, instruction
            sign = -1 if clock.down else 1
            trace.start[row] = sign * (start + phase) % clock.modulus
            trace.end[row] = sign * (end + phase) % clock.modulus
        return trace.sealed()

    @property
    def true(self) -> list[int]:
        """True durations."""
        return [end - start for *_, start, end in self.rows]


@st.composite
def timelines(draw: st.DrawFn, modulus: int, *, loose: bool, idle: bool) -> Timeline:
    """Executions of instructions whose events and gaps take less than a wrap.

    With ``loose`` also scopes of an application, around anything that happened before; with
    ``idle`` any time passes between executions.
    """
    # From one end to the next less than a wrap passes where scopes of an application are.
    longest = modulus // 2 - 4 if loose else modulus - 1
    lengths = st.one_of(st.integers(0, 20), st.integers(0, longest // 3), st.integers(0, longest))
    timeline, now = Timeline(), 0

    def passing() -> int:
        nonlocal now
        now += draw(lengths)
        return now

    wrappers = draw(st.booleans())
    instants = [0]
    for _ in range(draw(st.integers(1, 4))):
        first = len(timeline.rows)
        if idle and draw(st.booleans()):
            now += draw(st.integers(0, 3 * modulus))
        # Between two events less than a wrap passes: until the first instruction begins.
        ahead = draw(lengths)
        began = now + draw(st.integers(0, ahead))
        for instruction in range(draw(st.integers(1, 5))):
            now += draw(lengths) if instruction else ahead
            start = now
            instants.append(start)
            end = passing()
            timeline.rows.append(("op", 0, instruction, start, end))
            if wrappers:
                now += (within := draw(st.integers(0, 3)))
                timeline.rows.append((OPERATOR_CALL, 0, instruction, start, end + within))
            if loose and draw(st.booleans()):
                # One from before the first event, too, unless the log is shorter than a wrap: it is
                # taken as read then (docs/clocks.md).
                begun = timeline.rows[0][3] if first else began
                known = instants[1:] if now - begun < modulus else instants
                start = draw(st.sampled_from([*known, now]))
                timeline.rows.append(("app", -1, -1, start, max(now, start)))
        timeline.rows.append((EXECUTION, -1, -1, began, passing()))
        timeline.blocks.append(Block("Execute", first, len(timeline.rows) - first))
        instants.append(now)
    return timeline


WIDTHS = st.sampled_from([8, 12, 16, 24, 32])


@st.composite
def logs(draw: st.DrawFn, *, loose: bool = False, idle: bool = False) -> tuple[Timeline, Trace]:
    clock = ClockDomain("c", None, draw(WIDTHS), down=draw(st.booleans()), monotonic=True)
    timeline = draw(timelines(clock.modulus, loose=loose, idle=idle))
    return timeline, timeline.trace(clock, draw(st.integers(0, clock.modulus - 1)))


@given(logs())
@settings(max_examples=examples(400), deadline=None)
def test_executions_of_any_length_have_their_true_durations(case: tuple[Timeline, Trace]) -> None:
    timeline, trace = case
    assert durations(trace).tolist() == timeline.true
    assert not ambiguous_durations(trace).any()
    line = unwrap(trace)
    zero = min(start for *_, start, _ in timeline.rows)
    assert line.start.tolist() == [start - zero for *_, start, _ in timeline.rows]
    assert line.end.tolist() == [end - zero for *_, end in timeline.rows]


@given(logs(idle=True))
@settings(max_examples=examples(200), deadline=None)
def test_idle_time_between_executions_may_be_of_any_length(case: tuple[Timeline, Trace]) -> None:
    timeline, trace = case
    assert durations(trace).tolist() == timeline.true


@given(logs(loose=True))
@settings(max_examples=examples(400), deadline=None)
def test_what_is_not_ambiguous_is_true(case: tuple[Timeline, Trace]) -> None:
    timeline, trace = case
    found, unknown = durations(trace), ambiguous_durations(trace)
    wrong = (found != np.array(timeline.true, np.uint64)) & ~unknown
    assert not wrong.any(), [(row, timeline.rows[row], found[row]) for row in np.flatnonzero(wrong)]
    # Instructions have their true durations in any case.
    assert not unknown[trace.name == trace.names.index("op")].any()
    for name, share in shares(trace):
        assert share <= 1, name


def shares(trace: Trace) -> Iterator[tuple[str, float]]:
    for operator in operator_statistics(trace):
        if operator.share is not None and operator.name != "app":
            yield operator.name, operator.share

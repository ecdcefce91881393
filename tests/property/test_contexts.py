"""Own times exclude what other tasks and interrupts took, and with it add up to the wall time."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ClockDomain, Kind, Trace, read_log
from harness.analyze.call_tree import call_tree
from harness.strategies import DeviceLog, arbitrary_traces
from tests.support.examples import examples

CLOCK = ClockDomain("timer", Fraction(1_000_000), 32)
WORK = st.integers(1, 60)


@dataclass(frozen=True)
class Interrupt:
    """An interrupt, with interrupts of higher priority within it."""

    number: int
    inside: list[Interrupt]
    work: int


@dataclass(frozen=True)
class Preemption:
    """Other tasks that have the core, one after the other, and interrupts within them."""

    tasks: list[tuple[str, int, list[Interrupt]]]


@dataclass(frozen=True)
class Scope:
    """A scope of the program: what it does, in order; a number is work of its own."""

    steps: list[Scope | Interrupt | Preemption | int]


def interrupts(number: int = 1) -> st.SearchStrategy[Interrupt]:
    """Interrupts up to three deep, the inner ones with higher numbers."""
    inner = st.lists(interrupts(number + 1), max_size=2) if number < 3 else st.just([])
    return st.builds(Interrupt, st.just(number), inner, WORK)


TASKS = st.tuples(st.sampled_from(["logger", "radio"]), WORK, st.lists(interrupts(), max_size=1))
PREEMPTIONS = st.builds(Preemption, st.lists(TASKS, min_size=1, max_size=3))
SCOPES = st.recursive(
    st.builds(Scope, st.lists(st.one_of(WORK, interrupts(), PREEMPTIONS), max_size=4)),
    lambda inner: st.builds(
        Scope, st.lists(st.one_of(WORK, interrupts(), PREEMPTIONS, inner), max_size=5)
    ),
    max_leaves=8,
)


@dataclass
class Core:
    """Runs a program, logs it, and knows what took how long."""

    now: int
    operators: DeviceLog = field(default_factory=DeviceLog)
    switches: DeviceLog = field(default_factory=DeviceLog)
    own: list[int] = field(default_factory=list)
    wall: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    others: int = 0

    def switch(self, name: str | int, *, begins: bool) -> None:
        tick = self.now & 0xFFFFFFFF
        self.switches.switch(name, tick, begins=begins, interrupt=isinstance(name, int))

    def take(self, ticks: int) -> None:
        self.now += ticks
        self.others += ticks

    def interrupt(self, found: Interrupt) -> None:
        self.switch(found.number, begins=True)
        self.take(found.work)
        for inner in found.inside:
            self.interrupt(inner)
        self.take(1)
        self.switch(found.number, begins=False)

    def preempt(self, found: Preemption) -> None:
        self.switch("inference", begins=False)
        for name, work, inside in found.tasks:
            self.take(1)  # the scheduler
            self.switch(name, begins=True)
            self.take(work)
            for inner in inside:
                self.interrupt(inner)
            self.switch(name, begins=False)
        self.take(1)
        self.switch("inference", begins=True)

    def run(self, scope: Scope) -> None:
        start, others, own = self.now, self.others, 2
        self.now += 1  # nothing happens in the tick of a start or an end
        for step in scope.steps:
            match step:
                case Scope():
                    self.run(step)
                case Interrupt():
                    self.interrupt(step)
                case Preemption():
                    self.preempt(step)
                case _:
                    self.now += step
                    own += step
        self.now += 1
        number = len(self.own)
        self.operators.profile(f"scope {number}", start, self.now, chain=-1)
        self.own.append(own)
        self.wall.append(self.now - start)
        self.taken.append(self.others - others)

    def trace(self) -> Trace:
        self.switches.tracer = 1
        return read_log(self.operators.image() + self.switches.image(), [CLOCK])


@given(st.lists(SCOPES, min_size=1, max_size=4), st.sampled_from([0, 5_000, 2**32 - 150]))
@settings(max_examples=examples(200), deadline=None)
def test_own_times_and_what_others_took_add_up(scopes: list[Scope], origin: int) -> None:
    core = Core(origin)
    core.switch("inference", begins=True)
    core.operators.block("Execute")
    for scope in scopes:
        core.run(scope)
    trace = core.trace()
    tree = call_tree(trace)
    rows = np.flatnonzero(trace.kind == Kind.PROFILE)
    assert tree.own[rows].tolist() == core.own
    assert tree.taken[rows].tolist() == core.taken
    assert (tree.total + tree.taken)[rows].tolist() == core.wall
    roots = rows[tree.parent[rows] < 0]
    assert tree.own[rows].sum() + tree.taken[roots].sum() == sum(
        tree.end[roots] - tree.start[roots]
    )


@given(arbitrary_traces())
@settings(max_examples=examples(100), deadline=None)
def test_no_switches_make_a_time_longer_or_negative(trace: Trace) -> None:
    """Whatever is logged: ends without begins, in any order and on any timeline."""
    tree = call_tree(trace)
    assert (tree.own <= tree.total).all()
    without = np.isin(trace.kind, (Kind.TASK, Kind.INTERRUPT)).any()
    assert without or not tree.taken.any()


def preempted(*, chosen: tuple[str, ...] = ("task", "interrupt")) -> Trace:
    """Two kernels; another task has the core in the second one for 2 ms, an interrupt 0.1 ms."""
    log = DeviceLog().block("Execute").profile("native_call_a.out", 1_000, 2_000, instruction=0)
    log.profile("native_call_b.out", 2_000, 7_080, instruction=1)
    log.profile("Method::execute", 900, 7_100, chain=-1)
    other = DeviceLog()
    other.tracer = 1
    if "interrupt" in chosen:
        other.switch(15, 1_500, begins=True, interrupt=True)
        other.switch(15, 1_600, begins=False, interrupt=True)
    if "task" in chosen:
        other.switch("inference", 3_000, begins=False).switch("logger", 3_010, begins=True)
        other.switch("logger", 4_990, begins=False).switch("inference", 5_000, begins=True)
    return read_log(log.image() + other.image(), [CLOCK])


@pytest.mark.parametrize(
    ("chosen", "ticks"),
    [
        ((), (1_000, 5_080, 6_200)),
        (("interrupt",), (900, 5_080, 6_100)),
        (("task",), (1_000, 3_080, 4_200)),
        (("task", "interrupt"), (900, 3_080, 4_100)),
    ],
)
def test_a_preempted_operator_has_its_own_time(
    chosen: tuple[str, ...], ticks: tuple[int, ...]
) -> None:
    tree = call_tree(preempted(chosen=chosen))
    assert tuple(tree.total[:3].tolist()) == ticks

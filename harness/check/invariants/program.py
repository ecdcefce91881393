"""Checks that executions run the instructions of the program, in an order it allows (I14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from harness.analyze.blocks import runs
from harness.check.invariants.scopes import order_known
from harness.check.subject import Subject
from harness.records.instruction import InstructionRecord
from harness.records.operator_names import KERNEL_EVENT
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    OPERATOR_CALL,
    STREAMING,
    Kind,
    Trace,
)
from harness.records.verdict import Check, check

Place = tuple[int, int]
"""Chain and instruction id."""

SCOPES: Final = {
    OPERATOR_CALL: "kernel",
    DELEGATE_CALL: "delegate",
    "MOVE_CALL": "move",
    "JF_CALL": "jump_false",
    "FREE_CALL": "free",
}
"""Kinds of instructions by ExecuTorch's names of the scopes around them."""

_END: Final = (-1, -1)
"""The place behind the last instruction."""


def program_checks(subject: Subject) -> Iterator[Check]:
    """Follow every execution through the program.

    Yields nothing if the program is unknown, if events are missing or filtered, or if the runtime
    logs no scopes of instructions (method level, or other event names).
    """
    trace = subject.trace
    if subject.chains is None or not order_known(trace.losses) or trace.filtered_events:
        return
    program = _Program.of(subject.chains, trace)
    if program is None:
        return
    executions = list(_executions(subject))
    defects: list[str] = []
    for events in executions:
        defect = program.follow(events) or ""
        defects += [f"block {events[0].block}: {defect}"] * bool(defect)
    defects += _missing_kernels(program)
    reason = f"{len(executions):,} different executions run the instructions of the program"
    if defects:
        more = f" and {len(defects) - 1:,} more" if len(defects) > 1 else ""
        reason = f"{defects[0]}{more}"
    yield check(
        "I14",
        rule="executions run the program's instructions",
        subject="instructions",
        measured=float(len(defects)),
        limit=0.0,
        unit="defects",
        passed=not defects,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """A profile event of a block: its name, its instruction, and whether a delegate logged it."""

    block: int
    name: str
    place: Place
    delegated: bool


def _executions(subject: Subject) -> Iterator[list[_Event]]:
    """Yield the events of blocks with instructions or an execution, once for equal sequences.

    The last execution of a tracer is skipped if not all requested ones completed: it may have been
    interrupted.
    """
    trace = subject.trace
    named = runs(trace, without=STREAMING)
    interrupted: set[int] = set()
    if (subject.runs_completed or 0) < (subject.runs_requested or 0):
        last = {run.tracer: run.order for run in named if run.events}
        interrupted = set(last.values())
    seen: set[int] = set()
    for run in named:
        if run.signature in seen or run.order in interrupted:
            continue
        seen.add(run.signature)
        events = list(_events_of(trace, run.order))
        if any(event.place[0] != -1 or event.name == EXECUTION for event in events):
            yield events


def _events_of(trace: Trace, order: int) -> Iterator[_Event]:
    block = trace.blocks[order]
    delegated = trace.delegated
    for row in range(block.first, block.first + block.count):
        if trace.kind[row] == Kind.PROFILE:
            name = trace.text(int(trace.name[row])) or ""
            place = int(trace.chain[row]), int(trace.instruction[row])
            yield _Event(order, name, place, bool(delegated[row]))


@dataclass(frozen=True)
class _Program:
    """The instructions of a method, and which kinds of them the trace has scopes of.

    Attributes:
        chains: Instructions per chain.
        logged: Kinds of instructions with scopes.
        kernels: For families of kernels that log events alike: instructions seen with the kernel's
            own event, and without it.
    """

    chains: tuple[tuple[InstructionRecord, ...], ...]
    logged: frozenset[str]
    kernels: dict[str, tuple[set[Place], set[Place]]] = field(default_factory=dict)

    @classmethod
    def of(cls, chains: tuple[tuple[InstructionRecord, ...], ...], trace: Trace) -> _Program | None:
        """Return the program; None if the trace has no scopes of its instructions."""
        rows = (trace.kind == Kind.PROFILE) & (trace.chain != -1) & ~trace.delegated
        names = {trace.text(name) for name in np.unique(trace.name[rows]).tolist()}
        logged = frozenset(kind for name, kind in SCOPES.items() if name in names)
        # Whoever has scopes of kernels has them of delegates. Other instructions may run unseen.
        calls = {"kernel", "delegate"}
        return cls(chains, logged | calls) if logged & calls else None

    def instruction(self, place: Place) -> InstructionRecord | None:
        chain, index = place
        if not 0 <= chain < len(self.chains) or not 0 <= index < len(self.chains[chain]):
            return None
        return self.chains[chain][index]

    @cached_property
    def first(self) -> frozenset[Place]:
        """The instructions with which an execution may begin."""
        return self._logged_from([(0, 0)])

    def after(self, place: Place) -> frozenset[Place]:
        """Return the instructions that may follow one."""
        return self._logged_from(self._successors(place))

    def _successors(self, place: Place) -> Iterator[Place]:
        chain, index = place
        yield chain, index + 1
        step = self.chains[chain][index]
        if step.call == "jump_false":
            yield chain, step.target

    def _logged_from(self, places: Iterable[Place]) -> frozenset[Place]:
        """Return the first instructions with scopes on all ways from ``places``."""
        found, seen, waiting = set(), set(), list(places)
        while waiting:
            chain, index = place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if chain >= len(self.chains):
                found.add(_END)
            elif index >= len(self.chains[chain]):
                waiting.append((chain + 1, 0))
            elif self.chains[chain][index].call in self.logged:
                found.add(place)
            else:
                waiting += self._successors(place)
        return frozenset(found)

    def follow(self, events: Sequence[_Event]) -> str | None:
        """Return how the events of a block differ from an execution; None if they do not."""
        ends = [number for number, event in enumerate(events) if event.name == EXECUTION]
        if len(ends) != 1:
            return f"{len(ends)} {EXECUTION} events with instructions in one block"
        behind = next((e for e in events[ends[0] + 1 :] if e.place[0] != -1), None)
        if behind is not None:
            return f"{_text(behind)} is logged after {EXECUTION}"
        within = [event for event in events if event.place[0] != -1]
        return next(filter(None, map(self._foreign, within)), None) or self._walk(within)

    def _foreign(self, event: _Event) -> str | None:
        """Return why an event cannot be of its instruction; None if it can."""
        step = self.instruction(event.place)
        if step is None:
            return f"{_text(event)} is not in the program"
        if event.delegated and step.call != "delegate":
            return f"a delegate's event is of instruction {_place(event.place)}, {_named(step)}"
        if not event.delegated and SCOPES.get(event.name, step.call) != step.call:
            return f"{_text(event)} is {_named(step)} in the program"
        return None

    def _walk(self, events: Sequence[_Event]) -> str | None:
        """Follow the scopes of instructions through the program."""
        allowed, begun = self.first, 0
        for number, event in enumerate(events):
            if event.delegated or event.name not in SCOPES:
                continue
            if event.place not in allowed:
                return f"{_text(event)} runs where {self._expected(allowed)} should"
            if defect := self._inner(events[begun:number], event):
                return defect
            allowed, begun = self.after(event.place), number + 1
        if _END not in allowed:
            return f"the execution ends where {self._expected(allowed)} should run"
        left = next((event for event in events[begun:] if not event.delegated), None)
        return f"{_text(left)} has no scope of its instruction" if left else None

    def _inner(self, events: Sequence[_Event], scope: _Event) -> str | None:
        """Return what is wrong with the events before the end of an instruction's scope."""
        step = self.instruction(scope.place)
        own = [event for event in events if not event.delegated]
        if other := next((event for event in own if event.place != scope.place), None):
            return f"{_text(other)} is logged within {_text(scope)}"
        if step is None or step.call != "kernel":
            return None
        kernels = [event for event in own if event.name.startswith(KERNEL_EVENT)]
        wanted = KERNEL_EVENT + step.name.rpartition("::")[2]
        if wrong := next((event for event in kernels if event.name != wanted), None):
            return f"{_text(wrong)} is {_named(step)} in the program"
        if len(kernels) > 1:
            return f"{_text(kernels[1])} runs {len(kernels)} times"
        with_event, without = self.kernels.setdefault(_family(step), (set(), set()))
        (with_event if kernels else without).add(scope.place)
        return None

    def _expected(self, places: frozenset[Place]) -> str:
        texts = []
        for place in sorted(places):
            step = self.instruction(place)
            texts.append(f"instruction {_place(place)}, {_named(step)}," if step else "its end")
        return " or ".join(texts)


def _missing_kernels(program: _Program) -> Iterator[str]:
    """Yield instructions without the event of their kernel, if kernels of their kind log one."""
    for with_event, without in program.kernels.values():
        for place in sorted(without) if with_event else ():
            step = program.instruction(place)
            assert step is not None
            yield f"instruction {_place(place)}, {_named(step)}, lacks the event of its kernel"


def _family(step: InstructionRecord) -> str:
    """Return a name for the kernels that log their own event if this one does.

    Kernels that ExecuTorch generates for ATen's out variants do. Others are registered by hand.
    """
    generated = step.name.startswith("aten::") and step.name.endswith("out")
    return "aten::out" if generated else step.name


def _text(event: _Event) -> str:
    return f"{event.name or '(no name)'} of instruction {_place(event.place)}"


def _place(place: Place) -> str:
    chain, index = place
    return f"{index} of chain {chain}" if chain else str(index)


def _named(step: InstructionRecord) -> str:
    return f"{step.name or step.call}"

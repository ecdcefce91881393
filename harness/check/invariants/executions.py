"""Checks that executions log the same events (I10), completed (I12), were measured (I13), are all
in the log (I15), return the right outputs (I11) and run the program's instructions (I14).

Checks memory: allocations fit, do not overlap and are freed (I06 to I09), allocators have their
planned size and do not grow (I16, I17), and stacks do not overflow (I18).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import (
    SCOPES,
    BlockRun,
    block_numbers,
    contradiction,
    equal_rows,
    executions,
    runs,
)
from harness.analyze.memory import AllocatorMemory
from harness.check.invariants.events import order_known
from harness.check.subject import ModelOutput, Subject
from harness.decode.program import Call, Instruction, Method
from harness.formatting import KERNEL_EVENT, counted, stack_use
from harness.records.trace import EXECUTION, STREAMING, Kind, Trace
from harness.records.verdict import Check, check, none_of


def sameness_checks(subject: Subject) -> Iterator[Check]:
    """Compare the event sequences of executions with the same block name and tracer.

    The cold execution is skipped. Without a run result it is unknown whether the trace covers one
    method or several, so a difference is only a note.
    """
    if not order_known(subject.trace.losses):
        return
    alike: dict[tuple[int, str], list[BlockRun]] = defaultdict(list)
    for run in runs(subject.trace, without=STREAMING):
        if run.executes and not run.cold:
            alike[run.tracer, run.name].append(run)
    # What is logged of values in each block: their instructions and types, as bytes. Nothing if
    # values were dropped: the log then does not say which.
    trace = subject.trace
    values = [b""] * len(trace.blocks)
    debug = np.flatnonzero(trace.kind == Kind.DEBUG)
    if len(debug) and not trace.losses.values:
        types = np.array([value.type for value in trace.debug_values] + [-1])[trace.debug[debug]]
        codes = equal_rows([trace.chain[debug], trace.instruction[debug], types])
        bounds = np.searchsorted(debug, [block.first for block in trace.blocks] + [len(trace)])
        values = [codes[first:behind].tobytes() for first, behind in pairwise(bounds.tolist())]
    for (tracer, name), group in alike.items():
        if len(group) < 2:
            continue
        logged = [(run.signature, values[run.order]) for run in group]
        counts = Counter(logged)
        (usual, often), *others = counts.most_common()
        pairs = list(zip(group, logged, strict=True))
        different = next((run for run, events in pairs if events != usual), None)
        reason = f"{len(group):,} warm executions logged the same events"
        if different is not None:
            like = next(run for run, events in pairs if events == usual)
            reason = (
                f"{len(group) - often:,} of {len(group):,} warm executions differ from the others, "
                f"in {counted(len(others), 'way')}; the first is block {different.order} with "
                f"{counted(different.events, 'event')}, block {like.order} has {like.events:,}"
            )
        yield check(
            "I10",
            severity="note" if subject.runs_requested is None else None,
            rule="all executions log the same events in the same order",
            subject=(name or "(no name)") + (f" of tracer {tracer}" if tracer else ""),
            measured=float(len(counts)),
            limit=1.0,
            unit="sequences",
            passed=different is None,
            reason=reason,
        )


def completion_checks(subject: Subject) -> Iterator[Check]:
    """Check that executions completed (I12), and that the log has all of them (I13, I15).

    A trace without an execution fails, where all other checks would pass vacuously. Blocks that the
    device dropped for newer ones count as executions if all others are. The log may have more than
    the completed executions if fewer completed than were requested: the host did not hear of the
    end of all. Yields no I15 if other events are missing, or if a filter left out the events of
    executions.
    """
    trace, requested, completed = subject.trace, subject.runs_requested, subject.runs_completed
    if not executions(trace)[0].any():
        count = len(trace)
        content = f"{counted(count, 'event')}, but no execution" if count else "no events"
        yield _unmeasured("trace", f"nothing was measured: the trace has {content}")
    if completed is None:
        return
    if requested is not None:
        # 0 of 0 fails: a board may not have executed anything when its log was pulled. A board
        # that executes on its own may have executed more often than asked.
        too_many = subject.served and completed > requested
        yield check(
            "I12",
            subject="executions",
            measured=float(completed),
            unit="executions",
            passed=completed >= max(requested, 1) and not too_many,
            reason=f"{completed} of {requested} executions completed",
        )
    if (accuracy := subject.accuracy) is not None:
        yield check(
            "I12",
            subject="samples",
            measured=float(accuracy.ran),
            unit="samples",
            passed=accuracy.ran == accuracy.samples,
            reason=f"{accuracy.ran} of {accuracy.samples} samples ran",
        )
    if not order_known(trace.losses) or not len(trace):
        return
    if trace.filtered_events and not trace.named(EXECUTION).any():
        return
    # Several cores may log the same executions, or one of them all.
    tracers = Counter(run.tracer for run in subject.runs if run.executes)
    logged = max(tracers.values(), default=0)
    dropped = trace.losses.runs
    unheard = completed < (requested or 0)
    # A device whose blocks behind the first are all executions drops no others.
    alike = all(run.executes for run in subject.runs if run.order and run.events)
    least = logged + dropped if alike else logged
    passed = completed <= logged + dropped and (unheard or least <= completed)
    also = f" and {dropped:,} dropped blocks" if dropped else ""
    yield check(
        "I15",
        subject="executions",
        measured=float(logged),
        unit="executions",
        passed=passed,
        reason=f"the log has {logged:,}{also} of {completed:,} completed executions",
    )


def nothing_checked() -> Check:
    """Return the failed check for a budget that turns all other checks off."""
    return _unmeasured("checks", "nothing was checked: the budget turns every check off")


def _unmeasured(subject: str, reason: str) -> Check:
    return check("I13", subject=subject, measured=0.0, passed=False, reason=reason)


TOLERANCES: Final = {2: 1e-2, 4: 1e-4, 8: 1e-9}
"""Tolerance for floating-point elements, relative plus absolute, by size of the type in bytes.

Kernels sum in another order than the reference. For float32, 1,000 products give up to 1,000
roundings of 6e-8. Half-precision types are mostly summed in a wider type and rounded once, so 20
roundings of 5e-4. For float64 the differences between math libraries dominate."""


def output_checks(subject: Subject) -> Iterator[Check]:
    """Compare every output that has a reference with it."""
    for output in subject.outputs:
        differing, reason = compare_output(output)
        yield check(
            "I11",
            subject=output.name,
            measured=None if differing is None else float(differing),
            limit=0.0,
            unit="elements",
            passed=differing == 0,
            reason=reason + output.note,
        )


def compare_output(output: ModelOutput) -> tuple[int | None, str]:
    """Return how many elements differ, None if not comparable, and the reason of the check."""
    value, reference = output.value, output.reference
    if value.dtype != reference.dtype or value.shape != reference.shape:
        return None, f"the output is {_kind(value)}, the reference is {_kind(reference)}"
    if not value.size:
        return 0, "both are empty"
    rtol, atol = _tolerances(output)
    off = _differences(value, reference)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = atol + rtol * np.abs(reference.astype(np.float64))
    allowed = np.where(np.isfinite(allowed), allowed, 0.0)
    differs = off > allowed
    count = int(np.count_nonzero(differs))
    within = f"rtol {rtol:g}, atol {atol:g}" if rtol or atol else "exactly"
    if not count:
        return 0, f"all {value.size:,} elements match ({within}); largest error {off.max():.3g}"
    first = int(np.argmax(differs.ravel()))
    worst = int(np.argmax(np.where(differs, off, -1.0).ravel()))
    return count, (
        f"{count:,} of {counted(value.size, 'element', 'differs')} ({within}): first "
        f"{_element(output, first)}; worst {_element(output, worst)}, "
        f"error {off.ravel()[worst]:.6g}, allowed {allowed.ravel()[worst]:.3g}"
    )


def _tolerances(output: ModelOutput) -> tuple[float, float]:
    """Return relative and absolute tolerance: as given, or the default for the type."""
    dtype = output.value.dtype
    usual = TOLERANCES.get(dtype.itemsize, 0.0) if dtype.kind == "f" else 0.0
    relative, absolute = (usual if given is None else given for given in output.tolerance)
    return relative, absolute


def _differences(value: npt.NDArray[Any], reference: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return absolute differences; NaN equals NaN and is infinitely far from any number."""
    if value.dtype.kind == "f":
        same = (value == reference) | (np.isnan(value) & np.isnan(reference))
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(value.astype(np.float64) - reference.astype(np.float64))
        return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
    larger, smaller = np.maximum(value, reference), np.minimum(value, reference)
    # Modular arithmetic is exact for integers of any width and sign. NumPy converts arrays without
    # dimensions to scalars, and warns when those overflow.
    with np.errstate(over="ignore"):
        apart = larger.astype(np.uint64) - smaller.astype(np.uint64)
    return np.asarray(apart.astype(np.float64))


def _element(output: ModelOutput, place: int) -> str:
    index = [int(number) for number in np.unravel_index(place, output.value.shape)]
    value, reference = output.value.ravel()[place], output.reference.ravel()[place]
    return f"{index}: {value!s}, expected {reference!s}"


def _kind(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"


Place = tuple[int, int]
"""Chain and instruction id."""

_END: Final = (-1, -1)
"""The place behind the last instruction."""


def program_checks(subject: Subject) -> Iterator[Check]:
    """Follow every execution through the program.

    Yields nothing if the program is unknown, if events are missing, or if no event names an
    instruction. If events are filtered, or the runtime logs no scopes of instructions, executions
    are not followed, but no event may name what the program does not have.
    """
    trace = subject.trace
    if subject.chains is None or not order_known(trace.losses) or (trace.chain < 0).all():
        return
    chains = tuple(
        tuple(Instruction(Call[step.call.upper()], step.name, (), step.target) for step in chain)
        for chain in subject.chains
    )
    method = Method(subject.method or "forward", (), (), (), chains, (), ())
    defects = [text for text in [contradiction(trace, method)] if text]
    program = None if trace.filtered_events or defects else _Program.of(method, trace)
    reason = "no event contradicts the program"
    if program is not None:
        executions = list(_executions(subject))
        for events in executions:
            defect = program.follow(events) or ""
            defects += [f"block {events[0].block}: {defect}"] * bool(defect)
        for with_event, without in program.kernels.values():
            # Kernels of this kind log an event of their own, if any of them does.
            for place in sorted(without) if with_event else ():
                step = chains[place[0]][place[1]]
                defects.append(
                    f"instruction {_place(place)}, {_named(step)}, lacks the event of its kernel"
                )
        reason = f"{len(executions):,} different executions run the instructions of the program"
    if defects:
        more = f" and {len(defects) - 1:,} more" if len(defects) > 1 else ""
        reason = f"{defects[0]}{more}"
    yield none_of("I14", "instructions", len(defects), reason, "defects")


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
    trace, delegated = subject.trace, subject.trace.delegated
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
        block = trace.blocks[run.order]
        events = [
            _Event(
                run.order,
                trace.text(int(trace.name[row])) or "",
                (int(trace.chain[row]), int(trace.instruction[row])),
                bool(delegated[row]),
            )
            for row in range(block.first, block.first + block.count)
            if trace.kind[row] == Kind.PROFILE
        ]
        if any(event.place[0] != -1 or event.name == EXECUTION for event in events):
            yield events


@dataclass(frozen=True)
class _Program:
    """The instructions of a method, and which kinds of them the trace has scopes of.

    Attributes:
        method: The method.
        logged: Kinds of instructions with scopes.
        kernels: For families of kernels that log events alike: instructions seen with the kernel's
            own event, and without it.
    """

    method: Method
    logged: frozenset[Call]
    kernels: dict[str, tuple[set[Place], set[Place]]] = field(default_factory=dict)

    @classmethod
    def of(cls, method: Method, trace: Trace) -> _Program | None:
        """Return the program; None if the trace has no scopes of its instructions."""
        rows = (trace.kind == Kind.PROFILE) & (trace.chain != -1) & ~trace.delegated
        names = {trace.text(name) for name in np.unique(trace.name[rows]).tolist()}
        logged = frozenset(SCOPES[name] for name in names if name in SCOPES)
        # Whoever has scopes of kernels has them of delegates. Other instructions may run unseen.
        calls = {Call.KERNEL, Call.DELEGATE}
        return cls(method, logged | calls) if logged & calls else None

    def _successors(self, place: Place) -> Iterator[Place]:
        chain, index = place
        yield chain, index + 1
        step = self.method.chains[chain][index]
        if step.call is Call.JUMP_FALSE:
            yield chain, step.target

    def _logged_from(self, places: Iterable[Place]) -> frozenset[Place]:
        """Return the first instructions with scopes on all ways from ``places``."""
        found, seen, waiting = set(), set(), list(places)
        while waiting:
            chain, index = place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            chains = self.method.chains
            if chain >= len(chains):
                found.add(_END)
            elif index >= len(chains[chain]):
                waiting.append((chain + 1, 0))
            elif chains[chain][index].call in self.logged:
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
        # The scopes of instructions must be those on a way through the program.
        allowed, begun = self._logged_from([(0, 0)]), 0
        for number, event in enumerate(within):
            if event.delegated or event.name not in SCOPES:
                continue
            if event.place not in allowed:
                return f"{_text(event)} runs where {self._expected(allowed)} should"
            if defect := self._inner(within[begun:number], event):
                return defect
            allowed, begun = self._logged_from(self._successors(event.place)), number + 1
        if _END not in allowed:
            return f"the execution ends where {self._expected(allowed)} should run"
        left = next((event for event in within[begun:] if not event.delegated), None)
        return f"{_text(left)} has no scope of its instruction" if left else None

    def _inner(self, events: Sequence[_Event], scope: _Event) -> str | None:
        """Return what is wrong with the events before the end of an instruction's scope."""
        step = self.method.instruction(*scope.place)
        own = [event for event in events if not event.delegated]
        if other := next((event for event in own if event.place != scope.place), None):
            return f"{_text(other)} is logged within {_text(scope)}"
        if step is None or step.call is not Call.KERNEL:
            return None
        kernels = [event for event in own if event.name.startswith(KERNEL_EVENT)]
        if len(kernels) > 1:
            return f"{_text(kernels[1])} runs {len(kernels)} times"
        # Kernels that ExecuTorch generates for ATen's out variants log an event of their own, or
        # none of them does. Others are registered by hand.
        generated = step.name.startswith("aten::") and step.name.endswith("out")
        family = "aten::out" if generated else step.name
        with_event, without = self.kernels.setdefault(family, (set(), set()))
        (with_event if kernels else without).add(scope.place)
        return None

    def _expected(self, places: frozenset[Place]) -> str:
        texts = []
        for place in sorted(places):
            step = self.method.instruction(*place)
            texts.append(f"instruction {_place(place)}, {_named(step)}," if step else "its end")
        return " or ".join(texts)


def _text(event: _Event) -> str:
    return f"{event.name or '(no name)'} of instruction {_place(event.place)}"


def _place(place: Place) -> str:
    chain, index = place
    return f"{index} of chain {chain}" if chain else str(index)


def _named(step: Instruction) -> str:
    return step.name or step.call.name.lower()


TEMPORARY: Final = "temporary"
"""The allocator whose memory lasts for one execution. All other allocators hold their memory as
long as the method is loaded."""

KEPT: Final = re.compile(r"method|unplanned|float32_copies|planned_\d+")
"""Allocators that hold the method and its tensors from loading on."""


def memory_checks(subject: Subject) -> Iterator[Check]:
    """Check every allocator with logged allocations.

    An allocator name that several tracers log is skipped: each core or task may have its own
    allocator of this name, and the log does not tell them apart.
    """
    tracer = subject.trace.tracer
    used = [item for item in subject.memory.allocators if len(item.rows)]
    followed = [item for item in used if (tracer[item.rows] == tracer[item.rows[0]]).all()]
    yield from _capacities(subject, followed, every=bool(used) and len(followed) == len(used))
    for item in followed:
        what = "allocations overlap a live allocation"
        yield _rows("I07", subject.trace, item, item.overlapping, what)
    if not order_known(subject.trace.losses):
        return
    logged = {item.allocator.label for item in used}
    for name, planned in subject.planned.items():
        if planned and logged and name not in logged and not subject.trace.filtered_events:
            yield _compare_planned(name, planned, 0)
    for item in followed:
        what = "frees match no live allocation"
        yield _rows("I08", subject.trace, item, item.unmatched, what)
        if item.allocator.label == TEMPORARY and _is_freed(subject.trace, item):
            yield _all_freed(subject, item)
        if item.allocator.label in subject.planned:
            yield _compare_planned(_name(item), item.planned or 0, item.at_end)
        if KEPT.fullmatch(item.allocator.label) and subject.planned:
            yield from _no_growth(subject, item)


def _capacities(
    subject: Subject, followed: Sequence[AllocatorMemory], *, every: bool
) -> Iterator[Check]:
    """Compare the highest allocated address of allocators with their capacity.

    Without logged offsets the peak is used, a lower bound of the needed memory. If ``every``
    allocator is among them, their common peak is compared with the arena.
    """
    arena = subject.arena_capacity
    needs: list[tuple[str, int, int | None, str]] = [
        (
            _name(item),
            item.peak if item.reach is None else item.reach,
            arena if item.planned is None else item.planned,
            "of the arena" if item.planned is None else "planned",
        )
        for item in followed
    ]
    if every:
        needs.append(("all allocators together", subject.memory.peak, arena, "of the arena"))
    for name, needed, capacity, source in needs:
        if capacity is None:
            continue
        passed = needed <= capacity
        relation = "fit in" if passed else "exceed"
        yield check(
            "I06",
            subject=name,
            measured=float(needed),
            limit=float(capacity),
            unit="bytes",
            passed=passed,
            reason=f"{needed:,} bytes {relation} the {capacity:,} bytes {source}",
        )


def _rows(
    code: str, trace: Trace, item: AllocatorMemory, rows: tuple[int, ...], what: str
) -> Check:
    reason = f"0 {what}"
    if rows:
        size = abs(int(trace.size[rows[0]]))
        offset = int(trace.offset[rows[0]])
        place = f" at offset {offset:,}" if offset >= 0 else ""
        block = int(block_numbers(trace)[rows[0]])
        reason = f"{what}: {len(rows):,}, first {size:,} bytes{place} in block {block}"
    return none_of(code, _name(item), len(rows), reason)


def _all_freed(subject: Subject, item: AllocatorMemory) -> Check:
    """Check that 0 bytes are live after the allocator's last event in every block."""
    blocks = block_numbers(subject.trace)[item.rows]
    last = np.flatnonzero(np.diff(blocks, append=-1) != 0)
    kept = last[item.live[last] != 0]
    reason = f"0 bytes are live at the end of {len(last):,} blocks"
    if len(kept):
        first = int(kept[0])
        reason = (
            f"{int(item.live[first]):,} bytes are still live at the end of block "
            f"{int(blocks[first])}; {len(kept):,} of {len(last):,} blocks leave memory allocated"
        )
    return none_of("I09", _name(item), int(abs(item.live[last]).max()), reason, "bytes")


def _is_freed(trace: Trace, item: AllocatorMemory) -> bool:
    """Return whether the tracer logs frees: it did, or it logs offsets, which ETDump does not."""
    return bool((trace.size[item.rows] < 0).any() or (trace.offset[item.rows] >= 0).all())


def _compare_planned(name: str, planned: int, taken: int) -> Check:
    """Compare the allocated bytes of an allocator with its plan."""
    relation = "as planned" if taken == planned else f"but {planned:,} bytes are planned"
    return check(
        "I16",
        subject=name,
        measured=float(taken),
        limit=float(planned),
        unit="bytes",
        passed=taken == planned,
        reason=f"{taken:,} bytes are allocated, {relation}",
    )


def _no_growth(subject: Subject, item: AllocatorMemory) -> Iterator[Check]:
    """Check that as many bytes are live after each execution as before it.

    The cold execution is skipped: it may allocate what all executions need.
    """
    warm = [run.order for run in subject.runs if run.executes and not run.cold]
    if not warm:
        return
    change = np.zeros(len(subject.trace.blocks), np.int64)
    np.add.at(change, block_numbers(subject.trace)[item.rows], np.diff(item.live, prepend=0))
    grown = [order for order in warm if change[order]]
    reason = f"its size is the same after {len(warm):,} warm executions"
    if grown:
        reason = (
            f"its memory changes by {int(change[grown[0]]):,} bytes in block {grown[0]}; "
            f"{len(grown):,} of {len(warm):,} warm executions change it"
        )
    yield none_of("I17", _name(item), int(np.abs(change[grown]).sum()), reason, "bytes")


def stack_checks(subject: Subject) -> Iterator[Check]:
    """Check that no stack was used up to its end, or beyond it."""
    for stack in subject.trace.stacks:
        if not stack.used or not stack.size:
            continue
        yield check(
            "I18",
            subject=f"stack of tracer {stack.tracer}",
            measured=float(stack.used),
            limit=float(stack.size),
            unit="bytes",
            passed=not stack.overflowed,
            reason=stack_use(stack.used, stack.size),
        )


def _name(item: AllocatorMemory) -> str:
    return item.allocator.label or "(no name)"

"""The section of reports on tasks, interrupts, marks, and counters that the application samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from harness.analyze.contexts import UNKNOWN, Contexts, contexts, elapsed
from harness.analyze.statistics import Summary
from harness.analyze.ticks import nanoseconds_per_tick
from harness.formatting import TICKS, printable, time_unit
from harness.records.trace import EXECUTION, Kind, Trace
from harness.report.words import ReportTable, number

if TYPE_CHECKING:
    from harness.check.subject import Subject


class ContextUse(msgspec.Struct, frozen=True):
    """A task or an interrupt.

    Attributes:
        name: Its name.
        kind: ``task`` or ``interrupt``.
        begins: How often it began.
        total: Time that it had the core, in ``unit`` of the document.
        taken: Time of this that it took from executions of other contexts, likewise.
    """

    name: str
    kind: str
    begins: int
    total: float
    taken: float


class InstantsDocument(msgspec.Struct, frozen=True):
    """What a log says beside its events.

    Attributes:
        unit: Unit of times: ``ns`` or ``ticks``.
        contexts: Tasks and interrupts, the one that took most of executions first.
        marks: How often each mark was logged, by its name.
        counters: Statistics of the samples of each counter, by its name; of those that are numbers.
    """

    unit: str
    contexts: tuple[ContextUse, ...]
    marks: dict[str, int]
    counters: dict[str, Summary]


def measure(_found: Any, subject: Subject | None) -> InstantsDocument:
    """Return what the trace of a run has."""
    trace = subject.trace if subject is not None else Trace.unset(0)
    tick = nanoseconds_per_tick(trace.clocks[0]) if trace.clocks else None
    marks = Counter(_text(trace, name) for name in trace.name[trace.kind == Kind.MARK].tolist())
    names = dict.fromkeys(trace.name[trace.kind == Kind.SAMPLE].tolist())
    samples = {_text(trace, name): _samples(trace, name) for name in names}
    counters = {name: _summary(found) for name, found in samples.items() if len(found)}
    found = _contexts(trace, contexts(trace), float(tick or 1))
    unit = "ticks" if tick is None else "ns"
    return InstantsDocument(unit, tuple(found), dict(marks), counters)


def tables(document: InstantsDocument) -> list[ReportTable]:
    """Return the tables of reports."""
    found = []
    if rows := document.contexts:
        unit = TICKS if document.unit == "ticks" else time_unit([row.total for row in rows])
        headers = ["context", "kind", "begins", f"total [{unit.name}]"]
        headers.append(f"taken from executions [{unit.name}]")
        cells = [
            (row.name, row.kind, f"{row.begins:,}", unit.text(row.total), unit.text(row.taken))
            for row in rows
        ]
        found.append(ReportTable("Tasks and interrupts", headers, cells, range(2, 5)))
    if document.marks:
        marks = [(name, f"{count:,}") for name, count in document.marks.items()]
        found.append(ReportTable("Marks", ["mark", "count"], marks, (1,)))
    if document.counters:
        headers = ["counter", "samples", "min", "p50", "avg", "max"]
        values = [
            (name, f"{one.count:,}", *map(number, (one.min, one.p50, one.avg, one.max)))
            for name, one in document.counters.items()
        ]
        found.append(ReportTable("Counters", headers, values, range(1, 6)))
    return found


def _text(trace: Trace, name: int) -> str:
    return printable(trace.text(name) or "unnamed")


def _logged(trace: Trace, kind: Kind, name: int) -> np.ndarray:
    return np.asarray((trace.kind == kind) & (trace.name == name))


def _samples(trace: Trace, name: int) -> np.ndarray:
    levels = trace.level[_logged(trace, Kind.SAMPLE, name)]
    return np.asarray(levels[~np.isnan(levels)])


def _summary(levels: np.ndarray) -> Summary:
    low, middle, high = np.quantile(levels, (0.1, 0.5, 0.9)).tolist()
    return Summary(
        count=len(levels),
        total=float(levels.sum()),
        avg=float(levels.mean()),
        p10=low,
        p50=middle,
        p90=high,
        min=float(levels.min()),
        max=float(levels.max()),
        std=float(levels.std()),
    )


def _contexts(trace: Trace, found: Contexts, tick: float) -> list[ContextUse]:
    """Return the contexts, the one that took most of executions first."""
    if not len(found.time):
        return []
    begun = np.isin(trace.kind, (Kind.TASK, Kind.INTERRUPT)) & (trace.level == 1)
    executed = np.flatnonzero(
        (trace.kind == Kind.PROFILE) & trace.named(EXECUTION) & (trace.clock == 0)
    )
    start = found.start[executed]
    lasted = found.lasted[executed]
    own = np.array([found.own.get(tracer, UNKNOWN) for tracer in trace.tracer[executed].tolist()])
    uses = []
    for context in np.unique(found.running[found.running >= 0]).tolist():
        name, interrupt = divmod(context, 2)
        kind = Kind.INTERRUPT if interrupt else Kind.TASK
        mine = found.running == context
        total = int(elapsed(found.time, mine, found.time[-1:])[0])
        within = elapsed(found.time, mine, start + lasted) - elapsed(found.time, mine, start)
        uses.append(
            ContextUse(
                name=_text(trace, name),
                kind=kind.name.lower(),
                begins=int(np.count_nonzero(begun & _logged(trace, kind, name))),
                total=total * tick,
                taken=int(within[own != context].sum()) * tick,
            )
        )
    return sorted(uses, key=lambda use: (-use.taken, use.name))

"""The section of reports on tasks, interrupts, marks, and counters that the application samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from harness.analyze.contexts import Contexts, contexts, elapsed
from harness.analyze.statistics import Summary
from harness.analyze.ticks import nanoseconds_per_tick, own_scopes
from harness.formatting import TICKS, printable, time_unit
from harness.records.trace import EXECUTION, Kind, Trace
from harness.report.operators import UNKNOWN
from harness.report.words import ReportTable, three_digits

if TYPE_CHECKING:
    from harness.check.subject import Subject


class ContextUse(msgspec.Struct, frozen=True):
    """A task or an interrupt.

    Attributes:
        name: Its name.
        kind: ``task`` or ``interrupt``.
        begins: How often it began.
        total: Time that it had the core, in ``unit`` of the document; None if that is not known.
        taken: Time of this that it took from executions of other contexts, likewise.
    """

    name: str
    kind: str
    begins: int
    total: float | None
    taken: float | None


class InstantsDocument(msgspec.Struct, frozen=True):
    """What a log says beside its events.

    Attributes:
        unit: Unit of times: ``ns`` or ``ticks``.
        contexts: Tasks and interrupts, the one that took most of executions first.
        marks: How often each mark was logged, by its name.
        counters: Statistics of the samples of each counter, by its name; of those that are numbers.
        not_finite: How many samples of a counter are infinite or no number, without those of none.
        notes: What tasks and interrupts took of executions, or why that is not known; sentences.
    """

    unit: str
    contexts: tuple[ContextUse, ...]
    marks: dict[str, int]
    counters: dict[str, Summary]
    not_finite: dict[str, int]
    notes: tuple[str, ...]


def measure(_found: Any, subject: Subject | None) -> InstantsDocument:
    """Return what the trace of a run has."""
    trace = subject.trace if subject is not None else Trace.unset(0)
    tick = nanoseconds_per_tick(trace.clocks[0]) if trace.clocks else None
    marks = Counter(_text(trace, name) for name in trace.name[trace.kind == Kind.MARK].tolist())
    samples = dict(_samples(trace))
    finite = {name: found[np.isfinite(found)] for name, found in samples.items()}
    counters = {name: _summary(found) for name, found in finite.items() if len(found)}
    not_finite = {name: len(found) - len(finite[name]) for name, found in samples.items()}
    known = contexts(trace)
    return InstantsDocument(
        "ticks" if tick is None else "ns",
        tuple(_contexts(trace, known, float(tick or 1))),
        dict(marks),
        counters,
        {name: count for name, count in not_finite.items() if count},
        tuple(map(printable, (*_taken(trace, known, tick), *known.notes))),
    )


def tables(document: InstantsDocument) -> list[ReportTable]:
    """Return the tables of reports."""
    found = []
    if rows := document.contexts:
        totals = [row.total or 0.0 for row in rows]
        unit = TICKS if document.unit == "ticks" else time_unit(totals)
        headers = ["context", "kind", "begins", f"total [{unit.name}]"]
        headers.append(f"taken from executions [{unit.name}]")
        cells = [
            (row.name, row.kind, f"{row.begins:,}", *times)
            for row in rows
            for both in ((row.total, row.taken),)
            for times in ([UNKNOWN if time is None else unit.text(time) for time in both],)
        ]
        title = "Tasks and interrupts"
        found.append(ReportTable(title, headers, cells, range(2, 5), document.notes))
    if document.marks:
        marks = [(name, f"{count:,}") for name, count in document.marks.items()]
        found.append(ReportTable("Marks", ["mark", "count"], marks, (1,)))
    if names := dict.fromkeys((*document.counters, *document.not_finite)):
        headers = ["counter", "samples", "min", "p50", "avg", "max"]
        lost = document.not_finite
        headers += ["no number"] * bool(lost)
        values = [
            (name, *_cells(document.counters.get(name)), *[f"{lost.get(name, 0):,}"] * bool(lost))
            for name in names
        ]
        found.append(ReportTable("Counters", headers, values, range(1, len(headers))))
    return found


def _cells(found: Summary | None) -> tuple[str, ...]:
    if found is None:
        return ("0", *[UNKNOWN] * 4)
    return f"{found.count:,}", *map(_digits, (found.min, found.p50, found.avg, found.max))


def _digits(value: float) -> str:
    """Return whole numbers below 2**32 as they are, others with three digits."""
    if value == round(value) and abs(value) < 2**32:
        return f"{value:,.0f}"
    return three_digits(value) if 1e-4 <= abs(value) < 10_000_000 else f"{value:.3g}"


def _taken(trace: Trace, known: Contexts, tick: Fraction | None) -> Iterator[str]:
    """Yield a sentence on the time of executions that other tasks and interrupts took, if any."""
    executed = _executions(trace)
    taken, lasted = int(known.taken[executed].sum()), int(known.lasted[executed].sum())
    if taken:
        spent = taken * float(tick or 1)
        unit = TICKS if tick is None else time_unit([spent])
        text = f"took {unit.text(spent)} {unit.name} ({100 * taken / lasted:.1f} %) of executions"
        yield f"other tasks and interrupts {text}; all times are without it"


def _executions(trace: Trace) -> np.ndarray:
    return np.flatnonzero(own_scopes(trace) & trace.named(EXECUTION) & (trace.clock == 0))


def _text(trace: Trace, name: int) -> str:
    return printable(trace.text(name) or "unnamed")


def _samples(trace: Trace) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the samples of each counter; counters of one name are those of several tracers."""
    rows = np.flatnonzero(trace.kind == Kind.SAMPLE)
    keys = dict.fromkeys(zip(trace.name[rows].tolist(), trace.tracer[rows].tolist(), strict=True))
    tracers = Counter(name for name, _ in keys)
    for name, tracer in keys:
        mine = rows[(trace.name[rows] == name) & (trace.tracer[rows] == tracer)]
        of = f" of tracer {tracer}" if tracer and tracers[name] > 1 else ""
        yield _text(trace, name) + of, np.asarray(trace.level[mine])


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
    logged = np.isin(trace.kind, (Kind.TASK, Kind.INTERRUPT))
    executed = _executions(trace)
    start, own = found.start[executed], found.own[executed]
    end = start + found.lasted[executed]
    uses = []
    for kind, name in np.unique([trace.kind[logged], trace.name[logged]], axis=1).T.tolist():
        rows = (trace.kind == kind) & (trace.name == name)
        total = within = None
        if found.certain and name >= 0 and (trace.clock[rows] == 0).all():
            context = 2 * name + (kind == Kind.INTERRUPT)
            mine = found.running == context
            total = int(elapsed(found.time, mine, found.time[-1:])[0]) * tick
            inner = elapsed(found.time, mine, end) - elapsed(found.time, mine, start)
            within = int(inner[own != context].sum()) * tick
        begins = int(np.count_nonzero(trace.level[rows] == 1))
        uses.append(ContextUse(_text(trace, name), Kind(kind).name.lower(), begins, total, within))
    return sorted(uses, key=lambda use: (-(use.taken or 0), use.name))

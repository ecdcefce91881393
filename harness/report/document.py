"""What commands print as JSON; the schemas are generated from these classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.analyze.statistics import Operator, Summary
from harness.analyze.workload import RooflinePoint
from harness.check.history.comparison import HistoryComparison
from harness.config.board import Board
from harness.export.formats import Exported
from harness.formatting import printable, with_printable_keys, with_printable_names
from harness.plugins import DOCUMENTS, load_plugin, plugin_names
from harness.records.explanation import Explanation
from harness.records.nightly import NightDocument
from harness.records.result import FirmwareSize, Result, VerdictRecord, encode
from harness.records.trace import Signature
from harness.records.verdict import Check
from harness.report.compare import ComparisonDocument
from harness.report.description import Loss, RunDescription, describe
from harness.report.model import ModelDocument
from harness.report.operators import operator_time
from harness.report.run import CodeDocument
from harness.report.traces import TraceDocument
from harness.runs.source import EvaluatedRun, all_passed
from harness.target.build import PlacedModel


class ReportedOperator(Signature, frozen=True, omit_defaults=True):
    """An operator, or a scope around operators.

    Times are in ``unit``: ``ns``, or ``ticks`` if the rate of ``clock`` is unknown. They are null
    if all durations are unknown, which ``unknown`` counts. ``cold`` is the average in the first
    execution after loading. ``share`` is its share of the wall time of an
    execution, in the median over executions, or of loading, null if that is unknown
    (docs/reports.md). ``counters`` are statistics of what each hardware counter counted, over the
    events with a count; absent if none was recorded. ``roofline`` is its work
    against what the core can do; absent where that is unknown. ``taken`` is what other tasks and
    interrupts took from its events together, which no other number contains; absent if it is 0.
    """

    clock: str
    count: int
    unknown: int
    unit: str
    total: float | None
    avg: float | None
    p50: float | None
    p90: float | None
    min: float | None
    max: float | None
    cold: float | None
    share: float | None
    counters: dict[str, Summary] = msgspec.field(default_factory=dict)
    roofline: RooflinePoint | None = None
    taken: float | None = None


class ReportedDocument(msgspec.Struct, frozen=True):
    """An evaluated run, or a trace alone.

    ``passed`` is false for a run that failed, too; why is in its ``result``, which is null for a
    trace alone. ``headline`` is the verdict in a sentence. ``events`` is null for a run that left
    no trace. ``checks`` are all that were made now, failed ones first; those of the result were
    made when it ran. ``sections`` are what extensions say of a program, by their
    names: ``schema/NAME.schema.json``. ``comparison`` is null without a comparison with history.
    ``why`` says what changed in the program since the baseline; absent if that is unknown.
    ``operators`` and ``scopes`` are of executions, ``loading`` is everything outside them; each has
    the largest median times calls first.
    """

    title: str
    passed: bool
    headline: str
    events: int | None
    checks: tuple[Check, ...]
    operators: tuple[ReportedOperator, ...]
    scopes: tuple[ReportedOperator, ...]
    loading: tuple[ReportedOperator, ...]
    losses: tuple[Loss, ...]
    comparison: HistoryComparison | None
    result: Result | None
    why: Explanation | msgspec.UnsetType = msgspec.UNSET
    sections: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ReportDocument(msgspec.Struct, frozen=True):
    """What ``etharness report --json`` prints, and ``--report FILE.json`` writes.

    ``night`` is the nightly run that the runs are a part of; null without one.
    """

    passed: bool
    runs: list[ReportedDocument]
    night: NightDocument | None = None


def report_document(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
    """Return the JSON of ``runs``, and of the nightly run that they are of."""
    documents = [_reported(describe(run)) for run in runs]
    passed = all_passed(runs) if night is None else night.passed
    return encode(ReportDocument(passed, documents, night))


class RunDocument(Result, frozen=True):
    """What ``etharness run --json`` prints: the result, and the comparison with history.

    ``comparison`` is absent without a history to compare with.
    """

    comparison: HistoryComparison | msgspec.UnsetType = msgspec.UNSET


def run_document(run: EvaluatedRun) -> bytes:
    """Return the JSON of a run that has just ended; null without a result."""
    if run.result is None or run.comparison is None:
        return encode(run.result)
    comparison = _printable_comparison(run.comparison)
    return encode(RunDocument(**msgspec.structs.asdict(run.result), comparison=comparison))


def _reported(run: RunDescription) -> ReportedDocument:
    table, subject, comparison = run.operators, run.run.subject, run.run.comparison
    places = {} if run.roofline is None else {id(row): point for row, point in run.roofline.rows}
    return ReportedDocument(
        title=run.title,
        passed=run.verdict.outcome == "pass",
        headline=run.verdict.headline,
        events=None if subject is None else len(subject.trace),
        checks=run.verdict.checks,
        operators=tuple(_reported_operator(row, places.get(id(row))) for row in table.operators)
        if table is not None
        else (),
        scopes=tuple(map(_reported_operator, table.scopes)) if table is not None else (),
        loading=tuple(map(_reported_operator, table.loading)) if table is not None else (),
        losses=run.losses,
        comparison=comparison and _printable_comparison(comparison),
        result=run.run.result,
        why=run.why or msgspec.UNSET,
        sections=dict(run.sections) or msgspec.UNSET,
    )


def _reported_operator(op: Operator, point: RooflinePoint | None = None) -> ReportedOperator:
    return ReportedOperator(
        *with_printable_names(op).signature,
        clock=printable(op.clock.name),
        count=len(op.rows),
        unknown=op.unknown,
        unit="ticks" if op.clock.hz is None else "ns",
        total=operator_time(op, "total"),
        avg=operator_time(op, "avg"),
        p50=operator_time(op, "p50"),
        p90=operator_time(op, "p90"),
        min=operator_time(op, "min"),
        max=operator_time(op, "max"),
        cold=operator_time(op, "cold"),
        share=op.share,
        counters=with_printable_keys(op.counters),
        roofline=point,
        taken=op.taken or None,
    )


def _printable_comparison(comparison: HistoryComparison) -> HistoryComparison:
    """The same with texts that JSON can hold."""
    numbers = []
    for number in comparison.numbers:
        metric = number.metric
        delegate = metric.delegate_str and printable(metric.delegate_str)
        name, block = printable(metric.name), printable(metric.block)
        metric = msgspec.structs.replace(metric, name=name, block=block, delegate_str=delegate)
        unit, reason = printable(number.board_unit), printable(number.reason)
        numbers.append(
            msgspec.structs.replace(number, metric=metric, board_unit=unit, reason=reason)
        )
    return msgspec.structs.replace(
        comparison,
        description=printable(comparison.description),
        units=tuple(map(printable, comparison.units)),
        numbers=tuple(numbers),
        notes=tuple(map(printable, comparison.notes)),
    )


class PlacedDocument(msgspec.Struct, frozen=True):
    """A model in the image, and bytes of the RAM buffers of this firmware."""

    name: str
    bytes: int
    arena: int
    inputs: int
    uploads: int


class BuildDocument(msgspec.Struct, frozen=True):
    """What ``etharness build --json`` prints; ``placed`` is null without a model in the image."""

    image: str
    build_id: str
    sizes: list[FirmwareSize]
    placed: PlacedDocument | None


def placed_document(placed: PlacedModel | None) -> PlacedDocument | None:
    """Describe the model in an image."""
    if placed is None:
        return None
    room = placed.capacity
    return PlacedDocument(placed.name, len(placed.data), room.arena, room.inputs, room.model)


class ExportDocument(msgspec.Struct, frozen=True):
    """What ``etharness export --json`` prints; ``notes`` say what the file lacks."""

    file: str
    format: str
    bytes: int
    notes: tuple[str, ...]


SCHEMAS: dict[str, Any] = {
    "boards": list[Board],
    "build": BuildDocument,
    "check": VerdictRecord,
    "check-suggest": list[Check],
    "compare": ComparisonDocument,
    "decode": TraceDocument,
    "explain": list[CodeDocument],
    "export": ExportDocument,
    "inspect": ModelDocument,
    "report": ReportDocument,
    "run": RunDocument,
}
"""Types of documents by the command that prints them; ``pull`` prints a Result."""


def document_types() -> dict[str, Any]:
    """Return the types of documents by the command that prints them, with those of extensions."""
    return SCHEMAS | {name: load_plugin(DOCUMENTS, name) for name in plugin_names(DOCUMENTS)}


def json_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what ``command --json`` prints."""
    return msgspec.json.schema(document_types()[command])


def export_document(file: str, name: str, exported: Exported) -> bytes:
    """Return the JSON that says what was written to ``file``."""
    return encode(ExportDocument(file, name, len(exported.data), exported.notes))

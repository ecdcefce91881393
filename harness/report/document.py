"""What commands print as JSON; the schemas are generated from these classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from harness.analyze.blocks import BlockRun, runs
from harness.analyze.call_tree import call_tree
from harness.analyze.memory import AllocatorTotals, Memory, allocator_totals
from harness.analyze.merged_tree import MergedNode, merged_tree
from harness.analyze.operands import Arguments
from harness.analyze.planned_memory import PlannedPool
from harness.analyze.postmortem import PostmortemDocument
from harness.analyze.statistics import Summary, operator_statistics
from harness.analyze.symbols import EventSymbols
from harness.bisect.answer import BisectDocument
from harness.check.history.samples import Decision, History
from harness.check.history.stored import (
    Added,
    CopyOutcome,
    NamedBaseline,
    StoredResult,
    StoreInfo,
)
from harness.config.board import Board
from harness.export.formats import Exported
from harness.formatting import printable, with_printable_keys, with_printable_names
from harness.lab.power import Switched
from harness.records.lab import (
    Health,
    HolderDocument,
    LeasedDocument,
    PortDocument,
    ReleasedDocument,
    StatusDocument,
    UnitDocument,
)
from harness.records.nightly import NightDocument, QuarantineStatus
from harness.records.qualification import Qualification
from harness.records.result import ClockQuality, FirmwareSize, VerdictRecord, encode
from harness.records.signature import Signature
from harness.records.trace import Damage, Losses, Trace
from harness.records.verdict import Check
from harness.report.checks import BudgetField, CodeDocument
from harness.report.compare import ComparisonDocument
from harness.report.facts import ClockQualityDocument, clock_documents
from harness.report.history import PrunedDocument, TableDocument
from harness.report.memory import MemoryDocument, memory_document
from harness.report.model import ModelDocument
from harness.report.results import ReportDocument
from harness.report.symbols import (
    ArgumentsDocument,
    Comparison,
    ModuleDocument,
    OriginDocument,
    OutputDocument,
    arguments_document,
    comparison_documents,
    module_documents,
    origin_document,
)
from harness.report.values import ValuesDocument
from harness.runs.evaluation import BundleVerdict
from harness.target.build import PlacedModel
from harness.target.doctor import ProgramFinding


class OperatorDocument(Signature, frozen=True, omit_defaults=True):
    """One operator; ``ns`` is null when the rate of its clock is unknown.

    ``unknown`` counts its events that end before they start, so that nobody knows what they took;
    statistics are of the others, and null where there are none.
    ``cold`` (of the first execution after loading) and ``warm`` (of later ones) are in nanoseconds,
    or in ticks where ``ns`` is null; null for what did not happen in one. ``origin`` is from an
    ETRecord, ``arguments`` from a ``.pte``; null without these. ``counters`` are statistics of what
    each hardware counter counted, over the events with a count; absent if none was recorded.
    """

    clock: str
    unknown: int
    ticks: Summary | None
    ns: Summary | None
    cold: Summary | None
    warm: Summary | None
    origin: OriginDocument | None
    arguments: ArgumentsDocument | None
    counters: dict[str, Summary] = msgspec.field(default_factory=dict)


class TraceDocument(msgspec.Struct, frozen=True):
    """What ``etharness decode --json`` prints.

    ``padding`` is the number of bytes behind the last dump that only fill the file.
    ``tree`` is null without ``--tree``; with it, each node stands before those within it.
    ``memory`` is null without ``--memory``.
    ``modules`` is null without ``--by module``; ``outputs`` is empty without ``--compare-results``.
    """

    events: int
    blocks: list[str]
    runs: list[BlockRun]
    dumps: int
    padding: int
    losses: Losses
    damage: list[Damage]
    clocks: list[ClockQualityDocument]
    operators: list[OperatorDocument]
    allocators: list[AllocatorTotals]
    tree: list[MergedNode] | None
    memory: MemoryDocument | None
    modules: list[ModuleDocument] | None
    outputs: list[OutputDocument]


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
    "bisect": BisectDocument,
    "boards": list[Board],
    "budget-show": list[BudgetField],
    "build": BuildDocument,
    "check": VerdictRecord,
    "check-suggest": list[Check],
    "compare": ComparisonDocument,
    "compare-values": ValuesDocument,
    "decode": TraceDocument,
    "doctor": list[ProgramFinding],
    "explain": list[CodeDocument],
    "export": ExportDocument,
    "inspect": ModelDocument,
    "lab-health": list[Health],
    "history-add": list[Added],
    "history-baseline": list[NamedBaseline],
    "history-copy": CopyOutcome,
    "history-decision": list[Decision],
    "history-export": TableDocument,
    "history-info": StoreInfo,
    "history-list": list[StoredResult],
    "history-prune": PrunedDocument,
    "history-show": History,
    "lab-lease": list[LeasedDocument],
    "nightly": NightDocument,
    "nightly-quarantine-status": list[QuarantineStatus],
    "lab-ports": list[PortDocument],
    "postmortem": PostmortemDocument,
    "qualify": Qualification,
    "lab-power": Switched,
    "replay": BundleVerdict,
    "lab-release": list[ReleasedDocument],
    "report": ReportDocument,
    "lab-status": list[StatusDocument],
    "lab-units": list[UnitDocument],
    "lab-who": list[HolderDocument],
}
"""Types of documents by the command that prints them; ``run`` and ``pull`` print a Result."""


def json_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what ``command --json`` prints."""
    return msgspec.json.schema(SCHEMAS[command])


def trace_document(
    trace: Trace,
    qualities: Sequence[ClockQuality] = (),
    *,
    emulated: bool = False,
    tree: bool = False,
    memory: Memory | None = None,
    pools: Sequence[PlannedPool] = (),
    later_dumps: Sequence[int] = (),
    padding: int = 0,
    damage: Sequence[Damage] = (),
    symbols: Sequence[EventSymbols | None] | None = None,
    arguments: Sequence[Arguments | None] | None = None,
    by_module: bool = False,
    comparisons: Sequence[Comparison] = (),
) -> bytes:
    """Return the JSON of a trace's statistics.

    Args:
        trace: All that was read.
        qualities: What is known of its clocks.
        emulated: These count the steps of an emulator.
        tree: With its call tree.
        memory: Its memory over time, if that is wanted.
        pools: What the model plans, beside it.
        later_dumps: Rows at which all dumps but the first begin.
        padding: Bytes behind the last dump that only fill the file.
        damage: What was left out.
        symbols: What an ETRecord knows of every event, if there is one.
        arguments: What the model says that every event's operator takes, if there is one.
        by_module: With the times of modules.
        comparisons: Outputs beside their references.
    """
    operators = [
        OperatorDocument(
            *with_printable_names(operator).signature,
            clock=operator.clock.name,
            unknown=operator.unknown,
            ticks=operator.ticks,
            ns=operator.ns,
            cold=operator.cold,
            warm=operator.warm,
            origin=origin_document(operator, symbols),
            arguments=arguments_document(operator, arguments),
            counters=with_printable_keys(operator.counters),
        )
        for operator in operator_statistics(trace)
    ]
    return encode(
        TraceDocument(
            events=len(trace),
            blocks=[printable(block.name) for block in trace.blocks],
            runs=[replace(run, name=printable(run.name)) for run in runs(trace)],
            dumps=1 + len(later_dumps),
            padding=padding,
            losses=trace.losses,
            damage=list(damage),
            clocks=clock_documents(trace, qualities, later_dumps, emulated=emulated),
            operators=operators,
            allocators=[
                replace(item, name=item.name and printable(item.name))
                for item in allocator_totals(trace)
            ],
            tree=_tree(trace) if tree else None,
            memory=memory_document(trace, memory, pools) if memory else None,
            modules=module_documents(trace, symbols) if by_module else None,
            outputs=comparison_documents(comparisons),
        )
    )


def _tree(trace: Trace) -> list[MergedNode]:
    return [
        msgspec.structs.replace(
            with_printable_names(node), counters=with_printable_keys(node.counters)
        )
        for node in merged_tree(call_tree(trace))
    ]


def export_document(file: str, name: str, exported: Exported) -> bytes:
    """Return the JSON that says what was written to ``file``."""
    return encode(ExportDocument(file, name, len(exported.data), exported.notes))

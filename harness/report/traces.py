"""A trace on the terminal and as JSON: call tree, memory over time, origin and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from harness.analyze.blocks import BlockRun, runs
from harness.analyze.call_tree import CallTree, MergedNode, NodeCounts, call_tree, merged_tree
from harness.analyze.memory import (
    AllocatorMemory,
    AllocatorTotals,
    Gaps,
    Memory,
    MemoryPiece,
    PlannedPool,
    PlannedTensor,
    allocator_totals,
)
from harness.analyze.statistics import Operator, Summary, operator_statistics
from harness.formatting import (
    TICKS,
    DisplayUnit,
    printable,
    time_text,
    time_unit,
    with_printable_keys,
    with_printable_names,
)
from harness.plugins import INSPECTORS, load_extension
from harness.records.result import ClockQuality, encode
from harness.records.trace import (
    NO_CLOCK,
    Damage,
    Kind,
    Losses,
    Signature,
    Trace,
    by_block,
    is_wrapper,
)
from harness.report.description import (
    ClockQualityDocument,
    clock_documents,
    trace_losses,
    tracer_lines,
)
from harness.report.operators import UNKNOWN, share_text
from harness.report.run import Column, print_losses
from harness.report.terminal import show_line, show_table
from harness.report.words import event_title, with_delegate

if TYPE_CHECKING:
    from rich.console import Console

    from harness.analyze.workload import Argument, Arguments
    from harness.records.symbols import EventSymbols

    _Known = Sequence[EventSymbols | None] | None
    _Given = Sequence[Arguments | None] | None


class OperatorDocument(Signature, frozen=True, omit_defaults=True):
    """One operator; ``ns`` is null when the rate of its clock is unknown.

    ``unknown`` counts its events of unknown duration (docs/clocks.md); statistics are of the
    others, and null where there are none.
    ``cold`` (of the first execution after loading) and ``warm`` (of later ones) are in nanoseconds,
    or in ticks where ``ns`` is null; null for what did not happen in one. ``origin`` is from an
    ETRecord, ``arguments`` from a ``.pte``; null without these. ``counters`` are statistics of what
    each hardware counter counted, over the events with a count; absent if none was recorded.
    ``taken`` is what other tasks and interrupts took from its events together, which no statistic
    contains, in nanoseconds, or in ticks where ``ns`` is null; absent if it is 0.
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
    taken: float | None = None


class TraceDocument(msgspec.Struct, frozen=True):
    """What ``etharness decode --json`` prints.

    ``padding`` is the number of bytes behind the last dump that only fill the file.
    ``tree`` is null without ``--tree``; with it, each node stands before those within it.
    ``memory`` is null without ``--memory``.
    ``modules`` is null without ``--by module``; ``outputs`` is empty without ``--compare-results``.
    ``tracers`` says of each of several tracers how it is placed, or why it is not; absent for one.
    ``sections`` are what extensions say of the program, by their names
    (``schema/NAME.schema.json``).
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
    tracers: list[str] | msgspec.UnsetType = msgspec.UNSET
    sections: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


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
    comparisons: Sequence[OutputDocument] = (),
    sections: Mapping[str, Any] | None = None,
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
        sections: What extensions say of the program, with its times.
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
            taken=operator.taken or None,
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
            tree=[
                msgspec.structs.replace(
                    with_printable_names(node), counters=with_printable_keys(node.counters)
                )
                for node in merged_tree(call_tree(trace))
            ]
            if tree
            else None,
            memory=memory_document(trace, memory, pools) if memory else None,
            modules=module_tables().module_documents(trace, symbols) if by_module else None,
            outputs=list(comparisons),
            tracers=tracer_lines(trace) or msgspec.UNSET,
            sections=dict(sections or {}) or msgspec.UNSET,
        )
    )


_DEEPEST = 20
"""Levels that are indented."""


def print_tree(console: Console, trace: Trace, *, detailed: bool = False) -> None:
    """Print the call tree of ``trace``, one table per name of blocks, then what is missing.

    Nodes are in log order, without scopes that wrap a kernel unless ``detailed``. The share is
    that of all reports (``WallTimes``): the part of the wall time that the node, with what is
    within it, takes in the median over executions. Each hardware counter that was recorded has a
    column with the sum of its counts, and one with the node's own part.

    Args:
        console: Where to.
        trace: What was logged.
        detailed: Print whole names and all digits, and list the events that may belong elsewhere.
    """
    tree = call_tree(trace)
    nodes = by_block(merged_tree(tree) if detailed else without_wrappers(merged_tree(tree)))
    for block in dict.fromkeys(item.name for item in trace.blocks):
        if block in nodes:
            _print_nodes(console, block, nodes[block], detailed=detailed)
    _print_ambiguous(console, tree, detailed=detailed)
    if backward := int(tree.backward.sum()):
        text = "events end before they start: what they took is unknown, and counts as 0"
        show_line(console, f"backward: {backward} {text}")
    if trace.kind.max(initial=0) >= Kind.TASK:
        from harness.analyze.contexts import contexts

        for note in contexts(trace).notes:
            show_line(console, printable(note))
    print_losses(console, trace_losses(trace))


def without_wrappers(nodes: Sequence[MergedNode]) -> list[MergedNode]:
    """Return a merged tree in which what is within a wrapper takes its place.

    The time that a wrapper took itself is that of the node around it. A wrapper that nothing was
    logged in stays: it is all that is known of its instruction.
    """
    inside = {node.parent for node in nodes}
    kept: list[MergedNode] = []
    place: dict[int, int] = {-1: -1}
    for index, node in enumerate(nodes):
        above = place[index] = place[node.parent]
        outer = kept[above] if above >= 0 else None
        if index not in inside or not is_wrapper(node.name):
            place[index], depth = len(kept), outer.depth + 1 if outer else 0
            kept.append(msgspec.structs.replace(node, parent=above, depth=depth))
        elif outer is not None:
            own, more = outer.own_ns, node.own_ns
            own = None if own is None or more is None else own + more
            ticks = outer.own_ticks + node.own_ticks
            kept[above] = msgspec.structs.replace(outer, own_ticks=ticks, own_ns=own)
    return kept


def _print_nodes(console: Console, block: str, nodes: list[MergedNode], *, detailed: bool) -> None:
    times = [node.total_ns for node in nodes if node.total_ns is not None]
    unit = time_unit(times) if times else TICKS
    counters = [*dict.fromkeys(name for node in nodes for name in node.counters)]
    taken = any(node.taken_ticks for node in nodes)
    rows = []
    for node in nodes:
        counts = [text for name in counters for text in _node_counts(node.counters.get(name))]
        name, count = with_delegate(node) if detailed else event_title(node), f"{node.count:,}"
        place = [str(node.instruction)] if detailed else []
        cells = [*_times(node, unit, brief=not detailed), share_text(node.share), count]
        if taken:
            nanoseconds = node.taken_ns
            cells.insert(2, time_text(nanoseconds, node.taken_ticks, unit, brief=not detailed))
        rows.append([_indent(node.depth) + name, *place, *cells, *counts])
    headers = ["event", *["instruction"] * detailed, f"total [{unit.name}]", f"self [{unit.name}]"]
    headers += [f"taken by others [{unit.name}]"] * taken
    headers += ["share [%]", "count"]
    headers += [text for name in counters for text in (printable(name), f"self {printable(name)}")]
    numbers = range(1, len(headers))
    show_table(console, headers, rows, title=f"Call tree of {block}", numbers=numbers)


def _node_counts(found: NodeCounts | None) -> list[str]:
    """Return the count of a node and its own part, as far as known."""
    if found is None:
        return [UNKNOWN, UNKNOWN]
    return [f"{found.total:,}", UNKNOWN if found.own is None else f"{found.own:,}"]


def _times(node: MergedNode, unit: DisplayUnit, *, brief: bool) -> list[str]:
    """Return total and self time of a node, as far as known."""
    if node.backward == node.count:
        return [UNKNOWN, UNKNOWN]
    both = ((node.total_ns, node.total_ticks), (node.own_ns, node.own_ticks))
    return [time_text(nanoseconds, ticks, unit, brief=brief) for nanoseconds, ticks in both]


def _indent(depth: int) -> str:
    """Return two spaces per level; beyond a limit the depth as a number, which bounds the line."""
    return "  " * min(depth, _DEEPEST) + (f"({depth}) " if depth > _DEEPEST else "")


def _print_ambiguous(console: Console, tree: CallTree, *, detailed: bool) -> None:
    rows = tree.ambiguous_rows.tolist()
    if not rows:
        return
    more = "" if detailed else "; -v lists them"
    show_line(console, f"ambiguous: {len(rows)} events may belong elsewhere{more}")
    if detailed:
        cells = []
        for row in rows:
            parent = int(tree.parent[row])
            timed = tree.trace.clock[row] != NO_CLOCK
            cells.append(
                [
                    str(row),
                    _event_name(tree.trace, row),
                    str(tree.trace.start[row]) if timed else "",
                    "nothing"
                    if parent < 0
                    else f"{_event_name(tree.trace, parent)} (row {parent})",
                ]
            )
        show_table(
            console, ["row", "event", "start [ticks]", "taken as within"], cells, numbers=(0, 2)
        )


def _event_name(trace: Trace, row: int) -> str:
    kind = trace.kind[row]
    if kind == Kind.ALLOCATION:
        return "allocation"
    if kind == Kind.DEBUG:
        return "value"
    delegate = trace.text(int(trace.delegate_str[row])) or str(trace.delegate_int[row])
    if kind >= Kind.TASK:
        return trace.text(int(trace.name[row])) or Kind(kind).name.lower()
    return trace.text(int(trace.name[row])) or f"delegate event {delegate}"


class PieceDocument(msgspec.Struct, frozen=True):
    """A piece that was live at a peak; ``during`` names the event that allocated it."""

    allocator: str
    offset: int
    size: int
    during: str | None
    row: int
    freed: int


class AllocatorDocument(msgspec.Struct, frozen=True):
    """One allocator over time.

    ``reach`` is where the last byte ended that was ever live, null when some offset is unknown;
    ``planned`` is what the model asks for, null without the model.
    """

    name: str
    peak_bytes: int
    peak_row: int
    reach: int | None
    planned: int | None
    gaps: Gaps
    fragmentation: float
    refused_bytes: list[int]
    unmatched_frees: int
    overlapping: int


class PoolDocument(msgspec.Struct, frozen=True):
    """Requirements of the model for one pool of planned memory; ``peak_at`` is an instruction."""

    pool: int
    planned: int
    reach: int
    peak_bytes: int
    peak_at: int
    gaps: Gaps
    peak_tensors: list[PlannedTensor]


class MemoryDocument(msgspec.Struct, frozen=True):
    """Memory over time; ``live_at_peak`` lists the pieces at the common peak of all allocators."""

    peak_bytes: int
    peak_row: int
    live_at_peak: list[PieceDocument]
    allocators: list[AllocatorDocument]
    pools: list[PoolDocument]


def memory_document(
    trace: Trace, found: Memory, pools: Sequence[PlannedPool] = ()
) -> MemoryDocument:
    """Describe the memory of ``trace``."""
    return MemoryDocument(
        found.peak,
        found.peak_row,
        [
            PieceDocument(
                printable(piece.allocator.label),
                piece.offset,
                piece.size,
                during(trace, piece.during),
                piece.row,
                piece.freed,
            )
            for piece in found.peak_pieces
        ],
        [
            AllocatorDocument(
                printable(item.allocator.label),
                item.peak,
                item.peak_row,
                item.reach,
                item.planned,
                item.peak_gaps,
                item.peak_gaps.fragmentation,
                [failure.piece.size for failure in item.failures],
                len(item.unmatched),
                len(item.overlapping),
            )
            for item in found.allocators
        ],
        [
            PoolDocument(
                pool.pool,
                pool.planned,
                pool.reach,
                pool.peak,
                pool.peak_at,
                pool.peak_gaps,
                list(pool.peak_tensors),
            )
            for pool in pools
        ],
    )


def print_memory(
    console: Console,
    trace: Trace,
    found: Memory,
    pools: Sequence[PlannedPool] = (),
    *,
    detailed: bool = False,
) -> None:
    """Print the peak of each allocator, the pieces at the common peak, and failed allocations.

    Args:
        console: The console.
        trace: The trace.
        found: Its memory over time.
        pools: Memory pools planned by the model, if known.
        detailed: List every piece that was live at the peak, instead of sums per event.
    """
    if not found.allocators:
        show_line(console, "no allocators: the target did not say what memory it took")
    else:
        _print_memory_of_allocators(console, found.allocators)
        _print_peak(console, trace, found, detailed=detailed)
        _print_failures(console, trace, found.allocators)
    if pools:
        _print_pools(console, pools)
    print_losses(console, trace_losses(trace))


def _print_memory_of_allocators(console: Console, allocators: Sequence[AllocatorMemory]) -> None:
    planned = any(item.planned is not None for item in allocators)
    headers = ["allocator", "peak [B]", *["planned [B]"] * planned, "reach [B]"]
    headers += ["gaps [B]", "fragmentation [%]"]
    rows = []
    for item in allocators:
        gaps = item.peak_gaps
        cells = [item.allocator.label, f"{item.peak:,}"]
        cells += [_bytes(item.planned)] * planned
        cells += [_bytes(item.reach), f"{gaps.bytes:,}", f"{100 * gaps.fragmentation:.0f}"]
        rows.append(cells)
    show_table(console, headers, rows, title="Memory", numbers=range(1, len(headers)))
    for item in allocators:
        for count, what in (
            (len(item.unmatched), "frees of pieces that are not known"),
            (len(item.overlapping), "pieces that overlap one which nobody had freed"),
        ):
            if count:
                show_line(console, f"{item.allocator.label}: {count} {what}")


def _print_peak(console: Console, trace: Trace, found: Memory, *, detailed: bool) -> None:
    title = f"Live at the peak of {found.peak:,} bytes"
    if detailed:
        headers = ["allocator", "offset", "size [B]", "during"]
        rows = [
            [
                piece.allocator.label,
                "" if piece.offset < 0 else f"{piece.offset:,}",
                f"{piece.size:,}",
                during(trace, piece.during) or "",
            ]
            for piece in found.peak_pieces
        ]
        show_table(console, headers, rows, title=title, numbers=(1, 2))
        return
    together: dict[tuple[str, str], list[MemoryPiece]] = {}
    for piece in found.peak_pieces:
        key = piece.allocator.label, during(trace, piece.during) or ""
        together.setdefault(key, []).append(piece)
    rows = [
        [name, during, str(len(pieces)), f"{sum(piece.size for piece in pieces):,}"]
        for (name, during), pieces in together.items()
    ]
    headers = ["allocator", "taken during", "pieces", "size [B]"]
    show_table(console, headers, rows, title=title, numbers=(2, 3))


def _print_failures(console: Console, trace: Trace, allocators: Sequence[AllocatorMemory]) -> None:
    rows = [
        [
            item.allocator.label,
            f"{failure.piece.size:,}",
            f"{failure.live:,}",
            f"{failure.gaps.largest:,}",
            during(trace, failure.piece.during) or "",
        ]
        for item in allocators
        for failure in item.failures
    ]
    if rows:
        headers = ["allocator", "asked for [B]", "live [B]", "largest gap [B]", "during"]
        show_table(console, headers, rows, title="Refused", numbers=(1, 2, 3))


def _print_pools(console: Console, pools: Sequence[PlannedPool]) -> None:
    rows = [
        [
            f"planned_{pool.pool}",
            f"{pool.planned:,}",
            f"{pool.reach:,}",
            f"{pool.peak:,}",
            "the start" if pool.peak_at < 0 else f"instruction {pool.peak_at}",
            str(len(pool.peak_tensors)),
            f"{pool.peak_gaps.bytes:,}",
        ]
        for pool in pools
    ]
    headers = ["pool", "planned [B]", "reach [B]", "needed [B]", "at", "tensors then", "gaps [B]"]
    show_table(console, headers, rows, title="Planned memory", numbers=(1, 2, 3, 5, 6))


def during(trace: Trace, row: int) -> str | None:
    """Return the event of ``row``, with its instruction if it has one."""
    if row < 0:
        return None
    name = printable(trace.text(int(trace.name[row])) or "an event without a name")
    return name if trace.chain[row] < 0 else f"{name} (instruction {trace.instruction[row]})"


def _bytes(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


class OriginDocument(msgspec.Struct, frozen=True):
    """The origin of an operator.

    ``module`` is the innermost around all its nodes, "" the model itself, null when nothing is
    known; ``stack_traces`` are by the name of the node.
    """

    op_types: tuple[str, ...]
    module: str | None
    backend: str | None
    debug_handles: tuple[int, ...]
    stack_traces: dict[str, str | None]


class ArgumentsDocument(msgspec.Struct, frozen=True):
    """Inputs and outputs of an operator, such as ``float32[1, 8]``; ``?`` marks an upper bound."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class ModuleDocument(msgspec.Struct, frozen=True):
    """The time of a module's operators in nanoseconds, without and with the modules within it.

    ``path`` is null for operators of unknown origin.
    """

    block: str
    path: str | None
    type: str | None
    own_ns: float
    total_ns: float


class OutputDocument(msgspec.Struct, frozen=True):
    """An output compared with its reference; infinite and undefined metrics are null."""

    run: int
    output: int
    metrics: dict[str, float | None]


def origin_document(operator: Operator, symbols: _Known) -> OriginDocument | None:
    """Return the origin of an operator in the ETRecord."""
    found = None if symbols is None else symbols[int(operator.rows[0])]
    if found is None:
        return None
    handles = (found.handles,) if isinstance(found.handles, int) else found.handles or ()
    return OriginDocument(
        op_types=found.op_types,
        module=found.module[-1].path if found.module else None,
        backend=found.backend,
        debug_handles=handles,
        stack_traces=found.stack_traces,
    )


def arguments_document(operator: Operator, arguments: _Given) -> ArgumentsDocument | None:
    """Return the arguments of an operator in its first run, from the model or the log."""
    found = None if arguments is None else arguments[int(operator.rows[0])]
    if found is None:
        return None
    return ArgumentsDocument(_texts(found.inputs), _texts(found.outputs))


def module_tables() -> Any:
    """Return what knows of modules, from the symbols of an ETRecord."""
    return load_extension(INSPECTORS, "modules", "--by module is", "inspector")


def known_columns(symbols: _Known, arguments: _Given) -> list[Column]:
    """Return columns to show next to the times of operators."""
    columns: list[Column] = []
    if symbols is not None:
        columns.append(("op types", _of(symbols, lambda found: ", ".join(found.op_types))))
        columns.append(("module", _of(symbols, _module)))
    if arguments is not None:
        columns.append(("inputs", _of(arguments, lambda found: ", ".join(_texts(found.inputs)))))
    return columns


def _of(known: Sequence[object | None], text: Callable[..., str]) -> Callable[[Operator], str]:
    def cell(operator: Operator) -> str:
        found = known[int(operator.rows[0])]
        return "" if found is None else text(found)

    return cell


def _module(found: EventSymbols) -> str:
    return found.module[-1].path or "(model)" if found.module else ""


def _texts(arguments: Sequence[Argument]) -> tuple[str, ...]:
    return tuple(printable(item.text) for item in arguments)

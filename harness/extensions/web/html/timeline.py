"""The time of executions on a page: typical, slowest, first ones, and the call tree as frames."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.call_tree import MergedNode
from harness.analyze.compare import OperatorChange
from harness.analyze.ticks import durations, event_nanoseconds, unknown_durations
from harness.check.subject import Subject
from harness.extensions.web.html.difference import (
    change_text,
    colour_of,
    is_judged,
    legend,
    percent_of,
)
from harness.extensions.web.html.svg import Axis, FrameBox, Limits, View, timeline
from harness.formatting import (
    TICKS,
    OperatorKind,
    counted,
    operator_kind,
    operator_title,
    short_operator_name,
)
from harness.records.trace import DELEGATE_CALL, EXECUTION, Kind, Signature, by_block, is_wrapper
from harness.report.traces import without_wrappers
from harness.report.words import (
    NO_NAME,
    brief,
    left_out,
    one_time,
    percent,
    short_time,
    short_time_unit,
    with_delegate,
)


@dataclass(frozen=True, slots=True)
class TimedExecution:
    """One execution of a method.

    Attributes:
        number: Its number among the executions of the run, from 1.
        row: Row of its ``Method::execute``.
        block: Number of its block.
        time: How long it took, in nanoseconds, or in ticks if the rate is unknown.
        cold: It is the first after loading.
    """

    number: int
    row: int
    block: int
    time: float
    cold: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """An event directly within an execution.

    Attributes:
        title: Its short name and instruction.
        kind: Its kind of work.
        change: Its median now and before; None if that is unknown.
        begin: When it began after its execution, in the unit of ``TimedExecution.time``.
        time: How long it took, likewise.
    """

    title: str
    kind: OperatorKind
    change: OperatorChange | None
    begin: float
    time: float


@dataclass(frozen=True, slots=True)
class Executions:
    """The executions of one method, in order.

    Attributes:
        all: Those of known duration.
        timed: Their times are nanoseconds.
    """

    all: tuple[TimedExecution, ...]
    timed: bool

    @property
    def median(self) -> TimedExecution:
        """The execution in the middle by time; the faster of two."""
        return sorted(self.all, key=_time)[(len(self.all) - 1) // 2]

    @property
    def slowest(self) -> TimedExecution:
        """The execution that took longest, the first of several."""
        return max(self.all, key=_time)

    @property
    def first(self) -> TimedExecution:
        """The execution that began first."""
        return self.all[0]


def _time(execution: TimedExecution) -> float:
    return execution.time


def executions(subject: Subject) -> Executions | None:
    """Return the executions of the first method of ``subject``; None if none was logged."""
    found = next((op for op in subject.operators if op.name == EXECUTION), None)
    if found is None or found.times is None:
        return None
    trace = subject.trace
    ticks = durations(trace)
    times = ticks.astype(np.float64) if found.ns is None else event_nanoseconds(trace, ticks)
    blocks = block_numbers(trace)[found.rows].tolist()
    known = ~unknown_durations(trace)[found.rows]
    return Executions(
        all=tuple(
            TimedExecution(number, row, block, time, subject.runs[block].cold)
            for number, (row, block, time, is_known) in enumerate(
                zip(
                    found.rows.tolist(),
                    blocks,
                    times[found.rows].tolist(),
                    known.tolist(),
                    strict=True,
                ),
                start=1,
            )
            if is_known
        ),
        timed=found.ns is not None,
    )


def title_of(subject: Subject, event: Signature, row: int = -1) -> str:
    """Return the short name of an event and its instruction.

    The call of a delegate is named after its backend. An event of a delegate without a name is
    named after its operators, if an ETRecord has them, else after the backend; its id follows.

    Args:
        subject: The run.
        event: The event.
        row: One of its rows; -1 to look for one where it is needed.
    """
    delegate = event.delegate_int if event.delegate_str is None else event.delegate_str
    name, backend = event.name, subject.backends.get((event.chain, event.instruction), "")
    if delegate != -1:
        nodes = [] if name else _operators_of(subject, event, row)
        name = f"{name or ' + '.join(nodes) or backend} [{delegate}]".strip()
    elif name == DELEGATE_CALL and backend:
        name = backend
    return brief(operator_title(name, None if event.chain < 0 else event.instruction) or NO_NAME)


def _operators_of(subject: Subject, event: Signature, row: int) -> list[str]:
    if subject.symbols is None:
        return []
    if row < 0:
        same = (op.rows for op in subject.operators if op.signature == event.signature)
        row = next((int(rows[0]) for rows in same), -1)
    known = subject.symbols[row] if row >= 0 else None
    return (
        []
        if known is None
        else [short_operator_name(op.replace(".", "::", 1)) for op in known.op_types]
    )


def slices(
    subject: Subject,
    execution: TimedExecution,
    changes: Mapping[tuple[str, str, int, int, int, str | None], OperatorChange],
) -> list[Slice]:
    """Return what happened directly within an execution, in the order of time.

    The runtime's scope around an instruction is replaced by what it holds. Events on other clocks
    than that of the execution have no place beside these. ``changes`` are those of operators, by
    their signatures.

    Raises:
        FormatError: The times cannot be brought into an order.
    """
    trace, tree = subject.trace, subject.tree
    block = trace.blocks[execution.block]
    rows = np.arange(block.first, block.first + block.count)
    timed = (trace.kind[rows] == Kind.PROFILE) & (trace.clock[rows] == trace.clock[execution.row])
    rows = rows[timed & ~trace.delegated[rows] & (tree.start[rows] >= 0)]
    parent = tree.parent[rows]
    direct = rows[parent == execution.row]
    wrappers = direct[trace.named(*filter(is_wrapper, trace.names), rows=direct)]
    inner = rows[np.isin(parent, wrappers)]
    empty = np.setdiff1d(wrappers, tree.parent[inner])
    kept = np.concatenate([np.setdiff1d(direct, wrappers), inner, empty])
    kept = kept[np.argsort(tree.start[kept], kind="stable")]
    length = max(int(tree.total[execution.row]), 1)
    unit = execution.time / length
    begin = int(tree.start[execution.row])
    found = []
    for row in kept.tolist():
        name = trace.text(int(trace.name[row])) or ""
        place = int(trace.chain[row]), int(trace.instruction[row])
        event = Signature(block.name, name, *place, -1, None)
        found.append(
            Slice(
                title=title_of(subject, event, row),
                change=changes.get(event.signature),
                kind=operator_kind(name),
                begin=unit * (int(tree.start[row]) - begin),
                time=unit * int(tree.total[row]),
            )
        )
    return found


DEEPEST: Final = 24
"""Levels that are shown; far within others nothing could be read."""

_COLOURS: Final = 6
"""Colours that frames have, by their names."""


def icicles(subject: Subject, nodes: Sequence[MergedNode], limits: Limits) -> list[View]:
    """Return a merged tree, one picture and list for the blocks of each name; the longest first.

    Args:
        subject: The run.
        nodes: The tree of the median execution of each name.
        limits: How many frames and lines are shown.
    """
    nodes = without_wrappers(nodes)
    found = [_icicle(subject, block, _indexed(nodes, own), limits) for block, own in _blocks(nodes)]
    return [item for item in found if item["frames"] or item["lines"]]


def _blocks(nodes: Sequence[MergedNode]) -> list[tuple[str, list[MergedNode]]]:
    def longest(item: tuple[str, list[MergedNode]]) -> float:
        return max((node.total_ns or 0.0 for node in item[1]), default=0.0)

    return sorted(by_block(nodes).items(), key=longest, reverse=True)


def _indexed(
    nodes: Sequence[MergedNode], own: Sequence[MergedNode]
) -> list[tuple[MergedNode, int]]:
    """Nodes of one block, each with the place of its parent among these."""
    if len(own) == len(nodes):
        return [(node, node.parent) for node in own]
    mine = set(map(id, own))
    place: dict[int, int] = {}
    for index, node in enumerate(nodes):
        if id(node) in mine:
            place[index] = len(place)
    return [(node, place.get(node.parent, -1)) for node in own]


def _icicle(
    subject: Subject, block: str, nodes: list[tuple[MergedNode, int]], limits: Limits
) -> View:
    value = _values(nodes)
    left, width = _widths(nodes, value)
    drawn = [n for n, w in enumerate(width) if w is not None and nodes[n][0].depth < DEEPEST]
    # No frame is wider than the one around it, which stands before it: so that one is kept, too.
    drawn.sort(key=lambda n: (-(width[n] or 0.0), n))
    kept = sorted(n for n in drawn[: limits.frames] if width[n])
    place = {n: index for index, n in enumerate(kept)}
    rest = any(node.taken_ticks for node, _ in nodes)
    frames = [_frame(subject, nodes[n][0], left[n], width[n] or 0.0, rest=rest) for n in kept]
    shallow = [n for n, (node, _) in enumerate(nodes) if node.depth < DEEPEST]
    return {
        "block": brief(block),
        "frames": frames,  # each behind the one around it
        "parents": [place.get(nodes[n][1], -1) for n in kept],
        # Not drawn: others are longer; the clock compares with nothing around; too far within.
        "small": len(drawn) - len(kept),
        "apart": sum(width[n] is None for n in shallow),
        "deep": len(nodes) - len(shallow),
        "lines": _lines([nodes[n][0] for n in shallow[: limits.nodes]]),
        "unlisted": max(len(shallow) - limits.nodes, 0),
    }


def _frame(
    subject: Subject, node: MergedNode, left: float, width: float, *, rest: bool
) -> FrameBox:
    return FrameBox(
        left=round(left, 4),
        width=round(width, 4),
        level=node.depth,
        name=title_of(subject, node),
        text=f"{_name(node)}: {_times(node, rest=rest)}",
        kind=_colour(node),
    )


def _colour(node: MergedNode) -> str:
    """The class of the colour of its kind of work, or where that is unknown, of its name."""
    kind = operator_kind(node.name, node.delegate_int != -1 or node.delegate_str is not None)
    if kind is not OperatorKind.OTHER:
        return f"k-{kind.value}"
    return f"c{zlib.crc32(node.name.encode('utf-8', 'surrogatepass')) % _COLOURS}"


def _values(nodes: list[tuple[MergedNode, int]]) -> list[float | None]:
    """The time of each node, None for what does not compare with what is around it."""
    roots = [node for node, parent in nodes if parent < 0]
    clock = None if any(node.total_ns is not None for node in roots) else roots[0].clock
    value: list[float | None] = []
    for node, parent in nodes:
        inside = parent < 0 or value[parent] is not None
        value.append(_comparable(node, clock) if inside else None)
    return value


def _widths(
    nodes: list[tuple[MergedNode, int]], value: list[float | None]
) -> tuple[list[float], list[float | None]]:
    """Where each node begins and how wide it is, percent; no width for what does not compare.

    What is within a node and together longer than it, as on a delegate's own clock, is drawn
    shorter, so that it fits.
    """
    within: dict[int, list[int]] = defaultdict(list)
    for n, (_, parent) in enumerate(nodes):
        if value[n] is not None:
            within[parent].append(n)
    left, width = [0.0] * len(nodes), [*value]
    for parent in (-1, *range(len(nodes))):
        inner = within.get(parent, [])
        together = sum(value[n] or 0.0 for n in inner)
        room, at = (100.0, 0.0) if parent < 0 else (width[parent] or 0.0, left[parent])
        longest = max(together, 0.0 if parent < 0 else value[parent] or 0.0)
        for n in inner:
            left[n] = at
            width[n] = room * (value[n] or 0.0) / longest if longest else 0.0
            at += width[n] or 0.0
    return left, width


def _comparable(node: MergedNode, clock: str | None) -> float | None:
    """Its time in nanoseconds, or in ticks of ``clock`` where that is given."""
    if clock is None:
        return node.total_ns
    return float(node.total_ticks) if node.clock == clock else None


def _name(node: MergedNode) -> str:
    name = brief(with_delegate(node))
    return name if node.chain == -1 else f"{name} · instruction {node.instruction}"


def _times(node: MergedNode, *, rest: bool) -> str:
    """Return times and share of a node; ``rest`` if they lack what other tasks took."""
    total = one_time(node.total_ns, node.total_ticks)
    own = one_time(node.own_ns, node.own_ticks)
    parts = [f"{total} in {node.count:,} repeats" if node.count > 1 else total]
    if node.count > 1:
        each = None if node.total_ns is None else node.total_ns / node.count
        parts.append(f"{one_time(each, node.total_ticks / node.count)} each")
    parts.append(f"{own} by itself")
    if node.share is not None:
        parts.append(f"{percent(node.share)} of the {'' if rest else 'wall '}time")
    if node.taken_ticks:
        others = one_time(node.taken_ns, node.taken_ticks)
        parts.append(f"{others} more that other tasks and interrupts took")
    if node.ambiguous:
        parts.append(f"{node.ambiguous:,} of them may belong elsewhere")
    for name, counts in node.counters.items():
        alone = "" if counts.own is None else f" ({counts.own:,} by itself)"
        parts.append(f"{counts.total:,} {brief(name)}{alone}")
    return ", ".join(parts)


def _lines(nodes: Sequence[MergedNode]) -> list[View]:
    """Lines of nodes of which each stands before those within it.

    A line opens a list of what is within it, or closes as many lists as end behind it.
    """
    found, rest = [], any(node.taken_ticks for node in nodes)
    for n, node in enumerate(nodes):
        after = nodes[n + 1].depth if n + 1 < len(nodes) else nodes[0].depth
        found.append(
            {
                "name": _name(node),
                "times": _times(node, rest=rest),
                "opens": after > node.depth,
                "closes": max(node.depth - after, 0),
            }
        )
    return found


_ALIKE: Final = 1e-3
"""Executions whose times differ by a smaller share look the same."""


def timeline_view(
    subject: Subject, changes: Sequence[OperatorChange], beside: str, limits: Limits
) -> View | None:
    """Draw executions of ``subject``; None if none has events within it.

    The median execution, and on one axis the slowest and the first one, without those that took as
    long as the median one.

    Args:
        subject: The run.
        changes: What became of its operators since an earlier run; below the median execution is
            what they took then.
        beside: What the earlier run is.
        limits: How many blocks are drawn.
    """
    found = executions(subject)
    if found is None or not found.median.time:
        return None
    known = {change.signature: change for change in changes}
    parts = slices(subject, found.median, known)
    if not parts:
        return None
    names = {found.median.number: "Median execution"}
    chosen = []
    for execution, name in ((found.slowest, "Slowest execution"), (found.first, _first(found))):
        if execution.number not in names and _differs(execution, found.median):
            names[execution.number] = name
            chosen.append(execution)
    longest = max((execution.time for execution in chosen), default=0.0)
    median = found.median
    return {
        "median": _picture(found, median, "Median execution", parts, median.time, limits, beside),
        "others": [
            _picture(found, item, names[item.number], slices(subject, item, {}), longest, limits)
            for item in chosen
        ],
        "alike": _alike(found),
        "kinds": _kinds(parts, median.time),
        "numbers": names.keys(),
    }


def _differs(one: TimedExecution, other: TimedExecution) -> bool:
    return abs(one.time - other.time) > _ALIKE * other.time


def _first(found: Executions) -> str:
    return "First execution after loading (cold)" if found.first.cold else "First execution"


def _alike(found: Executions) -> str:
    if len(found.all) < 2 or any(_differs(item, found.median) for item in found.all):
        return ""
    return f"All {len(found.all):,} executions took the same time within {percent(_ALIKE)}."


def _picture(
    found: Executions,
    execution: TimedExecution,
    name: str,
    parts: list[Slice],
    longest: float,
    limits: Limits,
    beside: str = "",
) -> View:
    """Draw an execution on an axis of the length ``longest``, or longer if it was longer before."""
    before = [part for part in parts if part.change and part.change.time.before is not None]
    longest = max(longest, sum(part.change.time.before or 0.0 for part in before if part.change))
    unit = short_time_unit(longest) if found.timed else TICKS
    whole = Axis(0.0, longest)
    kept = sorted(parts, key=lambda part: part.time, reverse=True)[: limits.blocks]
    busy = sum(part.time for part in parts)

    def text(time: float) -> str:
        return short_time(time if found.timed else None, time)

    frames = []
    for part in sorted(kept, key=lambda part: part.begin):
        width = 100 * part.time / longest
        frames.append(
            FrameBox(
                left=round(100 * part.begin / longest, 3),
                width=round(width, 3),
                level=0,
                name=part.title,
                text=f"{part.title}: {text(part.time)}, {percent(part.time / execution.time)} of "
                f"the execution, begins at {text(part.begin)}",
                kind=f"k-{part.kind.value}",
            )
        )
    title = f"{name}: number {execution.number:,} of {len(found.all):,}, {text(execution.time)}"
    idle = max(execution.time - busy, 0.0)
    largest = ", ".join(f"{part.title} {text(part.time)}" for part in kept[:3])
    summary = (
        f"{title}; {counted(len(parts), 'event')}, the longest {largest}; {text(idle)} between them"
    )
    base = whole.base(unit.divisor, unit.name)
    under = [*_before(before, longest)]
    judged = any(is_judged(part.change) for part in before if part.change)
    if under:
        summary += f"; below it, what each took in the {beside}"
    return {
        "number": execution.number,
        "title": title,
        "beside": beside if under else "",
        "legend": legend(under, judged=judged),
        "picture": timeline(frames, base, summary, under),
        "more": left_out(len(parts), limits.blocks),
    }


def _before(parts: Sequence[Slice], longest: float) -> Iterator[FrameBox]:
    """Draw medians of an earlier run side by side, in the colours of what became of them."""
    at = 0.0
    for part in parts:
        if part.change is not None:
            width = 100 * (part.change.time.before or 0.0) / longest
            text = f"{part.title}: {change_text(part.change)}"
            name = percent_of(part.change) if colour_of(part.change) != "d-same" else ""
            kind = colour_of(part.change)
            yield FrameBox(round(at, 3), round(width, 3), 0, name, text, kind)
            at += width


def _kinds(parts: list[Slice], whole: float) -> list[tuple[str, str, str]]:
    """Return kinds of operators, the class of each one's colour, and its share of an execution."""
    times: dict[str, float] = defaultdict(float)
    for part in parts:
        times[part.kind.value] += part.time
    longest = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    found = [(name, f"k-{name}", percent(time / whole)) for name, time in longest]
    idle = whole - sum(times.values())
    if idle > 0:
        found.append(("between operators", "k-idle", percent(idle / whole)))
    return found

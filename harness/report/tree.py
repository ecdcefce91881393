"""The call tree on the terminal: total and self time, merged over runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.analyze.call_tree import CallTree, call_tree
from harness.analyze.merged_tree import MergedNode, NodeCounts, merged_tree
from harness.formatting import TICKS, DisplayUnit, printable, time_text, time_unit
from harness.records.signature import by_block
from harness.records.trace import NO_CLOCK, Kind, Trace
from harness.report.facts import trace_losses
from harness.report.operators import UNKNOWN, share_text
from harness.report.run import print_losses
from harness.report.terminal import show_line, show_table
from harness.report.text import event_title, with_delegate

if TYPE_CHECKING:
    from rich.console import Console

_DEEPEST = 20
"""Levels that are indented."""


def print_tree(console: Console, trace: Trace, *, detailed: bool = False) -> None:
    """Print the call tree of ``trace``, one table per name of blocks, then what is missing.

    Nodes are in log order. The share is that of all reports (``WallTimes``): the total time of the
    node, and of what is within it, as a part of the wall time. Each hardware counter that was
    recorded has a column with the sum of its counts, and one with the node's own part.

    Args:
        console: Where to.
        trace: What was logged.
        detailed: Print whole names and all digits, and list the events that may belong elsewhere.
    """
    tree = call_tree(trace)
    nodes = by_block(merged_tree(tree))
    for block in dict.fromkeys(item.name for item in trace.blocks):
        if block in nodes:
            _print_nodes(console, block, nodes[block], detailed=detailed)
    _print_ambiguous(console, tree, detailed=detailed)
    if backward := int(tree.backward.sum()):
        text = "events end before they start: what they took is unknown, and counts as 0"
        show_line(console, f"backward: {backward} {text}")
    print_losses(console, trace_losses(trace))


def _print_nodes(console: Console, block: str, nodes: list[MergedNode], *, detailed: bool) -> None:
    times = [node.total_ns for node in nodes if node.total_ns is not None]
    unit = time_unit(times) if times else TICKS
    counters = [*dict.fromkeys(name for node in nodes for name in node.counters)]
    rows = []
    for node in nodes:
        counts = [text for name in counters for text in _counts(node.counters.get(name))]
        name, count = with_delegate(node) if detailed else event_title(node), f"{node.count:,}"
        place = [str(node.instruction)] if detailed else []
        cells = [*_times(node, unit, brief=not detailed), share_text(node.share), count]
        rows.append([_indent(node.depth) + name, *place, *cells, *counts])
    headers = ["event", *["instruction"] * detailed, f"total [{unit.name}]", f"self [{unit.name}]"]
    headers += ["share [%]", "count"]
    headers += [text for name in counters for text in (printable(name), f"self {printable(name)}")]
    numbers = range(1, len(headers))
    show_table(console, headers, rows, title=f"Call tree of {block}", numbers=numbers)


def _counts(found: NodeCounts | None) -> list[str]:
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
                    _name(tree.trace, row),
                    str(tree.trace.start[row]) if timed else "",
                    "nothing" if parent < 0 else f"{_name(tree.trace, parent)} (row {parent})",
                ]
            )
        show_table(
            console, ["row", "event", "start [ticks]", "taken as within"], cells, numbers=(0, 2)
        )


def _name(trace: Trace, row: int) -> str:
    kind = trace.kind[row]
    if kind == Kind.ALLOCATION:
        return "allocation"
    if kind == Kind.DEBUG:
        return "value"
    delegate = trace.text(int(trace.delegate_str[row])) or str(trace.delegate_int[row])
    return trace.text(int(trace.name[row])) or f"delegate event {delegate}"

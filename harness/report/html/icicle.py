"""The call tree as a flame view that hangs from its root, and the same as a list.

Each frame is as wide as its share of the blocks' time and stands below the one around it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.analyze.merged_tree import MergedNode
from harness.records.signature import by_block
from harness.report.html.pictures import FrameBox
from harness.report.text import Limits, brief, one_time, percent, with_delegate

DEEPEST: Final = 24
"""Levels that are shown; far within others nothing could be read."""

_COLOURS: Final = 6
"""Colours that frames have, by their names."""


@dataclass(frozen=True, slots=True)
class IcicleLine:
    """A line of the list.

    Attributes:
        name: Name of the node, its instruction and delegate.
        times: What it took.
        opens: Lines within it follow.
        closes: How many lists end behind it.
    """

    name: str
    times: str
    opens: bool
    closes: int


@dataclass(frozen=True, slots=True)
class Icicle:
    """The tree of the blocks of one name.

    Attributes:
        block: Their name.
        frames: What is drawn; each behind the one around it.
        parents: Number of the frame around each, -1 for none.
        small: Nodes that are not drawn as others are longer.
        apart: Nodes that are not drawn as their clock compares with nothing around them.
        deep: Nodes that are neither drawn nor listed as they are too far within others.
        lines: The list.
        unlisted: Nodes that are not deep and yet not listed as there are too many.
    """

    block: str
    frames: tuple[FrameBox, ...]
    parents: tuple[int, ...]
    small: int
    apart: int
    deep: int
    lines: tuple[IcicleLine, ...]
    unlisted: int


def icicles(nodes: Sequence[MergedNode], limits: Limits) -> list[Icicle]:
    """Draw a merged tree, one picture for the blocks of each name; the longest first."""
    found = [_icicle(block, _indexed(nodes, own), limits) for block, own in _blocks(nodes)]
    return [item for item in found if item.frames or item.lines]


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


def _icicle(block: str, nodes: list[tuple[MergedNode, int]], limits: Limits) -> Icicle:
    value = _values(nodes)
    left, width = _widths(nodes, value)
    drawn = [n for n, w in enumerate(width) if w is not None and nodes[n][0].depth < DEEPEST]
    # No frame is wider than the one around it, which stands before it: so that one is kept, too.
    drawn.sort(key=lambda n: (-(width[n] or 0.0), n))
    kept = sorted(n for n in drawn[: limits.frames] if width[n])
    place = {n: index for index, n in enumerate(kept)}
    frames = [_frame(nodes[n][0], left[n], width[n] or 0.0) for n in kept]
    shallow = [n for n, (node, _) in enumerate(nodes) if node.depth < DEEPEST]
    return Icicle(
        block=brief(block),
        frames=tuple(frames),
        parents=tuple(place.get(nodes[n][1], -1) for n in kept),
        small=len(drawn) - len(kept),
        apart=sum(width[n] is None for n in shallow),
        deep=len(nodes) - len(shallow),
        lines=_lines([nodes[n][0] for n in shallow[: limits.nodes]]),
        unlisted=max(len(shallow) - limits.nodes, 0),
    )


def _frame(node: MergedNode, left: float, width: float) -> FrameBox:
    name = _name(node)
    return FrameBox(
        left=round(left, 4),
        width=round(width, 4),
        level=node.depth,
        name=name,
        text=f"{name}: {_times(node)}",
        kind=f"c{zlib.crc32(node.name.encode('utf-8', 'surrogatepass')) % _COLOURS}",
    )


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


def _times(node: MergedNode) -> str:
    total = one_time(node.total_ns, node.total_ticks)
    own = one_time(node.own_ns, node.own_ticks)
    parts = [f"{total} in {node.count:,} repeats" if node.count > 1 else total]
    if node.count > 1:
        each = None if node.total_ns is None else node.total_ns / node.count
        parts.append(f"{one_time(each, node.total_ticks / node.count)} each")
    parts.append(f"{own} by itself")
    if node.share is not None:
        parts.append(f"{percent(node.share)} of the wall time")
    if node.ambiguous:
        parts.append(f"{node.ambiguous:,} of them may belong elsewhere")
    for name, counts in node.counters.items():
        alone = "" if counts.own is None else f" ({counts.own:,} by itself)"
        parts.append(f"{counts.total:,} {brief(name)}{alone}")
    return ", ".join(parts)


def _lines(nodes: Sequence[MergedNode]) -> tuple[IcicleLine, ...]:
    """Lines of nodes of which each stands before those within it."""
    found = []
    for n, node in enumerate(nodes):
        after = nodes[n + 1].depth if n + 1 < len(nodes) else nodes[0].depth
        found.append(
            IcicleLine(
                name=_name(node),
                times=_times(node),
                opens=after > node.depth,
                closes=max(node.depth - after, 0),
            )
        )
    return tuple(found)

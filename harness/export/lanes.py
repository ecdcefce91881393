"""Assigns slices to lanes, on which slices are nested as in the call tree or do not overlap.

Viewers nest by time alone and drop slices that overlap partly. So slices that would nest otherwise
than in the tree, or overlap, move to a lane of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arranged:
    """Slices on lines.

    Attributes:
        order: Slices by start, outer slices first. Starts and ends written in this order, inner
            ends first, are in order of time on each track.
        track: Track of each slice, in this order.
        depth: Number of enclosing slices on the same track, in this order.
        tracks: Line and lane of each track, in order.
    """

    order: _Ints
    track: _Ints
    depth: _Ints
    tracks: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Lane:
    """The open slices of a lane, outermost first."""

    open: list[int] = field(default_factory=list)


def arrange(start: _Ints, end: _Ints, parent: _Ints, lines: _Ints) -> Arranged:
    """Assign a lane to each slice.

    Args:
        start: Start of each slice.
        end: End of each slice, not before its start.
        parent: Enclosing slice, -1 without one.
        lines: Line of each slice, numbers from 0.
    """
    order = sorted(_outer_first(start, end, parent), key=start.tolist().__getitem__)
    starts, ends, parents, wanted = (x.tolist() for x in (start, end, parent, lines))
    lanes: list[list[_Lane]] = [[] for _ in range(int(lines.max(initial=-1)) + 1)]
    lane_of = [0] * len(order)
    depth = [0] * len(order)
    for slice_ in order:
        line = lanes[wanted[slice_]]
        around = parents[slice_]
        held = around >= 0 and wanted[around] == wanted[slice_]
        preferred = lane_of[around] if held else 0
        for lane in [preferred, *(n for n in range(len(line) + 1) if n != preferred)]:
            if lane == len(line):
                line.append(_Lane())
            stack = line[lane].open
            while (
                stack and ends[stack[-1]] <= starts[slice_] and not (held and stack[-1] == around)
            ):
                stack.pop()
            top = stack[-1] if stack else -1
            if top == -1 or (held and top == around and ends[slice_] <= ends[top]):
                break
        lane_of[slice_] = lane
        depth[slice_] = len(stack)
        stack.append(slice_)
    found = sorted({(wanted[slice_], lane_of[slice_]) for slice_ in order})
    number = {track: index for index, track in enumerate(found)}
    tracks = [number[wanted[slice_], lane_of[slice_]] for slice_ in order]
    return Arranged(
        order=np.array(order, np.int64),
        track=np.array(tracks, np.int64),
        depth=np.array([depth[slice_] for slice_ in order], np.int64),
        tracks=tuple(found),
    )


def _outer_first(start: _Ints, end: _Ints, parent: _Ints) -> list[int]:
    """Return all slices depth-first; siblings by start, then by end, then in log order."""
    children: list[list[int]] = [[] for _ in range(len(parent) + 1)]  # the last entry: roots
    for slice_ in np.lexsort((end, start))[::-1].tolist():
        children[parent[slice_]].append(slice_)
    order: list[int] = []
    stack = children[-1]
    while stack:
        slice_ = stack.pop()
        order.append(slice_)
        stack += children[slice_]
    return order

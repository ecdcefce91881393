"""Flame graphs: speedscope's JSON, with a profile per block, and folded stacks.

Both draw slices of a block on each other as the call tree says. A slice that overlaps another one
without being in it, such as a job of a delegate beside others, cannot be drawn so: in speedscope
it is in a profile of its own; in folded stacks it is left out, because it would add time that the
stacks already have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from harness.analyze.blocks import executions
from harness.export.formats import Exported, ExportFormat, Request
from harness.extensions.exports.timeline import (
    WITH_WRAPPERS,
    WRAPPER_FLAVOURS,
    Drawing,
    arrange,
    draw,
    process_labels,
    process_name,
)
from harness.formatting import counted, escaped
from harness.records.trace import Trace

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


@dataclass(frozen=True, slots=True)
class Flame:
    """Slices of a block that nest.

    Attributes:
        title: The block, numbered among those of its name.
        block: Number of the block.
        lane: 0; from 1 on for slices that overlap others of the block.
        slices: Numbers of the slices in the drawing, by start, outer slices first.
        depths: Number of enclosing slices of each.
    """

    title: str
    block: int
    lane: int
    slices: list[int]
    depths: list[int]


def flames(drawing: Drawing) -> list[Flame]:
    """Return the slices of each block and tracer, in order of the blocks."""
    if not len(drawing):
        return []
    trace = drawing.trace
    keys = np.stack([drawing.blocks(), trace.tracer[drawing.row]], axis=1).astype(np.int64)
    found, lines = np.unique(keys, axis=0, return_inverse=True)
    order, track, depth, tracks = arrange(
        drawing.start, drawing.end, drawing.parent, lines.reshape(-1).astype(np.int64)
    )
    titles = _titles(trace)
    by_track = np.argsort(track, kind="stable")
    bounds = np.cumsum(np.bincount(track))[:-1]
    flames_ = []
    for (line, lane), mine in zip(tracks, np.split(by_track, bounds), strict=True):
        block, tracer = found[line].tolist()
        title = titles[block] + (f", tracer {tracer}" if tracer else "")
        flames_.append(
            Flame(
                f"{title} (overlapping {lane})" if lane else title,
                block,
                lane,
                order[mine].tolist(),
                depth[mine].tolist(),
            )
        )
    return flames_


def _titles(trace: Trace) -> list[str]:
    """Return the name of each block and its number among those of this name, from 1."""
    seen: Counter[str] = Counter()
    titles = []
    for block in trace.blocks:
        seen[block.name] += 1
        titles.append(f"{escaped(block.name)} {seen[block.name]}")
    return titles


def write_speedscope(trace: Trace, request: Request) -> Exported:
    """Return the file for speedscope, with notes on data of the trace that it lacks.

    Raises:
        UsageError: The rate of the tracer's clock is unknown.
    """
    shown = request.flavour == WITH_WRAPPERS
    drawing = draw(trace, request.method, symbols=request.symbols, wrappers=shown)
    frames: dict[str, int] = {}
    drawn = flames(drawing)
    profiles = [_profile(drawing, flame, frames) for flame in drawn]
    executed = executions(trace)[0].tolist()
    document = {
        "$schema": _SCHEMA,
        "name": process_name(request.identity),
        "exporter": "etdump-harness",
        # The first execution is shown first, not the loading before it.
        "activeProfileIndex": next(
            (number for number, flame in enumerate(drawn) if executed[flame.block]), 0
        ),
        "otherData": {name: text for name, text in request.identity.texts().items() if text},
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    notes = (*drawing.notes, *_left_out(drawing))
    return Exported(msgspec.json.encode(document), notes)


def _profile(drawing: Drawing, flame: Flame, frames: dict[str, int]) -> dict[str, Any]:
    """Return the profile of a flame; adds the names of its slices to ``frames``."""
    starts, ends = drawing.start[flame.slices], drawing.end[flame.slices]
    events: list[dict[str, Any]] = []
    open_: list[tuple[int, int]] = []

    def close(depth: int) -> None:
        while len(open_) > depth:
            frame, end = open_.pop()
            events.append({"type": "C", "frame": frame, "at": end})

    rows = zip(flame.slices, flame.depths, starts.tolist(), ends.tolist(), strict=True)
    for number, depth, start, end in rows:
        close(depth)
        frame = frames.setdefault(drawing.titles[number].text, len(frames))
        events.append({"type": "O", "frame": frame, "at": start})
        open_.append((frame, end))
    close(0)
    return {
        "type": "evented",
        "name": flame.title,
        "unit": "nanoseconds",
        "startValue": int(starts.min()),
        "endValue": int(ends.max()),
        "events": events,
    }


def write_folded(trace: Trace, request: Request) -> Exported:
    """Return a line per stack with its self time in nanoseconds, with notes on what is missing.

    The first frame names model and board, and a stack without time the run. Stacks of several
    executions with the same names are one line.

    Raises:
        UsageError: The rate of the tracer's clock is unknown.
    """
    shown = request.flavour == WITH_WRAPPERS
    drawing = draw(trace, request.method, symbols=request.symbols, wrappers=shown)
    root = process_name(request.identity)
    times: Counter[tuple[str, ...]] = Counter()
    beside = 0
    for flame in flames(drawing):
        if flame.lane:
            beside += len(flame.slices)
        else:
            for stack, own in self_times_of(drawing, flame):
                times[stack] += own
    # Every line has to end in a number, so the identity is a stack without time. In the frames it
    # would make the stacks of two runs differ, which tools compare by their text.
    labels = ", ".join(process_labels(request.identity))
    lines = [f"{_frame(root)};{_frame(labels)} 0\n"] if labels else []
    lines += [
        f"{';'.join(map(_frame, (root, *stack)))} {own}\n" for stack, own in times.items() if own
    ]
    empty = sum(not own for own in times.values())
    notes = {
        f"{counted(beside, 'event')} that overlap others: the time is that of the others": beside,
        f"{counted(empty, 'stack')} without a self time": empty,
    }
    own_notes = tuple(note for note, count in notes.items() if count)
    return Exported("".join(lines).encode(), (*drawing.notes, *own_notes, *_left_out(drawing)))


def self_times_of(drawing: Drawing, flame: Flame) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the names of each slice and those around it, and its time without inner slices.

    Like all times that are no places, it is without what other tasks and interrupts took.
    """
    lengths = (drawing.end - drawing.start - drawing.taken)[flame.slices].tolist()
    own, around = [*lengths], [0] * len(lengths)
    stacks: list[tuple[str, ...]] = []
    for place, (number, depth) in enumerate(zip(flame.slices, flame.depths, strict=True)):
        around[depth:] = [place]
        outer = around[depth - 1] if depth else -1
        if outer >= 0:
            own[outer] -= lengths[place]
        stacks.append((*(stacks[outer] if outer >= 0 else ()), drawing.titles[number].text))
    # Nanoseconds are whole, so that parts can be more than the whole by one.
    yield from zip(stacks, (max(time, 0) for time in own), strict=True)


def _frame(name: str) -> str:
    """Return a name without the character that separates frames."""
    return name.replace(";", r"\x3b")


def _left_out(drawing: Drawing) -> tuple[str, ...]:
    """Return a line for each kind of data that a flame graph has no place for."""
    counts = {"counters over time": len(drawing.counters), "losses": len(drawing.gaps)}
    return tuple(f"{count} {what}" for what, count in counts.items() if count)


FOLDED: Final = ExportFormat(
    "Stacks with their self times, for flame graphs.", write_folded, WRAPPER_FLAVOURS
)
SPEEDSCOPE: Final = ExportFormat(
    "Flame graphs of each run, for speedscope.app.", write_speedscope, WRAPPER_FLAVOURS
)

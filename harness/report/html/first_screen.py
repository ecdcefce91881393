"""The first screen of a run: what decided the verdict, four numbers, and whether to trust them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.check.subject import Subject
from harness.records.result import Result
from harness.records.trace import EXECUTION, Kind
from harness.report.description import CheckRow, RunDescription
from harness.report.executions import executions
from harness.report.html.baseline import BaselineNumbers, Delta
from harness.report.html.operators import row_title
from harness.report.text import (
    brief,
    bytes_unit,
    counted,
    one_time,
    percent,
    short_time,
    three_digits,
)

if TYPE_CHECKING:
    from markupsafe import Markup

_CLOSE = 2.0
"""A passed check within this factor of its limit is worth a word."""

_SLIGHT = 0.001
"""A smaller share is not worth a number."""

_COMMIT = 8
"""Characters of a commit."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number to read first.

    Attributes:
        label: What it is.
        value: Its value with its unit.
        exact: The same with all digits.
        more: What belongs to it, in small print.
        delta: Its change against the baseline; None without one.
        trend: Its last values as a line; None without a history.
        comparable: A baseline could have it.
    """

    label: str
    value: str
    exact: str
    more: str
    delta: Delta | None = None
    trend: Markup | None = None
    comparable: bool = True


@dataclass(frozen=True, slots=True)
class TrustNote:
    """What a reader should know before relying on the numbers; ``clean`` if it is as it should."""

    text: str
    clean: bool = True


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The first screen of a run.

    Attributes:
        closest: The limit that a run that passed came closest to; None if it is far from all.
        tiles: Four numbers.
        trust: What the numbers rest on.
    """

    closest: CheckRow | None
    tiles: tuple[Tile, ...]
    trust: tuple[TrustNote, ...]


def first_screen(run: RunDescription, numbers: BaselineNumbers) -> FirstScreen:
    """Prepare the first screen of a run."""
    return FirstScreen(
        closest=_closest(run),
        tiles=tuple(_tiles(run, numbers)),
        trust=tuple(_trust(run)),
    )


def _closest(run: RunDescription) -> CheckRow | None:
    """Of a run that passed the limit of its budget that is closest, if it is close."""
    if run.failure is not None or run.verdict.failed:
        return None
    limited = [row for row in run.verdict.passed if row.code.startswith("B") and row.check.limit]
    close = min(limited, key=lambda row: row.check.excess, default=None)
    return close if close is not None and close.check.excess <= _CLOSE else None


def beyond_limit(row: CheckRow) -> str:
    """By how much a measured value is off its limit, in per cent; empty for a limit of about 0."""
    check = row.check
    if not check.limit or check.measured is None:
        return ""
    off = 100 * (check.measured / check.limit - 1)
    if not math.isfinite(off):
        return ""
    return f"{'-' if off < 0 else '+'}{three_digits(abs(off))} %"


def _tiles(run: RunDescription, numbers: BaselineNumbers) -> Iterator[Tile]:
    subject = run.run.subject
    if subject is None:
        return
    yield _execution(subject, numbers)
    yield _memory(run, subject, numbers)
    yield _slowest(run, numbers)
    yield _outputs(subject)


def _execution(subject: Subject, numbers: BaselineNumbers) -> Tile:
    found = next((op for op in subject.operators if op.name == EXECUTION), None)
    if found is None or found.times is None:
        return Tile("median execution", "unknown", "", "no execution was logged", comparable=False)
    p50, p90 = found.times.p50, found.times.p90
    timed = found.ns is not None
    return Tile(
        label="median execution",
        value=short_time(p50 if timed else None, p50),
        exact=one_time(p50 if timed else None, p50),
        more=f"p90 {short_time(p90 if timed else None, p90)}",
        delta=numbers.of_operator(found),
        trend=numbers.trend(found),
    )


def _memory(run: RunDescription, subject: Subject, numbers: BaselineNumbers) -> Tile:
    if run.untold or not subject.memory.allocators:
        return Tile("peak memory", "unknown", "", "no allocator was logged", comparable=False)
    peak, arena = subject.memory.peak, subject.arena_capacity
    unit = bytes_unit([peak])
    more = "size of the arena unknown"
    if arena:
        room = bytes_unit([arena])
        size = f"{three_digits(arena / room.divisor)} {room.name}"
        more = f"{percent(peak / arena)} of the arena, {size}"
    return Tile(
        label="peak memory",
        value=f"{three_digits(peak / unit.divisor)} {unit.name}",
        exact=f"{peak:,} bytes" + (f" of {arena:,} bytes" if arena else ""),
        more=more,
        delta=numbers.allocators,
        trend=numbers.allocator_trend(float(sum(row.totals.peak_bytes for row in run.allocators))),
    )


def _slowest(run: RunDescription, numbers: BaselineNumbers) -> Tile:
    rows = run.operators.operators if run.operators is not None else ()
    if not rows or rows[0].operator.times is None:
        return Tile("slowest operator", "unknown", "", "no operator was logged", comparable=False)
    row, times = rows[0], rows[0].operator.times
    timed = row.operator.ns is not None
    share = "" if row.share is None else f", {percent(row.share)} of the time"
    return Tile(
        label="slowest operator",
        value=brief(row_title(row), 60),
        exact=f"{row.name}, median {one_time(times.p50 if timed else None, times.p50)}",
        more=short_time(times.p50 if timed else None, times.p50) + share,
        delta=numbers.of_operator(row.operator),
        trend=numbers.trend(row.operator),
    )


def _outputs(subject: Subject) -> Tile:
    label = "output error"
    if not subject.outputs:
        return Tile(label, "not compared", "", "no reference", comparable=False)
    found = [output.largest_difference for output in subject.outputs]
    known = [value for value in found if value is not None]
    of = f"{counted(len(found), 'output')} against the reference"
    if len(known) < len(found):
        return Tile(label, "differs in shape", "", of, comparable=False)
    largest = float(np.max(known))
    text = "0" if largest == 0 else f"{largest:.3g}"
    return Tile(label, text, f"{largest!r} at most", f"largest of {of}", comparable=False)


def _trust(run: RunDescription) -> Iterator[TrustNote]:
    result, subject = run.run.result, run.run.subject
    if result is not None:
        done, wanted = result.runs_completed, result.runs_requested
        yield TrustNote(f"{done:,} of {wanted:,} executions", done >= wanted)
    counts = [item for item in run.losses if item.count and item.kind == "lost"]
    lost = [f"{item.count:,} {item.unit}" for item in counts if item.unit != "executions"]
    yield TrustNote(f"{', '.join(lost)} lost" if lost else "nothing lost", not lost)
    if subject is not None:
        yield from _clock(subject)
        yield from _tracing(subject)
    if run.kernels:
        yield TrustNote(brief(run.kernels))
    yield from _versions(result)


def _clock(subject: Subject) -> Iterator[TrustNote]:
    if subject.emulated_time:
        yield TrustNote("emulated time")
    elif subject.qualities:
        quality = subject.qualities[0]
        if quality.half_width_ns is None:
            yield TrustNote("clock not placed on the host's", False)
        else:
            yield TrustNote(f"clock ±{short_time(quality.half_width_ns)}")


def _tracing(subject: Subject) -> Iterator[TrustNote]:
    """What logging its events adds to an execution, by the cost of an empty event."""
    found = executions(subject)
    if found is None or subject.probe is None:
        return
    median, trace = found.median, subject.trace
    block = trace.blocks[median.block]
    kinds = trace.kind[block.first : block.first + block.count]
    events = int(np.count_nonzero(kinds == Kind.PROFILE))
    ticks = int(trace.end[median.row]) - int(trace.start[median.row])
    if ticks > 0:
        cost = events * float(subject.probe) / ticks
        text = percent(cost) if cost >= _SLIGHT else f"under {percent(_SLIGHT)}"
        yield TrustNote(f"tracing {text} of an execution")


def _versions(result: Result | None) -> Iterator[TrustNote]:
    if result is None:
        return
    if result.target is not None:
        yield TrustNote(f"firmware {brief(result.target.build_id, 16)}")
    commit = result.commit[:_COMMIT]
    yield TrustNote(f"commit {brief(commit)}" if commit else "commit unknown")

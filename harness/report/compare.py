"""Two runs compared, on the terminal and as JSON: times, counters, memory and energy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from harness.analyze.compare import (
    AccuracyChange,
    AllocatorChange,
    Change,
    Comparison,
    OperatorChange,
)
from harness.check.history.comparison import judgement_word
from harness.formatting import (
    TICKS,
    DisplayUnit,
    printable,
    time_text,
    time_unit,
    with_printable_keys,
    with_printable_names,
)
from harness.records.energy import EnergyChange
from harness.records.explanation import Explanation
from harness.records.measurement import NEITHER_RECORDED
from harness.records.result import encode
from harness.records.trace import EXECUTION, Damage, Losses, Trace, is_wrapper
from harness.report.run import TOP
from harness.report.terminal import show_line, show_table
from harness.report.words import counted, event_title, more_text, with_delegate

if TYPE_CHECKING:
    from rich.console import Console


class SideDocument(msgspec.Struct, frozen=True):
    """One of the two traces; what it lacks makes its counts and totals lower bounds.

    ``kernels`` says whose kernels ran, "" if that is not known. ``suspicions`` say which of its
    clocks seem to be narrower than the file says, and why.
    """

    path: str
    losses: Losses
    damage: list[Damage]
    suspicions: list[str]
    kernels: str


class ComparisonDocument(msgspec.Struct, frozen=True):
    """What ``etharness compare --json`` prints.

    ``warnings`` say why the two may not compare, in the words of the other reports.
    ``energy`` is of the operators that both runs measured; absent without any. ``why`` is absent if
    a program is not known, and without the extension ``why``. ``accuracy`` is over the samples that
    both runs had; absent without any.
    """

    before: SideDocument
    after: SideDocument
    comparison: Comparison
    warnings: Sequence[str]
    energy: tuple[EnergyChange, ...] | msgspec.UnsetType = msgspec.UNSET
    why: Explanation | msgspec.UnsetType = msgspec.UNSET
    accuracy: tuple[AccuracyChange, ...] | msgspec.UnsetType = msgspec.UNSET


def comparison_document(
    before: SideDocument,
    after: SideDocument,
    comparison: Comparison,
    warnings: Sequence[str],
    energy: tuple[EnergyChange, ...] = (),
    why: Explanation | None = None,
    accuracy: tuple[AccuracyChange, ...] = (),
) -> bytes:
    """Return the JSON of a comparison of two traces."""

    def safe(changes: Iterable[OperatorChange]) -> tuple[OperatorChange, ...]:
        return tuple(
            msgspec.structs.replace(
                with_printable_names(change), counters=with_printable_keys(change.counters)
            )
            for change in changes
        )

    return encode(
        ComparisonDocument(
            before,
            after,
            replace(
                comparison,
                operators=safe(comparison.operators),
                appeared=safe(comparison.appeared),
                vanished=safe(comparison.vanished),
                allocators=tuple(
                    replace(item, name=printable(item.name)) for item in comparison.allocators
                ),
            ),
            warnings,
            energy or msgspec.UNSET,
            why or msgspec.UNSET,
            accuracy or msgspec.UNSET,
        )
    )


def comparison_warnings(
    traces: Sequence[Trace], comparison: Comparison, boards: Sequence[str], kernels: Sequence[str]
) -> list[str]:
    """Return why the two may not compare: other kernels, boards or settings, and losses."""
    settings, found = comparison.settings, []
    if kernels:
        found.append(f"NOT COMPARABLE: different kernels: {kernels[0]} before, {kernels[1]} after")
    if len({*boards} - {""}) > 1:
        found.append(
            f"BOARDS: the first ran on {boards[0]}, the second on {boards[1]}: their times are not "
            "of one machine, so differences are not of the program alone"
        )
    if settings.alike is False:
        found.append(
            f"SETTINGS: the first was measured with {settings.before}, the second with "
            f"{settings.after}; differences may come from that"
        )
    elif settings.unknown and settings.unknown != NEITHER_RECORDED:  # as of two files alone
        found.append(
            f"SETTINGS: it is unknown whether both were measured alike: {settings.unknown}"
        )
    for place, trace in zip(("first", "second"), traces, strict=True):
        if trace.losses.any:
            text = f"LOSSES: the {place} trace is not complete; its counts and totals are too low"
            found.append(text)
    return [*map(printable, found)]


def print_comparison(
    console: Console, comparison: Comparison, *, detailed: bool = False, top: int | None = None
) -> None:
    """Print the changes from the first trace to the second: executions, then the largest first.

    Args:
        console: The console.
        comparison: Their differences.
        detailed: Also show operators and allocators that did not change, and scopes that only wrap
            a kernel.
        top: Rows of a table before one that stands for all others; None for ``TOP``.
    """
    most = None if detailed else top or TOP
    kept, appeared, vanished = (
        [one for one in changes if detailed or not is_wrapper(one.name)]
        for changes in (comparison.operators, comparison.appeared, comparison.vanished)
    )
    changed = [c for c in kept if detailed or _differs(c.time, c.per_run)]
    if changed:
        of = "" if comparison.executions == "all" else f" of {comparison.executions} runs"
        title = f"Operators by {comparison.statistic}{of}"
        changed.sort(key=lambda one: one.name != EXECUTION)
        _print_times(console, title, changed, most, detailed=detailed)
    if same := len(kept) - len(changed):
        show_line(console, f"the same: {same} of {len(kept)} operators")
        show_line(console)
    _print_counters(console, kept, detailed=detailed)
    _print_one_sided(console, "Appeared", appeared, most)
    _print_one_sided(console, "Vanished", vanished, most)
    _print_allocators(console, comparison.allocators, detailed=detailed)


def _differs(*changes: Change) -> bool:
    return any(change.before != change.after for change in changes)


def _print_times(
    console: Console,
    title: str,
    changes: Sequence[OperatorChange],
    most: int | None,
    *,
    detailed: bool,
) -> None:
    """Print times by short names and with three digits; whole names and all digits if detailed."""
    unit, brief = _unit(changes), not detailed
    title += f" in {unit.name}"
    judged = any(change.judgement for change in changes)
    headers = ["before", "after", "ratio", "difference", *["verdict"] * judged, "per run"]
    rows = [
        [
            *name,
            _time(change.time.before, change, unit, brief=brief),
            _time(change.time.after, change, unit, brief=brief),
            "" if change.time.ratio is None else f"{change.time.ratio:.3f}",
            _signed(_time(change.time.difference, change, unit, brief=brief)),
            *[_verdict(change)] * judged,
            _counts(change.per_run),
        ]
        for name, change in zip(_names(changes, detailed=detailed), changes, strict=True)
    ]
    headers = ["event", *["instruction"] * detailed, *headers]
    numbers = [n for n, header in enumerate(headers) if n and header != "verdict"]
    # What is the same in all rows is said once, in the title.
    while brief and headers[-1] in ("per run", "verdict") and len({row[-1] for row in rows}) == 1:
        title += f"; {headers.pop()}: {rows[0][-1]}"
        rows = [row[:-1] for row in rows]
    show_table(console, headers, _first(rows, most), title=title, numbers=numbers)


def _first(rows: list[list[str]], most: int | None) -> list[list[str]]:
    """Return the first rows, and one that stands for the others."""
    if most is None or len(rows) <= most:
        return rows
    return [*rows[:most], [more_text(len(rows) - most, most), *[""] * (len(rows[0]) - 1)]]


def _verdict(change: OperatorChange) -> str:
    return judgement_word(change.judgement, "time") if change.judgement else ""


def _names(changes: Sequence[OperatorChange], *, detailed: bool) -> list[list[str]]:
    """Return the cells that name each operator, with its block where others have one like it."""
    if detailed:
        several = len({change.block for change in changes}) > 1
        return [[_name(change, several), str(change.instruction)] for change in changes]
    counts = Counter(map(event_title, changes))
    return [
        [title if counts[title] == 1 else f"{change.block}: {title}"]
        for change in changes
        for title in [event_title(change)]
    ]


def _print_counters(console: Console, changes: Sequence[OperatorChange], *, detailed: bool) -> None:
    """Print the medians of hardware counters that differ, in the order of the times."""
    several = len({change.block for change in changes}) > 1
    numbers = [(change, *item) for change in changes for item in change.counters.items()]
    both = [item for item in numbers if item[2].difference is not None]
    shown = [item for item in both if detailed or _differs(item[2])]
    rows = [
        [
            _name(change, several),
            str(change.instruction),
            name,
            _number(found.before),
            _number(found.after),
            _signed(_number(found.difference)),
            "" if found.ratio is None else f"{found.ratio:.3f}",
        ]
        for change, name, found in shown
    ]
    if rows:
        headers = ["event", "instruction", "counter", "before", "after", "difference", "ratio"]
        show_table(console, headers, rows, title="Hardware counters", numbers=(1, 3, 4, 5, 6))
    if same := len(both) - len(shown):
        show_line(console, f"the same: {same} of {counted(len(both), 'count')}")
        show_line(console)
    if alone := dict.fromkeys(name for _, name, found in numbers if found.difference is None):
        names = ", ".join(alone)
        show_line(console, f"counted in one of the traces, so not compared: {names}")
        show_line(console)


def _print_one_sided(
    console: Console, title: str, changes: Sequence[OperatorChange], most: int | None
) -> None:
    if not changes:
        return
    unit = _unit(changes)
    rows = []
    for name, change in zip(_names(changes, detailed=False), changes, strict=True):
        new = change.time.before is None
        time = change.time.after if new else change.time.before
        count = change.per_run.after if new else change.per_run.before
        rows.append([*name, _time(time, change, unit, brief=True), _number(count)])
    headers = ["event", f"time [{unit.name}]", "per run"]
    show_table(console, headers, _first(rows, most), title=title, numbers=(1, 2))


def _print_allocators(
    console: Console, changes: Sequence[AllocatorChange], *, detailed: bool
) -> None:
    rows = []
    for change in changes:
        numbers = (change.peak_bytes, change.total_bytes, change.count, change.failures)
        if detailed or _differs(*numbers):
            difference = change.peak_bytes.difference
            more = "" if difference is None else _signed(f"{difference:,.0f}")
            rows.append([change.name, *map(_counts, numbers[:1]), more, *map(_counts, numbers[1:])])
    if rows:
        headers = ["allocator", "peak [B]", "difference [B]", "total [B]", "count", "failures"]
        show_table(console, headers, rows, title="Allocators", numbers=range(1, 6))
    elif changes:
        show_line(console, "the same: all allocators")


def _unit(changes: Sequence[OperatorChange]) -> DisplayUnit:
    times = [
        value
        for change in changes
        for value in (change.time.before, change.time.after)
        if change.unit == "ns" and value is not None
    ]
    return time_unit(times) if times else TICKS


def _name(change: OperatorChange, several_blocks: bool) -> str:
    name = with_delegate(change)
    return f"{change.block}: {name}" if several_blocks else name


def _time(
    value: float | None, change: OperatorChange, unit: DisplayUnit, *, brief: bool = False
) -> str:
    if value is None:
        return ""
    return time_text(None if change.unit == "ticks" else value, value, unit, brief=brief)


def _signed(text: str) -> str:
    return text if not text or text.startswith("-") else f"+{text}"


def _counts(change: Change) -> str:
    """One number if both are equal, else both; a dash for a trace without one."""
    if change.before == change.after:
        return _number(change.after)
    return f"{_number(change.before)} -> {_number(change.after)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.10g}"

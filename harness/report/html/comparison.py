"""A page about two traces: what became slower or faster, by how much, and what is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.analyze.compare import AllocatorChange, Change, Comparison, OperatorChange
from harness.formatting import operator_title, printable
from harness.records.trace import EXECUTION, OPERATOR_CALL
from harness.report.compare import SideDocument
from harness.report.html.environment import environment
from harness.report.html.page import page_frame
from harness.report.metric_titles import STATISTIC_WORDS
from harness.report.text import (
    counted,
    left_out,
    short_size,
    short_time,
    with_delegate,
)
from harness.report.tracked import CHANGE_WORDS

_MOST_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A number of two traces.

    Attributes:
        name: What it is of.
        exact: Its full name and both values.
        kind: ``regression``, ``improvement``, ``appeared``, ``vanished`` or ``same``.
        word: The kind as a reader says it: slower, larger, new.
        before: The value in the first trace.
        after: The value in the second trace.
        difference: The difference with its sign.
        percent: The same in percent of the first value.
        share: The same as a number, to sort by; 0 without one.
    """

    name: str
    exact: str
    kind: str
    word: str
    before: str
    after: str
    difference: str
    percent: str
    share: float


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """A comparison of two traces on a page.

    Attributes:
        headline: What happened to an execution, and to how many operators.
        kind: What happened to an execution, as ``DifferenceRow.kind``.
        warnings: Why the numbers may not compare, the most serious first.
        sides: Path and kernels of both traces.
        changed: Operators with other times, largest difference first; then new and gone ones.
        more: How many of these are left out.
        same: Operators without a change.
        memory: Allocators that differ.
        statistic: The compared statistic, and of which executions.
    """

    headline: str
    kind: str
    warnings: tuple[str, ...]
    sides: tuple[tuple[str, str, str], ...]
    changed: tuple[DifferenceRow, ...]
    more: int
    same: tuple[DifferenceRow, ...]
    memory: tuple[DifferenceRow, ...]
    statistic: str


def comparison_report(
    sides: Sequence[SideDocument], comparison: Comparison, warnings: Sequence[str] = ()
) -> bytes:
    """Return a page about a comparison; the same bytes for the same comparison.

    Args:
        sides: The two traces.
        comparison: Their differences.
        warnings: Why the two may not compare, besides their settings and losses.

    Raises:
        UsageError: A library is not installed.
    """
    view = comparison_view(sides, comparison, warnings)
    template = environment().get_template("comparison.html.j2")
    return template.render(view=view, **page_frame(view.headline)).encode()


def comparison_view(
    sides: Sequence[SideDocument], comparison: Comparison, warnings: Sequence[str] = ()
) -> ComparisonView:
    """Prepare a comparison for a page."""
    rows = [_row(change) for change in comparison.operators if change.name != OPERATOR_CALL]
    alone = [*comparison.appeared, *comparison.vanished]
    rows += [_row(change) for change in alone if change.name != OPERATOR_CALL]
    changed = [row for row in rows if row.kind != "same"]
    memory = [_allocator(change) for change in comparison.allocators]
    of = "" if comparison.executions == "all" else f" of {comparison.executions} executions"
    executed = next((c for c in comparison.operators if c.name == EXECUTION), None)
    return ComparisonView(
        headline=_headline(executed, changed, len(rows)),
        kind="same" if executed is None else _row(executed).kind,
        warnings=(*map(printable, warnings), *_warnings(sides, comparison)),
        sides=tuple(
            (label, side.path, printable(side.kernels) or "unknown kernels")
            for label, side in zip(("before", "after"), sides, strict=True)
        ),
        changed=tuple(changed[:_MOST_ROWS]),
        more=left_out(len(changed), _MOST_ROWS),
        same=tuple(row for row in rows if row.kind == "same")[:_MOST_ROWS],
        memory=tuple(row for row in memory if row.kind != "same"),
        statistic=f"{STATISTIC_WORDS.get(comparison.statistic, comparison.statistic)}{of}",
    )


def _headline(
    executed: OperatorChange | None, changed: Sequence[DifferenceRow], operators: int
) -> str:
    words = ("slower", "faster", "new", "gone")
    counts = [(word, sum(row.word == word for row in changed)) for word in words]
    parts = [f"{count:,} {word}" for word, count in counts if count]
    same = operators - len(changed)
    parts += [f"{same:,} the same"] if same else []
    text = f"{counted(operators, 'event')}: {', '.join(parts)}" if parts else "no events"
    if executed is None or executed.time.before is None or executed.time.after is None:
        return text
    row = _row(executed)
    became = "as long as before" if row.kind == "same" else f"{row.percent}, {row.word}"
    return f"An execution takes {row.after}, was {row.before} ({became}). {text}."


def _warnings(sides: Sequence[SideDocument], comparison: Comparison) -> list[str]:
    settings = comparison.settings
    found = []
    if settings.alike is False:
        found.append(
            f"The first was measured with {settings.before}, the second with {settings.after}; "
            "differences may come from that."
        )
    elif settings.unknown:
        found.append(f"It is unknown whether both were measured alike: {settings.unknown}.")
    found += [
        f"The {place} trace is not complete; its counts and totals are too low."
        for place, side in zip(("first", "second"), sides, strict=True)
        if side.losses.any
    ]
    return [printable(text) for text in found]


def _row(change: OperatorChange) -> DifferenceRow:
    known = change.unit == "ns"

    def text(value: float) -> str:
        return short_time(value if known else None, value)

    full = f"{printable(change.block)}: {printable(with_delegate(change))}"
    instruction = change.instruction if change.chain != -1 else None
    name = operator_title(change.name, instruction) or full
    if change.delegate_str is not None or change.delegate_int != -1:
        name = printable(with_delegate(change))
    count = change.per_run
    if count.before != count.after and count.before is not None and count.after is not None:
        name = f"{name}, {count.before:g} times a run, now {count.after:g}"
    return _difference(name, full, change.time, "time", text, change.unit)


def _allocator(change: AllocatorChange) -> DifferenceRow:
    name = printable(change.name)
    return _difference(name, f"peak of {name}", change.peak_bytes, "memory", short_size, "bytes")


def _difference(
    name: str,
    full: str,
    change: Change,
    what: str,
    text: Callable[[float], str],
    unit: str,
) -> DifferenceRow:
    before, after, difference = change.before, change.after, change.difference
    kind, word = _kind(before, after, what)
    share = 0.0 if not before or difference is None else difference / before
    values = [f"{value:,.10g}" if value is not None else "-" for value in (before, after)]
    sign = "+" if difference is not None and difference > 0 else "-"
    return DifferenceRow(
        name=name,
        exact=f"{full}: {values[0]} {unit} before, {values[1]} {unit} after",
        kind=kind,
        word=word,
        before="-" if before is None else text(before),
        after="-" if after is None else text(after),
        difference=f"{sign}{text(abs(difference))}" if difference else "",
        percent=f"{100 * share:+.1f} %" if share else "",
        share=share,
    )


def _kind(before: float | None, after: float | None, what: str) -> tuple[str, str]:
    """Return what became of a number, and the word for it."""
    if before is None and after is None:
        return "same", "unknown"
    if before is None:
        return "appeared", "new"
    if after is None:
        return "vanished", "gone"
    if before == after:
        return "same", "same"
    kind = "regression" if after > before else "improvement"
    return kind, CHANGE_WORDS[what][kind]

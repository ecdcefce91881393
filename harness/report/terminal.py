"""A run on the terminal: tables where people read, plain text where programs do.

Every function takes a rich ``Console``. Rich itself is imported where it is used, as it would
otherwise cost every start of the command line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from harness.analyze.allocators import allocator_totals
from harness.analyze.blocks import BlockRun, runs
from harness.analyze.statistics import Operator, operator_statistics
from harness.formatting import TICKS, DisplayUnit, printable, time_unit
from harness.records.clock_domain import ClockDomain
from harness.records.result import ClockQuality
from harness.records.signature import Signature, by_block
from harness.records.trace import OPERATOR_CALL, Damage, Trace
from harness.records.verdict import Check, Verdict
from harness.report.clocks import clock_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.check.history.samples import Metric

Column = tuple[str, "Callable[[Operator], str]"]
"""A further column of operators: its header, and what makes a cell."""

_SHOWN = ("p50", "avg", "min", "max")
"""The statistics that have a column."""
_shown = attrgetter(*_SHOWN)

_MOST_DAMAGE = 10
"""Damaged places that are shown unless all are asked for."""

_MOST_CHECKS = 20
"""Checks that do not hold whose reasons are shown unless all are asked for."""

_LEAST_TEXT = 24
"""Characters a column of text is given before a terminal counts as too narrow for a table."""


def print_run(
    console: Console,
    trace: Trace,
    *,
    header: Mapping[str, object] | None = None,
    verdict: Verdict | None = None,
    block: str | None = None,
    detailed: bool = False,
    qualities: Sequence[ClockQuality] = (),
    columns: Sequence[Column] = (),
    unit: DisplayUnit | None = None,
) -> None:
    """Print a run: header, operators, allocators, clocks, losses, verdict.

    Args:
        console: Where to.
        trace: What was logged.
        header: Labels and values to begin with: board, model, runs.
        verdict: What the checks said, if there were any; comes last.
        block: The blocks whose operators are shown; all by default.
        detailed: Show every event in log order and every check, instead of operators by their
            time and the checks that fail.
        qualities: How well it is known when events were, by clock.
        columns: Further columns of operators.
        unit: Of operators' times; what reads best by default.
    """
    if header:
        print_header(console, header)
    names = dict.fromkeys(item.name for item in trace.blocks) if block is None else [block]
    operators = by_block(operator_statistics(trace, block))
    for name in names:
        here = operators.get(name, [])
        print_operators(console, name, here, detailed=detailed, columns=columns, unit=unit)
    if detailed:
        print_runs(console, trace)
    print_allocators(console, trace)
    for line in clock_lines(trace, qualities):
        show_line(console, line)
    print_losses(console, trace)
    if verdict is not None:
        print_verdict(console, verdict, verbosity=int(detailed))


def print_header(console: Console, fields: Mapping[str, object]) -> None:
    """Print labels and values, one line each."""
    width = max((len(label) for label in fields), default=0)
    for label, value in fields.items():
        show_line(console, f"{label:<{width}}  {value}")
    show_line(console)


def print_operators(
    console: Console,
    block: str,
    operators: list[Operator],
    *,
    detailed: bool = False,
    columns: Sequence[Column] = (),
    unit: DisplayUnit | None = None,
) -> None:
    """Print statistics per operator of the blocks named ``block``, longest total time first.

    The scopes around each operator (``OPERATOR_CALL``) repeat its time; they are shown only
    when ``detailed``, which also keeps the order of the log. Shares are of the scope with the
    largest total time, normally ``Method::execute``; scopes nest, so shares do not add up to 100 %.
    On a clock of unknown rate, they are of the largest scope on that clock. Where there is a cold
    run and warm ones, the average of the cold one is shown beside those of all. Where durations
    are unknown, a column says how many are left out of the times.
    """
    if not operators:
        show_line(console, f"no profile events in block {block!r}")
        show_line(console)
        return
    known = [op for op in operators if op.ns is not None]
    outer = largest_totals(operators)
    best = time_unit(op.ns.max for op in known if op.ns is not None) if known else TICKS
    unit = unit or best
    if not detailed:
        operators = [op for op in operators if op.name != OPERATOR_CALL]
        operators.sort(key=total_time, reverse=True)
    several_delegates = any(op.delegate_int != -1 or op.delegate_str for op in operators)

    cold = any(op.cold and op.warm for op in operators)
    numbers = [f"{name} [{unit.name}]" for name in _SHOWN + ("cold",) * cold]
    unknown = any(op.unknown for op in operators)
    headers = ["event", "instruction", "count", *["unknown"] * unknown, *numbers, "share [%]"]
    numeric = range(1, len(headers))
    headers += [header for header, _ in columns]
    further = [cell for _, cell in columns]
    rows = [
        [
            with_delegate(op) if several_delegates else op.name,
            str(op.instruction),
            str(len(op.rows)),
            *[str(op.unknown)] * unknown,
            *_times(op, unit, cold=cold),
            _share(op, outer[id(op.clock)]),
            *(cell(op) for cell in further),
        ]
        for op in operators
    ]
    show_table(console, headers, rows, title=f"Operators of {block}", numbers=numeric)


def print_runs(console: Console, trace: Trace) -> None:
    """Print how many blocks of each name logged the same events in the same order.

    Several lines of one name mean that its runs were not alike.
    """
    alike: dict[int, list[BlockRun]] = {}
    for run in runs(trace):
        alike.setdefault(run.signature, []).append(run)
    rows = [
        [
            same[0].name,
            str(len(same)),
            str(same[0].order),
            str(sum(run.cold for run in same)),
            str(same[0].events),
        ]
        for same in alike.values()
    ]
    if rows:
        headers = ["block", "runs alike", "first at", "cold", "events"]
        show_table(console, headers, rows, title="Runs", numbers=range(1, 5))


def print_allocators(console: Console, trace: Trace) -> None:
    """Print totals per allocator, or nothing when none was declared or used."""
    totals = allocator_totals(trace)
    if totals:
        headers = ["allocator", "count", "total [B]", "peak [B]", "largest [B]"]
        headers += ["failures", "refused [B]"]
        rows = [
            [
                item.label,
                str(item.count),
                f"{item.total_bytes:,}",
                f"{item.peak_bytes:,}",
                f"{item.largest_bytes:,}",
                str(item.failures),
                f"{item.failed_bytes:,}",
            ]
            for item in totals
        ]
        show_table(console, headers, rows, title="Allocators", numbers=range(1, 7))


def print_losses(console: Console, trace: Trace) -> None:
    """Print what the log misses; always says something."""
    if trace.filtered_events:
        show_line(
            console, f"filtered: {trace.filtered_events} events left out by the target's filter"
        )
    lost = trace.losses
    if lost.any:
        reasons = []
        if lost.events or lost.blocks:
            what = f"{lost.events} events and {lost.blocks} block or allocator declarations"
            reasons.append(f"{what} were dropped by the target")
        if lost.values:
            reasons.append(f"{lost.values} values were dropped or lost bytes")
        if lost.runs:
            reasons.append(f"{lost.runs} runs were given up for newer ones, as asked for")
        if lost.chunks:
            what = f"{lost.chunks} chunks of the log with {lost.records} records"
            reasons.append(f"{what} did not arrive")
        if lost.damaged:
            reasons.append(f"at least {lost.damaged} events are lost to damage of the file")
        text = f"LOSSES: {'; '.join(reasons)}; totals are lower bounds"
        show_line(console, text, style="bold red")
    else:
        show_line(console, "losses: none; the log is complete")


def print_damage(console: Console, damage: Sequence[Damage], *, detailed: bool = False) -> None:
    """Print what was left out of a damaged file: all of it when ``detailed``, else the first."""
    shown = damage if detailed else damage[:_MOST_DAMAGE]
    for item in shown:
        lost = "" if not item.events else f"; {item.events} events lost"
        show_line(console, f"damaged: {item.reason}{lost}", style="red")
    if len(shown) < len(damage):
        show_line(
            console, f"damaged: {len(damage) - len(shown)} places more; -v shows all", style="red"
        )


def print_verdict(console: Console, verdict: Verdict, *, verbosity: int = 0) -> None:
    """Print the verdict: what is to be looked at, then PASS or FAIL, then why, the worst first.

    Args:
        console: Where to.
        verdict: What the checks said.
        verbosity: Negative for the verdict alone, with what makes it a failure; positive for every
            check before it.
    """
    show_line(console)
    if verbosity > 0:
        _print_checks(console, verdict)
    most = None if verbosity > 0 else _MOST_CHECKS
    total, failures = len(verdict.checks), verdict.worst_failures
    if verbosity >= 0:
        warnings = sorted(verdict.warnings, key=lambda check: check.severity)  # notes come first
        _print_reasons(console, [(f"{check.severity}: ", check) for check in warnings], most)
    if not failures:
        held = total - len(verdict.warnings)
        show_line(console, f"PASS: {held} of {total} checks hold", style="bold green")
        return
    show_line(console, f"FAIL: {len(failures)} of {total} checks do not hold", style="bold red")
    _print_reasons(console, [("  ", check) for check in failures], most)


def _print_reasons(
    console: Console, reasons: Sequence[tuple[str, Check]], most: int | None
) -> None:
    """Print why checks do not hold, each behind a prefix; ``most`` of them at most."""
    for prefix, check in reasons[:most]:
        because = f"{check.code} {check.subject}: {check.rule}: {check.reason}"
        style = None if check.failed else "yellow"
        show_wrapped(console, f"{prefix}{because}", indent=len(prefix) + 4, style=style)
    if most is not None and len(reasons) > most:
        prefix = " " * (len(reasons[0][0]) - len(reasons[0][0].lstrip()))
        show_line(console, f"{prefix}and {len(reasons) - most:,} more; -v shows all")


def _print_checks(console: Console, verdict: Verdict) -> None:
    """Print a table of all checks, those that do not hold last."""
    rank = {"error": 3, "warning": 2, "note": 1}
    ordered = sorted(verdict.checks, key=lambda c: 0 if c.passed else rank[c.severity])
    rows = [
        [
            "pass" if check.passed else "FAIL" if check.failed else check.severity,
            check.code,
            check.rule,
            check.subject,
            *("-" if value is None else f"{value:,.3f}" for value in (check.measured, check.limit)),
            check.unit,
        ]
        for check in ordered
    ]
    headers = ["", "code", "rule", "subject", "measured", "limit", "unit"]
    show_table(console, headers, rows, title="Checks", numbers=(4, 5))


def show_table(
    console: Console,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    numbers: Collection[int] = (),
) -> None:
    """Print a table: folded into the width of a terminal, or plain and uncut when piped.

    A terminal too narrow for the numbers gets the plain lines, and wraps them itself.

    Args:
        console: Where to.
        headers: One per column.
        rows: Cells; device names in them may hold anything, markup included.
        title: A line above.
        numbers: Columns of numbers, aligned right and never folded; nothing in them needs escaping.
    """
    if title:
        show_line(console, title, style="bold")
    columns = [
        list(column) if index in numbers else list(map(printable, column))
        for index, column in enumerate(zip(headers, *rows, strict=True))
    ]
    widths = [max(map(len, column)) for column in columns]
    needed = sum(w if i in numbers else min(w, _LEAST_TEXT) for i, w in enumerate(widths))
    if console.is_terminal and needed + 3 * len(widths) <= console.width:
        from rich.box import SIMPLE_HEAD

        table = plain_table(headers, rows, numbers=numbers)
        table.box = SIMPLE_HEAD
        console.print(table)
        return
    from rich.segment import Segment, Segments

    # In one piece: rich takes its time for each text, and there may be 100,000 operators.
    text = "".join(_plain_lines(columns, widths, numbers))
    console.print(Segments([Segment(text)]), soft_wrap=True)
    show_line(console)


def plain_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> Table:
    """A table to print, without box art; arguments as for ``show_table``."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = [
        max(len(printable(cell)) for cell in each) for each in zip(headers, *rows, strict=True)
    ]
    for index, header in enumerate(headers):
        number = index in numbers
        table.add_column(
            Text(header),
            justify="right" if number else "left",
            min_width=widths[index] if number else None,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _plain_lines(
    columns: Sequence[Sequence[str]], widths: Sequence[int], numbers: Collection[int]
) -> Iterator[str]:
    """Lines of cells, which stand two spaces apart in columns, without trailing spaces."""
    padded = [
        [cell.rjust(width) if index in numbers else cell.ljust(width) for cell in column]
        for index, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    return ("  ".join(cells).rstrip() + "\n" for cells in zip(*padded, strict=True))


def show_line(console: Console, text: str = "", *, style: str | None = None) -> None:
    """Print one line, uncut; a terminal wraps it by itself."""
    console.print(
        printable(text),
        style=style,
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def show_wrapped(console: Console, text: str, *, indent: int, style: str | None = None) -> None:
    """Print text, on a terminal in lines of its width, of which all but the first are indented."""
    text = printable(text)
    lines = [text]
    if console.is_terminal and console.width > 2 * indent:
        start = len(text) - len(text.lstrip())
        lines = textwrap.wrap(
            text[start:],
            console.width,
            initial_indent=text[:start],
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    for line in lines:
        show_line(console, line, style=style)


def largest_totals(operators: Sequence[Operator]) -> dict[int, float]:
    """The largest total that totals on a clock compare with, by the clock's identity."""
    # By identity: a clock's rate is a Fraction, which takes long to hash and to compare.
    clocks: dict[int, ClockDomain] = {}
    own: dict[int, float] = {}
    for op in operators:
        key = id(op.clock)
        clocks[key] = op.clock
        own[key] = max(own.get(key, 0.0), total_time(op))
    return {
        key: max(own[k] for k, c in clocks.items() if c == clock or (c.hz and clock.hz))
        for key, clock in clocks.items()
    }


def total_time(op: Operator) -> float:
    """Its repeats together, in nanoseconds, or in ticks where the rate is unknown; 0 of unknown."""
    return 0.0 if op.times is None else op.times.total


def with_delegate(op: Signature | Metric) -> str:
    """The event's name and its delegate id."""
    delegate = op.delegate_str if op.delegate_str is not None else op.delegate_int
    return op.name if delegate == -1 else f"{op.name} [{delegate}]".strip()


def _times(op: Operator, unit: DisplayUnit, *, cold: bool) -> list[str]:
    """The cells of one operator's durations; says so where they are ticks among times."""
    if op.times is None:
        return ["?"] * (len(_SHOWN) + cold)
    values = [*_shown(op.times)]
    if cold and op.cold:
        values.append(op.cold.avg)
    if op.clock.hz is None and unit is not TICKS:
        cells = [f"{TICKS.text(value)} ticks" for value in values]
    else:
        # Where there are very many operators most are of one event, which has all statistics alike.
        alike = op.times.count == 1
        cells = [unit.text(values[0])] * len(values) if alike else [*map(unit.text, values)]
    return [*cells, ""] if cold and not op.cold else cells


def _share(op: Operator, largest: float) -> str:
    if op.times is None:
        return "?"
    return format(100 * op.times.total / largest, ".1f") if largest else ""

"""A run on the terminal: operators, allocators, clocks and losses, and the verdict last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from harness.analyze.statistics import Operator
from harness.check.history.comparison import HistoryComparison
from harness.records.result import Result
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.report.changes import ChangeRow, ChangeTable
from harness.report.counters import CounterTable
from harness.report.description import (
    AllocatorRow,
    CheckRow,
    RunDescription,
    VerdictDescription,
    describe,
)
from harness.report.energy import EnergyDescription
from harness.report.facts import Loss
from harness.report.operators import OperatorListing, OperatorRow, several_blocks
from harness.report.roofline import ROOFLINE_HEADERS, ROOFLINE_NUMBERS, RooflineTable
from harness.report.terminal import print_header, show_line, show_table, sparkline
from harness.runs.evaluation import EvaluatedRun, subject_of

if TYPE_CHECKING:
    from rich.console import Console

Column = tuple[str, "Callable[[Operator], str]"]
"""A further column of operators: its header, and what makes a cell."""

_USUAL = frozenset({"model", "arena", "trace", "stack", "link"})
"""Facts that only -v shows: file, sizes and digests, which checks and losses are about."""

_SENT = ("frames", "requests")
"""Units of losses of the line, which are worth its fact if there are any."""

_MOST_BARS = 10
"""Bars of a sparkline; each is the longest of several executions if there are more."""

_MOST_CHECKS = 20
"""Failed checks listed by default (-v lists all)."""


def show_run(
    console: Console,
    result: Result,
    trace: Trace,
    directory: str,
    *,
    verbosity: int = 0,
    comparison: HistoryComparison | None = None,
) -> None:
    """Print a finished run; only the verdict if ``verbosity`` is negative, everything if positive.

    Args:
        console: Where to print.
        result: The result of the run; the verdict is left out if it has none.
        trace: What was logged.
        directory: The run directory.
        verbosity: How much to print.
        comparison: What became of each number against history, if it was compared.
    """
    checks = () if result.verdict is None else result.verdict.checks
    subject = subject_of(trace, result)
    run = EvaluatedRun(directory, subject, Verdict(checks), result, comparison=comparison)
    print_run(console, describe(run), verbosity=verbosity, show_verdict=result.verdict is not None)


def print_run(
    console: Console, run: RunDescription, *, verbosity: int = 0, show_verdict: bool = True
) -> None:
    """Print a run, the verdict last.

    Args:
        console: Where to print.
        run: What to print.
        verbosity: Negative for the verdict alone; positive to list every event and every check.
        show_verdict: Print the verdict.
    """
    if verbosity >= 0:
        _print_facts(console, run, detailed=verbosity > 0)
        print_trace(console, run, detailed=verbosity > 0)
        if run.changes is not None:
            show_line(console)
            print_changes(console, run.changes, detailed=verbosity > 0)
    if show_verdict:
        print_verdict(console, run.verdict, verbosity=verbosity)


def _print_facts(console: Console, run: RunDescription, *, detailed: bool) -> None:
    """Print what ran where in a line, and the facts that are not always alike below it."""
    facts = {fact.label: fact.text for fact in run.facts if fact.essential}
    if not detailed:
        if board := facts.pop("board", ""):
            title = f"{run.model} on {board}" if run.model else board
            show_line(console, title, style="bold")
        sent_again = any(item.count and item.unit in _SENT for item in run.losses)
        usual = _USUAL - {"link"} if sent_again else _USUAL
        facts = {label: text for label, text in facts.items() if label not in usual}
    print_header(console, facts)


def print_trace(
    console: Console,
    run: RunDescription,
    *,
    detailed: bool = False,
    columns: Sequence[Column] = (),
) -> None:
    """Print what was measured: operators, allocators, clocks, losses.

    Args:
        console: Where to print.
        run: What to print.
        detailed: List all events in the order of the log, and groups of identical runs.
        columns: Further columns of operators.
    """
    if run.operators is None:
        show_line(console, "no profile events")
        show_line(console)
    else:
        print_operators(console, run.operators, detailed=detailed, columns=columns)
    if run.counters is not None:
        print_counters(console, run.counters)
    if run.roofline is not None:
        print_roofline(console, run.roofline)
    if detailed:
        _print_runs(console, run)
    print_allocators(console, run.allocators)
    _print_energy(console, run.energy)
    for line in run.clock_lines:
        show_line(console, line)
    print_losses(console, run.losses)


def print_operators(
    console: Console,
    table: OperatorListing,
    *,
    detailed: bool = False,
    columns: Sequence[Column] = (),
) -> None:
    """Print operators and scopes, or everything in the order of the log if ``detailed``, with whole
    names and all digits.

    The share is of the wall time of executions, or of loading (``WallTimes``); scopes nest, so
    their shares do not add up to 100 %. If there are cold runs and warm ones, a column has the
    average of the cold one. If durations are unknown, a column counts them; no other number
    includes them.
    """
    parts: list[tuple[str, str, Sequence[OperatorRow]]]
    if detailed:
        inside = [row for row in table.logged if not row.operator.loading]
        parts = [("event", "Events", inside)]
    else:
        parts = [("operator", "Operators", table.operators), ("scope", "Scopes", table.scopes)]
    parts.append(("event", "Loading and setup", table.loading))
    for what, title, rows in parts:
        if rows and detailed:
            _print_exact_rows(console, table, title, rows, columns)
        elif rows:
            _print_rows(console, table, what, title, rows, columns)
    if table.others:
        show_line(console, f"and {table.others:,} operators of smaller total times; -v lists all")
        show_line(console)


def _print_rows(
    console: Console,
    table: OperatorListing,
    what: str,
    title: str,
    rows: Sequence[OperatorRow],
    columns: Sequence[Column],
) -> None:
    """Print rows by their titles, with three digits, what matters most on the left.

    Where nothing was repeated, the median is the only time, so it stands alone.
    """
    unit, repeated = table.unit.name, any(row.count > 1 for row in rows)
    blocks = [("block", [row.block for row in rows])] if several_blocks(rows) else []
    numbers = [
        (f"{name} [{unit}]", _brief(table, rows, name)) for name in ("p50", *("p90",) * repeated)
    ]
    numbers.append(("share [%]", [row.share_text for row in rows]))
    if table.unknown:
        numbers.append(("unknown", [f"{row.operator.unknown:,}" for row in rows]))
    texts = [(header, [cell(row.operator) for row in rows]) for header, cell in columns]
    further: list[tuple[str, list[str]]] = []
    if repeated:
        texts.append(("executions", [_bars(console, table, row) for row in rows]))
        further.append(("count", [f"{row.count:,}" for row in rows]))
    names = ("min", "max", "avg", *("cold",) * table.cold) if repeated else ()
    further += [(f"{name} [{unit}]", _brief(table, rows, name)) for name in names]
    first = [(what, _titles(rows)), *blocks]
    found = [*first, *numbers, *texts, *further]
    of_numbers = [n for n, column in enumerate(found) if column in numbers or column in further]
    headers = [header for header, _ in found]
    cells = [*zip(*(column for _, column in found), strict=True)]
    show_table(console, headers, cells, title=title, numbers=of_numbers)


def _titles(rows: Sequence[OperatorRow]) -> list[str]:
    """Return short names; the whole name where a short one would stand for several rows."""
    counts = Counter((row.block, row.title) for row in rows)
    return [
        row.title
        if counts[row.block, row.title] == 1
        else " ".join([row.name, *(f"#{row.instruction}",) * bool(row.instruction)])
        for row in rows
    ]


def _brief(table: OperatorListing, rows: Sequence[OperatorRow], name: str) -> list[str]:
    """Return one statistic of each row with three significant digits."""
    texts = []
    for row in rows:
        text = getattr(row.texts, name)
        times = row.operator.cold if name == "cold" else row.operator.times
        # Ticks of a clock without a rate are whole numbers already, with their own unit.
        if times is not None and row.operator.ns is not None:
            text = table.unit.brief(times.avg if name == "cold" else getattr(times, name))
        texts.append(text)
    return texts


def _bars(console: Console, table: OperatorListing, row: OperatorRow) -> str:
    longest = table.longest(row, _MOST_BARS) if row.count > 1 else []
    return sparkline(console, longest) if longest else ""


def _print_exact_rows(
    console: Console,
    table: OperatorListing,
    title: str,
    rows: Sequence[OperatorRow],
    columns: Sequence[Column],
) -> None:
    """Print rows by their whole names, with all digits."""
    names = ("p50", "avg", "min", "max", *("cold",) * table.cold)
    several = several_blocks(rows)
    texts = ["block"] * several
    headers = ["event", *texts, "instruction", "count", *["unknown"] * table.unknown]
    headers += [*(f"{name} [{table.unit.name}]" for name in names), "share [%]"]
    numbers = range(1 + len(texts), len(headers))
    cells = [
        [
            row.name,
            *[row.block] * several,
            row.instruction,
            f"{row.count:,}",
            *[f"{row.operator.unknown:,}"] * table.unknown,
            *(getattr(row.texts, name) for name in names),
            row.share_text,
            *(cell(row.operator) for _, cell in columns),
        ]
        for row in rows
    ]
    headers += [header for header, _ in columns]
    show_table(console, headers, cells, title=title, numbers=numbers)


def print_counters(console: Console, table: CounterTable) -> None:
    """Print what hardware counters counted: of operators, then of the scopes around them."""
    parts = (
        ("operator", "Hardware counters", table.operators),
        ("scope", "Hardware counters of scopes", table.scopes),
    )
    for what, title, rows in parts:
        cells = [
            [item.row.name, item.row.instruction, *(cell.text for cell in item.cells)]
            for item in rows
        ]
        if cells:
            headers = [what, "instruction", *table.headers]
            numbers = range(1, len(headers))
            show_table(console, headers, cells, title=f"{title} (median)", numbers=numbers)
    for note in table.notes:
        show_line(console, note)
    if table.notes:
        show_line(console)


def print_roofline(console: Console, table: RooflineTable) -> None:
    """Print the operators against what the core can do at most."""
    cells = [item.cells for item in table.rows]
    title = f"Roofline: {table.roof}"
    show_table(console, ROOFLINE_HEADERS, cells, title=title, numbers=ROOFLINE_NUMBERS)


def _print_runs(console: Console, run: RunDescription) -> None:
    """Print groups of blocks with the same events in the same order, per name of blocks."""
    found = run.run.subject.runs if run.run.subject is not None else []
    first = {item.signature: n for n, item in reversed([*enumerate(found)])}
    rows = []
    for _, group in groupby(sorted(found, key=lambda r: first[r.signature]), lambda r: r.signature):
        same = [*group]
        cold = sum(item.cold for item in same)
        numbers = (len(same), same[0].order, cold, same[0].events)
        rows.append([same[0].name, *(f"{count:,}" for count in numbers)])
    if rows:
        headers = ["block", "identical runs", "first at", "cold", "events"]
        show_table(console, headers, rows, title="Runs", numbers=range(1, 5))


def print_allocators(console: Console, allocators: Sequence[AllocatorRow]) -> None:
    """Print totals per allocator, or nothing when none was declared or used."""
    if allocators:
        headers = ["allocator", "count", "total [B]", "peak [B]", "largest [B]"]
        headers += ["failures", "refused [B]"]
        rows = [
            [row.name, row.count, row.held, row.peak, row.largest, row.failures, row.refused]
            for row in allocators
        ]
        show_table(console, headers, rows, title="Allocators", numbers=range(1, len(headers)))


def _print_energy(console: Console, energy: EnergyDescription | None) -> None:
    """Print the energy of each operator, or nothing when no meter recorded it."""
    if energy is None:
        return
    if energy.rows:
        headers, rows = energy.headers, [row.cells for row in energy.rows]
        show_table(console, headers, rows, title="Energy", numbers=range(1, len(headers)))
    for line in energy.lines:
        show_line(console, line)


def print_losses(console: Console, losses: Sequence[Loss]) -> None:
    """Print what is missing from the log; always prints a line."""
    texts = {
        kind: "; ".join(item.text for item in losses if item.count and item.kind == kind)
        for kind in ("by request", "lost")
    }
    if texts["by request"]:
        show_line(console, f"not recorded: {texts['by request']}")
    if texts["lost"]:
        text = f"LOSSES: {texts['lost']}; totals are lower bounds"
        show_line(console, text, style="bold red")
    else:
        show_line(console, "losses: none; the log is complete")


def print_changes(console: Console, changes: ChangeTable, *, detailed: bool = False) -> None:
    """Print numbers that changed against the baseline, or all numbers if ``detailed``."""
    shown = (*changes.changed, *(changes.others if detailed else ()))
    if shown:
        _print_numbers(console, changes, shown)
    for judgement, count in changes.counts:
        total = len(changes.changed) + len(changes.others)
        if judgement == "same":
            show_line(console, f"same as {changes.description}: {count:,} of {total:,} numbers")
    if changes.detectable:
        show_line(console, changes.detectable)
    for note in changes.notes:
        show_line(console, f"note: {note}")


def _print_numbers(console: Console, changes: ChangeTable, shown: Sequence[ChangeRow]) -> None:
    headers = ["", "number", *["unit"] * changes.several_units]
    first = len(headers)
    headers += ["baseline", "now", "change", "relative", "by chance", "noise"]
    headers += ["detectable", "sessions"]
    rows = [
        [
            row.judgement,
            row.name,
            *[row.unit] * changes.several_units,
            *(row.baseline, row.now, row.change, row.relative),
            *(row.chance, row.noise, row.detectable, row.sessions),
        ]
        for row in shown
    ]
    title = f"Compared with {changes.description}"
    show_table(console, headers, rows, title=title, numbers=range(first, len(headers)))


def print_verdict(console: Console, verdict: VerdictDescription, *, verbosity: int = 0) -> None:
    """Print warnings and notes, then failed checks, the worst first, and PASS or FAIL last.

    Args:
        console: Where to print.
        verdict: What to print.
        verbosity: Negative for the verdict and failed checks alone; positive to print a table of
            all checks first.
    """
    show_line(console)
    if verbosity > 0:
        _print_checks(console, verdict)
    most = None if verbosity > 0 else _MOST_CHECKS
    if verbosity >= 0:
        warned = [(f"{row.outcome}: ", row) for row in verdict.warned]
        _print_reasons(console, warned, most)
    _print_reasons(console, [("failed: ", row) for row in verdict.failed], most)
    style = "bold green" if verdict.outcome == "pass" else "bold red"
    show_line(console, verdict.line, indent=6, style=style)


def print_failure(console: Console, verdict: VerdictDescription) -> None:
    """Print PASS or FAIL first, for a message that starts with it, and then the failed checks."""
    show_line(console, verdict.line)
    _print_reasons(console, [("  ", row) for row in verdict.failed], _MOST_CHECKS)


def _print_reasons(
    console: Console, reasons: Sequence[tuple[str, CheckRow]], most: int | None
) -> None:
    """Print the reasons of failed checks, each after a prefix; at most ``most`` of them."""
    for prefix, row in reasons[:most]:
        because = f"{row.code} {row.subject}: {row.rule}: {row.reason}"
        style = {"fail": "red"}.get(row.outcome, "yellow")
        show_line(console, f"{prefix}{because}", indent=len(prefix) + 2, style=style)
    if most is not None and len(reasons) > most:
        show_line(console, f"  and {len(reasons) - most:,} more; -v lists all")


def _print_checks(console: Console, verdict: VerdictDescription) -> None:
    """Print a table of all checks, failed ones last."""
    rows = [
        [
            "FAIL" if row.outcome == "fail" else row.outcome,
            *(row.code, row.rule, row.subject, row.measured, row.limit),
        ]
        for row in (*verdict.passed, *verdict.warned, *verdict.failed)
    ]
    headers = ["", "code", "rule", "subject", "measured", "limit"]
    show_table(console, headers, rows, title="Checks", numbers=(4, 5))

"""A run on the terminal, the verdict last; its call tree, its test sets; explanations of checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.analyze.statistics import Operator
from harness.formatting import counted, printable
from harness.plugins import INSPECTORS, load_extension
from harness.records.result import encode
from harness.records.verdict import OUTPUTS, Check, Code, Severity
from harness.report.changes import change_table, executions_of
from harness.report.description import (
    AllocatorUse,
    Loss,
    RunDescription,
    VerdictDescription,
    describe,
)
from harness.report.operators import OperatorListing, instruction_text, operator_name, share_text
from harness.report.terminal import print_header, show_line, show_table, sparkline
from harness.report.words import (
    OUTCOME_WORDS,
    ReportTable,
    event_title,
    more_text,
    one_time,
    with_unit,
)
from harness.runs.source import EvaluatedRun

if TYPE_CHECKING:
    from rich.console import Console

    from harness.documentation import DocumentationPage


_TEST_SET_HEADERS = ["method", "test set", "executions", "median execution", "outputs", "verdict"]


def print_test_sets(console: Console, run: EvaluatedRun, *, verbosity: int = 0) -> None:
    """Print the run of a bundled program.

    Args:
        console: Where to print.
        run: The run, with those of its test sets.
        verbosity: Negative for the verdict alone; positive to list every check.
    """
    whole = describe(run)
    if verbosity >= 0:
        print_header(console, {fact.label: fact.text for fact in whole.facts if fact.essential})
        rows = [_test_set_row(describe(each)) for each in run.test_sets]
        show_table(console, _TEST_SET_HEADERS, rows, title="Test sets", numbers=(1, 2, 3))
    print_verdict(console, whole.verdict, verbosity=verbosity)


def _test_set_row(found: RunDescription) -> list[str]:
    result, executed = found.run.result, executions_of(found.run)
    times = executed.times if executed is not None else None
    known = executed is not None and executed.ns is not None
    outputs = [check for check in found.run.verdict.checks if check.code == OUTPUTS]
    wrong = sum(not check.passed for check in outputs)
    state = f"{wrong:,} of {len(outputs):,} differ" if wrong else "match"
    return [
        result.model.method if result and result.model else "",
        str(result.test_set) if result else "",
        f"{result.runs_completed:,} of {result.runs_requested:,}" if result else "",
        "-" if times is None else one_time(times.p50 if known else None, times.p50),
        state if outputs else "not compared",
        OUTCOME_WORDS[found.verdict.outcome],
    ]


Column = tuple[str, "Callable[[Operator], str]"]
"""A further column of operators: its header, and what makes a cell."""

_USUAL = frozenset({"model", "arena", "trace", "stack", "link"})
"""Facts that only -v shows: file, sizes and digests, which checks and losses are about."""

_SENT = ("frames", "requests")
"""Units of losses of the line, which are worth its fact if there are any."""

TOP: Final = 20
"""Operators listed by default."""

_ALIKE: Final = 0.01
"""Largest difference of times that count as the same, as a share of the median."""

_MOST_BARS = 10
"""Bars of a sparkline; each is the longest of several executions if there are more."""

_MOST_CHECKS = 20
"""Failed checks listed by default (-v lists all)."""


def print_run(
    console: Console,
    run: RunDescription,
    *,
    verbosity: int = 0,
    show_verdict: bool = True,
    top: int | None = None,
    by: str | None = None,
) -> None:
    """Print a run, the verdict last.

    Args:
        console: Where to print.
        run: What to print.
        verbosity: Negative for the verdict alone; positive to list every event and every check.
        show_verdict: Print the verdict.
        top: Operators to list, as for ``print_operators``.
        by: What to sum operators by, likewise.
    """
    if verbosity >= 0:
        # What ran where in a line, and below it the facts that are not always alike.
        shown = {fact.label: fact.text for fact in run.facts if fact.essential}
        if verbosity == 0:
            if board := shown.pop("board", ""):
                title = f"{run.model} on {board}" if run.model else board
                show_line(console, title, style="bold")
            sent_again = any(item.count and item.unit in _SENT for item in run.losses)
            usual = _USUAL - {"link"} if sent_again else _USUAL
            shown = {label: text for label, text in shown.items() if label not in usual}
        print_header(console, shown)
        print_trace(console, run, detailed=verbosity > 0, top=top, by=by)
        if run.changes is not None:
            show_line(console)
            print_changes(console, run, detailed=verbosity > 0)
    if show_verdict:
        print_verdict(console, run.verdict, verbosity=verbosity)


def print_trace(
    console: Console,
    run: RunDescription,
    *,
    detailed: bool = False,
    columns: Sequence[Column] = (),
    top: int | None = None,
    by: str | None = None,
) -> None:
    """Print what was measured: operators, allocators, clocks, losses.

    Args:
        console: Where to print.
        run: What to print.
        detailed: List all events in the order of the log, and groups of identical runs.
        columns: Further columns of operators.
        top: Operators to list, as for ``print_operators``.
        by: What to sum operators by, likewise.
    """
    if run.operators is None:
        show_line(console, "no profile events")
        show_line(console)
    else:
        print_operators(console, run.operators, detailed=detailed, columns=columns, top=top, by=by)
    if run.counters is not None:
        for table in run.counters.tables():
            print_table(console, table)
        for note in run.counters.notes:
            show_line(console, note)
        if run.counters.notes:
            show_line(console)
    roofline = () if run.roofline is None else (run.roofline.table,)
    for table in (*roofline, *run.section_tables):
        print_table(console, table)
    if detailed:
        _print_runs(console, run)
    print_allocators(console, run.allocators)
    if run.energy is not None:
        print_table(console, run.energy)
    for line in run.clock_lines:
        show_line(console, line)
    print_losses(console, run.losses)


def print_operators(
    console: Console,
    table: OperatorListing,
    *,
    detailed: bool = False,
    columns: Sequence[Column] = (),
    top: int | None = None,
    by: str | None = None,
) -> None:
    """Print scopes and operators, or everything in the order of the log if ``detailed``, with whole
    names and all digits.

    The share is of the wall time of executions, or of loading (``WallTimes``); scopes nest, so
    their shares do not add up to 100 %. If durations are unknown, a column counts them; no other
    number includes them.

    Args:
        console: Where to print.
        table: What to print.
        detailed: Print everything; then ``top`` and ``by`` have no effect.
        columns: Further columns.
        top: Rows of a table before one that stands for all others; None for ``TOP``.
        by: Sum operators: by ``kind`` or by ``operator``.
    """
    parts: list[tuple[str, str, Sequence[Operator]]]
    if detailed:
        inside = [row for row in table.logged if not row.loading]
        parts = [("event", "Events", inside)]
    else:
        parts = [("scope", "Scopes", table.scopes), ("operator", "Operators", table.operators)]
    parts.append(("event", "Loading and setup", table.loading))
    for what, title, rows in parts:
        if rows and detailed:
            _print_exact_rows(console, table, title, rows, columns)
        elif rows and by and what == "operator":
            groups: Any = load_extension(INSPECTORS, "groups", "--by is", "inspector")
            print_table(console, groups.group_table(table, by))
        elif rows:
            _print_rows(console, table, what, title, rows, columns, top or TOP)
    if table.others:
        show_line(console, f"and {counted(table.others, 'faster operator')}; -v lists all")
        show_line(console)


def _print_rows(
    console: Console,
    table: OperatorListing,
    what: str,
    title: str,
    rows: Sequence[Operator],
    columns: Sequence[Column],
    top: int,
) -> None:
    """Print rows by their titles, with three digits, what matters most on the left.

    Where nothing was repeated or all repeats are alike, the median is the only time. A number of
    calls that all rows have is in the title.
    """
    rows, rest = rows[:top], rows[top:]
    repeated, several = any(len(row.rows) > 1 for row in rows), len({row.block for row in rows}) > 1
    blocks = [("block", [printable(row.block) for row in rows])] if several else []
    ticks = [1.0 if row.ns is None else 1e9 / float(row.clock.hz or 1e9) for row in rows]
    alike = all(
        row.times is None or row.times.max - row.times.min <= max(tick, _ALIKE * row.times.p50)
        for row, tick in zip(rows, ticks, strict=True)
    )
    names = ("p50",) if alike else ("p50", "p90", "max")
    numbers = [(name if repeated else "time", _brief(table, rows, name)) for name in names]
    numbers.append(("share [%]", [share_text(row.share) for row in rows]))
    if table.unknown:
        numbers.append(("unknown", [f"{row.unknown:,}" for row in rows]))
    calls = [f"{len(row.rows):,}" for row in rows]
    title += f" in {table.unit.name}, longest first" if rows[1:] else f" in {table.unit.name}"
    if len({*calls}) > 1:
        numbers.append(("calls", calls))
    elif repeated:
        title += f", {calls[0]} calls{' each' if rows[1:] else ''}"
    title += ", alike within 1 % or a tick" if repeated and alike else ""
    texts_of_rows = [(header, [cell(row) for row in rows]) for header, cell in columns]
    if not alike:
        longest = [table.longest(row, _MOST_BARS) if len(row.rows) > 1 else [] for row in rows]
        bars = [sparkline(console, values) if values else "" for values in longest]
        texts_of_rows.append(("executions", bars))
    titles = [event_title(row) for row in rows]
    counts = Counter((row.block, title) for row, title in zip(rows, titles, strict=True))
    # The whole name where a short one would stand for several rows.
    titles = [
        title
        if counts[row.block, title] == 1
        else " ".join([operator_name(row), *(f"#{row.instruction}",) * (row.chain != -1)])
        for row, title in zip(rows, titles, strict=True)
    ]
    found = [(what, titles), *blocks, *numbers, *texts_of_rows]
    if rest:
        cells = {what: more_text(len(rest), len(rows))}
        known = [row.share for row in rest if row.share is not None]
        cells["share [%]"] = share_text(sum(known) if len(known) == len(rest) else None)
        found = [(header, [*column, cells.get(header, "")]) for header, column in found]
    of_numbers = [n for n, column in enumerate(found) if column[0] in dict(numbers)]
    lines = [*zip(*(column for _, column in found), strict=True)]
    show_table(console, [*dict(found)], lines, title=title, numbers=of_numbers)


def _brief(table: OperatorListing, rows: Sequence[Operator], name: str) -> list[str]:
    """Return one statistic of each row with three significant digits."""
    # Ticks of a clock without a rate are whole numbers already, with their own unit.
    return [
        table.unit.brief(getattr(row.ns, name)) if row.ns is not None else table.text(row, name)
        for row in rows
    ]


def _print_exact_rows(
    console: Console,
    table: OperatorListing,
    title: str,
    rows: Sequence[Operator],
    columns: Sequence[Column],
) -> None:
    """Print rows by their whole names, with all digits."""
    names = ("p50", "avg", "min", "max", *("cold",) * table.cold)
    taken = any(row.taken for row in table.logged)
    several = len({row.block for row in rows}) > 1
    texts = ["block"] * several
    headers = ["event", *texts, "instruction", "count", *["unknown"] * table.unknown]
    headers += [*(f"{name} [{table.unit.name}]" for name in names), "share [%]"]
    headers += [f"taken by others [{table.unit.name}]"] * taken
    numbers = range(1 + len(texts), len(headers))
    cells = [
        [
            operator_name(row),
            *[printable(row.block)] * several,
            instruction_text(row),
            f"{len(row.rows):,}",
            *[f"{row.unknown:,}"] * table.unknown,
            *(table.text(row, name) for name in names),
            share_text(row.share),
            *[table.unit.text(row.taken)] * taken,
            *(cell(row) for _, cell in columns),
        ]
        for row in rows
    ]
    headers += [header for header, _ in columns]
    show_table(console, headers, cells, title=title, numbers=numbers)


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


def print_allocators(console: Console, allocators: Sequence[AllocatorUse]) -> None:
    """Print totals per allocator, or nothing when none was declared or used."""
    if allocators:
        headers = ["allocator", "count", "total [B]", "peak [B]", "largest [B]"]
        headers += ["failures", "refused [B]"]
        rows = [
            [
                printable(use.totals.label),
                f"{use.totals.count:,}",
                f"{use.totals.total_bytes:,}",
                f"{use.peak:,}",
                f"{use.totals.largest_bytes:,}",
                f"{use.totals.failures:,}",
                f"{use.totals.failed_bytes:,}",
            ]
            for use in allocators
        ]
        show_table(console, headers, rows, title="Allocators", numbers=range(1, len(headers)))


def print_table(console: Console, table: ReportTable) -> None:
    """Print a table, unless it is empty, and its notes."""
    if table.rows:
        show_table(console, table.headers, table.rows, title=table.title, numbers=table.numbers)
    for note in table.notes:
        show_line(console, note)
    if table.notes and table.rows:
        show_line(console)


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
        rest = " of what was recorded" if texts["by request"] else "; the log is complete"
        show_line(console, f"losses: none{rest}")


def print_changes(console: Console, run: RunDescription, *, detailed: bool = False) -> None:
    """Print numbers that changed against the baseline, or all if ``detailed``, and the causes."""
    if (changes := run.changes) is None:
        return
    shown = (*changes.changed, *(changes.others if detailed else ()))
    if shown:
        further = ("change", "by chance", "noise", "detectable", "sessions") if detailed else ()
        print_table(
            console, change_table(changes, shown, ("relative", "now", "baseline", *further))
        )
    if same := sum(row.judgement == "same" for row in changes.others):
        total = len(changes.changed) + len(changes.others)
        show_line(console, f"same as {changes.description}: {same:,} of {total:,} numbers")
    if changes.detectable:
        show_line(console, changes.detectable)
    for line in run.causes:
        show_line(console, line)


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
    if verdict.next:
        show_line(console, verdict.next, indent=6)
    style = "bold green" if verdict.outcome == "pass" else "bold red"
    show_line(console, verdict.line, indent=6, style=style)


def print_failure(console: Console, verdict: VerdictDescription) -> None:
    """Print PASS or FAIL first, for a message that starts with it, and then the failed checks."""
    show_line(console, verdict.line)
    _print_reasons(console, [("  ", row) for row in verdict.failed], _MOST_CHECKS)


def _print_reasons(
    console: Console, reasons: Sequence[tuple[str, Check]], most: int | None
) -> None:
    """Print the reasons of failed checks, each after a prefix; at most ``most`` of them."""
    for prefix, row in reasons[:most]:
        # The rules of all but budgets would say first that nothing is wrong.
        rule = f"{row.rule}: " if row.code.startswith("B") else ""
        because = f"{row.code} {row.subject}: {rule}{row.reason}"
        style = {"fail": "red"}.get(row.outcome, "yellow")
        show_line(console, f"{prefix}{because}", indent=len(prefix) + 2, style=style)
    if most is not None and len(reasons) > most:
        show_line(console, f"  and {len(reasons) - most:,} more; -v lists all")


def _print_checks(console: Console, verdict: VerdictDescription) -> None:
    """Print a table of all checks, failed ones last."""
    rows = [
        [
            OUTCOME_WORDS.get(row.outcome, row.outcome),
            *(row.code, row.rule, row.subject),
            with_unit(row.measured, row.unit),
            with_unit(row.limit, row.unit),
        ]
        for row in (*verdict.passed, *verdict.warned, *verdict.failed)
    ]
    headers = ["", "code", "rule", "subject", "measured", "limit"]
    show_table(console, headers, rows, title="Checks", numbers=(4, 5))


class CodeDocument(msgspec.Struct, frozen=True):
    """A check code or another page of the documentation.

    Attributes:
        code: The code, such as B01, or the name of the page, such as ``lab``.
        title: What holds if the check passes, or the heading of the page.
        severity: Severity of a failed check; null for a page that is about none.
        page: The page as Markdown; null in the list of all.
        url: Its address on the site that $ETHARNESS_DOCS_URL names; null without one.
    """

    code: str
    title: str
    severity: Severity | None
    page: str | None
    url: str | None


def explain_document(
    found: Iterable[tuple[Code | None, DocumentationPage]], *, with_text: bool
) -> bytes:
    """Return codes and pages as JSON."""
    return encode(
        [
            CodeDocument(
                page.name,
                page.title,
                code.severity if code else None,
                page.text if with_text else None,
                page.url,
            )
            for code, page in found
        ]
    )


def print_codes(console: Console, codes: Iterable[Code]) -> None:
    """Print a line for each code."""
    rows = [[code.code, code.severity, code.title] for code in codes]
    show_table(console, ["code", "severity", "what holds"], rows)


def print_pages(console: Console, pages: Sequence[DocumentationPage]) -> None:
    """Print pages: rendered on a terminal, as Markdown in a pipe."""
    texts = [f"{page.text}\n<{page.url}>\n" if page.url else page.text for page in pages]
    if not console.is_terminal:
        console.print("\n".join(texts), markup=False, highlight=False, soft_wrap=True, end="")
        return
    from rich.markdown import Markdown

    for text in texts:
        console.print(Markdown(text))

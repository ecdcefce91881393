"""Judged runs as Markdown, as CI systems show it: the verdict first, then why, then where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from harness.records.nightly import NightDocument
from harness.records.verdict import Check
from harness.report.html.facts import losses, provenance
from harness.report.html.formatting import Limits, brief
from harness.report.html.history import history_view
from harness.report.html.operators import operators
from harness.report.night_tables import headline, tables
from harness.report.overview import outcome, why
from harness.runs.judged_run import JudgedRun, all_passed

MOST_BYTES: Final = 1024 * 1024
"""What GitHub shows of one step; it refuses a longer summary as a whole."""

_MOST_RUNS: Final = 1000
"""Runs in the table of all."""

_MOST_STEPS: Final = 200
"""Rows in a table of a night."""

_LIMITS: Final = Limits(rows=10, checks=50, frames=0, nodes=0, points=0, trends=0, lines=0)

_SPECIAL: Final = re.compile(r"([\\`*_\[\]|~$])")


def markdown_report(runs: Sequence[JudgedRun], night: NightDocument | None = None) -> bytes:
    """Return the Markdown of ``runs``, and of the night they are of, of at most ``MOST_BYTES``.

    Of several runs those that did not pass come first, after a table of all. What does not fit is
    left out run by run, the last ones first, and counted.
    """
    ordered = sorted(runs, key=lambda run: run.passed)
    head = _head(ordered) if night is None else "".join(_night(night))
    note = "\n*{} runs more are left out, as CI systems show 1 MiB; other reports have all.*\n"
    left = MOST_BYTES - len(head.encode()) - len(note.format(len(runs)).encode())
    shown = []
    for run in ordered:
        section = _section(run, alone=len(runs) == 1 and night is None)
        left -= len(section.encode())
        if left < 0:
            break
        shown.append(section)
    missing = len(ordered) - len(shown)
    return "".join([head, *shown, note.format(f"{missing:,}") if missing else ""]).encode()


def _head(runs: Sequence[JudgedRun]) -> str:
    if len(runs) == 1:
        return ""
    bad = sum(not run.passed for run in runs)
    verdict = f"PASS: all {len(runs):,} runs"
    if not all_passed(runs):
        verdict = f"FAIL: {bad:,} of {len(runs):,} runs did not pass"
    rows = [
        [
            outcome(run),
            run.title,
            run.result.board if run.result else "",
            run.result.model.file if run.result and run.result.model else "",
            why(run),
        ]
        for run in runs[:_MOST_RUNS]
    ]
    more = _more(len(runs) - len(rows), "runs")
    return f"# {verdict}\n\n{_table(['', 'run', 'board', 'model', 'why'], rows)}{more}\n"


def _night(night: NightDocument) -> Iterator[str]:
    """What came of a night: its tables, each cut to what fits."""
    yield f"# {escaped(headline(night), 1000)}\n\n{escaped(night.night)}\n\n"
    for table in tables(night):
        shown = table.rows[:_MOST_STEPS]
        text = _table(table.headers, shown, numbers=table.numbers)
        more = _more(len(table.rows) - len(shown), "rows")
        yield f"**{table.title}**\n\n{text}{more}\n"
    for note in night.notes:
        yield f"{escaped(note, 1000)}\n\n"


def _section(run: JudgedRun, *, alone: bool) -> str:
    total, failures = len(run.verdict.checks), run.verdict.worst_failures
    if run.failure is not None:
        verdict = f"FAIL: the run did not end: {escaped(run.failure.kind)}"
    elif failures:
        verdict = f"FAIL: {len(failures):,} of {total:,} checks do not hold"
    else:
        verdict = f"PASS: {total - len(run.verdict.warnings):,} of {total:,} checks hold"
    level = "#" if alone else "##"
    parts = [f"{level} {verdict}\n\n{escaped(run.title)}\n\n"]
    if run.failure is not None:
        parts.append(f"{escaped(run.failure.message, 1000)}\n\n")
        if run.failure.hint:
            parts.append(f"Try: {escaped(run.failure.hint, 1000)}\n\n")
    parts += _checks("What failed", failures)
    parts += _checks("Warnings and notes", run.verdict.warnings)
    for make in (_changes, _operators, _losses):
        parts += make(run)
    facts = [list(fact) for fact in provenance(run)]
    table = _table(["", ""], facts)
    parts.append(f"<details><summary>Provenance</summary>\n\n{table}\n</details>\n\n")
    return "".join(parts)


def _checks(title: str, checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    shown = checks[: _LIMITS.checks]
    rows = [[check.code, check.subject, check.rule, check.reason] for check in shown]
    table = _table(["code", "subject", "rule", "why"], rows)
    yield f"**{title}**\n\n{table}{_more(len(checks) - len(shown), 'checks')}\n"


def _changes(run: JudgedRun) -> Iterator[str]:
    """What is not as in the baseline."""
    view = history_view(run, _LIMITS)
    if view is None or not view.changed:
        return
    headers = ["", "what", "baseline", "now", "change", "of it", "by chance"]
    rows = [
        [c.judgement, c.name, c.baseline, c.now, c.change, c.relative, c.chance]
        for c in view.changed
    ]
    table = _table(headers, rows, numbers=range(2, 7))
    title = f"Changes against {escaped(view.description)}"
    yield f"**{title}**\n\n{table}{_more(view.more, 'numbers')}\n"


def _operators(run: JudgedRun) -> Iterator[str]:
    """The operators that take most of the time."""
    view = None if run.subject is None else operators(run.subject, _LIMITS)
    if view is None or not view.rows:
        return
    unit = view.unit.name
    headers = ["operator", "instruction", "count", f"p50 [{unit}]", f"avg [{unit}]", "share [%]"]
    rows = [
        [
            row.name,
            "" if row.instruction is None else str(row.instruction),
            str(row.count),
            row.p50.text,
            row.avg.text,
            f"{row.total.width:.1f}",
        ]
        for row in view.rows
    ]
    table = _table(headers, rows, numbers=range(1, 6))
    yield f"**Longest operators**\n\n{table}{_more(view.more, 'operators')}\n"


def _losses(run: JudgedRun) -> Iterator[str]:
    lost = [item for item in losses(run.subject, run.result) if item.count]
    if lost:
        yield "**Losses**\n\n"
        yield _table(["what", "count"], [[i.what, f"{i.count:,}"] for i in lost], numbers=[1])
        yield "\n"


def escaped(text: str, longest: int = 300) -> str:
    """Text from anywhere as one line of Markdown that shows it as it is."""
    plain = brief(text, longest)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = _SPECIAL.sub(r"\\\1", plain).replace("@", "&#64;")
    return re.sub(r"^(\s*)([#+-])", r"\1\\\2", plain)


def _table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()
) -> str:
    right = set(numbers)
    ruler = ["--:" if index in right else "---" for index in range(len(headers))]
    lines = [headers, ruler, *(list(map(escaped, row)) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _more(count: int, what: str) -> str:
    return f"\n*{count:,} {what} more are left out.*\n" if count > 0 else ""

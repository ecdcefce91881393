"""Evaluated runs as Markdown for CI systems: the verdict first, then the reasons, then the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from harness.records.nightly import NightDocument
from harness.report.description import CheckRow, RunDescription, describe
from harness.report.nightly import headline, tables
from harness.report.operators import several_blocks
from harness.report.overview import HEADERS, describe_overview
from harness.report.roofline import ROOFLINE_HEADERS, ROOFLINE_NUMBERS
from harness.report.text import LONGEST_SENTENCE, brief
from harness.runs.evaluation import EvaluatedRun

MOST_BYTES: Final = 1024 * 1024
"""GitHub's limit for the summary of a step; it refuses a longer one as a whole."""

_MOST_RUNS: Final = 1000
"""Runs in the table of all."""

_MOST_STEPS: Final = 200
"""Rows of a table of a nightly run."""

_MOST_ROWS: Final = 10
"""Operators, and changes against history."""

_MOST_CHECKS: Final = 50

_SPECIAL: Final = re.compile(r"([\\`*_\[\]|~$])")


def markdown_report(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
    """Return Markdown about ``runs`` and their nightly run, of at most ``MOST_BYTES``.

    Of several runs those that did not pass come first, after a table of all. Runs that do not fit
    are left out, the last ones first, and counted.
    """
    described = [describe(run) for run in runs]
    overview = describe_overview(described)
    alone = len(runs) == 1 and night is None
    if night is not None:
        head = "".join(_night(night))
    else:
        head = "" if alone else f"# {overview.headline}\n\n"
        rows = [overview.rows[n] for n in overview.order[:_MOST_RUNS]]
        more = _more(len(runs) - len(rows), "runs")
        head += "" if alone else f"{markdown_table(HEADERS, rows)}{more}\n"
    note = "\n*{} more runs are left out: CI systems show 1 MiB. Other reports have all.*\n"
    left = MOST_BYTES - len(head.encode()) - len(note.format(len(runs)).encode())
    shown = []
    for place in overview.order:
        section = "".join(_section(described[place], alone=alone))
        left -= len(section.encode())
        if left < 0:
            break
        shown.append(section)
    missing = len(runs) - len(shown)
    return "".join([head, *shown, note.format(f"{missing:,}") if missing else ""]).encode()


def _night(night: NightDocument) -> Iterator[str]:
    """The tables of a nightly run, each cut to what fits."""
    yield f"# {escaped(headline(night), LONGEST_SENTENCE)}\n\n{escaped(night.night)}\n\n"
    for table in tables(night):
        shown = table.rows[:_MOST_STEPS]
        text = markdown_table(table.headers, shown, numbers=table.numbers)
        more = _more(len(table.rows) - len(shown), "rows")
        yield f"**{table.title}**\n\n{text}{more}\n"
    for note in night.notes:
        yield f"{escaped(note, LONGEST_SENTENCE)}\n\n"


def _section(run: RunDescription, *, alone: bool) -> Iterator[str]:
    level = "#" if alone else "##"
    yield f"{level} {escaped(run.verdict.line, LONGEST_SENTENCE)}\n\n"
    yield f"{escaped(run.title)}{f', {escaped(run.kernels)}' if run.kernels else ''}\n\n"
    if run.failure is not None and run.failure.hint:
        yield f"Try: {escaped(run.failure.hint, LONGEST_SENTENCE)}\n\n"
    yield from _checks("Failed checks", run.verdict.failed)
    yield from _checks("Warnings and notes", run.verdict.warned)
    yield from _changes(run)
    yield from _operators(run)
    yield from _counters(run)
    yield from _energy(run)
    yield from _roofline(run)
    lost = [[item.note or item.what, f"{item.count:,}"] for item in run.losses if item.count]
    if lost:
        yield f"**Losses**\n\n{markdown_table(['what', 'count'], lost, numbers=[1])}\n"
    table = markdown_table(["", ""], [[fact.label, fact.text] for fact in run.facts])
    yield f"<details><summary>Provenance</summary>\n\n{table}\n</details>\n\n"


def _checks(title: str, checks: Sequence[CheckRow]) -> Iterator[str]:
    if checks:
        shown = checks[:_MOST_CHECKS]
        rows = [[row.code, row.subject, row.rule, row.reason] for row in shown]
        table = markdown_table(["code", "subject", "rule", "reason"], rows)
        yield f"**{title}**\n\n{table}{_more(len(checks) - len(shown), 'checks')}\n"


def _changes(run: RunDescription) -> Iterator[str]:
    """Numbers that differ from the baseline."""
    if run.changes is None or not run.changes.changed:
        return
    changed, several = run.changes.changed, run.changes.several_units
    headers = ["", "number", *["unit"] * several]
    first = len(headers)
    headers += ["baseline", "now", "change", "relative", "by chance"]
    rows = [
        [
            *(row.judgement, row.name, *[row.unit] * several),
            *(row.baseline, row.now, row.change, row.relative, row.chance),
        ]
        for row in changed[:_MOST_ROWS]
    ]
    table = markdown_table(headers, rows, numbers=range(first, len(headers)))
    title = f"Compared with {escaped(run.changes.description)}"
    yield f"**{title}**\n\n{table}{_more(len(changed) - len(rows), 'numbers')}\n"


def _operators(run: RunDescription) -> Iterator[str]:
    """The operators with the longest total time."""
    table = run.operators
    if table is None or not table.operators:
        return
    unit, several = table.unit.name, several_blocks(table.operators)
    headers = ["operator", *["block"] * several, "instruction", "count"]
    headers += [f"p50 [{unit}]", f"avg [{unit}]", "share [%]"]
    rows = [
        [
            *(row.name, *[row.block] * several, row.instruction, f"{row.count:,}"),
            *(row.texts.p50, row.texts.avg, row.share_text),
        ]
        for row in table.operators[:_MOST_ROWS]
    ]
    text = markdown_table(headers, rows, numbers=range(1 + several, len(headers)))
    more = _more(len(table.operators) - len(rows), "operators")
    yield f"**Longest operators**\n\n{text}{more}\n"


def _counters(run: RunDescription) -> Iterator[str]:
    """What hardware counters counted in the operators with the longest total time."""
    table = run.counters
    if table is None or not table.operators:
        return
    headers = ["operator", "instruction", *table.headers]
    rows = [
        [item.row.name, item.row.instruction, *(cell.text for cell in item.cells)]
        for item in table.operators[:_MOST_ROWS]
    ]
    text = markdown_table(headers, rows, numbers=range(1, len(headers)))
    more = _more(len(table.operators) - len(rows), "operators")
    notes = "".join(f"{escaped(note)}\n\n" for note in table.notes)
    yield f"**Hardware counters (median)**\n\n{text}{more}\n{notes}"


def _energy(run: RunDescription) -> Iterator[str]:
    """The energy of executions and of the operators that draw most."""
    if run.energy is None:
        return
    shown = run.energy.rows[:_MOST_ROWS]
    yield "**Energy**\n\n"
    if shown:
        headers, rows = run.energy.headers, [row.cells for row in shown]
        yield markdown_table(headers, rows, numbers=range(1, len(headers)))
        yield f"{_more(len(run.energy.rows) - len(shown), 'operators')}\n"
    for line in run.energy.lines:
        yield f"{escaped(line, LONGEST_SENTENCE)}\n\n"


def _roofline(run: RunDescription) -> Iterator[str]:
    """The operators with the longest total time against what the core can do."""
    if run.roofline is None:
        return
    rows = [item.cells for item in run.roofline.rows[:_MOST_ROWS]]
    text = markdown_table(ROOFLINE_HEADERS, rows, numbers=ROOFLINE_NUMBERS)
    more = _more(len(run.roofline.rows) - len(rows), "operators")
    yield f"**Roofline**: {escaped(run.roofline.roof)}\n\n{text}{more}\n"


def escaped(text: str, longest: int = 300) -> str:
    """Any text as one line of Markdown without markup."""
    plain = brief(text, longest)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = _SPECIAL.sub(r"\\\1", plain).replace("@", "&#64;")
    return re.sub(r"^(\s*)([#+-])", r"\1\\\2", plain)


def markdown_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()
) -> str:
    """Return a table; columns of ``numbers`` are aligned to the right."""
    right = set(numbers)
    ruler = ["--:" if index in right else "---" for index in range(len(headers))]
    lines = [headers, ruler, *(list(map(escaped, row)) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _more(count: int, what: str) -> str:
    return f"\n*{count:,} more {what} are left out.*\n" if count > 0 else ""

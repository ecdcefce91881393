"""Evaluated runs as Markdown for CI systems and comments: what decided, what changed, the rest."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.formatting import printable
from harness.records.nightly import NightDocument
from harness.records.verdict import Check
from harness.report.changes import TrackedNumber, change_table
from harness.report.description import RunDescription, describe_of_night
from harness.report.nightly import causes_table, counts_sentence, tables
from harness.report.operators import instruction_text, operator_name, share_text
from harness.report.overview import (
    Overview,
    RunSummary,
    compared_text,
    delta_table,
    describe_overview,
)
from harness.report.words import (
    LONGEST_SENTENCE,
    ReportTable,
    brief,
    counts_text,
    verdict_word,
    word_of,
)
from harness.runs.source import EvaluatedRun

MOST_BYTES: Final = 65_536
"""GitHub's limit for a comment in characters, of which none is shorter than a byte; it refuses a
longer one as a whole."""

_RUN_BYTES: Final = 20_000
"""The most that one of several runs takes, so that one run does not displace the others."""

_MOST_RUNS: Final = 100
"""Runs in the table of all."""

_MOST_STEPS: Final = 60
"""Rows of a table of a nightly run."""

_MOST_CHANGES: Final = 60

_MOST_ROWS: Final = 10
"""Operators, and changes with all digits."""

_MOST_CHECKS: Final = 50

_LONGEST_TITLE: Final = 300
"""Characters of a heading."""

_SPECIAL: Final = re.compile(r"([\\`*_\[\]|~$])")

_REFERENCES: Final = re.compile(r"@|[#!%~$](?=\d)")
"""What would notify a person, or link to issue 5 where ``conv2d #5`` is an operator."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A part of a page that is shown, cut, or left out.

    Attributes:
        table: Its table, the most important row first.
        what: What the rows are.
        most: Rows that are shown.
        folded: Show the title only, until a reader opens it.
        after: Markdown below the table.
    """

    table: ReportTable
    what: str = "rows"
    most: int = _MOST_ROWS
    folded: bool = True
    after: str = ""

    def text(self, room: int) -> str:
        """Return the Markdown in at most this number of bytes; empty if nothing fits."""
        title, headers, rows, numbers, _ = self.table
        start, end = f"**{escaped(title, LONGEST_SENTENCE)}**\n\n" if title else "", ""
        if title and self.folded:
            start = f"<details><summary>{_in_tag(title)}</summary>\n\n"
            end = "</details>\n\n"
        start += _header(headers, numbers) if rows else ""
        end = ("\n" if rows else "") + self.after + end
        room -= len((start + end + _more(len(rows), self.what)).encode())
        shown: list[str] = []
        for cells in rows[: self.most]:
            line = _row(list(map(_cell, cells)))
            room -= len(line.encode())
            if room < 0:
                break
            shown.append(line)
        if room < 0 and not shown:
            return ""
        missing = _more(len(rows) - len(shown), self.what)
        return "".join([start, *shown, missing, end])


def markdown_report(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
    """Return Markdown about ``runs`` and their nightly run, of at most ``MOST_BYTES``.

    The first line has the verdict and what decided it. Of several runs those that did not pass come
    first, after a table of all. Whatever does not fit is left out, the least important first, and
    counted. The last line is a comment by which a bot finds its own comment again: it names what
    was tested, and stays the same while that does.
    """
    described = describe_of_night(runs, night)
    overview = describe_overview(described)
    marker = _marker(overview, night)
    note = "*{} more runs are left out. Other reports have all.*\n\n"
    room = MOST_BYTES - len((marker + note.format(f"{len(runs):,}")).encode())
    if night is None and len(runs) == 1:
        text = "".join(_alone(described[0], overview.summaries[0], room))
        return f"{text}{marker}".encode()
    head = "".join(_night(night, room) if night is not None else _all(described, overview, room))
    room -= len(head.encode())
    shown: list[str] = []
    for place in overview.order:
        most = min(room, _RUN_BYTES)
        section = "".join(_one_of(described[place], overview.summaries[place], most))
        room -= len(section.encode())
        if room < 0:
            break
        shown.append(section)
    missing = len(runs) - len(shown)
    return "".join([head, *shown, note.format(f"{missing:,}") if missing else "", marker]).encode()


def _marker(overview: Overview, night: NightDocument | None) -> str:
    """Return the comment by which a bot finds its own comment."""
    if night is not None:
        subject = f"night {night.name}"
    elif len(overview.summaries) == 1:
        subject = overview.summaries[0].name
    else:
        boards = dict.fromkeys(sorted(run.board for run in overview.summaries if run.board))
        subject = f"runs on {' '.join(boards)}" if boards else "runs"
    # Two dashes or an angle bracket would end it.
    plain = re.sub(r"[^\w. -]+|-{2,}", "-", brief(subject, 100)).strip(" -")
    return f"<!-- etdump-harness: {plain} -->\n"


def _named(name: str, why: str) -> str:
    return why if why.startswith(name) else f"{name}: {why}"


def _alone(run: RunDescription, summary: RunSummary, room: int) -> Iterator[str]:
    """The page of one run."""
    word = verdict_word(run.verdict.outcome == "pass")
    title = f"{word}: {_named(summary.name, run.verdict.why)}"
    yield (head := f"## {escaped(title, _LONGEST_TITLE)}\n\n")
    yield from _run(run, summary, room - len(head.encode()))


def _one_of(run: RunDescription, summary: RunSummary, room: int) -> Iterator[str]:
    """One of several runs; those that passed are folded."""
    if summary.state != "pass":
        title = f"{word_of(summary.state)}: {_named(summary.label, run.verdict.why)}"
        yield (head := f"### {escaped(title, _LONGEST_TITLE)}\n\n")
        yield from _run(run, summary, room - len(head.encode()))
        return
    title = brief(f"PASS: {_named(summary.label, run.verdict.why)}", _LONGEST_TITLE)
    head, end = f"<details><summary>{_in_tag(title)}</summary>\n\n", "</details>\n\n"
    yield head
    yield from _run(run, summary, room - len((head + end).encode()))
    yield end


def _run(run: RunDescription, summary: RunSummary, room: int) -> Iterator[str]:
    """A run below its title, in at most this number of bytes."""
    # Of a run that passed the headline stands above.
    about = [run.verdict.headline] * (run.verdict.why != run.verdict.headline)
    about += [run.title, run.kernels]
    if run.changes is not None:
        about.append(f"compared with {run.changes.description}")
    head = f"{escaped('; '.join(filter(None, about)), LONGEST_SENTENCE)}\n\n"
    if run.failure is not None and run.failure.hint:
        head += f"Try: {escaped(run.failure.hint, LONGEST_SENTENCE)}\n\n"
    yield head
    note = "*Left out: {}. Other reports have all.*\n\n"
    blocks = [*_blocks(run, summary)]
    names = [block.table.title or "changes" for block in blocks]
    room -= len((head + note.format(", ".join(names))).encode())
    missing = []
    for block, name in zip(blocks, names, strict=True):
        text = block.text(room)
        room -= len(text.encode())
        if text:
            yield text
        else:
            missing.append(name)
    if missing:
        yield note.format(", ".join(missing))


def _blocks(run: RunDescription, summary: RunSummary) -> Iterator[_Block]:
    """The parts of a run, the most important first."""
    if (table := delta_table(run, summary)).rows:
        after = ""
        if run.changes is not None:
            parts = [compared_text(run.changes), run.changes.detectable]
            after = f"{escaped('; '.join(filter(None, parts)), LONGEST_SENTENCE)}\n\n"
        after += sentences_text(run.causes)
        yield _Block(table, "changes", _MOST_CHANGES, folded=False, after=after)
    yield from _checks("Failed checks", run.verdict.failed, folded=False)
    yield from _checks("Warnings and notes", run.verdict.warned)
    yield from _changes(run)
    yield from _operators(run)
    if run.counters is not None and run.counters.operators:
        notes = "".join(f"{escaped(note)}\n\n" for note in run.counters.notes)
        yield _Block(next(run.counters.tables()), "operators", after=notes)
    if run.energy is not None:
        notes = "".join(f"{escaped(note, LONGEST_SENTENCE)}\n\n" for note in run.energy.notes)
        yield _Block(run.energy, "operators", after=notes)
    if run.roofline is not None:
        yield _Block(run.roofline.table, "operators")
    for table in run.section_tables:
        notes = "".join(f"{escaped(note, LONGEST_SENTENCE)}\n\n" for note in table.notes)
        yield _Block(table, after=notes)
    if lost := [[item.note or item.what, f"{item.count:,}"] for item in run.losses if item.count]:
        yield _Block(ReportTable("Losses", ["what", "count"], lost, [1]), most=len(lost))
    facts = [[fact.label, fact.text] for fact in run.facts]
    yield _Block(ReportTable("Provenance", ["", ""], facts), most=len(facts))


def _checks(title: str, checks: Sequence[Check], *, folded: bool = True) -> Iterator[_Block]:
    if checks:
        rows = [[row.code, row.subject, row.rule, row.reason] for row in checks]
        headers = ["code", "subject", "rule", "reason"]
        yield _Block(ReportTable(title, headers, rows), "checks", _MOST_CHECKS, folded=folded)


def _changes(run: RunDescription) -> Iterator[_Block]:
    """Numbers that differ from the baseline, with all digits and bounds."""
    if run.changes is None or not run.changes.changed:
        return
    columns = ("baseline", "now", "change", "relative", "by chance")
    yield _Block(change_table(run.changes, run.changes.changed, columns), "numbers")


def _operators(run: RunDescription) -> Iterator[_Block]:
    """The operators with the longest total time."""
    table = run.operators
    if table is None or not table.operators:
        return
    unit, several = table.unit.name, len({row.block for row in table.operators}) > 1
    headers = ["operator", *["block"] * several, "instruction", "count"]
    headers += [f"p50 [{unit}]", f"avg [{unit}]", "share [%]"]
    rows = [
        [
            *(operator_name(row), *[printable(row.block)] * several, instruction_text(row)),
            *(f"{len(row.rows):,}", table.text(row, "p50"), table.text(row, "avg")),
            share_text(row.share),
        ]
        for row in table.operators
    ]
    numbers = range(1 + several, len(headers))
    yield _Block(ReportTable("Longest operators", headers, rows, numbers), "operators")


def _all(runs: Sequence[RunDescription], overview: Overview, room: int) -> Iterator[str]:
    """The verdict about several runs, and a line for each."""
    text = overview.headline
    if overview.passed < len(runs):
        worst = overview.order[0]
        text += f"; {overview.summaries[worst].label}: {runs[worst].verdict.why}"
    kernels = dict.fromkeys(filter(None, (run.kernels for run in runs)))
    parts = [counts_text(overview.counts), *[f"kernels: {', '.join(kernels)}"] * bool(kernels)]
    about = escaped("; ".join(parts), LONGEST_SENTENCE)
    head = f"## {escaped(text, _LONGEST_TITLE)}\n\n{about}\n\n"
    yield head
    rows = [_summary(overview.summaries[n]) for n in overview.order]
    headers = ["run", "outcome", "execution", "change", "memory", "change", "why"]
    block = _Block(ReportTable("", headers, rows, range(2, 6)), "runs", _MOST_RUNS, folded=False)
    yield block.text((room - len(head.encode())) // 2)


def _summary(run: RunSummary) -> tuple[str, ...]:
    return (
        *(run.label, word_of(run.state)),
        *(*_number(run.execution), *_number(run.memory), brief(run.why)),
    )


def _number(number: TrackedNumber | None) -> tuple[str, str]:
    return ("-", "-") if number is None else (number.text, number.change_text or "-")


def _night(night: NightDocument, room: int) -> Iterator[str]:
    """The tables of a nightly run, each cut to what fits."""
    head = f"## {escaped(night.headline, LONGEST_SENTENCE)}\n\n"
    head += f"{escaped(night.night)}: {escaped(counts_sentence(night), LONGEST_SENTENCE)}\n\n"
    yield head
    room -= len(head.encode())
    notes = [f"{escaped(note, LONGEST_SENTENCE)}\n\n" for note in night.notes]
    for table in (*([causes_table(night)] if night.causes else ()), *tables(night)):
        # Half of what is left, so that a long table leaves room for those below it and for runs.
        text = _Block(table, most=_MOST_STEPS, folded=False).text(room // 2)
        text = text or f"{_more(len(table.rows), f'rows of the table {table.title}')}\n"
        room -= len(text.encode())
        yield text
    for note in notes:
        room -= len(note.encode())
        if room >= 0:
            yield note


def sentences_text(sentences: Sequence[str]) -> str:
    """Return a list below its first sentence; nothing without any."""
    first, *lines = (escaped(text, LONGEST_SENTENCE) for text in sentences or [""])
    listed = "".join(f"- {line}\n" for line in lines)
    return f"**{first}**\n\n{listed}" + "\n" * bool(listed) if first else ""


def escaped(text: str, longest: int = 300) -> str:
    """Any text as one line of Markdown without markup, mentions and references to issues."""
    return re.sub(r"^(\s*)([#+-])", r"\1\\\2", _cell(text, longest))


def _cell(text: str, longest: int = 300) -> str:
    """Any text as the cell of a table, where nothing begins a heading or a list."""
    plain = brief(text, longest)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _unlinked(_SPECIAL.sub(r"\\\1", plain))


def _in_tag(text: str) -> str:
    """Any text as the content of an HTML tag, where Markdown has no markup."""
    return _unlinked(html.escape(text, quote=False))


def _unlinked(text: str) -> str:
    """Put a space without width where GitHub and GitLab would link; they do so after unescaping."""
    return _REFERENCES.sub(lambda match: f"{match[0]}&#8203;", text)


def markdown_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()
) -> str:
    """Return a table; columns of ``numbers`` are aligned to the right."""
    lines = (_row(list(map(_cell, cells))) for cells in rows)
    return "".join([_header(headers, numbers), *lines])


def _header(headers: Sequence[str], numbers: Iterable[int]) -> str:
    right = set(numbers)
    ruler = ["--:" if index in right else "---" for index in range(len(headers))]
    return _row(headers) + _row(ruler)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _more(count: int, what: str) -> str:
    return f"\n*{count:,} more {what} are left out.*\n" if count > 0 else ""

"""Tables of a nightly run, shared by all reports."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from harness.records.nightly import (
    EXIT_CODES,
    ArmComparison,
    Changed,
    NightDocument,
    NightVerdict,
    QuarantineStatus,
    StepOutcome,
    state_counts,
    worst_first,
)
from harness.records.trace import EXECUTION
from harness.report.words import OUTCOME_WORDS, ReportTable, counted, counts_text, word_of

_COMMIT: Final = 10
"""Characters of a commit in a sentence."""

_TIMES: Final = ("ns", "ticks")
"""Units of times."""

_OPERATOR: Final = " #"
"""What the names of operators have and those of phases have not: their instruction."""

_LARGE: Final = 1_000
"""Percents that are shown without decimals."""

_WORSE: Final = {"bytes": "larger", "count": "more", "nJ": "higher", "error": "less accurate"}
"""Words for numbers that grew, by their unit; times are slower."""


def counts_sentence(night: NightVerdict) -> str:
    """Return how the planned runs of a nightly run ended, such as ``2 planned runs: 2 passed``."""
    return f"{counted(night.steps, 'planned run')}: {counts_text(state_counts(night.counts))}"


def tables(night: NightDocument) -> Iterator[ReportTable]:
    """Yield the tables of a nightly run that are not empty, the most important first."""
    for table in (_causes(night), _failed(night), _not_run(night), _troubles(night), _sides(night)):
        if table.rows:
            yield table
    yield _units(night)
    for table in (_flaky(night), _quarantined(night), quarantine_table(night.quarantine)):
        if table.rows:
            yield table


def _causes(night: NightDocument) -> ReportTable:
    rows = [
        (word_of(cause.state), cause.sentence, f"{cause.runs:,}", cause.command)
        for cause in night.causes
    ]
    return ReportTable("What failed", ("", "what", "runs", "next"), rows, (2,))


def _units(night: NightDocument) -> ReportTable:
    owners = [str(owner) for owner in EXIT_CODES]
    headers = ("unit", "board", "state", "pass", "flaky", "regression", *owners)
    rows = []
    for unit in night.units:
        failed = {str(owner): count for owner, count in unit.failed.items()}
        numbers = [unit.passed, unit.flaky, unit.regressions]
        numbers += [failed.get(owner, 0) for owner in owners]
        numbers += [unit.quarantined, unit.not_run, unit.power_cycles]
        rows.append((unit.unit, unit.board, unit.state, *(f"{count:,}" for count in numbers)))
    headers = (*headers, "quarantined", "not made", "power cycles")
    return ReportTable("Units", headers, rows, range(3, len(headers)))


def _failed(night: NightDocument) -> ReportTable:
    rows = [
        (str(o.owner or ""), str(o.step), str(len(o.failures)), o.why, _place(o))
        for o in worst_first(night.outcomes)
        if o.outcome == "fail"
    ]
    headers = ("owner", "run", "attempts", "why", "directory")
    return ReportTable("Failed runs", headers, rows, (2,))


def _not_run(night: NightDocument) -> ReportTable:
    rows = [
        (unit.unit, unit.state, str(unit.owner or ""), unit.why, f"{unit.not_run:,}")
        for unit in night.units
        if unit.not_run or unit.state != "well"
    ]
    headers = ("unit", "state", "owner", "why", "runs not made")
    return ReportTable("Units with skipped runs", headers, rows, (4,))


def _troubles(night: NightDocument) -> ReportTable:
    rows = [(str(t.owner), t.message, t.hint) for t in night.troubles]
    return ReportTable("Other failures", ("owner", "what", "try"), rows)


def _sides(night: NightDocument) -> ReportTable:
    rows = [
        (
            OUTCOME_WORDS["pass" if s.passed else "fail"],
            s.board,
            s.model,
            s.before,
            s.after,
            s.summary,
        )
        for s in night.arms
    ]
    headers = ("", "board", "model", "before", "after", "what changed")
    return ReportTable("Comparison", headers, rows)


def _flaky(night: NightDocument) -> ReportTable:
    rows = [
        (str(o.step), o.told, o.failures[-1].message, _place(o)) for o in night.outcomes if o.flaky
    ]
    headers = ("step", "how", "what failed before", "directory")
    return ReportTable("Passed after a retry", headers, rows)


def _quarantined(night: NightDocument) -> ReportTable:
    rows = [
        (str(o.owner or ""), str(o.step), o.why, o.quarantine)
        for o in night.outcomes
        if o.quarantine
    ]
    headers = ("owner", "step", "why", "known as")
    return ReportTable("Known failures, which do not count", headers, rows)


def quarantine_table(entries: Sequence[QuarantineStatus]) -> ReportTable:
    """Return the status of quarantine entries."""
    said = {
        "applies": "applies",
        "ready": "ready to be removed",
        "proved": "proved: counts again, remove it",
        "expired": "expired: counts again",
    }
    rows = [
        (
            *(said[e.state], e.about, e.reason, e.owner, e.issue, e.expires),
            *(f"{e.passes} of {e.wanted}", str(e.excused)),
        )
        for e in entries
    ]
    headers = ("state", "about", "reason", "owner", "issue", "until", "passes", "excused tonight")
    return ReportTable("Quarantine", headers, rows, (7,))


def _place(outcome: StepOutcome) -> str:
    return outcome.attempts[-1].directory if outcome.attempts else ""


def worse_numbers(arm: ArmComparison) -> list[Changed]:
    """Return the numbers that got worse: the execution, then other times, then sizes."""
    worse = [change for change in arm.changed if change.judgement in ("regression", "suspect")]
    return sorted(worse, key=lambda c: (c.what != EXECUTION, c.counted_in not in _TIMES))


def regression_sentence(arm: ArmComparison) -> str:
    """Say in which way an arm is worse than the other one, and since when."""
    about, worse = f"{arm.model} on {arm.board}", worse_numbers(arm)
    if not worse:
        return f"{about}: {arm.summary} (beside {arm.before})"
    first, *others = worse
    commit = arm.commits[1]
    than = f"since {commit[:_COMMIT]}" if commit else f"than {arm.before}"
    what = "" if first.what == EXECUTION else f": {first.what}"
    text = f"{about}{what} is {_change_text(first)} {than}"
    if not what and (
        times := [c for c in others if _OPERATOR in c.what and c.counted_in in _TIMES]
    ):
        longest = max(times, key=lambda c: (c.after or 0) - (c.before or 0))
        text += f": {longest.what} {_change_text(longest)}"
        others.remove(longest)
    more = max(arm.counts.get("regression", 0), len(worse)) - len(worse) + len(others)
    return f"{text}, and {counted(more, 'more regression')}" if more else text


def _change_text(change: Changed) -> str:
    """Say how much larger a number is: ``90.6 % slower``."""
    word = _WORSE.get(change.counted_in, "slower")
    if change.relative is None:
        return word
    percent = 100 * change.relative
    return f"{percent:,.{1 if percent < _LARGE else 0}f} % {word}"


def bisect_command(arm: ArmComparison) -> str:
    """Return what to type about a regression; "" where nothing is known to go on with."""
    good, bad = arm.commits
    if not good or not bad or good == bad:
        return ""
    options: tuple[str, ...] = ()
    if (worst := worse_numbers(arm)[:1]) and worst[0].counted_in not in _TIMES:
        options = ("--metric", "memory" if worst[0].statistic else f"size:{worst[0].what}")
    return f"{command_words('etharness bisect', '--good', good, '--bad', bad, *options)} -- COMMAND"


def command_words(command: str, *arguments: str) -> str:
    """Return a command with arguments as it is typed."""
    return " ".join([command, *map(shlex.quote, arguments)])

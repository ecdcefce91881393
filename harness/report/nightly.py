"""Tables of a nightly run, shared by all reports."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from harness.check.history.comparison import Compared, HistoryComparison
from harness.formatting import printable
from harness.records.nightly import (
    EXIT_CODES,
    ArmComparison,
    Changed,
    NightCause,
    NightDocument,
    NightVerdict,
    QuarantineStatus,
    StepOutcome,
    state_counts,
    worst_first,
)
from harness.records.trace import EXECUTION
from harness.report.words import ReportTable, counted, counts_text, metric_subject, word_of

_COMMIT: Final = 10
"""Characters of a commit in a sentence."""

_TIMES: Final = ("ns", "ticks")
"""Units of times."""

_IS_WORSE: Final = ("regression", "suspect")
_UNCHANGED: Final = ("same", "too little")

_LARGE: Final = 10
"""Growth from which a change is told as a factor."""

_WORSE: Final = {"bytes": "larger", "count": "more", "nJ": "higher", "error": "less accurate"}
"""Words for numbers that grew, by their unit; times are slower."""


def counts_sentence(night: NightVerdict) -> str:
    """Return how the planned runs of a nightly run ended, such as ``2 planned runs: 2 passed``."""
    return f"{counted(night.steps, 'planned run')}: {counts_text(state_counts(night.counts))}"


def tables(night: NightDocument) -> Iterator[ReportTable]:
    """Yield the tables beside ``causes_table`` that are not empty, the most important first."""
    for table in (_failed(night), _not_run(night), _sides(night)):
        if table.rows:
            yield table
    yield _units(night)
    for table in (_flaky(night), _quarantined(night), quarantine_table(night.quarantine)):
        if table.rows:
            yield table


def causes_table(night: NightDocument) -> ReportTable:
    """Return why runs did not pass, and what to do about it."""
    rows = [
        (word_of(cause.state), cause.sentence, runs_text(cause), cause.command or cause.hint)
        for cause in night.causes
    ]
    return ReportTable("What failed", ("", "what", "runs", "next"), rows)


def runs_text(cause: NightCause) -> str:
    """Return how many runs a cause concerns: ``12 runs, 3 not made, 15 attempts``."""
    parts = [counted(cause.runs, "run")] if cause.runs else []
    if cause.not_made:
        parts.append("not made" if cause.not_made == cause.runs else f"{cause.not_made:,} not made")
    if cause.attempts > cause.runs - cause.not_made:
        parts.append(counted(cause.attempts, "attempt"))
    return ", ".join(parts)


def _units(night: NightDocument) -> ReportTable:
    owners = [str(owner) for owner in EXIT_CODES]
    headers = ("unit", "board", "state", "passed", "flaky", "regression", *owners)
    rows = []
    for unit in night.units:
        failed = {str(owner): count for owner, count in unit.failed.items()}
        numbers = [unit.flaky, unit.regressions, *(failed.get(owner, 0) for owner in owners)]
        numbers += [unit.quarantined, unit.not_run, unit.power_cycles]
        planned = unit.passed + unit.regressions + sum(failed.values()) + unit.quarantined
        head = (unit.unit, unit.board, unit.state, f"{unit.passed:,} of {planned:,}")
        rows.append((*head, *(f"{count:,}" for count in numbers)))
    headers = (*headers, "quarantined", "not made", "power cycles")
    return _dense(ReportTable("Units", headers, rows, range(3, len(headers))))


def _dense(table: ReportTable) -> ReportTable:
    """Return a table without the columns that say nothing."""
    used = [n for n, column in enumerate(zip(*table.rows, strict=True)) if {*column} - {"", "0"}]
    return table._replace(
        headers=[table.headers[n] for n in used],
        rows=[[row[n] for n in used] for row in table.rows],
        numbers=[place for place, n in enumerate(used) if n in table.numbers],
    )


def _failed(night: NightDocument) -> ReportTable:
    told = {cause.why for cause in night.causes}
    rows = [
        (
            *(str(o.owner or ""), str(o.step), f"{len(o.failures):,}"),
            *("" if o.why in told else o.why, _place(o)),
        )
        for o in worst_first(night.outcomes)
        if o.outcome == "fail"
    ]
    headers = ("owner", "run", "attempts", "why", "directory")
    return _dense(ReportTable("Failed runs", headers, rows, (2,)))


def _not_run(night: NightDocument) -> ReportTable:
    told = {cause.why for cause in night.causes}
    rows = [
        (unit.unit, unit.state, str(unit.owner or ""), unit.why, f"{unit.not_run:,}")
        for unit in night.units
        if unit.why and unit.why not in told
    ]
    headers = ("unit", "state", "owner", "why", "runs not made")
    return ReportTable("Units with skipped runs", headers, rows, (4,))


def _sides(night: NightDocument) -> ReportTable:
    several = len({arm.after for arm in night.arms}) > 1
    rows = [
        (
            *("FAIL" if not arm.passed else "pass" if arm.units else "-", arm.model, arm.board),
            *(arm.after if several else "", compared_with(arm.before), arm.summary),
        )
        for arm in night.arms
    ]
    headers = ("", "model", "board", "variant", "compared with", "result")
    return _dense(ReportTable("Comparison", headers, rows))


def compared_with(before: str) -> str:
    """Return what an arm is compared with: a baseline in words, or the label of a variant."""
    how, _, what = before.rpartition(":")
    return f"the last {what} results" if how == "last" else before


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


def compared_arm(names: tuple[str, str, str, str], comparison: HistoryComparison) -> ArmComparison:
    """Return what a comparison with history found: all changes, what got worse first.

    Args:
        names: Board, model, and what both sides are called.
        comparison: The comparison.
    """
    board, model, before, after = names
    numbers = [number for number in comparison.numbers if number.judgement not in _UNCHANGED]
    judgements: list[str] = [number.judgement for number in comparison.numbers]
    judgements += ["suspect" for one in comparison.common if one.judgement == "suspect"]
    numbers.sort(key=lambda one: _urgency(one.judgement, one.metric.name, one.metric.unit))
    steps = [step for number in numbers[:1] for step in number.steps if step.size.value > 0]
    return ArmComparison(
        board=board,
        model=model,
        before=before,
        after=after,
        passed=True,
        summary="",
        commits=(steps[-1].last_good, steps[-1].first_bad)
        if steps
        else (comparison.before, comparison.commit),
        units=comparison.units,
        counts=dict(Counter(judgements)),
        changed=tuple(map(_changed, numbers)),
    )


def _urgency(judgement: str, what: str, unit: str) -> tuple[bool, bool, bool]:
    """Order of numbers: those that got worse first; the execution, then other times, then sizes."""
    return judgement not in _IS_WORSE, what != EXECUTION, unit not in _TIMES


def _changed(number: Compared) -> Changed:
    metric = number.metric
    return Changed(
        unit=number.board_unit,
        what=EXECUTION if metric.name == EXECUTION else metric_subject(metric),
        statistic=metric.statistic,
        judgement=number.judgement,
        before=number.baseline.value if number.baseline else None,
        after=number.current,
        relative=number.relative,
        counted_in=metric.unit,
        reason=printable(number.reason),
        metric_kind="phase" if metric.kind == "operator" and metric.chain == -1 else metric.kind,
    )


def worse_numbers(arm: ArmComparison) -> list[Changed]:
    """Return the numbers that got worse, the most urgent first."""
    worse = [change for change in arm.changed if change.judgement in _IS_WORSE]
    return sorted(worse, key=lambda one: _urgency(one.judgement, one.what, one.counted_in))


def regression_sentence(arm: ArmComparison) -> str:
    """Say in which way an arm is worse than the other one, and since when."""
    about, worse = f"{arm.model} on {arm.board}", worse_numbers(arm)
    if not worse:
        return f"{about}, compared with {compared_with(arm.before)}: {arm.summary}"
    first, *others = worse
    commit = arm.commits[1]
    than = f"since {commit[:_COMMIT]}" if commit else f"than {compared_with(arm.before)}"
    what = "" if first.what == EXECUTION else f": {_number_name(first)}"
    text = f"{about}{what} is {_growth_text(first)} {than}"
    times = [c for c in others if c.metric_kind == "operator" and c.counted_in in _TIMES]
    if times and not what:
        longest = max(times, key=lambda c: (c.after or 0) - (c.before or 0))
        text += f": {longest.what} {_growth_text(longest)}"
        others.remove(longest)
    more = max(arm.counts.get("regression", 0), len(worse)) - len(worse) + len(others)
    return f"{text}, and {counted(more, 'more regression')}" if more else text


def comparison_sentence(
    names: tuple[str, str], comparison: HistoryComparison, *, passed: bool
) -> str:
    """Say what got worse or, of a run that passed, that it is faster; "" for neither."""
    arm = compared_arm((*names, comparison.description, ""), comparison)
    if not passed:
        return regression_sentence(arm) if worse_numbers(arm) else ""
    gains = [
        c.relative for c in arm.changed if c.what == EXECUTION and c.judgement == "improvement"
    ]
    if not gains or not gains[0]:
        return ""
    than = compared_with(comparison.description)
    return f"{arm.model} on {arm.board} is {-100 * gains[0]:.1f} % faster than {than}"


def growth_sentence(change: Changed) -> str:
    """Say of a number how much it grew: ``conv2d #7 12.4 % slower``."""
    return f"{_number_name(change)} {_growth_text(change)}"


def _number_name(change: Changed) -> str:
    if change.metric_kind == "allocator":
        return f"memory {change.what}"
    return "execution" if change.what == EXECUTION else change.what.replace("_bytes", " size")


def _growth_text(change: Changed) -> str:
    word, growth = _WORSE.get(change.counted_in, "slower"), change.relative
    if growth is None:
        return word
    text = f"{100 * growth:,.1f} %" if growth < _LARGE else f"{1 + growth:,.0f} times"
    return f"{text} {word}"


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

"""Turns a history comparison into checks (H01 to H13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harness.check.history.comparison import (
    CommonChange,
    Compared,
    HistoryComparison,
    Interval,
    MetricStep,
    Mode,
    PairedChange,
    detectable_text,
    judgement_word,
    number_kind,
    percentage,
)
from harness.check.history.noise import ENOUGH, GROSS, correction
from harness.check.history.samples import Decision, Metric
from harness.check.limits import subject_of_operator
from harness.formatting import commit_text, counted
from harness.records.trace import EXECUTION, SUM_OF_OPERATORS
from harness.records.verdict import Check, Judgement, Severity, check

_NAMED: Final = 5
"""Number of operators that a check of several lists by name."""

_WITH_IT: Final = 0.5
"""Share of a common change from which an operator has changed with the others."""

_RUNS: Final = 3
"""Runs of one session that the advice is about."""

_MEASURE_AGAIN: Final = "measured in one session, so noise may explain it: the next one decides"

_DESCRIBED: Final = 2
"""Number of operators that it describes in detail."""

_REGRESSIONS: Final = (
    *(("H01", "operator"), ("H02", "size"), ("H10", "counter"), ("H11", "energy")),
    ("H13", "accuracy"),
)
"""Code of a regression, by what has become worse."""


def history_checks(comparison: HistoryComparison) -> Iterator[Check]:
    """Yield one check per changed number, and one for all unchanged numbers.

    Numbers that appeared, vanished or have too little data give one check of each kind.
    """
    numbers = comparison.numbers
    several = len(comparison.units) > 1
    for common in comparison.common:
        yield from _common_check(common, comparison, several)
    scattered = {
        (common.board_unit, common.clock) for common in comparison.common if _is_scattered(common)
    }
    executions = _execution_times(numbers)
    # One line tells of all operators that changed up or down.
    changes = (
        _change_check(number, comparison, executions, several)
        for number in numbers
        if number.metric.kind != "operator"
        or (number.board_unit, number.metric.clock) not in scattered
    )
    yield from (item for item in changes if item is not None)
    rule = f"no regression from {comparison.description}"
    for code, kind in _REGRESSIONS:
        of_kind = [number for number in numbers if _regression_code(number.metric) == code]
        compared = [n for n in of_kind if n.estimated]
        if compared and not any(n.judgement in ("regression", "suspect") for n in compared):
            bounds = "the limits" if kind == "size" else "limits and noise"
            noticed = f"; {detectable_text(comparison)}" if kind == "operator" else ""
            yield check(
                code,
                rule=rule,
                subject=f"{len(compared)} {'accuracie' if kind == 'accuracy' else kind}s",
                passed=True,
                reason=f"0 regressions beyond {bounds}{noticed}",
            )
    for number in numbers:
        yield from _ignored_check(number, several)
        yield from _step_checks(number, comparison, several)
        yield from _mode_check(number, several)
    yield from _modes_within_check(numbers)
    yield from _gone_checks(comparison, several)
    yield from _pairs_check(comparison)
    yield from _summary_check(numbers, "H07", "vanished")
    yield from _summary_check(numbers, "H07", "appeared")
    yield from _detectable_check(comparison)
    yield from _evidence_checks(comparison)


def _detectable_check(comparison: HistoryComparison) -> Iterator[Check]:
    """Yield a check that fails if the comparison could not have seen a change of a usual size.

    A baseline of the newest results becomes better by itself: this fails no run.
    """
    compared = [n for n in comparison.numbers if n.metric.kind == "operator" and n.estimated]
    median, limit = comparison.detectable_median, comparison.limits.detectable
    if not compared or (median is not None and median <= limit):
        return
    sessions = max(number.baseline_sessions for number in compared)
    growing = comparison.rolling and sessions < ENOUGH
    so_far = f"{sessions} of about {ENOUGH} results so far: " if growing else ""
    severity: Severity = "note" if growing else "warning"
    if comparison.required and not comparison.rolling:
        severity = "error"
    yield check(
        "H06",
        severity=severity,
        rule=f"changes of {percentage(limit)} are detectable",
        subject=counted(len(compared), "operator"),
        passed=False,
        reason=f"{so_far}{detectable_text(comparison)}; more results, or more executions (--runs), "
        "see more",
    )


def _evidence_checks(comparison: HistoryComparison) -> Iterator[Check]:
    """Yield notes on what was not compared; errors where the baseline says nothing that was asked.

    A rolling baseline fills by itself: its first nights are no failures.
    """
    little = [number for number in comparison.numbers if number.judgement == "too little"]
    seen = [number for number in comparison.numbers if number.estimated]
    operators = any(number.metric.kind == "operator" for number in seen)
    blind = not operators and (little or not seen)
    severity: Severity | None = None
    if blind and comparison.required and not comparison.rolling:
        severity = "error"
    for reason, numbers in _by_reason(little).items():
        few = max(number.baseline_sessions for number in numbers) < comparison.limits.min_results
        yield check(
            "H06",
            severity=severity,
            subject=counted(len(numbers), "number"),
            passed=False,
            reason=f"{reason}; --repeat {_RUNS} adds {_RUNS} results now" if few else reason,
        )
    for note in comparison.notes:
        yield check(
            "H06",
            severity=severity,
            subject="history",
            passed=False,
            reason=note,
        )


def _by_reason(numbers: Sequence[Compared]) -> dict[str, list[Compared]]:
    found: dict[str, list[Compared]] = {}
    for number in numbers:
        found.setdefault(number.reason, []).append(number)
    return found


def _common_check(
    common: CommonChange, comparison: HistoryComparison, several: bool
) -> Iterator[Check]:
    """Yield one check for a change that most operators share, instead of one for each."""
    if common.judgement in ("same", "too little"):
        return
    subject = _common_subject(common, comparison, several)
    scattered = _is_scattered(common)
    if scattered:
        reason = (
            f"{common.moved} of {common.operators} operators changed, by "
            f"{percentage(common.typical)} in the median, up or down: the run was disturbed, or "
            "all code was changed"
        )
    else:
        size = _size(common.change, 1.0, 1.0, "", comparison.limits.confidence)
        known = GROSS if common.q is None else f"adjusted p-value {common.q:.2g}"
        reason = (
            f"all operators {size}, {common.moved} of {common.operators} with it: the machine, the "
            f"clock or the build; {known}"
        )
    reason += _shared(common, comparison, moved=not scattered)
    suspect = common.judgement == "suspect"
    if common.paired is not None:
        reason += f"; {_paired_text(common.paired, comparison.limits.confidence)}"
    again = "" if common.paired is not None else f"; {_MEASURE_AGAIN}"
    yield check(
        "H12" if suspect else "H09",
        severity="note" if common.judgement == "improvement" else None,
        rule="" if suspect else f"no common change from {comparison.description}",
        subject=subject,
        passed=False,
        reason=f"{reason}{again}" if suspect else reason,
    )


def _is_scattered(common: CommonChange) -> bool:
    """Return whether the operators changed by different factors, rather than by a common one."""
    return common.judgement == "scattered" or (
        common.judgement == "suspect" and abs(common.change.value) <= common.relative_limit
    )


def _shared(common: CommonChange, comparison: HistoryComparison, *, moved: bool) -> str:
    """Return the operators that changed with the others, the one with the longest time first.

    Args:
        common: What they have in common.
        comparison: The comparison.
        moved: They changed by one factor; otherwise up or down.
    """
    shift = common.change.value
    changed: list[tuple[float, float, Compared]] = []
    for number in comparison.numbers:
        of_clock = number.board_unit, number.metric.clock
        if number.metric.kind != "operator" or of_clock != (common.board_unit, common.clock):
            continue
        if number.current is None or number.baseline is None or not number.baseline.value:
            continue
        level = number.baseline.value
        change = number.current / level * (1 + shift) - 1
        with_it = change / shift > _WITH_IT if moved and shift else False
        if with_it or (not moved and abs(change) > common.relative_limit):
            changed.append((-level, change, number))
    changed.sort(key=lambda item: item[0])
    texts = [f"{_subject(one, False)} {100 * share:+,.3g} %" for _, share, one in changed[:_NAMED]]
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return f"; {'; '.join(texts)}{more}" if texts else ""


def _common_subject(common: CommonChange, comparison: HistoryComparison, several: bool) -> str:
    subject = f"{common.operators} operators, {common.statistic}"
    if common.clock and len({item.clock for item in comparison.common}) > 1:
        subject += f", clock {common.clock}"
    return f"{subject}, unit {common.board_unit}" if several else subject


_Executions = Mapping[tuple[str, str, str], float]
"""The time of an execution, by unit of the board, unit of the time and block."""


def _change_check(
    number: Compared, comparison: HistoryComparison, executions: _Executions, several: bool
) -> Check | None:
    code = _code(number)
    if code is None or number.change is None or number.baseline is None:
        return None
    scale, unit = scale_of(number.metric)
    relative = number.relative_limit * abs(number.baseline.value)
    limit = number.baseline.value + max(relative, number.absolute_limit)
    return check(
        code,
        rule=f"{number.metric.statistic or 'size'} compared with {comparison.description}",
        subject=_subject(number, several),
        measured=None if number.current is None else number.current / scale,
        limit=limit / scale if number.judgement in ("regression", "suspect") else None,
        unit=unit,
        passed=False,
        reason=_reason(number, comparison, executions),
    )


def _code(number: Compared) -> str | None:
    if number.judgement == "regression":
        return _regression_code(number.metric)
    return {"improvement": "H04", "changed": "H05", "suspect": "H12"}.get(number.judgement)


def _regression_code(metric: Metric) -> str:
    return {kind: code for code, kind in _REGRESSIONS}.get(metric.kind, "H02")


def _reason(number: Compared, comparison: HistoryComparison, executions: _Executions) -> str:
    assert number.change is not None
    assert number.baseline is not None
    scale, unit = scale_of(number.metric)
    level, confidence = number.baseline.value, comparison.limits.confidence
    values = f"{level / scale:,.6g} {unit} -> {(number.current or 0) / scale:,.6g} {unit}"
    parts = [_changed(number, comparison, executions)]
    parts.append(f"{number.metric.statistic} {values}".strip())
    if number.paired is not None:
        parts.append(_paired_text(number.paired, confidence))
    elif number.judgement == "suspect":
        parts.append(_measured(number.current_sessions))
    if number.change.lowest is not None and number.change.low != number.change.high:
        size = _size(number.change, level, scale, unit, confidence)
        parts.append(size if number.paired is None else f"at first {size}")
    if number.q is not None and number.paired is None:
        parts.append(f"adjusted p-value {number.q:.2g}")
    if corrected := correction(number.common):
        parts.append(corrected)
    if number.reason:
        parts.append(number.reason)
    if number.decision is not None:
        parts.append(_decision_text(number.decision, holds=number.decision_holds))
    parts += [
        f"unit {other.unit} {'confirms it' if other.confirms else 'does not confirm it'}"
        + ("" if other.change is None else f" ({_size(other.change, level, scale, unit, None)})")
        for other in number.confirmations
    ]
    if number.judgement in ("regression", "improvement") and not number.confirmations:
        parts.append("not measured on other units")
    return "; ".join(parts)


def _changed(number: Compared, comparison: HistoryComparison, executions: _Executions) -> str:
    """Return by how much a number changed, how much of the execution it is, and since when."""
    assert number.change is not None
    assert number.baseline is not None
    change, whole = number.change.value, number.baseline.value
    if number.paired is not None:
        change, whole = number.paired.change.value, 1.0
    word = judgement_word(number.judgement, number_kind(number.metric)).partition(",")[0]
    if not whole:
        plain = number.judgement == "changed" or number.metric.kind == "accuracy"
        text = word if plain else f"{word} than nothing"
    elif number.judgement == "changed":
        text = f"changed by {100 * change / whole:+.3g} %"
    else:
        text = f"{percentage(abs(change / whole))} {word}"
    of = executions.get(_execution_of(number))
    if of and number.current and number.metric.kind == "operator" and not _is_execution(number):
        text += f", {percentage(number.current / of)} of the execution"
    if comparison.before:
        text += f", after commit {commit_text(comparison.before)}"
    return text


def _execution_times(numbers: Sequence[Compared]) -> _Executions:
    """Return the times of the executions that are known once."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for number in numbers:
        if _is_execution(number) and number.current:
            found.setdefault(_execution_of(number), []).append(number.current)
    return {of: times[0] for of, times in found.items() if len(times) == 1}


def _is_execution(number: Compared) -> bool:
    return number.metric.name == EXECUTION


def _execution_of(number: Compared) -> tuple[str, str, str]:
    return number.board_unit, number.metric.unit, number.metric.block


def _gone_checks(comparison: HistoryComparison, several: bool) -> Iterator[Check]:
    """Yield what was suspect at first, and is gone."""
    gone: list[tuple[str, Compared | CommonChange, int]] = [
        (_common_subject(common, comparison, several), common, 0)
        for common in comparison.common
        if common.gone is not None
    ]
    gone += [
        (_subject(number, several), number, number.current_sessions - 1)
        for number in comparison.numbers
        if number.gone is not None
    ]
    for subject, one, times in gone:
        if one.paired is not None:
            again = _paired_text(one.paired, None)
        else:
            again = f"measured again {times} {'time' if times == 1 else 'times'}"
        yield check(
            "H12",
            subject=subject,
            passed=True,
            reason=f"{100 * (one.gone or 0):+,.3g} % at first; {again}: gone",
        )


def _pairs_check(comparison: HistoryComparison) -> Iterator[Check]:
    """Yield notes on what pairs do not compare, if a change was suspect that they may decide."""
    every: list[Compared | CommonChange] = [*comparison.numbers, *comparison.common]
    if any(one.judgement == "suspect" or one.paired is not None for one in every):
        for note in comparison.pairs:
            yield check("H12", severity="note", subject="history", passed=False, reason=note)


def _paired_text(paired: PairedChange, confidence: float | None) -> str:
    count = f"{paired.pairs} pair{'s' if paired.pairs > 1 else ''}"
    text = f"measured against the baseline's {paired.against} in {count}: " + _size(
        paired.change, 1.0, 1.0, "", confidence
    )
    if paired.outcome == "not the model":
        return f"{text}, so it is the firmware, or noise that lasts"
    return f"{text}, which noise may explain" if paired.outcome == "undecided" else text


def _measured(times: int) -> str:
    if times < 2:
        return _MEASURE_AGAIN
    return f"in {times} runs of one session, in which noise may last: the next one decides"


def _size(change: Interval, level: float, scale: float, unit: str, confidence: float | None) -> str:
    """Format a change with its interval, in percent; for a level of 0, in the unit."""
    factor, suffix = (100 / level, " %") if level else (1 / scale, f" {unit}")
    text = f"{change.value * factor:+,.4g}{suffix}"
    if confidence is None or change.low == change.high or change.lowest is None:
        return text
    bounds = f"{change.low * factor:+,.3g} to {change.high * factor:+,.3g}{suffix}"
    return f"{text} ({confidence:.0%} interval {bounds})"


def _decision_text(decision: Decision, *, holds: bool) -> str:
    text = f"the level since {decision.since_utc} is {decision.describe()}"
    if holds or decision.kind == "reopened":
        return text
    return f"{text}, which has expired"


def _ignored_check(number: Compared, several: bool) -> Iterator[Check]:
    """Yield a note for a change that is ignored, so that it is not forgotten."""
    decision = number.decision
    if decision is None or decision.kind != "ignored" or not number.decision_holds:
        return
    if number.judgement == "regression":
        return
    scale, unit = scale_of(number.metric)
    yield check(
        _regression_code(number.metric),
        severity="note",
        rule="no ignored change",
        subject=_subject(number, several),
        measured=None if number.current is None else number.current / scale,
        unit=unit,
        passed=False,
        reason=_decision_text(decision, holds=True),
    )


def _step_checks(number: Compared, comparison: HistoryComparison, several: bool) -> Iterator[Check]:
    scale, unit = scale_of(number.metric)
    for step in number.steps:
        size = _size(step.size, step.before, scale, unit, comparison.limits.confidence)
        more = "; the baseline contains it, and nobody accepted it" if step.undecided else ""
        commits = f"({step.last_good or 'unknown'}, {step.first_bad or 'unknown'}]"
        yield check(
            "H03",
            severity=_step_severity(step),
            rule="no step",
            subject=_subject(number, several),
            measured=(step.before + step.size.value) / scale,
            unit=unit,
            passed=False,
            reason=f"{size} in commits {commits}, since {step.first_bad_utc}{more}",
        )


def _step_severity(step: MetricStep) -> Severity | None:
    """Return the severity of a step; None for that of its code."""
    if step.undecided:
        return "error"
    return "note" if step.size.value < 0 else None


def _mode_check(number: Compared, several: bool) -> Iterator[Check]:
    if len(number.modes) == 2 and _apart(number, number.modes):
        yield check(
            "H08",
            rule="one mode",
            subject=_subject(number, several),
            passed=False,
            reason=f"two modes between results: {_modes(number.metric, number.modes)}",
        )


def _modes_within_check(numbers: Sequence[Compared]) -> Iterator[Check]:
    """Yield one check for all operators with two modes in a run: a busy machine has many."""
    chosen = [n for n in numbers if len(n.modes_within) == 2 and _apart(n, n.modes_within)]
    chosen.sort(key=lambda n: n.modes_within[0].center / n.modes_within[1].center)
    if chosen:
        texts = [
            f"{_subject(number, False)} ({_modes(number.metric, number.modes_within)})"
            for number in chosen[:_DESCRIBED]
        ]
        more = f" and {len(chosen) - _DESCRIBED} more" if len(chosen) > _DESCRIBED else ""
        yield check(
            "H08",
            rule="one mode within a run",
            subject=counted(len(chosen), "operator"),
            passed=False,
            reason=f"two modes: {', '.join(texts)}{more}",
        )


def _apart(number: Compared, modes: Sequence[Mode]) -> bool:
    gap = modes[1].center - modes[0].center
    return gap > max(number.relative_limit * modes[0].center, number.absolute_limit)


def _modes(metric: Metric, modes: Sequence[Mode]) -> str:
    scale, unit = scale_of(metric)
    texts = [f"{mode.weight:.0%} at {mode.center / scale:,.6g} {unit}" for mode in modes]
    return " and ".join(texts)


def _summary_check(
    numbers: Sequence[Compared],
    code: str,
    judgement: Judgement,
    severity: Severity | None = None,
) -> Iterator[Check]:
    chosen = [number for number in numbers if number.judgement == judgement]
    if chosen:
        names = ", ".join(_subject(number, False) for number in chosen[:_NAMED])
        more = f" and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
        yield check(
            code,
            severity=severity,
            rule="the same operators and sizes" if code == "H07" else "",
            subject=counted(len(chosen), "metric"),
            passed=False,
            reason=f"{chosen[0].reason}: {names}{more}",
        )


def subject_of_metric(metric: Metric) -> str:
    """Return an operator, counter, energy, allocator or size as checks name it."""
    if (
        metric.kind == "operator"
        and metric.name in (EXECUTION, SUM_OF_OPERATORS)
        and metric.chain < 0
    ):
        return f"{metric.name}, total time of the method"
    if metric.kind == "operator":
        return subject_of_operator(metric)
    if metric.kind in ("counter", "energy"):
        return f"{subject_of_operator(metric)}, {metric.statistic}"
    return ", ".join([metric.name or "(no name)", *filter(None, [metric.statistic])])


def _subject(number: Compared, several: bool) -> str:
    text = subject_of_metric(number.metric)
    return f"{text}, unit {number.board_unit}" if several else text


def scale_of(metric: Metric) -> tuple[float, str]:
    """Return the factor from a metric's unit to its display unit, and the name of that unit."""
    return {"ns": (1000.0, "us"), "nJ": (1000.0, "uJ")}.get(metric.unit, (1.0, metric.unit))

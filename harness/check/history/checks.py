"""The checks that a comparison with history is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.check.history.comparison import Compared, HistoryComparison, Interval, Judgement, Mode
from harness.check.history.samples import Metric
from harness.check.limits.times import subject_of_operator
from harness.records.verdict import Check, check

_NAMED: Final = 5
"""Operators that a check of several names."""

_DESCRIBED: Final = 2
"""Operators of which it says more."""


def history_checks(comparison: HistoryComparison) -> Iterator[Check]:
    """One check for what each number became, and one for all those that are the same.

    What appeared, vanished or could not be judged is one check each, however many numbers it is of.
    """
    numbers = comparison.numbers
    several = len(comparison.units) > 1
    found = [_of_number(number, comparison, several) for number in numbers]
    yield from (item for item in found if item is not None)
    against = f"no larger than {comparison.description}"
    for code, kind in (("H01", "operator"), ("H02", "size")):
        mine = [n for n in numbers if (n.metric.kind == "operator") == (kind == "operator")]
        judged = [n for n in mine if n.change is not None]
        if judged and not any(n.judgement == "regression" for n in judged):
            reason = "beyond limits and noise" if kind == "operator" else "beyond limits"
            yield check(
                code,
                rule=against,
                subject=f"{len(judged)} {kind}s",
                passed=True,
                reason=f"none grew {reason}",
            )
    for number in numbers:
        yield from _steps(number, comparison, several)
        yield from _levels(number, several)
    yield from _levels_within(numbers)
    yield from _many(numbers, "H07", "vanished", "in the baseline, but not in the result")
    yield from _many(numbers, "H07", "appeared", "in the result, but not in the baseline")
    little = [number for number in numbers if number.judgement == "too little"]
    yield from _many(little, "H06", "too little", little[0].reason if little else "")
    for note in comparison.notes:
        yield check(
            "H06", rule="enough to compare with", subject="history", passed=False, reason=note
        )


def _of_number(number: Compared, comparison: HistoryComparison, several: bool) -> Check | None:
    code = _code(number)
    if code is None or number.change is None or number.baseline is None:
        return None
    scale, unit = scale_of(number.metric)
    relative = number.relative_limit * abs(number.baseline.value)
    limit = number.baseline.value + max(relative, number.absolute_limit)
    return check(
        code,
        rule=f"{number.metric.statistic or 'size'} beside {comparison.description}",
        subject=_subject(number, several),
        measured=None if number.current is None else number.current / scale,
        limit=limit / scale if number.judgement == "regression" else None,
        unit=unit,
        passed=False,
        reason=_reason(number, comparison),
    )


def _code(number: Compared) -> str | None:
    if number.judgement == "regression":
        return "H01" if number.metric.kind == "operator" else "H02"
    return {"improvement": "H04", "changed": "H05"}.get(number.judgement)


def _reason(number: Compared, comparison: HistoryComparison) -> str:
    assert number.change is not None
    assert number.baseline is not None
    scale, unit = scale_of(number.metric)
    level = number.baseline.value
    parts = [f"{level / scale:,.6g} {unit} became {(number.current or 0) / scale:,.6g}"]
    parts.append(_size(number.change, level, scale, unit, comparison.limits.confidence))
    if number.q is not None:
        parts.append(f"by chance with probability {number.q:.2g} among so many")
    if number.reason:
        parts.append(number.reason)
    parts += [
        f"unit {other.unit} {'confirms it' if other.confirms else 'does not'}"
        + ("" if other.change is None else f" ({_size(other.change, level, scale, unit, None)})")
        for other in number.confirmations
    ]
    if number.judgement in ("regression", "improvement") and not number.confirmations:
        parts.append("no other unit has measured it")
    return "; ".join(parts)


def _size(change: Interval, level: float, scale: float, unit: str, confidence: float | None) -> str:
    """A change as a share of the level with its interval, in the unit where there is no share."""
    factor, mark = (100 / level, " %") if level else (1 / scale, f" {unit}")
    text = f"{change.value * factor:+,.4g}{mark}"
    if confidence is None or change.low == change.high:
        return text
    bounds = f"{change.low * factor:+,.3g} to {change.high * factor:+,.3g}{mark}"
    return f"{text} ({bounds} at {confidence:.0%})"


def _steps(number: Compared, comparison: HistoryComparison, several: bool) -> Iterator[Check]:
    scale, unit = scale_of(number.metric)
    for step in number.steps:
        size = _size(step.size, step.before, scale, unit, comparison.limits.confidence)
        commits = f"({step.last_good or 'unknown'}, {step.first_bad or 'unknown'}]"
        yield check(
            "H03",
            severity="note" if step.size.value < 0 else None,
            rule="no step",
            subject=_subject(number, several),
            measured=(step.before + step.size.value) / scale,
            unit=unit,
            passed=False,
            reason=f"{size} with the commits {commits}, since {step.first_bad_utc}",
        )


def _levels(number: Compared, several: bool) -> Iterator[Check]:
    if len(number.modes) == 2 and _apart(number, number.modes):
        yield check(
            "H08",
            rule="one level",
            subject=_subject(number, several),
            passed=False,
            reason=f"{_modes(number.metric, number.modes)} from result to result",
        )


def _levels_within(numbers: Sequence[Compared]) -> Iterator[Check]:
    """One check for all operators with two levels within a run: on a busy machine many have."""
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
            rule="one level within a run",
            subject="1 operator" if len(chosen) == 1 else f"{len(chosen)} operators",
            passed=False,
            reason=f"two levels: {', '.join(texts)}{more}",
        )


def _apart(number: Compared, modes: Sequence[Mode]) -> bool:
    gap = modes[1].center - modes[0].center
    return gap > max(number.relative_limit * modes[0].center, number.absolute_limit)


def _modes(metric: Metric, modes: Sequence[Mode]) -> str:
    scale, unit = scale_of(metric)
    texts = [f"{mode.weight:.0%} at {mode.center / scale:,.6g} {unit}" for mode in modes]
    return " and ".join(texts)


def _many(numbers: Sequence[Compared], code: str, what: Judgement, reason: str) -> Iterator[Check]:
    chosen = [number for number in numbers if number.judgement == what]
    if chosen:
        names = ", ".join(_subject(number, False) for number in chosen[:_NAMED])
        more = f" and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
        yield check(
            code,
            rule="the same is measured" if code == "H07" else "enough to compare with",
            subject=f"{len(chosen)} numbers",
            passed=False,
            reason=f"{reason}: {names}{more}",
        )


def _subject(number: Compared, several: bool) -> str:
    metric = number.metric
    if metric.kind == "operator":
        text = subject_of_operator(metric)
    else:
        text = ", ".join([metric.name or "(no name)", *filter(None, [metric.statistic])])
    return f"{text}, unit {number.board_unit}" if several else text


def scale_of(metric: Metric) -> tuple[float, str]:
    """How many of a metric's unit make one of the unit in which people read it, and its name."""
    return (1000.0, "us") if metric.unit == "ns" else (1.0, metric.unit)

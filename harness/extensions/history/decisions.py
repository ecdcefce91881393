"""Decisions about series: which series a pattern selects, and where their newest level begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

from harness.check.history.checks import subject_of_metric
from harness.check.history.group_sessions import series_of
from harness.check.history.samples import (
    Decision,
    DecisionKind,
    History,
    Metric,
    Provenance,
    repeat_key,
)
from harness.errors import NotComparableError, UsageError
from harness.history.results import matches_name
from harness.records.trace import is_wrapper

_NAMED: Final = 4
"""Series that a message lists by name."""


def choose_series(
    history: History, pattern: str, *, several: bool = False
) -> list[tuple[str, Metric]]:
    """Return the units and series that a pattern selects.

    Args:
        history: Results of the series.
        pattern: ``fnmatch`` pattern for the name of an operator, allocator or size, or for its
            title or text in checks, such as ``conv2d #4`` or ``conv2d, instruction 4``.
        several: Whether the pattern may select several series.

    Raises:
        NotComparableError: It selects no series.
        UsageError: It selects several.
    """
    found = {
        (history.results[place].unit, series_of(series.metric)): None
        for series in history.series
        if not is_wrapper(series.metric.name) and _matches(series_of(series.metric), pattern)
        for place in series.results
    }
    if not found:
        raise NotComparableError(
            f"no operator, allocator or size is called {pattern!r}",
            hint="`etharness history show` lists them",
        )
    if len(found) > 1 and not several:
        names = [f"{subject_of_metric(metric)} on {unit}" for unit, metric in found]
        more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise UsageError(
            f"{pattern!r} selects {len(names)} series: {'; '.join(names[:_NAMED])}{more}",
            hint="give one of these texts and --unit, or decide about all of them with --all",
        )
    return [*found]


def decide(
    kind: DecisionKind,
    history: History,
    chosen: Sequence[tuple[str, Metric]],
    begins: Callable[[Provenance], bool] | None,
    *,
    reason: str,
    who: str,
    until: str | None,
) -> list[Decision]:
    """Return decisions about the newest level of some series.

    Args:
        kind: What was decided.
        history: Results of the series, and earlier decisions.
        chosen: Units and series.
        begins: Tells the first result of the level; None for the newest occasion.
        reason: Why.
        who: Who decided.
        until: Last day on which the decision holds; None without end.

    Raises:
        NotComparableError: No result begins the level.
        UsageError: There is no decision to undo.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    earlier = {(decision.unit, decision.metric): decision for decision in history.decisions}
    made = []
    for unit, metric in chosen:
        before = earlier.get((unit, metric))
        if kind == "reopened":
            if before is None or before.kind == "reopened":
                raise UsageError(
                    f"no decision about {subject_of_metric(metric)} on {unit} to undo",
                    hint="`etharness history show` shows the decisions",
                )
            since, at = before.since_utc, before.at_utc
        else:
            since, at = _level_of(history, unit, metric, begins)
        made.append(
            Decision(
                kind=kind,
                unit=unit,
                metric=metric,
                since_utc=since,
                at_utc=at,
                reason=reason,
                who=who,
                made_utc=now,
                until=until,
            )
        )
    return made


def _level_of(
    history: History, unit: str, metric: Metric, begins: Callable[[Provenance], bool] | None
) -> tuple[str, str]:
    """Return when the newest level of a series began, and the start of its newest result."""
    places = {
        place
        for series in history.series
        if series_of(series.metric) == metric
        for place in series.results
    }
    results = [history.results[place] for place in sorted(places)]
    of_unit = [result for result in results if result.unit == unit]
    newest_key = repeat_key(of_unit[-1])
    starts = begins or (lambda result: repeat_key(result) == newest_key)
    first = next((result for result in of_unit if starts(result)), None)
    if first is None:
        raise NotComparableError(
            f"no result of {subject_of_metric(metric)} on {unit} begins there",
            hint=f"`etharness history show` lists the results; the newest is of "
            f"{of_unit[-1].started_utc}",
        )
    return first.started_utc, of_unit[-1].started_utc


def _matches(metric: Metric, pattern: str) -> bool:
    text, instruction = subject_of_metric(metric), metric.instruction
    return (
        pattern in (metric.name, text)
        or fnmatchcase(text, pattern)
        or matches_name(metric.name, pattern, instruction if metric.chain != -1 else None)
    )

"""Decisions about changes in a store: which there are, and how one is added."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select

from harness.check.history.checks import subject_of_metric
from harness.check.history.decisions import LEVEL_RESULTS, series_of
from harness.check.history.samples import (
    Decision,
    DecisionKind,
    History,
    Metric,
    Provenance,
    repeat_key,
)
from harness.errors import NotComparableError, UsageError
from harness.export.values import escaped, unescaped
from harness.history.baselines import newest
from harness.history.entries import Selection
from harness.history.interning import Interned, known_metrics, known_names
from harness.history.reading import matches_name, number_of, with_settings
from harness.history.tables import DECISION
from harness.records.measurement import UNRECORDED
from harness.records.trace import OPERATOR_CALL

_NAMED: Final = 4
"""Series that a message lists by name."""


def decisions(connection: Connection, scope: Selection) -> list[Decision]:
    """Return the decisions about series in ``scope``, in the order in which they were made."""
    query = select(DECISION).order_by(DECISION.c.id)
    for column, name in (
        (DECISION.c.board_id, scope.board),
        (DECISION.c.unit_id, scope.unit),
        (DECISION.c.model_id, scope.model),
        (DECISION.c.method_id, scope.method),
    ):
        if name is not None:
            query = query.where(column == number_of(name))
    if scope.settings is not None:
        query = query.where(with_settings(DECISION.c.settings_id, scope.settings))
    return _decisions(connection, [*connection.execute(query)])


def decisions_with_scopes(connection: Connection) -> list[tuple[Selection, Decision]]:
    """Return all decisions in the order in which they were made.

    Each has the board, model, method and settings of its series, as ``add_decisions`` takes them.
    """
    rows = [*connection.execute(select(DECISION).order_by(DECISION.c.id))]
    columns = ("board_id", "model_id", "method_id", "settings_id")
    used = {getattr(row, column) for row in rows for column in columns} - {None}
    names = known_names(connection, used)
    scopes = [
        Selection(
            names[row.board_id],
            model=names[row.model_id],
            method=names[row.method_id],
            settings=UNRECORDED if row.settings_id is None else names[row.settings_id],
        )
        for row in rows
    ]
    return [*zip(scopes, _decisions(connection, rows), strict=True)]


def _decisions(connection: Connection, rows: Sequence[Row[Any]]) -> list[Decision]:
    names = known_names(connection, {row.unit_id for row in rows})
    metrics = known_metrics(connection, {row.metric_id for row in rows})
    return [
        Decision(
            kind=row.kind,
            unit=names[row.unit_id],
            metric=metrics[row.metric_id],
            since_utc=row.since_utc,
            at_utc=row.at_utc,
            reason=unescaped(row.reason),
            who=unescaped(row.who),
            made_utc=row.made_utc,
            until=row.until,
        )
        for row in rows
    ]


def results_at_levels(
    connection: Connection,
    scope: Selection,
    decided: Sequence[Decision],
    without: Collection[str],
) -> list[Row[Any]]:
    """Return the newest results before and since the start of every level.

    They may be older than the window of a comparison, which must not forget them.
    """
    current = {(item.unit, item.metric): item for item in decided}
    levels = {(item.unit, item.since_utc) for item in current.values()}
    excluded = frozenset(without)
    rows: list[Row[Any]] = []
    for unit, since in sorted(levels):
        of_unit = replace(scope, unit=unit)
        for part in (replace(of_unit, since=since), replace(of_unit, before=since, sound=True)):
            rows += newest(connection, part, excluded, LEVEL_RESULTS)
    return rows


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
        if series.metric.name != OPERATOR_CALL and _matches(series_of(series.metric), pattern)
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


def add_decisions(
    connection: Connection, scope: Selection, made: Sequence[Decision], interned: Interned
) -> Interned:
    """Add decisions about series of the board, model, method and settings of ``scope``.

    Returns:
        The numbers of the names and metrics, valid once the transaction is committed.
    """
    common = {
        "board_id": scope.board or "",
        "model_id": scope.model or "",
        "method_id": scope.method or "",
    }
    if scope.settings:
        common["settings_id"] = scope.settings
    texts = {*common.values(), *(item.unit for item in made)}
    numbers = interned.intern(connection, texts, {item.metric for item in made})
    names = numbers.names
    rows = [
        {
            "settings_id": None,
            **{column: names[text] for column, text in common.items()},
            "unit_id": names[item.unit],
            "metric_id": numbers.metrics[item.metric],
            "kind": item.kind,
            "since_utc": item.since_utc,
            "at_utc": item.at_utc,
            "reason": escaped(item.reason),
            "who": escaped(item.who),
            "made_utc": item.made_utc,
            "until": item.until,
        }
        for item in made
    ]
    connection.execute(insert(DECISION), rows)
    return numbers

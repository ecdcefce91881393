"""Decisions about changes in a store: which there are, and how one is added."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from harness.check.history.decisions import LEVEL_RESULTS
from harness.check.history.samples import Decision
from harness.export.values import escaped, unescaped
from harness.history.baselines import newest
from harness.history.entries import Selection
from harness.history.interning import Interned, known_metrics, known_names
from harness.history.reading import number_of
from harness.history.tables import DECISION
from harness.records.measurement import UNRECORDED


@dataclass(frozen=True, slots=True)
class SeriesScope:
    """What all series of a decision have in common.

    Attributes:
        board: Board type.
        model: File name of the model.
        method: Method that ran.
        settings: Key of the measurement settings.
    """

    board: str
    model: str
    method: str
    settings: str


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
    if scope.settings == UNRECORDED:
        query = query.where(DECISION.c.settings_id.is_(None))
    elif scope.settings is not None:
        query = query.where(DECISION.c.settings_id == number_of(scope.settings))
    rows = [*connection.execute(query)]
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


def add_decisions(
    connection: Connection, scope: SeriesScope, made: Sequence[Decision], interned: Interned
) -> Interned:
    """Add decisions.

    Returns:
        The numbers of the names and metrics, valid once the transaction is committed.
    """
    texts = {scope.board, scope.model, scope.method, *(item.unit for item in made)}
    if scope.settings != UNRECORDED:
        texts.add(scope.settings)
    numbers = interned.intern(connection, texts, {item.metric for item in made})
    names = numbers.names
    rows = [
        {
            "board_id": names[scope.board],
            "unit_id": names[item.unit],
            "model_id": names[scope.model],
            "method_id": names[scope.method],
            "settings_id": None if scope.settings == UNRECORDED else names[scope.settings],
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

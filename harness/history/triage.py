"""What people decide in a store: named baselines, decisions about changes, results to keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select

from harness.check.history.group_sessions import LEVEL_RESULTS
from harness.check.history.samples import BaselineRef, Decision, Metric, NamedBaseline
from harness.errors import NotComparableError, UsageError
from harness.formatting import escaped, unescaped
from harness.history.entries import Selection
from harness.history.results import commits, number_of, select_rows, with_settings
from harness.history.tables import (
    BASELINE,
    DECISION,
    MEMBER,
    NAME,
    RESULT,
    Interned,
    batches,
    known_metrics,
    name_digest,
    names_in,
)

_SCOPE: Final = ("board", "model", "method", "settings")
"""Fields of a Selection that decisions refer to."""

_TIMES: Final = ("kind", "since_utc", "at_utc", "made_utc", "until")
"""Columns of ``decision`` with the values of the same fields of a Decision."""

_WORDS: Final = ("reason", "who")
"""Likewise, with escaped texts."""


def decisions(connection: Connection, scope: Selection) -> list[Decision]:
    """Return the decisions about series in ``scope``, in the order in which they were made."""
    query = select(DECISION).order_by(DECISION.c.id)
    for field in ("board", "unit", "model", "method"):
        if (name := getattr(scope, field)) is not None:
            query = query.where(DECISION.c[f"{field}_id"] == number_of(name))
    if scope.settings is not None:
        query = query.where(with_settings(DECISION.c.settings_id, scope.settings))
    rows = [*connection.execute(query)]
    names = names_in(connection, rows, ["unit_id"])
    metrics = known_metrics(connection, {row.metric_id for row in rows})
    return [_decision(row, names, metrics) for row in rows]


def _decision(
    row: Row[Any], names: Mapping[int | None, Any], metrics: Mapping[int, Metric]
) -> Decision:
    words: dict[str, Any] = {field: unescaped(getattr(row, field)) for field in _WORDS}
    return Decision(
        unit=names[row.unit_id],
        metric=metrics[row.metric_id],
        **{field: getattr(row, field) for field in _TIMES},
        **words,
    )


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
    connection: Connection, scope: Selection, made: Sequence[Decision], numbers: Interned
) -> None:
    """Add decisions about series of the board, model, method and settings of ``scope``."""
    common = {field: getattr(scope, field) or "" for field in _SCOPE}
    units = (item.unit for item in made)
    numbers.intern(connection, {*common.values(), *units}, {item.metric for item in made})
    names = numbers.names
    rows = [
        {
            **{f"{field}_id": names[text] for field, text in common.items()},
            **({} if scope.settings else {"settings_id": None}),
            "unit_id": names[item.unit],
            "metric_id": numbers.metrics[item.metric],
            **{field: getattr(item, field) for field in _TIMES},
            **{field: escaped(getattr(item, field)) for field in _WORDS},
        }
        for item in made
    ]
    connection.execute(insert(DECISION), rows)


def members(connection: Connection, name: str) -> list[str] | None:
    """Return the result ids of a named baseline; None for an unknown name."""
    found = connection.scalar(_by_name(name))
    if found is None:
        return None
    query = select(RESULT.c.own_id).join(MEMBER, MEMBER.c.result_id == RESULT.c.id)
    return [*connection.scalars(query.where(MEMBER.c.baseline_id == found))]


def resolve(
    connection: Connection, ref: BaselineRef, scope: Selection, without: frozenset[str]
) -> list[Row[Any]]:
    """Return the rows of the results in ``scope`` that ``ref`` matches, oldest first.

    Args:
        connection: The store.
        ref: The baseline.
        scope: The results to choose from.
        without: Ids of results to leave out.

    Raises:
        NotComparableError: No result matches.
        UsageError: Several commits match.
    """
    match ref.how:
        case "name":
            ids = members(connection, ref.what)
            if ids is None:
                raise NotComparableError(
                    f"baseline {ref.what!r} not found",
                    hint="`etharness history baseline list` lists them",
                )
            # A person chose these results, so they count even if they failed.
            found = select_rows(connection, replace(scope, ids=ids, complete=None, newest=None))
        case "commit":
            matching = commits(connection, scope, ref.what)
            if len(matching) > 1:
                raise UsageError(
                    f"{ref} matches {len(matching)} commits: {', '.join([*matching][:5])}",
                    hint="give more characters of the commit",
                )
            found = [
                row
                for commit, number in matching.items()
                for row in select_rows(connection, replace(scope, commit=commit))
                if row.commit_id == number
            ]
        case "last":
            sound = replace(scope, sound=scope.complete)
            found = newest(connection, sound, without, int(ref.what))
    found = [row for row in found if row.own_id not in without]
    if not found:
        raise NotComparableError(
            f"baseline {ref} matches no result{_describe(scope)}",
            hint="`etharness history list` lists the results; results that failed or lost events "
            "count only with --all",
        )
    return found


def newest(
    connection: Connection, scope: Selection, without: frozenset[str], count: int
) -> list[Row[Any]]:
    """Return the rows of the newest ``count`` results of ``scope``, oldest first."""
    found = select_rows(connection, replace(scope, newest=count + len(without)))
    return [row for row in found if row.own_id not in without][-count:] if count else []


def name_results(connection: Connection, name: str, ids: Sequence[str], numbers: Interned) -> None:
    """Define a named baseline; replace an earlier one of this name.

    Raises:
        UsageError: There is no result of one of these ids, or ``ids`` is empty.
    """
    if not name.strip():
        raise UsageError("a baseline needs a name")
    if not ids:
        raise UsageError(f"baseline {name!r} would have no results")
    rows = select_rows(connection, Selection(ids=ids))
    missing = set(ids) - {row.own_id for row in rows}
    if missing:
        raise UsageError(
            f"result {min(missing)} not found", hint="`etharness history list` lists the results"
        )
    set_utc = datetime.now(UTC).isoformat(timespec="seconds")
    numbers.intern(connection, [name])
    remove_name(connection, name)
    adding = insert(BASELINE).values(name_id=numbers.names[name], set_utc=set_utc)
    baseline = connection.scalar(adding.returning(BASELINE.c.id))
    members = [{"baseline_id": baseline, "result_id": row.id} for row in rows]
    if members:
        connection.execute(insert(MEMBER), members)


def remove_name(connection: Connection, name: str) -> bool:
    """Remove a named baseline, but not its results; return whether it existed."""
    found = connection.scalar(_by_name(name))
    if found is not None:
        connection.execute(delete(MEMBER).where(MEMBER.c.baseline_id == found))
        connection.execute(delete(BASELINE).where(BASELINE.c.id == found))
    return found is not None


def named(connection: Connection) -> list[NamedBaseline]:
    """Return all named baselines, sorted by name."""
    query = (
        select(NAME.c.text, BASELINE.c.set_utc, func.count(MEMBER.c.result_id))
        .join(NAME, NAME.c.id == BASELINE.c.name_id)
        .outerjoin(MEMBER, MEMBER.c.baseline_id == BASELINE.c.id)
        .group_by(NAME.c.text, BASELINE.c.set_utc)
    )
    found = [NamedBaseline(unescaped(row[0]), row[1], row[2]) for row in connection.execute(query)]
    return sorted(found, key=lambda baseline: baseline.name)


def unnamed(connection: Connection, numbers: Sequence[int]) -> list[int]:
    """Return those of these results that are in no named baseline."""
    kept: set[int] = set()
    for some in batches(numbers):
        query = select(MEMBER.c.result_id).where(MEMBER.c.result_id.in_(some))
        kept.update(connection.scalars(query))
    return [number for number in numbers if number not in kept]


def all_but_newest(rows: Sequence[Row[Any]], keep: int) -> list[int]:
    """Return the results to prune: all but the newest of each board, unit, model and method.

    Args:
        rows: The results, oldest first.
        keep: Number of results to keep of each.
    """
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row in rows:
        groups[row.board_id, row.unit_id, row.model_id, row.method_id].append(row.id)
    return [number for same in groups.values() for number in same[: max(0, len(same) - keep)]]


def _by_name(name: str) -> Any:
    return (
        select(BASELINE.c.id)
        .join(NAME, NAME.c.id == BASELINE.c.name_id)
        .where(NAME.c.digest == name_digest(name))
    )


def _describe(scope: Selection) -> str:
    parts = [part for part in (scope.model, scope.method) if part]
    parts = [*parts, *(f"on {part}" for part in (scope.board, scope.unit) if part)]
    return f" of {' '.join(parts)}" if parts else ""

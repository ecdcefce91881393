"""Baselines: resolves a name, a commit or ``last:N`` to results; named baselines; pruning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from harness.check.history.baseline import BaselineRef
from harness.check.history.stored import NamedBaseline
from harness.errors import NotComparableError, UsageError
from harness.export.values import unescaped
from harness.history.entries import Selection
from harness.history.interning import Interned, batches, name_digest
from harness.history.reading import commits, select_rows
from harness.history.tables import BASELINE, MEMBER, NAME, RESULT


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


def name_results(
    connection: Connection, name: str, ids: Sequence[str], interned: Interned
) -> Interned:
    """Define a named baseline; replace an earlier one of this name.

    Returns:
        The number of the name, valid once the transaction is committed.

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
    return define(connection, name, set_utc, [row.id for row in rows], interned)


def define(
    connection: Connection, name: str, set_utc: str, results: Sequence[int], interned: Interned
) -> Interned:
    """Define a baseline of these row numbers as ``name_results`` does, set at a given time."""
    numbers = interned.intern(connection, [name], ())
    remove_name(connection, name)
    adding = insert(BASELINE).values(name_id=numbers.names[name], set_utc=set_utc)
    baseline = connection.scalar(adding.returning(BASELINE.c.id))
    if results:
        rows = [{"baseline_id": baseline, "result_id": result} for result in results]
        connection.execute(insert(MEMBER), rows)
    return numbers


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


def remove(connection: Connection, numbers: Sequence[int]) -> int:
    """Remove results, from named baselines too; return their number."""
    for some in batches(numbers):
        connection.execute(delete(MEMBER).where(MEMBER.c.result_id.in_(some)))
        connection.execute(delete(RESULT).where(RESULT.c.id.in_(some)))
    return len(numbers)


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

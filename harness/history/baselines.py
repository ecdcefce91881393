"""Baselines: which results are meant by a name, by a commit, or by being the last."""

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
from harness.export.names import unescaped
from harness.history.entries import Selection
from harness.history.interning import Interned, batches, name_digest
from harness.history.reading import chosen, commits
from harness.history.tables import BASELINE, MEMBER, NAME, RESULT


def members(connection: Connection, name: str) -> list[str] | None:
    """Ids of the results of a named baseline; None when there is none of this name."""
    found = connection.scalar(_by_name(name))
    if found is None:
        return None
    query = select(RESULT.c.own_id).join(MEMBER, MEMBER.c.result_id == RESULT.c.id)
    return [*connection.scalars(query.where(MEMBER.c.baseline_id == found))]


def resolve(
    connection: Connection, ref: BaselineRef, scope: Selection, without: frozenset[str]
) -> list[Row[Any]]:
    """Rows of the results of ``scope`` that ``ref`` means, oldest first.

    Args:
        connection: The store.
        ref: The baseline.
        scope: What it is of.
        without: Results that are not part of it.

    Raises:
        NotComparableError: It means none.
        UsageError: It may mean several things.
    """
    match ref.how:
        case "name":
            ids = members(connection, ref.what)
            if ids is None:
                raise NotComparableError(
                    f"no baseline has the name {ref.what!r}",
                    hint="`etharness history baseline list` lists them",
                )
            # Whoever gave them the name has asked for them, also for those that failed.
            found = chosen(connection, replace(scope, ids=ids, sound=None, newest=None))
        case "commit":
            matching = commits(connection, scope, ref.what)
            if len(matching) > 1:
                raise UsageError(
                    f"{ref} may be any of {len(matching)} commits: {', '.join([*matching][:5])}",
                    hint="give more of it",
                )
            found = [
                row
                for commit, number in matching.items()
                for row in chosen(connection, replace(scope, commit=commit))
                if row.commit_id == number
            ]
        case "last":
            found = newest(connection, scope, without, int(ref.what))
    found = [row for row in found if row.own_id not in without]
    if not found:
        raise NotComparableError(
            f"baseline {ref} means no result{_of(scope)}",
            hint="`etharness history list` shows what there is; only results that passed and lost "
            "nothing count, unless all are asked for",
        )
    return found


def newest(
    connection: Connection, scope: Selection, without: frozenset[str], count: int
) -> list[Row[Any]]:
    """Rows of the newest ``count`` results of ``scope`` but for those ``without``, oldest first."""
    found = chosen(connection, replace(scope, newest=count + len(without)))
    return [row for row in found if row.own_id not in without][-count:] if count else []


def name_results(
    connection: Connection, name: str, ids: Sequence[str], interned: Interned
) -> Interned:
    """Give results a name, instead of those that had it.

    Raises:
        UsageError: There is no result of one of these ids, or none is given.
    """
    if not name.strip():
        raise UsageError("a baseline needs a name")
    if not ids:
        raise UsageError(f"baseline {name!r} would have no results")
    rows = chosen(connection, Selection(ids=ids))
    missing = set(ids) - {row.own_id for row in rows}
    if missing:
        raise UsageError(f"there is no result {min(missing)}", hint="`etharness history list`")
    numbers = interned.intern(connection, [name], ())
    forget_name(connection, name)
    adding = insert(BASELINE).values(
        name_id=numbers.names[name], set_utc=datetime.now(UTC).isoformat(timespec="seconds")
    )
    baseline = connection.scalar(adding.returning(BASELINE.c.id))
    connection.execute(
        insert(MEMBER), [{"baseline_id": baseline, "result_id": row.id} for row in rows]
    )
    return numbers


def forget_name(connection: Connection, name: str) -> bool:
    """Remove a named baseline, but not its results; whether there was one."""
    found = connection.scalar(_by_name(name))
    if found is not None:
        connection.execute(delete(MEMBER).where(MEMBER.c.baseline_id == found))
        connection.execute(delete(BASELINE).where(BASELINE.c.id == found))
    return found is not None


def named(connection: Connection) -> list[NamedBaseline]:
    """All baselines with names, in the order of these."""
    query = (
        select(NAME.c.text, BASELINE.c.set_utc, func.count(MEMBER.c.result_id))
        .join(NAME, NAME.c.id == BASELINE.c.name_id)
        .outerjoin(MEMBER, MEMBER.c.baseline_id == BASELINE.c.id)
        .group_by(NAME.c.text, BASELINE.c.set_utc)
    )
    found = [NamedBaseline(unescaped(row[0]), row[1], row[2]) for row in connection.execute(query)]
    return sorted(found, key=lambda baseline: baseline.name)


def unnamed(connection: Connection, numbers: Sequence[int]) -> list[int]:
    """Numbers of the results that no named baseline has."""
    kept: set[int] = set()
    for some in batches(numbers):
        query = select(MEMBER.c.result_id).where(MEMBER.c.result_id.in_(some))
        kept.update(connection.scalars(query))
    return [number for number in numbers if number not in kept]


def remove(connection: Connection, numbers: Sequence[int]) -> int:
    """Remove results, from named baselines too; how many there were."""
    for some in batches(numbers):
        connection.execute(delete(MEMBER).where(MEMBER.c.result_id.in_(some)))
        connection.execute(delete(RESULT).where(RESULT.c.id.in_(some)))
    return len(numbers)


def superfluous(rows: Sequence[Row[Any]], keep: int) -> list[int]:
    """Numbers of the results that are not among the newest of their board, unit and method.

    Args:
        rows: All of them, oldest first.
        keep: How many of each stay.
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


def _of(scope: Selection) -> str:
    parts = [part for part in (scope.model, scope.method) if part]
    parts = [*parts, *(f"on {part}" for part in (scope.board, scope.unit) if part)]
    return f" of {' '.join(parts)}" if parts else ""

"""Interning: every text and metric is stored once and referred to by number.

Rows of ``name`` and ``metric`` are never removed, so numbers can be cached. Writers insert rows in
the order of their digests, so that two writers of the same rows cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from harness.check.history.samples import Metric
from harness.export.values import escaped, unescaped
from harness.history.tables import METRIC, NAME

_T = TypeVar("_T")

BATCH: Final = 500
"""Values in one IN list of a query."""


@dataclass(slots=True)
class Interned:
    """A cache of the numbers of texts and metrics.

    Attributes:
        names: Numbers by text.
        metrics: Numbers by metric; metrics of operators have no statistic here.
    """

    names: dict[str, int] = field(default_factory=dict)
    metrics: dict[Metric, int] = field(default_factory=dict)

    def update(self, other: Interned) -> None:
        """Add the numbers of a transaction that has been committed."""
        self.names.update(other.names)
        self.metrics.update(other.metrics)

    def intern(
        self, connection: Connection, texts: Iterable[str], metrics: Collection[Metric]
    ) -> Interned:
        """Return the numbers of texts and metrics; insert the new ones.

        New numbers are valid once the transaction is committed.
        """
        wanted = {*texts, *(text for metric in metrics for text in _texts(metric))}
        names = _numbered(
            connection, NAME, self.names, wanted, name_digest, lambda text: {"text": escaped(text)}
        )
        found = _numbered(
            *(connection, METRIC, self.metrics, metrics, metric_digest),
            lambda metric: _row(metric, names),
        )
        return Interned(names, found)


def name_digest(text: str) -> bytes:
    """Return the key of a text in ``name``."""
    return blake2b(escaped(text).encode(), digest_size=16).digest()


def metric_digest(metric: Metric) -> bytes:
    """Return the key of a metric in ``metric``."""
    fields = [
        escaped(value) if isinstance(value, str) else value
        for value in msgspec.structs.astuple(metric)
    ]
    return blake2b(msgspec.json.encode(fields), digest_size=16).digest()


def known_names(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return texts by number."""
    return {
        row.id: unescaped(row.text)
        for some in batches(numbers)
        for row in connection.execute(select(NAME.c.id, NAME.c.text).where(NAME.c.id.in_(some)))
    }


def known_metrics(connection: Connection, numbers: Iterable[int]) -> dict[int, Metric]:
    """Return metrics by number."""
    rows = [
        row
        for some in batches(numbers)
        for row in connection.execute(select(METRIC).where(METRIC.c.id.in_(some)))
    ]
    used = (
        *(row.name_id for row in rows),
        *(row.block_id for row in rows),
        *(row.clock_id for row in rows),
        *(row.delegate_str_id for row in rows if row.delegate_str_id is not None),
    )
    names = known_names(connection, set(used))
    return {
        row.id: Metric(
            row.kind,
            names[row.name_id],
            row.statistic,
            row.unit,
            names[row.block_id],
            row.chain,
            row.instruction,
            row.delegate_int,
            None if row.delegate_str_id is None else names[row.delegate_str_id],
            names[row.clock_id],
        )
        for row in rows
    }


def insert_new(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that skips rows that violate a unique constraint."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()


def _texts(metric: Metric) -> Iterator[str]:
    yield from (metric.name, metric.block, metric.clock)
    if metric.delegate_str is not None:
        yield metric.delegate_str


def _row(metric: Metric, names: Mapping[str, int]) -> dict[str, Any]:
    text = metric.delegate_str
    return {
        "kind": metric.kind,
        "name_id": names[metric.name],
        "statistic": metric.statistic,
        "unit": metric.unit,
        "block_id": names[metric.block],
        "chain": metric.chain,
        "instruction": metric.instruction,
        "delegate_int": metric.delegate_int,
        "delegate_str_id": None if text is None else names[text],
        "clock_id": names[metric.clock],
    }


def _numbered(
    connection: Connection,
    table: Table,
    known: Mapping[_T, int],
    wanted: Collection[_T],
    digest: Callable[[_T], bytes],
    row: Callable[[_T], dict[str, Any]],
) -> dict[_T, int]:
    """Return the numbers of ``wanted`` in ``table``; insert the missing rows."""
    found = {item: known[item] for item in wanted if item in known}
    missing = {digest(item): item for item in wanted if item not in known}
    found |= _look_up(connection, table, missing)
    new = {key: item for key, item in sorted(missing.items()) if item not in found}
    if new:
        rows = [{"digest": key} | row(item) for key, item in new.items()]
        connection.execute(insert_new(connection, table), rows)
        found |= _look_up(connection, table, new)
    return found


def _look_up(connection: Connection, table: Table, items: Mapping[bytes, _T]) -> dict[_T, int]:
    return {
        items[bytes(row.digest)]: row.id
        for some in batches(items)
        for row in connection.execute(
            select(table.c.id, table.c.digest).where(table.c.digest.in_(some))
        )
    }


def batches(items: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield items in groups that fit into one query."""
    rest = [*items]
    return (rest[start : start + BATCH] for start in range(0, len(rest), BATCH))

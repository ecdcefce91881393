"""Queries: which results a store has, and what was measured in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    Table,
    and_,
    func,
    or_,
    select,
)

from harness.analyze.compare import Executions
from harness.check.history.measure import metric_of
from harness.check.history.samples import Metric, Provenance, Sample, Series, occasion_of
from harness.check.history.stored import LinkFigures, StoredResult, Tested
from harness.export.values import escaped, unescaped
from harness.formatting import operator_title
from harness.history.entries import Selection
from harness.history.interning import batches, known_metrics, known_names, name_digest
from harness.history.tables import BITS, CLOCK, CODE, METRIC, NAME, NUMBER, RESULT, TIME
from harness.records.decode_json import decode_json
from harness.records.measurement import UNRECORDED, MeasurementSettings, settings_of_key
from harness.records.result import UNFINISHED, ClockQuality, microseconds
from harness.records.trace import Losses

_DIRTY: Final = "-dirty"
_LAST: Final = "\U0010ffff"
"""Sorts after every text with the same beginning."""

_LOSSES: Final = Losses.__dataclass_fields__
_NAMED: Final = {
    "board": RESULT.c.board_id,
    "unit": RESULT.c.unit_id,
    "model": RESULT.c.model_id,
    "method": RESULT.c.method_id,
    "session": RESULT.c.session_id,
    "build_id": RESULT.c.build_id,
}
"""Columns by the fields of a Selection that restrict them."""

_PROVENANCE_NAMES: Final = (
    *("board_id", "unit_id", "model_id", "model_sha256_id", "method_id"),
    *("build_id", "tool_id", "commit_id", "session_id", "settings_id"),
)
_RESULT_NAMES: Final = (*_PROVENANCE_NAMES, "budget_id", "failure_id")
"""Columns of a result that refer to ``name``."""


class FoundResult(NamedTuple):
    """A stored result: its row number, and whether its run had ended when it was added."""

    number: int
    finished: bool


def select_rows(connection: Connection, selection: Selection) -> list[Row[Any]]:
    """Return the rows of the selected results, oldest first."""
    query = select(RESULT).where(*_conditions(selection))
    if selection.ids is not None:
        rows = [
            row
            for some in batches(dict.fromkeys(selection.ids))
            for row in connection.execute(query.where(RESULT.c.own_id.in_(some)))
        ]
        rows.sort(key=lambda row: (row.started_us, row.own_id))
        return rows if selection.newest is None else rows[-selection.newest :]
    newest_first = query.order_by(RESULT.c.started_us.desc(), RESULT.c.own_id.desc())
    if selection.newest is not None:
        newest_first = newest_first.limit(selection.newest)
    return [*connection.execute(newest_first)][::-1]


def known_then(connection: Connection, scope: Selection, tested: Provenance) -> Selection:
    """Restrict a selection to what was known when the occasion of a result had ended."""
    occasion = occasion_of(tested)
    query = (
        select(func.max(RESULT.c.started_us))
        .join(NAME, NAME.c.id == RESULT.c.session_id)
        .where(*_conditions(replace(scope, complete=None, settings=None)))
        # The label itself, or one that continues after a slash.
        .where(or_(NAME.c.text == escaped(occasion), _starts_with(f"{occasion}/")))
    )
    last = max(connection.scalar(query) or 0, microseconds(tested.started_utc))
    return replace(scope, until_us=last)


def find(connection: Connection, own_id: str) -> FoundResult | None:
    """Return the result of this id; None if there is no such result."""
    # PostgreSQL refuses a NUL in a query; ids with control characters are never stored.
    if not own_id.isprintable():
        return None
    query = (
        select(RESULT.c.id, NAME.c.text)
        .join(NAME, NAME.c.id == RESULT.c.failure_id)
        .where(RESULT.c.own_id == own_id)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else FoundResult(row[0], row[1] != UNFINISHED)


def commits(connection: Connection, selection: Selection, prefix: str) -> dict[str, int]:
    """Return the commits of the selected results that begin with ``prefix``, with their numbers.

    A ``-dirty`` commit matches only a prefix that ends with ``-dirty``.
    """
    query = (
        select(NAME.c.id, NAME.c.text)
        .distinct()
        .join(RESULT, RESULT.c.commit_id == NAME.c.id)
        .where(*_conditions(selection), _starts_with(prefix.removesuffix(_DIRTY)))
    )
    found = {unescaped(row.text): row.id for row in connection.execute(query)}
    dirty = prefix.endswith(_DIRTY)
    return {commit: found[commit] for commit in sorted(found) if commit.endswith(_DIRTY) == dirty}


def entries(connection: Connection, rows: Sequence[Row[Any]]) -> list[StoredResult]:
    """Return the stored results of rows, without their measurements."""
    numbers = [row.id for row in rows]
    codes = _of_results(connection, select(CODE), CODE.c.result_id, numbers)
    clocks = _of_results(
        connection, select(CLOCK).order_by(CLOCK.c.position), CLOCK.c.result_id, numbers
    )
    used = {getattr(row, column) for row in rows for column in _RESULT_NAMES} - {None}
    used |= {row.code_id for some in codes.values() for row in some}
    used |= {
        getattr(row, column)
        for some in clocks.values()
        for row in some
        for column in ("clock_id", "reference_id", "epochs_id", "unknown_id")
    }
    names = known_names(connection, used)
    return [_entry(row, codes.get(row.id, ()), clocks.get(row.id, ()), names) for row in rows]


def provenances(connection: Connection, rows: Sequence[Row[Any]]) -> list[Provenance]:
    """Return the provenance of results."""
    names = known_names(
        connection, {getattr(row, column) for row in rows for column in _PROVENANCE_NAMES} - {None}
    )
    return [_provenance(row, names) for row in rows]


def settings_used(connection: Connection, selection: Selection) -> list[MeasurementSettings | None]:
    """Return the measurement settings of the selected results, the newest last."""
    query = (
        select(RESULT.c.settings_id, func.max(RESULT.c.started_us))
        .where(*_conditions(selection))
        .group_by(RESULT.c.settings_id)
    )
    newest = {row[0]: row[1] for row in connection.execute(query)}
    names = known_names(connection, newest.keys() - {None})
    # By name where two began at once, so that every database gives the same order.
    order = sorted(newest, key=lambda number: (newest[number], names.get(number, "")))
    return [settings_of_key(names[n]) if n is not None else None for n in order]


def tested(connection: Connection) -> list[Tested]:
    """Return every combination of board, model and method, with its number of results."""
    columns = (RESULT.c.board_id, RESULT.c.model_id, RESULT.c.method_id)
    rows = [*connection.execute(select(*columns, func.count()).group_by(*columns))]
    names = known_names(connection, {number for row in rows for number in row[:3]})
    return sorted(Tested(names[row[0]], names[row[1]], names[row[2]], row[3]) for row in rows)


def series(
    connection: Connection,
    rows: Sequence[Row[Any]],
    statistics: Sequence[str],
    executions: Executions = "all",
    pattern: str | None = None,
) -> tuple[Series, ...]:
    """Return the measurements of results as series: operators, then allocators, then the rest.

    Args:
        connection: The store.
        rows: The results.
        statistics: The statistics of operator times; each becomes a series.
        executions: The executions that the statistics cover.
        pattern: ``fnmatch`` pattern for the names or titles (``conv2d #5``) of operators,
            allocators and other metrics.
    """
    indices = {row.id: index for index, row in enumerate(rows)}
    wanted = None if pattern is None else _matching(connection, pattern)
    time = select(
        *(TIME.c.result_id, TIME.c.metric_id, TIME.c.count, TIME.c.std),
        *(TIME.c[statistic] for statistic in statistics),
    ).where(TIME.c.executions.bitwise_and(BITS[executions]) != 0)
    number = select(NUMBER.c.result_id, NUMBER.c.metric_id, NUMBER.c.value)
    found: dict[tuple[int, str], dict[int, Sample]] = defaultdict(dict)
    for result, metric, count, std, *values in _batched(connection, time, TIME, indices, wanted):
        for statistic, value in zip(statistics, values, strict=True):
            found[metric, statistic][indices[result]] = Sample(value, count, std)
    for result, metric, value in _batched(connection, number, NUMBER, indices, wanted):
        found[metric, ""][indices[result]] = Sample(value)
    metrics = known_metrics(connection, {metric for metric, _ in found})
    return tuple(
        Series(
            _with_statistic(metrics[number], statistic, executions),
            tuple(sorted(samples)),
            tuple(samples[index] for index in sorted(samples)),
        )
        # The statistics of one operator stay together, in the requested order.
        for (number, statistic), samples in sorted(
            found.items(), key=lambda item: _order(metrics[item[0][0]])
        )
    )


def measured_rows(
    connection: Connection, results: Collection[int]
) -> tuple[list[Row[Any]], list[Row[Any]], dict[int, Metric]]:
    """Return operator times, other numbers, and their metrics by number.

    Args:
        connection: The store.
        results: Row numbers of results.
    """
    times, numbers = (
        [
            row
            for some in batches(results)
            for row in connection.execute(
                select(table)
                .where(table.c.result_id.in_(some))
                .order_by(table.c.result_id, table.c.metric_id)
            )
        ]
        for table in (TIME, NUMBER)
    )
    used = {row.metric_id for row in (*times, *numbers)}
    return times, numbers, known_metrics(connection, used)


def _batched(
    connection: Connection,
    query: Select[Any],
    table: Table,
    results: Iterable[int],
    metrics: Collection[int] | None,
) -> Iterator[Any]:
    """Yield the rows of ``table`` for these results, and for these metrics unless None."""
    for some in batches(results):
        within = query.where(table.c.result_id.in_(some))
        if metrics is None:
            yield from connection.execute(within)
            continue
        for few in batches(metrics):
            yield from connection.execute(within.where(table.c.metric_id.in_(few)))


def _matching(connection: Connection, pattern: str) -> list[int]:
    """Return the numbers of the metrics with matching names."""
    names = {row.id: row.text for row in connection.execute(select(NAME.c.id, NAME.c.text))}
    return [
        row.id
        for row in connection.execute(
            select(METRIC.c.id, METRIC.c.name_id, METRIC.c.chain, METRIC.c.instruction)
        )
        if matches_name(
            unescaped(names[row.name_id]), pattern, row.instruction if row.chain != -1 else None
        )
    ]


def matches_name(name: str, pattern: str, instruction: int | None) -> bool:
    """Whether a pattern selects an operator or a number by its name or title, ``conv2d #5``."""
    title = operator_title(name, instruction)
    return pattern == title or fnmatchcase(name, pattern) or fnmatchcase(title, pattern)


def _order(metric: Metric) -> tuple[Any, ...]:
    """Sort key: operators in the order of their instructions, then allocators, then the rest."""
    return (
        -("result", "allocator", "energy", "counter", "operator").index(metric.kind),
        *(metric.block, metric.chain, metric.instruction, metric.delegate_int),
        *(metric.delegate_str or "", metric.delegate_str is not None, metric.name),
        *(metric.clock, metric.unit, metric.statistic),
    )


def _with_statistic(metric: Metric, statistic: str, executions: Executions) -> Metric:
    return metric_of(metric, statistic, executions) if metric.kind == "operator" else metric


def _conditions(selection: Selection) -> Iterator[ColumnElement[bool]]:
    for field, column in _NAMED.items():
        if (text := getattr(selection, field)) is not None:
            yield column == number_of(text)
    if selection.commit is not None:
        yield RESULT.c.commit_id.in_(select(NAME.c.id).where(_starts_with(selection.commit)))
    if selection.since is not None:
        yield RESULT.c.started_us >= microseconds(selection.since)
    if selection.until_us is not None:
        yield RESULT.c.started_us <= selection.until_us
    if selection.before is not None:
        yield RESULT.c.started_us < microseconds(selection.before)
    if selection.settings is not None:
        yield with_settings(RESULT.c.settings_id, selection.settings)
    for column, value in (
        (RESULT.c.passed, selection.passed),
        (RESULT.c.complete, selection.complete),
        (RESULT.c.sound, selection.sound),
    ):
        if value is not None:
            yield column.is_(value)


def number_of(name: str) -> ScalarSelect[int]:
    """Return a subquery for the number of a name; its result is NULL for an unknown name."""
    return select(NAME.c.id).where(NAME.c.digest == name_digest(name)).scalar_subquery()


def with_settings(column: ColumnElement[Any], key: str) -> ColumnElement[bool]:
    """Return the condition that ``column`` refers to the measurement settings of this key."""
    return column.is_(None) if key == UNRECORDED else column == number_of(key)


def _starts_with(prefix: str) -> ColumnElement[bool]:
    """Compare by order: the databases differ in how LIKE treats case and escapes."""
    begin = escaped(prefix)
    return and_(NAME.c.text >= begin, NAME.c.text < begin + _LAST)


def _of_results(
    connection: Connection, query: Select[Any], column: ColumnElement[int], results: Iterable[int]
) -> dict[int, list[Row[Any]]]:
    """Return rows by the number of their result."""
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    for some in batches(results):
        for row in connection.execute(query.where(column.in_(some))):
            found[row.result_id].append(row)
    return found


def _provenance(row: Row[Any], names: Mapping[int, str]) -> Provenance:
    return Provenance(
        id=row.own_id,
        started_utc=row.started_utc,
        board=names[row.board_id],
        unit=names[row.unit_id],
        model=names[row.model_id],
        model_sha256=names[row.model_sha256_id],
        method=names[row.method_id],
        build_id=names[row.build_id],
        tool_version=names[row.tool_id],
        commit=names[row.commit_id],
        session=names[row.session_id],
        settings=None if row.settings_id is None else settings_of_key(names[row.settings_id]),
    )


def _entry(
    row: Row[Any], codes: Iterable[Row[Any]], clocks: Iterable[Row[Any]], names: Mapping[int, str]
) -> StoredResult:
    counts = sorted((names[item.code_id], item.failed, item.warned) for item in codes)
    return StoredResult(
        provenance=_provenance(row, names),
        duration_s=row.duration_s,
        exit_code=row.exit_code,
        passed=row.passed,
        budget=names[row.budget_id],
        failed={code: failed for code, failed, _ in counts if failed},
        warned={code: warned for code, _, warned in counts if warned},
        failure=names[row.failure_id],
        failure_message=unescaped(row.failure_message),
        runs_requested=row.runs_requested,
        runs_completed=row.runs_completed,
        link=LinkFigures(
            row.baud, row.link_bytes, row.link_corrupt, row.link_retries, row.link_goodput
        ),
        clocks=tuple(_clock(item, names) for item in clocks),
        losses=Losses(**{kind: getattr(row, f"lost_{kind}") for kind in _LOSSES}),
        indistinct=row.indistinct,
        complete=row.complete,
        sound=row.sound,
    )


def _clock(row: Row[Any], names: Mapping[int, str]) -> ClockQuality:
    rate = None if row.rate_low_ppm is None else (row.rate_low_ppm, row.rate_high_ppm)
    epochs = decode_json(names[row.epochs_id], type_=list[str])
    return ClockQuality(
        clock=names[row.clock_id],
        reference=names[row.reference_id],
        readings=row.readings,
        epochs=tuple(map(unescaped, epochs)),
        events=row.events,
        placed=row.placed,
        bounded=row.bounded,
        half_width_ns=row.half_width_ns,
        silent_wraps=row.silent_wraps,
        unsettled=row.unsettled,
        rate_ppm=rate,
        unknown=names[row.unknown_id],
    )

"""Results in a store: adding and removing them, and queries over them.

Also the verdicts of nightly runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from typing import Annotated, Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from harness.analyze.counterparts import ProgramOutline
from harness.analyze.statistics import Executions, Summary
from harness.check.history.measure import HistoryNumbers, metric_of
from harness.check.history.samples import (
    LinkFigures,
    Metric,
    Provenance,
    Sample,
    Series,
    StoredResult,
    occasion_of,
)
from harness.errors import FormatError
from harness.files import decode_json
from harness.formatting import escaped, operator_title, unescaped
from harness.history.entries import Selection
from harness.history.tables import (
    BITS,
    CLOCK,
    CODE,
    LOSS_COLUMNS,
    MEMBER,
    METRIC,
    NAME,
    NIGHT,
    NUMBER,
    PROGRAM,
    PROVENANCE_NAMES,
    RESULT,
    TIME,
    Interned,
    batches,
    insert_new,
    known_metrics,
    known_names,
    name_digest,
    names_in,
)
from harness.records.measurement import UNRECORDED, MeasurementSettings, settings_of_key
from harness.records.nightly import NightVerdict
from harness.records.result import UNFINISHED, ClockQuality, microseconds
from harness.records.trace import Losses

_LONGEST_ID: Final = 200
_DIRTY: Final = "-dirty"
_LAST: Final = "\U0010ffff"
"""Sorts after every text with the same beginning."""

_NAMED: Final = ("board", "unit", "model", "method", "session", "build_id")
"""Fields of a Selection and of a Provenance that are equal for selected results."""

_PROVENANCE_COLUMNS: Final = (*PROVENANCE_NAMES.values(), "settings_id")
_RESULT_COLUMNS: Final = (*_PROVENANCE_COLUMNS, "budget_id", "failure_id")
"""Columns of a result that refer to ``name``."""

_ENTRY_FIELDS: Final = (
    *("duration_s", "exit_code", "passed", "runs_requested", "runs_completed"),
    *("indistinct", "complete", "sound"),
)
"""Columns of ``result`` with the values of the same fields of a StoredResult."""

_LINK_COLUMNS: Final = {
    "baud": "baud",
    "bytes_carried": "link_bytes",
    "corrupt_frames": "link_corrupt",
    "retries": "link_retries",
    "goodput": "link_goodput",
}
"""Columns of ``result`` by the fields of LinkFigures."""

_CLOCK_NAMES: Final = {name: f"{name}_id" for name in ("clock", "reference", "unknown")}
"""Columns of ``result_clock`` that refer to ``name``, by the fields of a ClockQuality."""

_CLOCK_FIELDS: Final = (
    *("readings", "events", "placed", "bounded", "half_width_ns", "silent_wraps", "unsettled"),
)
"""Columns of ``result_clock`` with the values of the same fields of a ClockQuality."""

_Names = Mapping[int | None, Any]
"""Texts by their number; None for NULL."""


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


def find(connection: Connection, own_id: str) -> Row[Any] | None:
    """Return ``id`` of the row of a result, and ``finished``: its run had ended when it was added.

    None if there is no such result.
    """
    # PostgreSQL refuses a NUL in a query; ids with control characters are never stored.
    if not own_id.isprintable():
        return None
    query = (
        select(RESULT.c.id, (NAME.c.text != UNFINISHED).label("finished"))
        .join(NAME, NAME.c.id == RESULT.c.failure_id)
        .where(RESULT.c.own_id == own_id)
    )
    return connection.execute(query).one_or_none()


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
    of_codes, of_clocks = (chain.from_iterable(found.values()) for found in (codes, clocks))
    names = {
        **names_in(connection, rows, _RESULT_COLUMNS),
        **names_in(connection, of_codes, ["code_id"]),
        **names_in(connection, of_clocks, [*_CLOCK_NAMES.values(), "epochs_id"]),
    }
    return [_entry(row, codes.get(row.id, ()), clocks.get(row.id, ()), names) for row in rows]


def provenances(connection: Connection, rows: Sequence[Row[Any]]) -> list[Provenance]:
    """Return the provenance of results."""
    names = names_in(connection, rows, _PROVENANCE_COLUMNS)
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


def tested(connection: Connection) -> list[tuple[str, str, str]]:
    """Return every combination of board, model and method with results, sorted."""
    columns = (RESULT.c.board_id, RESULT.c.model_id, RESULT.c.method_id)
    rows = [*connection.execute(select(*columns).distinct())]
    names = known_names(connection, {number for row in rows for number in row})
    return sorted((names[board], names[model], names[method]) for board, model, method in rows)


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
        -("result", "accuracy", "allocator", "energy", "counter", "operator").index(metric.kind),
        *(metric.block, metric.chain, metric.instruction, metric.delegate_int),
        *(metric.delegate_str or "", metric.delegate_str is not None, metric.name),
        *(metric.clock, metric.unit, metric.statistic),
    )


def _with_statistic(metric: Metric, statistic: str, executions: Executions) -> Metric:
    return metric_of(metric, statistic, executions) if metric.kind == "operator" else metric


def _conditions(selection: Selection) -> Iterator[ColumnElement[bool]]:
    for name in _NAMED:
        if (text := getattr(selection, name)) is not None:
            yield RESULT.c[PROVENANCE_NAMES[name]] == number_of(text)
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


def _provenance(row: Row[Any], names: _Names) -> Provenance:
    return Provenance(
        id=row.own_id,
        started_utc=row.started_utc,
        **{name: names[getattr(row, column)] for name, column in PROVENANCE_NAMES.items()},
        settings=None if row.settings_id is None else settings_of_key(names[row.settings_id]),
        emulated_time=row.emulated_time,
        ticks=_ticks(row.ticks or "{}"),
    )


@cache
def _ticks(text: str) -> dict[str, float]:
    """Return the ticks of clocks, which are the same in nearly all results."""
    return msgspec.json.decode(text, type=dict[str, Annotated[float, msgspec.Meta(ge=0)]])


def _entry(
    row: Row[Any], codes: Iterable[Row[Any]], clocks: Iterable[Row[Any]], names: _Names
) -> StoredResult:
    counts = sorted((names[item.code_id], item.failed, item.warned) for item in codes)
    return StoredResult(
        provenance=_provenance(row, names),
        **{name: getattr(row, name) for name in _ENTRY_FIELDS},
        budget=names[row.budget_id],
        failed={code: failed for code, failed, _ in counts if failed},
        warned={code: warned for code, _, warned in counts if warned},
        failure=names[row.failure_id],
        failure_message=unescaped(row.failure_message),
        link=LinkFigures(**{name: getattr(row, column) for name, column in _LINK_COLUMNS.items()}),
        clocks=tuple(_clock(item, names) for item in clocks),
        losses=Losses(**{name: getattr(row, column) for name, column in LOSS_COLUMNS.items()}),
    )


def _clock(row: Row[Any], names: _Names) -> ClockQuality:
    rate = None if row.rate_low_ppm is None else (row.rate_low_ppm, row.rate_high_ppm)
    epochs = decode_json(names[row.epochs_id], type_=list[str])
    return ClockQuality(
        **{name: names[getattr(row, column)] for name, column in _CLOCK_NAMES.items()},
        **{name: getattr(row, name) for name in _CLOCK_FIELDS},
        epochs=tuple(map(unescaped, epochs)),
        rate_ppm=rate,
    )


def add(
    connection: Connection, entry: StoredResult, kept: HistoryNumbers, numbers: Interned
) -> bool:
    """Add a result; replace one that was added before its run ended.

    Returns:
        False if the store has the result already.

    Raises:
        FormatError: The result's id or time is invalid.
    """
    own_id = entry.provenance.id
    if not own_id or len(own_id) > _LONGEST_ID or not own_id.isprintable():
        raise FormatError(f"invalid result id {own_id[:_LONGEST_ID]!r}")
    if (earlier := find(connection, own_id)) is not None:
        if earlier.finished or entry.failure == UNFINISHED:
            return False
        remove(connection, [earlier.id])
    numbers.intern(connection, _texts(entry), {*kept.times, *kept.numbers})
    names, metrics = numbers.names, numbers.metrics
    adding = insert_new(connection, RESULT).values(_result(entry, names)).returning(RESULT.c.id)
    result = connection.scalar(adding)
    if result is None:  # another writer added it after find()
        return False
    for table, rows in (
        (TIME, [*_times(kept, metrics)]),
        (NUMBER, [*_numbers(kept, metrics)]),
        (CODE, [*_codes(entry, names)]),
        (CLOCK, [*_clocks(entry, names)]),
    ):
        if rows:
            connection.execute(insert(table), [{"result_id": result} | row for row in rows])
    if kept.outline is not None:
        _add_outline(connection, entry.provenance, kept.outline, names)
    return True


def _add_outline(
    connection: Connection,
    provenance: Provenance,
    outline: ProgramOutline,
    names: Mapping[str, int],
) -> None:
    """Add the outline of a program unless the store has it; one with modules replaces others."""
    key = {"model_sha256_id": names[provenance.model_sha256], "method_id": names[provenance.method]}
    text = msgspec.json.encode(outline.with_names(escaped)).decode()
    connection.execute(insert_new(connection, PROGRAM).values(outline=text, **key))
    if outline.modules:
        where = (PROGRAM.c[name] == number for name, number in key.items())
        connection.execute(update(PROGRAM).where(*where).values(outline=text))


def outlines(connection: Connection, rows: Sequence[Row[Any]]) -> dict[str, ProgramOutline]:
    """Return the outlines of the programs of results of one method, by the model's digest."""
    if not rows:
        return {}
    found: dict[int, str] = {}
    for some in batches({row.model_sha256_id for row in rows}):
        query = select(PROGRAM.c.model_sha256_id, PROGRAM.c.outline).where(
            PROGRAM.c.method_id == rows[0].method_id, PROGRAM.c.model_sha256_id.in_(some)
        )
        found |= {row.model_sha256_id: row.outline for row in connection.execute(query)}
    names = known_names(connection, found)
    return {
        names[number]: decode_json(text.encode(), type_=ProgramOutline).with_names(unescaped)
        for number, text in found.items()
    }


def replace_verdict(connection: Connection, entry: StoredResult, numbers: Interned) -> None:
    """Replace the verdict of a result by that of ``entry``, if the store has the result."""
    found = find(connection, entry.provenance.id)
    if found is None:
        return
    numbers.intern(connection, [entry.budget, *entry.failed, *entry.warned])
    changes = {
        "passed": entry.passed,
        "budget_id": numbers.names[entry.budget],
        "complete": entry.complete,
        "sound": entry.sound,
    }
    connection.execute(update(RESULT).where(RESULT.c.id == found.id).values(changes))
    connection.execute(delete(CODE).where(CODE.c.result_id == found.id))
    codes = [{"result_id": found.id} | row for row in _codes(entry, numbers.names)]
    if codes:
        connection.execute(insert(CODE), codes)


def _texts(entry: StoredResult) -> Iterator[str]:
    provenance = entry.provenance
    yield from (getattr(provenance, name) for name in PROVENANCE_NAMES)
    if provenance.settings is not None:
        yield provenance.settings.key
    yield from (entry.budget, entry.failure, *entry.failed, *entry.warned)
    for clock in entry.clocks:
        yield from (clock.clock, clock.reference, clock.unknown, _epochs(clock.epochs))


def _result(entry: StoredResult, names: Mapping[str, int]) -> dict[str, Any]:
    provenance, settings = entry.provenance, entry.provenance.settings
    return {
        "own_id": provenance.id,
        "started_utc": provenance.started_utc,
        "started_us": microseconds(provenance.started_utc),
        **{column: names[getattr(provenance, name)] for name, column in PROVENANCE_NAMES.items()},
        **{name: getattr(entry, name) for name in _ENTRY_FIELDS},
        "budget_id": names[entry.budget],
        "failure_id": names[entry.failure],
        "failure_message": escaped(entry.failure_message),
        **{column: getattr(entry.link, name) for name, column in _LINK_COLUMNS.items()},
        **{column: getattr(entry.losses, name) for name, column in LOSS_COLUMNS.items()},
        "settings_id": names[settings.key] if settings is not None else None,
        "emulated_time": provenance.emulated_time,
        "ticks": msgspec.json.encode(provenance.ticks, order="sorted").decode(),
    }


def _times(kept: HistoryNumbers, metrics: Mapping[Metric, int]) -> Iterator[dict[str, Any]]:
    for metric, summaries in kept.times.items():
        # Executions with equal statistics share a row, such as all and cold of a single execution.
        bits: dict[Summary, int] = {}
        for executions, summary in summaries.items():
            bits[summary] = bits.get(summary, 0) | BITS[executions]
        for summary, executions_bits in bits.items():
            yield {
                "metric_id": metrics[metric],
                "executions": executions_bits,
                **msgspec.structs.asdict(summary),
            }


def _numbers(kept: HistoryNumbers, metrics: Mapping[Metric, int]) -> Iterator[dict[str, Any]]:
    for metric, value in kept.numbers.items():
        yield {"metric_id": metrics[metric], "value": value}


def _codes(entry: StoredResult, names: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for code in {**entry.failed, **entry.warned}:
        failed, warned = (counts.get(code, 0) for counts in (entry.failed, entry.warned))
        yield {"code_id": names[code], "failed": failed, "warned": warned}


def _clocks(entry: StoredResult, names: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for position, clock in enumerate(entry.clocks):
        low, high = clock.rate_ppm or (None, None)
        yield {
            "position": position,
            **{column: names[getattr(clock, name)] for name, column in _CLOCK_NAMES.items()},
            "epochs_id": names[_epochs(clock.epochs)],
            **{name: getattr(clock, name) for name in _CLOCK_FIELDS},
            "rate_low_ppm": low,
            "rate_high_ppm": high,
        }


def _epochs(epochs: tuple[str, ...]) -> str:
    """Return the reasons why epochs begin as one text, which nearly all results share."""
    return msgspec.json.encode([*map(escaped, epochs)]).decode()


def record_nights(connection: Connection, verdicts: Sequence[NightVerdict]) -> None:
    """Record verdicts; a newer one of the same nightly run replaces the recorded one."""
    for verdict in verdicts:
        label = escaped(verdict.night)
        connection.execute(delete(NIGHT).where(NIGHT.c.label == label))
        connection.execute(
            NIGHT.insert().values(
                label=label,
                started_us=microseconds(verdict.started_utc),
                verdict=msgspec.json.encode(verdict).decode(),
            )
        )


def recorded_nights(connection: Connection) -> list[NightVerdict]:
    """Return all verdicts, oldest first.

    Raises:
        FormatError: A verdict is damaged.
    """
    found = []
    query = select(NIGHT.c.label, NIGHT.c.verdict).order_by(NIGHT.c.started_us, NIGHT.c.label)
    for label, text in connection.execute(query):
        try:
            found.append(decode_json(text.encode(), type_=NightVerdict))
        except msgspec.DecodeError as error:
            raise FormatError(
                f"the verdict of {unescaped(label)} in the history is damaged: {error}"
            ) from error
    return found


def forget_old(connection: Connection) -> None:
    """Remove programs without results, and nightly verdicts older than the oldest result."""
    used = select(RESULT.c.id).where(
        RESULT.c.model_sha256_id == PROGRAM.c.model_sha256_id,
        RESULT.c.method_id == PROGRAM.c.method_id,
    )
    connection.execute(delete(PROGRAM).where(~used.exists()))
    oldest = connection.scalar(select(func.min(RESULT.c.started_us)))
    if oldest is not None:
        connection.execute(delete(NIGHT).where(NIGHT.c.started_us < oldest))


def remove(connection: Connection, numbers: Sequence[int]) -> int:
    """Remove results, from named baselines too; return their number."""
    for some in batches(numbers):
        connection.execute(delete(MEMBER).where(MEMBER.c.result_id.in_(some)))
        connection.execute(delete(RESULT).where(RESULT.c.id.in_(some)))
    return len(numbers)

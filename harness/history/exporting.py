"""Exports results as one long table: a row per number, or per operator and executions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row

from harness.analyze.statistics import Summary
from harness.check.history.samples import Metric
from harness.check.history.stored import StoredResult
from harness.export.chunked_writer import Piece
from harness.export.values import escaped
from harness.history.entries import Selection
from harness.history.reading import entries, measured_rows, select_rows
from harness.history.tables import BITS
from harness.records.measurement import FIRMWARE, MeasurementSettings

_RESULTS: Final = 50
"""Results per piece."""

_SUMMARY: Final = Summary.__struct_fields__

TYPES: Final = {
    "result": "string",
    "started_utc": "text",
    **dict.fromkeys(("board", "unit", "model", "model_sha256", "method", "build_id"), "text"),
    **dict.fromkeys(("tool_version", "commit", "session"), "text"),
    **{f"settings_{name}": "text" for name in ("values", "profile", "when_full")},
    "settings_stream": "bool_",
    "settings_trace_limit": "int64",
    **{f"settings_{name}": "text" for name in ("runtime", "build", "inputs", "kernels")},
    "settings_placed": "bool_",
    "settings_counters": "text",
    "exit_code": "int16",
    "passed": "bool_",
    "sound": "bool_",
    **dict.fromkeys(("kind", "name", "block"), "text"),
    **dict.fromkeys(("chain", "instruction", "delegate_int"), "int64"),
    **dict.fromkeys(("delegate_str", "clock", "measured_in", "executions"), "text"),
    "statistic": "text",
    "value": "float64",
    **{name: "int64" if name == "count" else "float64" for name in _SUMMARY},
}
"""Columns of the table with their Arrow types; ``text`` is a dictionary-encoded string.

Settings are null if they were not recorded; runtime and build also for firmware built elsewhere.
An operator has a row for all executions, one for the cold and one for the warm ones, with all
statistics in ``measured_in``. Any other metric has one row, with a ``statistic`` and its ``value``.
"""


def pieces(connection: Connection, selection: Selection) -> Iterator[Piece]:
    """Yield the rows of the selected results, oldest first, in pieces of 50 results."""
    rows = select_rows(connection, selection)
    for start in range(0, len(rows), _RESULTS):
        some = rows[start : start + _RESULTS]
        cells = [*_cells(connection, some)]
        columns = zip(*cells, strict=True) if cells else ([] for _ in TYPES)
        yield dict(zip(TYPES, map(list, columns), strict=True))


def _cells(connection: Connection, rows: Sequence[Row[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of every row, in the order of ``TYPES``."""
    about = {
        row.id: _result_cells(entry)
        for row, entry in zip(rows, entries(connection, rows), strict=True)
    }
    times, numbers, metrics = measured_rows(connection, about)
    for row in times:
        measured = _metric_cells(metrics[row.metric_id])
        summary = tuple(row._mapping[name] for name in _SUMMARY)
        for executions, bit in BITS.items():
            if row.executions & bit:
                yield (*about[row.result_id], *measured, executions, None, None, *summary)
    for row in numbers:
        metric = metrics[row.metric_id]
        nothing = (None,) * len(_SUMMARY)
        value = (None, metric.statistic, row.value)
        yield (*about[row.result_id], *_metric_cells(metric), *value, *nothing)


def _result_cells(entry: StoredResult) -> tuple[Any, ...]:
    provenance = entry.provenance
    texts = (
        *(
            provenance.id,
            provenance.started_utc,
            provenance.board,
            provenance.unit,
            provenance.model,
        ),
        *(provenance.model_sha256, provenance.method, provenance.build_id),
        *(provenance.tool_version, provenance.commit, provenance.session),
    )
    about = (*map(escaped, texts), *_settings_cells(provenance.settings))
    return (*about, entry.exit_code, entry.passed, entry.sound)


def _settings_cells(settings: MeasurementSettings | None) -> Iterator[Any]:
    for name in MeasurementSettings.__struct_fields__:
        value = None if settings is None else getattr(settings, name)
        unknown = value == "" and name in FIRMWARE
        yield None if unknown else escaped(value) if isinstance(value, str) else value


def _metric_cells(metric: Metric) -> tuple[Any, ...]:
    delegate = metric.delegate_str
    return (
        *(metric.kind, escaped(metric.name), escaped(metric.block)),
        *(metric.chain, metric.instruction, metric.delegate_int),
        *(None if delegate is None else escaped(delegate), escaped(metric.clock), metric.unit),
    )

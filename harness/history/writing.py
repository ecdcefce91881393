"""Adds a result to a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, insert, update

from harness.analyze.statistics import Summary
from harness.check.history.measure import HistoryNumbers
from harness.check.history.samples import Metric
from harness.check.history.stored import StoredResult
from harness.errors import FormatError
from harness.export.values import escaped
from harness.history.baselines import remove
from harness.history.interning import Interned, insert_new
from harness.history.reading import find
from harness.history.tables import BITS, CLOCK, CODE, NUMBER, RESULT, TIME
from harness.records.result import UNFINISHED, microseconds

_LONGEST_ID: Final = 200


def add(
    connection: Connection, entry: StoredResult, kept: HistoryNumbers, interned: Interned
) -> Interned | None:
    """Add a result; replace one that was added before its run ended.

    Returns:
        The numbers of its names and metrics, valid once the transaction is committed; None if the
        store has the result already.

    Raises:
        FormatError: The result's id or time is invalid.
    """
    own_id = entry.provenance.id
    if not own_id or len(own_id) > _LONGEST_ID or not own_id.isprintable():
        raise FormatError(f"invalid result id {own_id[:_LONGEST_ID]!r}")
    if (earlier := find(connection, own_id)) is not None:
        if earlier.finished or entry.failure == UNFINISHED:
            return None
        remove(connection, [earlier.number])
    numbers = interned.intern(connection, _texts(entry), {*kept.times, *kept.numbers})
    names, metrics = numbers.names, numbers.metrics
    adding = insert_new(connection, RESULT).values(_result(entry, names)).returning(RESULT.c.id)
    result = connection.scalar(adding)
    if result is None:  # another writer added it after find()
        return None
    for table, rows in (
        (TIME, [*_times(kept, metrics)]),
        (NUMBER, [*_numbers(kept, metrics)]),
        (CODE, [*_codes(entry, names)]),
        (CLOCK, [*_clocks(entry, names)]),
    ):
        if rows:
            connection.execute(insert(table), [{"result_id": result} | row for row in rows])
    return numbers


def replace_verdict(connection: Connection, entry: StoredResult, interned: Interned) -> Interned:
    """Replace the verdict of a result that the store has by that of ``entry``.

    Returns:
        The numbers of its names, valid once the transaction is committed.
    """
    numbers = interned.intern(connection, [entry.budget, *entry.failed, *entry.warned], ())
    found = find(connection, entry.provenance.id)
    if found is None:
        return numbers
    changes = {
        "passed": entry.passed,
        "budget_id": numbers.names[entry.budget],
        "complete": entry.complete,
        "sound": entry.sound,
    }
    connection.execute(update(RESULT).where(RESULT.c.id == found.number).values(changes))
    connection.execute(delete(CODE).where(CODE.c.result_id == found.number))
    codes = [{"result_id": found.number} | row for row in _codes(entry, numbers.names)]
    if codes:
        connection.execute(insert(CODE), codes)
    return numbers


def _texts(entry: StoredResult) -> Iterator[str]:
    provenance = entry.provenance
    yield from (provenance.board, provenance.unit, provenance.model, provenance.model_sha256)
    yield from (provenance.method, provenance.build_id, provenance.tool_version)
    yield from (provenance.commit, provenance.session)
    if provenance.settings is not None:
        yield provenance.settings.key
    yield from (entry.budget, entry.failure, *entry.failed, *entry.warned)
    for clock in entry.clocks:
        yield from (clock.clock, clock.reference, clock.unknown, _epochs(clock.epochs))


def _result(entry: StoredResult, names: Mapping[str, int]) -> dict[str, Any]:
    provenance, link = entry.provenance, entry.link
    settings = provenance.settings
    return {
        "own_id": provenance.id,
        "started_utc": provenance.started_utc,
        "started_us": microseconds(provenance.started_utc),
        "board_id": names[provenance.board],
        "unit_id": names[provenance.unit],
        "model_id": names[provenance.model],
        "model_sha256_id": names[provenance.model_sha256],
        "method_id": names[provenance.method],
        "build_id": names[provenance.build_id],
        "tool_id": names[provenance.tool_version],
        "commit_id": names[provenance.commit],
        "session_id": names[provenance.session],
        "duration_s": entry.duration_s,
        "exit_code": entry.exit_code,
        "passed": entry.passed,
        "budget_id": names[entry.budget],
        "failure_id": names[entry.failure],
        "failure_message": escaped(entry.failure_message),
        "runs_requested": entry.runs_requested,
        "runs_completed": entry.runs_completed,
        "baud": link.baud,
        "link_bytes": link.bytes_carried,
        "link_corrupt": link.corrupt_frames,
        "link_retries": link.retries,
        "link_goodput": link.goodput,
        **{f"lost_{kind}": count for kind, count in asdict(entry.losses).items()},
        "indistinct": entry.indistinct,
        "complete": entry.complete,
        "sound": entry.sound,
        "settings_id": names[settings.key] if settings is not None else None,
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
            "clock_id": names[clock.clock],
            "reference_id": names[clock.reference],
            "epochs_id": names[_epochs(clock.epochs)],
            "unknown_id": names[clock.unknown],
            "readings": clock.readings,
            "events": clock.events,
            "placed": clock.placed,
            "bounded": clock.bounded,
            "half_width_ns": clock.half_width_ns,
            "silent_wraps": clock.silent_wraps,
            "unsettled": clock.unsettled,
            "rate_low_ppm": low,
            "rate_high_ppm": high,
        }


def _epochs(epochs: tuple[str, ...]) -> str:
    """Return the reasons why epochs begin as one text, which nearly all results share."""
    return msgspec.json.encode([*map(escaped, epochs)]).decode()

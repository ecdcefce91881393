"""Tables of operators summed by what they are: by kind of work, or by name."""

from __future__ import annotations

from collections.abc import Iterable

from harness.analyze.compare import Comparison, OperatorChange
from harness.analyze.statistics import Operator
from harness.formatting import (
    TICKS,
    DisplayUnit,
    operator_kind,
    printable,
    short_operator_name,
    time_unit,
)
from harness.records.trace import EXECUTION, LOADING, STREAMING, Signature, is_wrapper
from harness.report.operators import UNKNOWN, OperatorListing, operator_time, share_text
from harness.report.words import ReportTable, number, percent, with_delegate


def group_name(event: Signature, by: str) -> str:
    """Return what an operator is summed by: its ``kind``, or else its name as an ``operator``."""
    if by == "kind":
        delegated = event.delegate_int != -1 or event.delegate_str is not None
        return operator_kind(event.name, delegated)
    return printable(short_operator_name(with_delegate(event)))


def group_table(table: OperatorListing, by: str) -> ReportTable:
    """Return the time of all operators of a kind, or of one name, in an execution."""
    executed = [len(row.rows) for row in table.scopes if row.name == EXECUTION]
    runs = max(executed or [len(row.rows) for row in table.operators], default=1)
    groups: dict[str, list[Operator]] = {}
    for row in table.operators:
        groups.setdefault(group_name(row, by), []).append(row)
    rows: list[tuple[float, list[str]]] = []
    for name, members in groups.items():
        calls = sum(len(row.rows) for row in members) / runs
        time, shares = 0.0, [row.share for row in members if row.share is not None]
        whole = True
        for row in members:
            median = operator_time(row, "p50") if row.ns or table.unit is TICKS else None
            whole &= median is not None
            time += (median or 0.0) * len(row.rows) / runs
        text = table.unit.brief(time) if whole else UNKNOWN
        share = share_text(sum(shares) if len(shares) == len(members) else None)
        rows.append((time, [name, number(calls), text, share]))
    rows.sort(key=lambda row: row[0], reverse=True)
    headers = [by, "calls", f"time [{table.unit.name}]", "share [%]"]
    title = f"Time by {by} in one execution: sums of medians"
    return ReportTable(title, headers, [cells for _, cells in rows], range(1, 4))


def change_table(comparison: Comparison, by: str) -> ReportTable:
    """Return the change of all operators of a kind, or of one name, in an execution.

    Operators that only one of the two traces has count, too.
    """
    known = (*comparison.operators, *comparison.appeared, *comparison.vanished)
    scopes = (EXECUTION, *LOADING, *STREAMING)
    changes = [one for one in known if one.name not in scopes and not is_wrapper(one.name)]
    groups: dict[str, list[OperatorChange]] = {}
    for change in changes:
        groups.setdefault(group_name(change, by), []).append(change)
    sums = {name: (_sum(members, 0), _sum(members, 1)) for name, members in groups.items()}
    ordered = sorted(sums, key=lambda name: sums[name][0] - sums[name][1])
    unit = TICKS if any(one.unit == "ticks" for one in changes) else _unit(sums.values())
    rows = [
        [
            name,
            unit.brief(before),
            unit.brief(after),
            ("+" if after >= before else "") + unit.brief(after - before),
            percent(after / before - 1) if before else "new",
        ]
        for name in ordered
        for before, after in [sums[name]]
    ]
    headers = [by, *(f"{what} [{unit.name}]" for what in ("before", "after", "change")), ""]
    title = f"Time by {by} in one execution: sums of {comparison.statistic}"
    return ReportTable(title, headers, rows, range(1, 5))


def _sum(changes: Iterable[OperatorChange], side: int) -> float:
    """Return the time of operators before (0) or after (1), in one execution."""
    total = 0.0
    for change in changes:
        times = (change.time.before, change.time.after)
        calls = (change.per_run.before, change.per_run.after)
        total += (times[side] or 0.0) * (calls[side] or 0.0)
    return total


def _unit(sums: Iterable[tuple[float, float]]) -> DisplayUnit:
    return time_unit(max(pair) for pair in sums)

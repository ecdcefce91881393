"""Counters of an Ethos-U that ExecuTorch's Arm runner prints, as counters of the delegate's calls.

``examples/arm/executor_runner/arm_perf_monitor.cpp`` of ExecuTorch prints a report after it has
executed a method, of all executions or, as a server, of each. With
``ET_ARM_ETHOSU_PER_DELEGATE_PROFILING`` it has lines for each delegate, which are numbered in the
order of their first execution::

    NPU Inferences : 2
    ethosu_pmu_cycle_cntr :  5000 (2500.00 per inference)
    ethosu_pmu_cntr0 : 1000 (500.00 per inference)
    Ethos-U delegate 0: 2 backend invocations, 2 NPU invocations
    Ethos-U delegate 0 PMU cycles: 4000
    Ethos-U delegate 0 PMU counter 0: 900
    Ethos-U PMU Events:[ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED, ...]
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from harness.printing import counted
from harness.records.trace import DELEGATE_CALL, NO_COUNT, HardwareCounter, Kind, Trace

_log = logging.getLogger(__name__)

_LINE: Final = re.compile(
    rb"NPU Inferences ?: (?P<executions>\d+)"
    rb"|NPU delegations: (?P<calls>\d+)"
    rb"|ethosu_pmu_(?:cycle_cntr|cntr(?P<event>\d+)) : +(?P<total>\d+)"
    rb"|Ethos-U delegate (?P<delegate>\d+)(?:: \d+ backend invocations, (?P<invoked>\d+) NPU"
    rb"| PMU (?:cycles|counter (?P<counter>\d+)): (?P<count>\d+))"
    rb"|Ethos-U PMU Events:\[(?P<names>[^\]\r\n]*)\]"
)
_CYCLES: Final = -1
"""Number of the cycle counter among the events."""
_BITS: Final = 63


@dataclass(slots=True)
class _Report:
    """One report of the runner.

    Attributes:
        executions: How many executions it is of.
        calls: How often the NPU was started; 0 if it does not say.
        totals: Counts of all delegates, by number of the event.
        delegates: Counts of each delegate likewise.
        invoked: How often the NPU was started for each delegate.
        names: Names of the events.
    """

    executions: int
    calls: int = 0
    totals: dict[int, int] = field(default_factory=dict)
    delegates: dict[int, dict[int, int]] = field(default_factory=dict)
    invoked: dict[int, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


def with_pmu_counts(trace: Trace, console: bytes) -> Trace:
    """Return the trace with the counts in the console text, as counters of the delegates' calls.

    A report of several executions has sums only: each call gets their mean, rounded. Without lines
    for each delegate the counts are known if the program has one delegate. Counts that cannot be
    assigned are left out, with a warning.

    Args:
        trace: The trace in the same text.
        console: The text.
    """
    reports = list(_reports(console))
    if not reports:
        return trace
    calls = _calls(trace)
    executions = max(map(len, calls), default=0)
    if len(reports) not in (1, executions):
        return _unassigned(
            trace, f"{counted(len(reports), 'report', 'is')} of {counted(executions, 'execution')}"
        )
    columns: dict[str, dict[int, int]] = {}
    for number, report in enumerate(reports):
        chosen = [rows if len(reports) == 1 else rows[number : number + 1] for rows in calls]
        if not report.delegates and len(calls) == 1:
            report.delegates = {0: report.totals}
            report.invoked = {0: report.calls or len(chosen[0])}
        if len(report.delegates) != len(calls):
            return _unassigned(
                trace,
                f"they are of {len(report.delegates)} delegates, and the trace has {len(calls)}",
            )
        for delegate, counts in report.delegates.items():
            for event, count in counts.items():
                mean = round(count / max(report.invoked.get(delegate, 0), 1))
                columns.setdefault(_name(report, event), {}).update(
                    dict.fromkeys(chosen[delegate] if delegate < len(chosen) else (), mean)
                )
    added = np.full((len(trace), len(columns)), NO_COUNT, np.int64)
    for place, counts in enumerate(columns.values()):
        added[list(counts), place] = np.minimum(list(counts.values()), 2**_BITS - 1)
    return replace(
        trace,
        counters=(*trace.counters, *(HardwareCounter(name, _BITS) for name in columns)),
        counts=np.hstack([trace.counts, added]),
    ).sealed()


def _unassigned(trace: Trace, why: str) -> Trace:
    _log.warning("the counts of the Ethos-U in the console text belong to no call: %s", why)
    return trace


def _reports(console: bytes) -> Iterator[_Report]:
    """Yield the reports in the text."""
    report: _Report | None = None
    for line in _LINE.finditer(console):
        if (executions := line["executions"]) is not None:
            if report is not None:
                yield report
            report = _Report(int(executions))
        elif report is not None:
            _add(report, line)
    if report is not None and (report.totals or report.delegates):
        yield report


def _add(report: _Report, line: re.Match[bytes]) -> None:
    if line["calls"] is not None:
        report.calls = int(line["calls"])
    elif line["total"] is not None:
        report.totals[int(line["event"] or _CYCLES)] = int(line["total"])
    elif line["invoked"] is not None:
        report.invoked[int(line["delegate"])] = int(line["invoked"])
        report.delegates.setdefault(int(line["delegate"]), {})
    elif line["count"] is not None:
        counts = report.delegates.setdefault(int(line["delegate"]), {})
        counts[int(line["counter"] or _CYCLES)] = int(line["count"])
    elif line["names"] is not None:
        report.names = [
            name.strip() for name in line["names"].decode("ascii", "replace").split(",")
        ]


def _name(report: _Report, event: int) -> str:
    """Return the name of a counter, after its event."""
    if event == _CYCLES:
        return "ethosu_cycles"
    if event < len(report.names):
        return report.names[event].lower().replace("ethosu_pmu_", "ethosu_")
    return f"ethosu_event{event}"


def _calls(trace: Trace) -> list[list[int]]:
    """Return the rows of the calls of each delegate, in the order of their first execution.

    These are the calls that contain an event of EthosUBackend; all calls of delegates if there are
    no such events.
    """
    names = np.array(
        [name.startswith(("EthosUBackend::", "+EthosUBackend::")) for name in trace.names]
    )
    ours = (trace.name >= 0) & names[trace.name] if len(names) else np.zeros(len(trace), bool)
    places = {*zip(trace.chain[ours].tolist(), trace.instruction[ours].tolist(), strict=True)}
    found: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(trace.kind == Kind.PROFILE).tolist():
        place = int(trace.chain[row]), int(trace.instruction[row])
        if trace.text(int(trace.name[row])) == DELEGATE_CALL and (not places or place in places):
            found.setdefault(place, []).append(row)
    return list(found.values())

"""The number that a bisection looks at, read from a run directory."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from harness.analyze.statistics import Operator, OperatorTimes
from harness.analyze.ticks import nanoseconds_per_tick
from harness.bisect.search import VERDICT
from harness.bisect.state import ValueUnit
from harness.check.history.measure import history_numbers
from harness.check.subject import Subject
from harness.errors import UsageError, did_you_mean
from harness.records.result import Result
from harness.records.trace import EXECUTION
from harness.runs.evaluation import find_run
from harness.runs.lookup import EXECUTE, find_allocator, find_operators

KINDS: Final = {
    "execution": "median time of an execution",
    "operator:PATTERN": "sum of the median times of the operators with these names",
    "memory": "sum of the allocators' peaks",
    "allocator:NAME": "peak of one allocator",
    "size:NAME": "size of the result, such as text_bytes or stack_used",
    VERDICT: "whether the command passes, exit code 0, or fails, 1 or 4",
}
"""What ``--metric`` accepts."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of a run.

    Attributes:
        value: The value.
        unit: Its unit.
        resolution: Smallest difference that the clock shows; 0 for sizes.
        repeatable: Every run gives the same value: the clock is an emulator's, or it is a size.
    """

    value: float
    unit: ValueUnit
    resolution: float
    repeatable: bool


def check_metric(metric: str) -> None:
    """Check that a metric is one of ``KINDS``.

    Raises:
        UsageError: It is not.
    """
    kind, sign, name = metric.partition(":")
    known = {word.partition(":")[0]: ":" in word for word in KINDS}
    if kind not in known:
        raise UsageError(
            f"unknown metric {metric!r}",
            hint=f"{did_you_mean(kind, known)}metrics: {', '.join(KINDS)}",
        )
    if known[kind] != bool(sign and name):
        usage = next(word for word in KINDS if word.partition(":")[0] == kind)
        raise UsageError(f"invalid metric {metric!r}", hint=f"write it as {usage}")


def read_metric(directory: Path, metric: str) -> tuple[Reading, Result]:
    """Return the value of a metric in a run directory, and the run's result.

    Raises:
        HarnessError: The directory is damaged, its run has no trace, or nothing of that name.
    """
    run = find_run(directory)
    if run.result is None or run.subject is None:
        raise UsageError(f"{directory} has no trace to measure")
    subject, result = run.subject, run.result
    kind, _, name = metric.partition(":")
    where = directory.name
    if kind == "execution":
        times = find_operators(where, subject, EXECUTION, "*")
        return _time([times[0]], result), result
    if kind == "operator":
        return _time(find_operators(where, subject, name, EXECUTE), result), result
    return Reading(_bytes(where, subject, kind, name), "bytes", 0.0, True), result


def _time(found: list[OperatorTimes], result: Result) -> Reading:
    """Return the sum of the medians, in nanoseconds, or in ticks if a rate is unknown."""
    operators = [times.operator for times in found]
    rates = [nanoseconds_per_tick(operator.clock) for operator in operators]
    known = all(rate is not None for rate in rates)
    value = sum(_median(operator, known) for operator in operators)
    resolution = max(float(rate) if known and rate is not None else 1.0 for rate in rates)
    return Reading(value, "ns" if known else "ticks", resolution, result.emulated_time)


def _median(operator: Operator, known: bool) -> float:
    summary = operator.ns if known else operator.ticks
    if summary is None:
        raise UsageError(f"the durations of {operator.name} are unknown")
    return summary.p50


def _bytes(where: str, subject: Subject, kind: str, name: str) -> float:
    if kind == "allocator":
        return float(find_allocator(where, subject, name).peak_bytes)
    if kind == "memory":
        if not subject.allocators:
            raise UsageError(f"{where} has no allocators")
        return float(sum(totals.peak_bytes for totals in subject.allocators))
    numbers = history_numbers(subject).numbers
    sizes = {metric.name: value for metric, value in numbers.items() if metric.kind == "result"}
    for size, value in sizes.items():
        if fnmatchcase(size, name):
            return value
    raise UsageError(f"{where} has no size {name!r}", hint=f"there are {', '.join(sizes)}")

"""Numbers of one subject for the history: of operators (times, counts, energy), and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness.analyze.blocks import block_numbers
from harness.analyze.blocks import executions as executions_of_trace
from harness.analyze.counterparts import ProgramOutline, outline_of
from harness.analyze.statistics import EXECUTIONS, Executions, Operator, Summary
from harness.analyze.ticks import durations, nanoseconds_per_tick, unknown_durations
from harness.check.history.noise import MIN_VALUES
from harness.check.history.samples import Floats, HistoryLimits, Metric, MetricUnit, Sample
from harness.check.limits import Durations, statistic_of
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.formatting import printable
from harness.records.result import AccuracyRecord
from harness.records.trace import EXECUTION, SUM_OF_OPERATORS, Kind

TIME_STATISTICS: Final = ("total", "avg", "p10", "p50", "p90", "min", "max")
"""Fields of a Summary that are times."""

_ALLOCATOR_BYTES: Final = ("peak_bytes", "total_bytes", "failed_bytes")


@dataclass(frozen=True, slots=True)
class HistoryNumbers:
    """All numbers of one subject that the history stores, in the units of the comparison.

    Attributes:
        times: Statistics of every operator's durations, by metric (without a statistic) and by
            executions (all, cold, warm).
        numbers: Medians of hardware counters, mean energies, bytes of allocators and sizes of the
            result.
        indistinct: Number of operators and numbers left out because an earlier one has the same
            metric.
        outline: What the model's file says of the program; None if unknown.
    """

    times: Mapping[Metric, Mapping[Executions, Summary]]
    numbers: Mapping[Metric, float]
    indistinct: int = 0
    outline: ProgramOutline | None = None


def history_numbers(subject: Subject) -> HistoryNumbers:
    """Return all numbers that the history stores of ``subject``."""
    times: dict[Metric, dict[Executions, Summary]] = {}
    for operator in subject.operators:
        times.setdefault(operator_metric(operator, ""), _summaries(operator))
    numbers: dict[Metric, float] = {}
    found = [*_numbers(subject)]
    for metric, value in found:
        numbers.setdefault(metric, value)
    left_out = len(subject.operators) - len(times) + len(found) - len(numbers)
    times |= _totals(subject)
    return HistoryNumbers(times, numbers, left_out, program_outline(subject))


def _totals(subject: Subject) -> dict[Metric, dict[Executions, Summary]]:
    """Return the sum of the operators of each execution, if the log has no execution itself.

    Nothing where times on several clocks cannot be added, as the rate of one is unknown.
    """
    trace = subject.trace
    executed, _ = executions_of_trace(trace)
    if trace.named(EXECUTION).any() or not executed.any():
        return {}
    try:
        depth = subject.tree.depth
    except FormatError:  # without times
        return {}
    chosen = (trace.kind == Kind.PROFILE) & (depth == 0) & (trace.chain >= 0)
    rows = np.flatnonzero(chosen & executed[block_numbers(trace)])
    times = Durations(subject)
    found: dict[Metric, dict[Executions, Summary]] = {}
    for executions in EXECUTIONS:
        for block, sums in times.sums(rows, executions).items():
            values = sums.ticks if sums.ns is None else sums.ns
            if values is None:
                continue
            unit: MetricUnit = "ticks" if sums.ns is None else "ns"
            clock = "" if sums.clock is None else sums.clock.name
            metric = Metric("operator", SUM_OF_OPERATORS, "", unit, block, clock=clock)
            numbers = (statistic_of(values, name) for name in Summary.__struct_fields__[1:])
            found.setdefault(metric, {})[executions] = Summary(len(values), *numbers)
    return found


def program_outline(subject: Subject) -> ProgramOutline | None:
    """Return what is known of the program of a subject, with modules if it has an ETRecord."""
    modules: dict[tuple[int, int], str] = {}
    if subject.symbols is not None:
        trace = subject.trace
        places = zip(trace.chain.tolist(), trace.instruction.tolist(), strict=True)
        for place, symbols in zip(places, subject.symbols, strict=True):
            if symbols is not None and symbols.module:
                modules.setdefault(place, symbols.module[-1].path)
    return outline_of(subject.chains, modules)


def measure(
    subject: Subject, statistic: str = "p50", executions: Executions = "all"
) -> dict[Metric, Sample]:
    """Return every number of ``subject`` for one statistic of the times.

    Args:
        subject: A trace, and what else is known of its run.
        statistic: One of ``TIME_STATISTICS``.
        executions: All, cold or warm executions.
    """
    kept = history_numbers(subject)
    found = {
        metric_of(metric, statistic, executions): sample_of(summaries[executions], statistic)
        for metric, summaries in kept.times.items()
        if executions in summaries
    }
    return found | {metric: Sample(value) for metric, value in kept.numbers.items()}


def numbers_of(subject: Subject, limits: HistoryLimits) -> dict[Metric, Sample]:
    """Return every number of ``subject``, with all statistics that ``limits`` compares."""
    found: dict[Metric, Sample] = {}
    for statistic in limits.statistics:
        found |= measure(subject, statistic)
    return found


def ticks_of(subject: Subject) -> dict[str, float]:
    """Return the nanoseconds per tick of every clock with a known rate, by its name."""
    rates = {
        operator.clock.name: nanoseconds_per_tick(operator.clock) for operator in subject.operators
    }
    return {clock: float(rate) for clock, rate in rates.items() if rate is not None}


def durations_of(subject: Subject) -> dict[Metric, Floats]:
    """Return the durations of every operator that ran often enough to detect modes.

    Keys are metrics without a statistic. Values are in the metric's unit, in log order, shape
    (repeats,).
    """
    ticks, known = durations(subject.trace), ~unknown_durations(subject.trace)
    found: dict[Metric, Floats] = {}
    for operator in subject.operators:
        rows = operator.rows[known[operator.rows]]
        if len(rows) >= MIN_VALUES:
            rate = nanoseconds_per_tick(operator.clock)
            scale = 1.0 if operator.ns is None or rate is None else float(rate)
            values = ticks[rows].astype(np.float64) * scale
            found.setdefault(operator_metric(operator, ""), values)
    return found


def sample_of(summary: Summary, statistic: str) -> Sample:
    """Return the sample for a statistic of durations."""
    return Sample(float(getattr(summary, statistic)), summary.count, summary.std)


def metric_of(operator: Metric, statistic: str, executions: Executions = "all") -> Metric:
    """Return an operator's metric with a statistic: ``p50``, or ``cold p50`` for cold ones."""
    text = statistic if executions == "all" else f"{executions} {statistic}"
    return replace(operator, statistic=text)


def operator_metric(operator: Operator, statistic: str) -> Metric:
    """Return the metric for a statistic of an operator's times."""
    return Metric(
        "operator",
        operator.name,
        statistic,
        "ticks" if operator.clock.hz is None else "ns",
        block=operator.block,
        chain=operator.chain,
        instruction=operator.instruction,
        delegate_int=operator.delegate_int,
        delegate_str=operator.delegate_str,
        clock=operator.clock.name,
    )


def _summaries(operator: Operator) -> dict[Executions, Summary]:
    found = zip(EXECUTIONS, (operator.times, operator.cold, operator.warm), strict=True)
    return {executions: summary for executions, summary in found if summary is not None}


def _numbers(subject: Subject) -> Iterator[tuple[Metric, float]]:
    for operator in subject.operators:
        for name, counts in operator.counters.items():
            counted = operator_metric(operator, printable(name))
            yield replace(counted, kind="counter", unit="count"), counts.p50
    yield from _energies(subject)
    for totals in subject.allocators:
        for name in _ALLOCATOR_BYTES:
            value = float(getattr(totals, name))
            yield Metric("allocator", totals.label, name, "bytes"), value
    yield from accuracy_numbers(subject.accuracy)
    for name, size in _sizes(subject):
        yield Metric("result", name, "", "bytes"), float(size)


def accuracy_numbers(accuracy: AccuracyRecord | None) -> Iterator[tuple[Metric, float]]:
    """Yield the accuracy over all samples of a file, the larger the worse; none of a part."""
    if accuracy is not None and accuracy.ran == accuracy.samples:
        of = f"{accuracy.file} {accuracy.sha256[:8]}"
        for name, loss in accuracy.losses.items():
            yield Metric("accuracy", name, of, "error"), loss


def _energies(subject: Subject) -> Iterator[tuple[Metric, float]]:
    """Yield the mean energy of every operator that could be measured, in nanojoules."""
    of = {operator.signature: operator for operator in subject.operators}
    for energy in subject.energy.operators if subject.energy is not None else ():
        operator = of.get(energy.signature)
        if operator is not None and energy.joules is not None:
            metric = replace(operator_metric(operator, "energy"), kind="energy", unit="nJ")
            yield metric, energy.joules * 1e9


def _sizes(subject: Subject) -> Iterator[tuple[str, int]]:
    if subject.log_bytes is not None:
        yield "log_bytes", subject.log_bytes
    if stacks := subject.trace.stacks:
        yield "stack_used", max(stack.used for stack in stacks)
    for name, size in subject.image.items():
        yield f"{name}_bytes", size

"""What history keeps of one subject: operators' times, allocators' bytes, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.analyze.compare import EXECUTIONS, Executions
from harness.analyze.statistics import Operator, Summary
from harness.check.history.samples import Metric, Sample
from harness.check.subject import Subject

TIME_STATISTICS: Final = ("total", "avg", "p10", "p50", "p90", "min", "max")
"""Statistics of a Summary that are times."""

_BYTES: Final = ("peak_bytes", "total_bytes", "failed_bytes")


@dataclass(frozen=True, slots=True)
class Kept:
    """Everything that history keeps of one subject, in the units in which it is compared.

    Attributes:
        times: Of every operator, by a metric without a statistic, the statistics of its durations,
            by the executions that they are of.
        numbers: Allocators' bytes and the sizes of the result.
        indistinct: How many operators and numbers are left out because others before them have the
            same names, so that nobody could tell the two apart later.
    """

    times: Mapping[Metric, Mapping[Executions, Summary]]
    numbers: Mapping[Metric, float]
    indistinct: int = 0


def keep(subject: Subject) -> Kept:
    """Return what history keeps of ``subject``; ``measure`` and a store both go by it."""
    times: dict[Metric, dict[Executions, Summary]] = {}
    for operator in subject.operators:
        times.setdefault(operator_metric(operator, ""), _summaries(operator))
    numbers: dict[Metric, float] = {}
    given = [*_numbers(subject)]
    for metric, value in given:
        numbers.setdefault(metric, value)
    left_out = len(subject.operators) - len(times) + len(given) - len(numbers)
    return Kept(times, numbers, left_out)


def measure(
    subject: Subject, statistic: str = "p50", executions: Executions = "all"
) -> dict[Metric, Sample]:
    """Return every number of ``subject`` that history compares.

    Args:
        subject: A trace and what is known beside it.
        statistic: Which of ``TIME_STATISTICS`` stands for an operator's times.
        executions: Of which executions.
    """
    kept = keep(subject)
    found = {
        metric_of(metric, statistic, executions): sample_of(summaries[executions], statistic)
        for metric, summaries in kept.times.items()
        if executions in summaries
    }
    return found | {metric: Sample(value) for metric, value in kept.numbers.items()}


def sample_of(summary: Summary, statistic: str) -> Sample:
    """The sample that a statistic of durations is."""
    return Sample(float(getattr(summary, statistic)), summary.count, summary.std)


def metric_of(operator: Metric, statistic: str, executions: Executions = "all") -> Metric:
    """An operator's metric with a statistic: ``p50``, or ``cold p50`` of the cold execution."""
    text = statistic if executions == "all" else f"{executions} {statistic}"
    return Metric(
        operator.kind,
        operator.name,
        text,
        operator.unit,
        operator.block,
        operator.chain,
        operator.instruction,
        operator.delegate_int,
        operator.delegate_str,
        operator.clock,
    )


def operator_metric(operator: Operator, statistic: str) -> Metric:
    """The metric that a statistic of an operator's times is."""
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
    for totals in subject.allocators:
        for name in _BYTES:
            value = float(getattr(totals, name))
            yield Metric("allocator", totals.label, name, "bytes"), value
    for name, size in _sizes(subject):
        yield Metric("result", name, "", "bytes"), float(size)


def _sizes(subject: Subject) -> Iterator[tuple[str, int]]:
    if subject.log_bytes is not None:
        yield "log_bytes", subject.log_bytes
    if stacks := subject.trace.stacks:
        yield "stack_used", max(stack.used for stack in stacks)
    for name, size in subject.image.items():
        yield f"{name}_bytes", size

"""What history keeps of one subject: operators' times, allocators' bytes, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.check.history.samples import Metric, Sample
from harness.check.subject import Subject
from harness.view.statistics import Operator

TIME_STATISTICS: Final = ("total", "avg", "p10", "p50", "p90", "min", "max")
"""Statistics of a Summary that are times."""

_BYTES: Final = ("peak_bytes", "total_bytes", "failed_bytes")


def measure(subject: Subject, statistic: str = "p50") -> dict[Metric, Sample]:
    """Return every number of ``subject`` that history compares.

    Args:
        subject: A trace and what is known beside it.
        statistic: Which of ``TIME_STATISTICS`` stands for an operator's times.
    """
    found = {}
    for operator in subject.operators:
        summary = operator.ns or operator.ticks
        value = float(getattr(summary, statistic))
        metric = operator_metric(operator, statistic)
        found[metric] = Sample(value, summary.count, summary.std)
    for totals in subject.allocators:
        for name in _BYTES:
            value = float(getattr(totals, name))
            found[Metric("allocator", totals.label, name, "bytes")] = Sample(value)
    for name, size in _sizes(subject):
        found[Metric("result", name, "", "bytes")] = Sample(float(size))
    return found


def operator_metric(operator: Operator, statistic: str) -> Metric:
    """The metric that a statistic of an operator's times is."""
    return Metric(
        "operator",
        operator.name,
        statistic,
        "ticks" if operator.ns is None else "ns",
        block=operator.block,
        chain=operator.chain,
        instruction=operator.instruction,
        delegate_int=operator.delegate_int,
        delegate_str=operator.delegate_str,
        clock=operator.clock.name,
    )


def _sizes(subject: Subject) -> Iterator[tuple[str, int]]:
    if subject.log_bytes is not None:
        yield "log_bytes", subject.log_bytes
    if stacks := subject.trace.stacks:
        yield "stack_used", max(stack.used for stack in stacks)
    for name, size in subject.image.items():
        yield f"{name}_bytes", size

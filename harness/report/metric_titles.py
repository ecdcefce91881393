"""Titles of metrics in words, such as ``median of conv2d #5``."""

from __future__ import annotations

from typing import Final

from harness.check.history.samples import Metric
from harness.formatting import operator_title, printable
from harness.records.trace import EXECUTION
from harness.report.text import NO_NAME

STATISTIC_WORDS: Final = {
    "p10": "10th percentile",
    "p50": "median",
    "p90": "90th percentile",
    "avg": "average",
    "min": "fastest",
    "max": "slowest",
    "total": "total",
    "peak_bytes": "peak",
    "total_bytes": "total",
    "failed_bytes": "refused",
}
"""Statistics in words."""

_SIZES: Final = {
    "log_bytes": "size of the log",
    "stack_used": "use of the stack",
    "text_bytes": "size of the code",
    "data_bytes": "size of initialized data",
    "bss_bytes": "size of zeroed data",
}


def metric_title(metric: Metric) -> str:
    """Return the title of a metric, safe to print.

    Examples:
        >>> metric_title(Metric("operator", "native_call_add.out", "cold p50", "ns", "", 0, 3))
        'cold median of add #3'
    """
    if metric.kind == "result":
        return _SIZES.get(metric.name, printable(metric.name).replace("_", " "))
    statistic = statistic_text(metric)
    if metric.kind == "allocator":
        return f"{statistic} of allocator {printable(metric.name) or NO_NAME}"
    if metric.name == EXECUTION and metric.kind == "operator":
        return f"{statistic} execution"
    return f"{statistic} of {metric_subject(metric)}"


def statistic_text(metric: Metric) -> str:
    """Return the statistic of a metric in words, with the executions that it is of."""
    executions, _, statistic = metric.statistic.rpartition(" ")
    text = STATISTIC_WORDS.get(statistic, printable(statistic).replace("_", " ")) or "size"
    return f"{printable(executions)} {text}" if executions else text


def metric_subject(metric: Metric) -> str:
    """Return the operator of a metric with its delegate id, safe to print."""
    if metric.kind not in ("operator", "counter", "energy"):
        return printable(metric.name)
    delegate = metric.delegate_int if metric.delegate_str is None else metric.delegate_str
    instruction = metric.instruction if metric.chain != -1 else None
    name = operator_title(metric.name, instruction) or NO_NAME
    return name if delegate == -1 else f"{name} [{printable(str(delegate))}]"

"""What a comparison takes from the subject itself: its numbers, and every duration of them."""

from __future__ import annotations

import numpy as np

from harness.analyze.ticks import durations, nanoseconds_per_tick
from harness.analyze.unwrap import ends_before_start
from harness.check.history.measure import measure, operator_metric
from harness.check.history.modes import LEAST
from harness.check.history.samples import Floats, Metric, Sample
from harness.check.history.settings import HistoryLimits
from harness.check.subject import Subject


def numbers_of(subject: Subject, limits: HistoryLimits) -> dict[Metric, Sample]:
    """Every number of a subject that is compared, with all statistics that are asked for."""
    found: dict[Metric, Sample] = {}
    for statistic in limits.statistics:
        found |= measure(subject, statistic)
    return found


def durations_of(subject: Subject) -> dict[Metric, Floats]:
    """Durations of the operators that ran often enough for modes, by a metric without a statistic.

    They are in the metric's unit, in log order, shape (repeats,).
    """
    ticks, known = durations(subject.trace), ~ends_before_start(subject.trace)
    found: dict[Metric, Floats] = {}
    for operator in subject.operators:
        rows = operator.rows[known[operator.rows]]
        if len(rows) >= LEAST:
            rate = nanoseconds_per_tick(operator.clock)
            scale = 1.0 if operator.ns is None or rate is None else float(rate)
            values = ticks[rows].astype(np.float64) * scale
            found.setdefault(operator_metric(operator, ""), values)
    return found

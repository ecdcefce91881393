"""A run beside a history of which everything is known."""

from __future__ import annotations

from dataclasses import replace

from harness import (
    Compared,
    EvaluatedRun,
    History,
    HistoryComparison,
    HistoryLimits,
    Interval,
    MetricStep,
    Provenance,
    Sample,
    Series,
    Subject,
    Trace,
    Verdict,
    measure,
)
from tests.support.reported import FINISHED, SMALL, unmet


def with_history(trace: Trace = SMALL, shift: float = 1.5) -> EvaluatedRun:
    """A run whose first number has become larger in its history of 20 results."""
    subject = Subject(trace)
    now = measure(subject)
    results = tuple(
        Provenance(
            id=f"r{n}",
            started_utc=f"2026-11-{n + 1:02d}T00:00:00+00:00",
            board="native",
            unit="native",
            model="m.pte",
            model_sha256="0",
            method="forward",
            build_id="b",
            tool_version="1",
            commit=f"{n // 5:040d}"[::-1],
            session=f"s{n // 2}",
        )
        for n in range(20)
    )
    series = tuple(
        Series(
            metric,
            tuple(range(20)),
            tuple(Sample(sample.value / (1 if n >= 10 else shift)) for n in range(20)),
        )
        for metric, sample in now.items()
    )
    history = History(results, series, tuple(range(10)), "the first 10")
    first = next(iter(now))
    step = MetricStep(
        last_good=results[9].commit,
        first_bad=results[10].commit,
        last_good_utc=results[9].started_utc,
        first_bad_utc=results[10].started_utc,
        size=Interval(3.3, 3.0, 3.6),
        before=6.7,
        p=1e-9,
    )
    worse = Compared(
        metric=first,
        board_unit="native",
        judgement="regression",
        baseline=Interval(6.7, 6.6, 6.8),
        current=10.0,
        change=Interval(3.3, 3.2, float("inf")),
        relative=0.5,
        q=0.001,
        noise=0.05,
        detectable=0.12,
        steps=(step,),
        relative_limit=0.03,
        reason="far beyond the noise",
    )
    same = [
        Compared(metric=metric, board_unit="native", judgement="same", current=1.0, reason="equal")
        for metric in now
        if metric != first
    ]
    comparison = HistoryComparison(
        description="the first 10",
        limits=HistoryLimits(),
        commit="",
        units=("native",),
        numbers=(worse, *same),
        notes=("one result was left out",),
    )
    run = EvaluatedRun("a", subject, Verdict((unmet("H01"),)), FINISHED)
    return replace(run, history=history, comparison=comparison)

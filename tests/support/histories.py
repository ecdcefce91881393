"""Histories made of numbers: results with a session and a commit each, and metrics of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness import (
    Check,
    Decision,
    DecisionKind,
    History,
    HistoryComparison,
    Measured,
    Metric,
    Provenance,
    Sample,
    Series,
    Subject,
    Trace,
    evaluate,
)

Floats = npt.NDArray[np.float64]


def provenance(number: int, session: str, commit: str, unit: str = "one") -> Provenance:
    return Provenance(
        id=f"{unit}-{number}",
        started_utc=f"2026-01-{1 + number // 24 % 28:02}T{number % 24:02}:00:00+00:00",
        board="native",
        unit=unit,
        model="net.pte",
        model_sha256="5a",
        method="forward",
        build_id="b1",
        tool_version="0.1.0",
        commit=commit,
        session=session,
    )


def operator(number: int = 0, statistic: str = "p50", name: str = "op") -> Metric:
    return Metric("operator", f"{name}{number}", statistic, "ns", "Execute", 0, number)


def size(name: str = "log_bytes") -> Metric:
    return Metric("result", name, "", "bytes")


def history_checks(comparison: HistoryComparison) -> list[Check]:
    """The checks of a comparison, as a verdict has them."""
    checks = evaluate(Subject(Trace.unset(0)), comparison=comparison).checks
    return [check for check in checks if check.code.startswith("H")]


def at(night: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night)).isoformat()


def results(count: int) -> list[Provenance]:
    """A result a night, from night 0."""
    return [
        replace(provenance(night, f"s{night}", f"c{night}"), started_utc=at(night))
        for night in range(count)
    ]


def decision(kind: DecisionKind, since: int, covers: int, until: int | None = None) -> Decision:
    """A decision about ``operator()``, whose level began in night ``since``."""
    return Decision(
        kind=kind,
        unit="one",
        metric=operator(statistic=""),
        since_utc=at(since),
        at_utc=at(covers),
        reason="r",
        who="w",
        made_utc=at(covers),
        until=None if until is None else str(date(2026, 1, 1) + timedelta(days=until)),
    )


class HistoryBuilder:
    """Earlier results, and those that are judged, each with its numbers.

    Examples:
        >>> builder = HistoryBuilder()
        >>> builder.earlier("night 1", "a1", {operator(): 1000.0})
        >>> builder.now("night 2", "b2", {operator(): 1030.0})
    """

    def __init__(self) -> None:
        self._earlier: list[tuple[Provenance, Mapping[Metric, float]]] = []
        self._baseline: list[int] = []
        self.judged: list[Measured] = []
        self._count = 0

    def earlier(
        self,
        session: str,
        commit: str,
        values: Mapping[Metric, float],
        *,
        unit: str = "one",
        baseline: bool = True,
    ) -> None:
        if baseline:
            self._baseline.append(len(self._earlier))
        self._earlier.append((self._next(session, commit, unit), values))

    def now(
        self, session: str, commit: str, values: Mapping[Metric, float], *, unit: str = "one"
    ) -> None:
        samples = {metric: Sample(value, 20) for metric, value in values.items()}
        self.judged.append(Measured(self._next(session, commit, unit), samples))

    def history(self) -> History:
        metrics = dict.fromkeys(metric for _, values in self._earlier for metric in values)
        series = [
            Series(
                metric,
                tuple(i for i, (_, values) in enumerate(self._earlier) if metric in values),
                tuple(Sample(v[metric], 20) for _, v in self._earlier if metric in v),
            )
            for metric in metrics
        ]
        results = tuple(result for result, _ in self._earlier)
        return History(results, tuple(series), tuple(self._baseline), "the baseline")

    def _next(self, session: str, commit: str, unit: str) -> Provenance:
        self._count += 1
        return provenance(self._count, session, commit, unit)


def night(before: Floats, after: Floats, metrics: Sequence[Metric] | None = None) -> HistoryBuilder:
    """Pair sessions: ``before`` and ``after`` have shape (sessions, metrics)."""
    builder = HistoryBuilder()
    metrics = metrics or [operator(number) for number in range(before.shape[1])]
    for session, (old, new) in enumerate(zip(before, after, strict=True)):
        builder.earlier(f"s{session}", "old", dict(zip(metrics, old.tolist(), strict=True)))
        builder.now(f"s{session}", "new", dict(zip(metrics, new.tolist(), strict=True)))
    return builder


def noisy(
    seed: int, sessions: int, metrics: int, *, own: float = 0.01, common: float = 0.03
) -> tuple[Floats, Floats]:
    """Two sides of paired sessions with nothing changed: noise of the session, and of each run."""
    chance = np.random.default_rng(seed)
    levels = np.geomspace(2e3, 4e5, metrics)
    shared = 1 + common * chance.standard_normal((sessions, 1))
    sides = [
        levels * shared * (1 + own * chance.standard_t(4, (sessions, metrics))) for _ in range(2)
    ]
    return sides[0], sides[1]

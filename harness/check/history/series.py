"""The steps of a metric through history, each with the commits between which it happened."""

from __future__ import annotations

from collections.abc import Sequence

from harness.check.history.comparison import Step
from harness.check.history.points import Points
from harness.check.history.samples import Provenance
from harness.check.history.settings import HistoryLimits
from harness.check.history.steps import find_steps


def steps_in(
    points: Points,
    results: Sequence[Provenance],
    limit: tuple[float, float],
    limits: HistoryLimits,
) -> tuple[Step, ...]:
    """Return the steps beyond both limits among sessions in the order of their commits.

    A commit has its place where it was first seen: a baseline that is run again every night does
    not make steps up and down. What changes within one commit is not its doing, and no step.

    Args:
        points: What the metric was; ``points.results`` are indices into ``results``.
        results: Where the numbers come from.
        limit: Relative limit, and absolute limit in the metric's unit.
        limits: What else counts as a change.
    """
    cells = points.cells()
    relative, absolute = limit
    found = []
    for step in find_steps(cells.values, limits.confidence):
        size = abs(step.size.value)
        if step.p > limits.fdr or size <= relative * abs(step.before) or size <= absolute:
            continue
        last, first = (results[cells.results[place]] for place in (step.at - 1, step.at))
        if cells.origins[step.at - 1] == cells.origins[step.at]:
            continue
        found.append(
            Step(
                last_good=last.commit,
                first_bad=first.commit,
                last_good_utc=last.started_utc,
                first_bad_utc=first.started_utc,
                size=step.size,
                before=step.before,
                p=step.p,
            )
        )
    return tuple(found)

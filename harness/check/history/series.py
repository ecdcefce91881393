"""The steps of a metric through history, each with the commits between which it happened."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
    not make steps up and down. What changes within one commit is not its doing, and no step. Two
    commits that ran in the same sessions are compared there, and not by where the sessions drift.

    Args:
        points: What the metric was; ``points.results`` are indices into ``results``.
        results: Where the numbers come from.
        limit: Relative limit, and absolute limit in the metric's unit.
        limits: What else counts as a change.
    """
    cells = points.cells()
    boundaries = np.flatnonzero(np.diff(cells.origins)) + 1
    if all(_side_by_side(cells, at) for at in boundaries.tolist()):
        return ()  # nowhere could be a step
    relative, absolute = limit
    found = []
    for step in find_steps(cells.values, limits.confidence):
        size = abs(step.size.value)
        if step.p > limits.fdr or size <= relative * abs(step.before) or size <= absolute:
            continue
        last, first = (results[cells.results[place]] for place in (step.at - 1, step.at))
        if _side_by_side(cells, step.at):
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


def _side_by_side(cells: Points, at: int) -> bool:
    """Whether the points in front of ``at`` and there are of one commit, or share sessions."""
    old, new = (cells.where(cells.origins == cells.origins[place]) for place in (at - 1, at))
    return len(np.intersect1d(old.sessions, new.sessions)) > 0

"""Evidence of noisy numbers: do good and bad differ, and on which side is a commit.

The good and the bad commit are run again and again between the others, because a machine drifts.
A commit is compared with the references nearest in time. How many of them is chosen by how well
they predict each other: few where the machine drifts, all where its noise is independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log1p
from typing import Any, Final

import numpy as np

from harness.bisect.state import BisectRequest, CommitRun
from harness.check.history.estimate import Estimate, paired
from harness.check.history.noise import MEDIAN_VARIANCE
from harness.check.history.samples import Floats, Ints, Points

P_DIFFERENT: Final = 0.002
"""Largest p-value at which good and bad differ. They are compared after every pair of runs, so one
comparison must err more rarely than the whole bisection."""

LEAST_PAIRS: Final = 3
"""Runs of good and bad from which their noise can be estimated."""

DOUBT: Final = 0.02
"""Share of runs that are taken to say nothing, whatever the noise: another program was in the way.
No single run decides about a commit."""

CERTAIN: Final = 25.0
"""Log-odds of a commit that an exact value decides about."""

_FREEDOM: Final = 4.0
"""Degrees of freedom of Student's distribution that runs are expected to have: spikes happen."""

_WINDOWS: Final = (2, 4, 8, 16, 1_000_000)
"""Numbers of references that a run may be compared with."""

_SHARE: Final = 0.8
"""The scale of the noise is that of the residual larger than this share of them: noise that flips
between two levels has a median deviation of 0, and its largest deviations are outliers."""

_DEVIATIONS: Final = 1.2816
"""Standard deviations of a normal distribution at that residual."""

_CONFIDENCE: Final = 1.96
"""Standard errors of a confidence interval of 95 %."""

_SMALLEST: Final = 1e-6
"""Smallest noise, as a share: no clock is better."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the good and the bad commit.

    Attributes:
        good: Value of the good commit.
        bad: Value of the bad commit.
        error: Standard error of their difference, as a share of ``good``; 0 for exact values.
        detectable: The smallest difference that would be found, likewise; infinite with too few
            runs.
        found: Whether they differ.
    """

    good: float
    bad: float
    error: float
    detectable: float
    found: bool

    @property
    def share(self) -> float | None:
        """The difference as a share of the good value; None if that is 0."""
        return (self.bad - self.good) / abs(self.good) if self.good else None


@dataclass(frozen=True, slots=True)
class Level:
    """The value of a commit.

    Attributes:
        value: Median of its runs.
        change: Difference from the good commit, as a share; drift is taken out.
        bound: Half the width of the 95 % confidence interval of ``change``.
    """

    value: float
    change: float
    bound: float


class NumberEvidence:
    """What the runs of all commits say about which side each commit is on.

    Attributes:
        exact: Every run of a commit has the same value, so that one is enough.
    """

    def __init__(self, request: BisectRequest, runs: Sequence[CommitRun]) -> None:
        """Take the runs that measured something, in their order."""
        self._request = request
        measured = [run for run in runs if run.outcome == "measured"]
        self._commits = np.array([run.commit for run in measured])
        self._raw: Floats = np.array([run.value for run in measured], np.float64)
        self._resolution = max((run.resolution for run in measured), default=0.0)
        self._positive = bool((self._raw > 0).all())
        good, bad = self._raw[self._rows(request.good.sha)], self._raw[self._rows(request.bad.sha)]
        self._pair = good, bad
        repeatable = bool(measured) and all(run.repeatable for run in measured)
        alike = all(len(side) and (side == side[0]).all() for side in (good, bad))
        self.exact = repeatable and alike and len(good) > 1

    @cached_property
    def difference(self) -> Difference:
        """How the good and the bad commit differ."""
        good, bad = self._pair
        if not len(good) or not len(bad):
            return Difference(0.0, 0.0, 0.0, np.inf, False)
        middle = float(np.median(good)), float(np.median(bad))
        if self.exact:
            return Difference(*middle, 0.0, 0.0, middle[0] != middle[1])
        pairs = min(len(good), len(bad))
        found = self._estimate(good[:pairs], bad[:pairs]) if pairs >= LEAST_PAIRS else None
        if found is None:
            return Difference(*middle, 0.0, np.inf, False)
        detectable = found.detectable(P_DIFFERENT, 0.0, self._resolution / self._scale)
        differ = abs(found.change) >= detectable
        levels = (self._from_share(found.baseline - 1), self._from_share(found.current - 1))
        return Difference(*levels, found.error, detectable, differ)

    def odds(self, commit: str) -> float:
        """Return the log-odds that a commit is on the bad side; 0 if nothing is known."""
        rows = self._rows(commit)
        if not len(rows):
            return 0.0
        threshold, reach = self._threshold
        if self.exact:
            over = float(np.sign(self._gap)) * (self._values[rows[-1]] - threshold)
            return CERTAIN if over > 0 else -CERTAIN
        found = float(np.sign(self._gap)) * (self._centered(rows) - threshold)
        # A run beyond either level says as much as one at it, and not less.
        found = np.clip(found, -reach, reach) / self._spread
        reach /= self._spread
        likelihoods = [_student(found - side) for side in (reach, -reach)]
        bad = DOUBT + (1 - 2 * DOUBT) * likelihoods[0] / (likelihoods[0] + likelihoods[1])
        return float(np.log(bad / (1 - bad)).sum())

    def level(self, commit: str) -> Level | None:
        """Return the value of a commit; None if no run measured it."""
        rows = self._rows(commit)
        if not len(rows):
            return None
        value = float(np.median(self._raw[rows]))
        if self.exact:
            good = self._rows(self._request.good.sha)[0]
            return Level(
                value, self._share(float(self._values[rows[-1]] - self._values[good])), 0.0
            )
        if not self.difference.found and not self._searched:
            return Level(value, 0.0, np.inf)
        good = self._centered(self._rows(self._request.good.sha))
        change = self._share(float(np.median(self._centered(rows)) - np.median(good)))
        variance = (MEDIAN_VARIANCE if len(rows) > 2 else 1.0) / len(rows)
        bound = _CONFIDENCE * self._spread * float(np.sqrt(variance))
        return Level(value, change, bound * (1 + change if self._positive else 1.0))

    @property
    def threshold(self) -> float:
        """The change from which a commit is bad, as a share of the good value."""
        return self._share(self._threshold[0])

    @property
    def noise(self) -> float:
        """Standard deviation of a run around its prediction, as a share; 0 for exact values."""
        return 0.0 if self.exact else self._spread

    def _rows(self, commit: str) -> Ints:
        return np.flatnonzero(self._commits == commit)

    def _estimate(self, good: Floats, bad: Floats) -> Estimate | None:
        """Compare good and bad in pairs, as shares of the good value: they are around 1."""
        sessions = np.arange(len(good))
        sides = [
            Points(1 + self._to_share(side), sessions, np.zeros_like(sessions), sessions)
            for side in (good, bad)
        ]
        rounding = self._resolution / self._scale / float(np.sqrt(12))
        return paired(sides[0], sides[1], LEAST_PAIRS, rounding)

    @cached_property
    def _scale(self) -> float:
        """The good value, without its sign; 1 if it is 0."""
        good = self._pair[0]
        return abs(float(np.median(good))) or 1.0 if len(good) else 1.0

    def _to_share(self, values: Floats) -> Floats:
        """Return values on the scale of the comparison, 0 for the median of the good ones.

        Noise is a share of the value, so they are logarithms, unless a value is 0.
        """
        if self._positive:
            return np.asarray(np.log(values / self._scale))
        return (values - float(np.median(self._pair[0]))) / self._scale

    def _from_share(self, place: float) -> float:
        """Return the value of a place on that scale."""
        if self._positive:
            return self._scale * exp(place)
        return float(np.median(self._pair[0])) + self._scale * place

    @property
    def _searched(self) -> bool:
        pair = {self._request.good.sha, self._request.bad.sha}
        return any(commit not in pair for commit in self._commits.tolist())

    @cached_property
    def _values(self) -> Floats:
        return self._to_share(self._raw)

    def _share(self, difference: float) -> float:
        """Return a difference on that scale as a share of the good value."""
        return exp(difference) - 1 if self._positive else difference

    @cached_property
    def _gap(self) -> float:
        found = self.difference
        return float(np.diff(self._to_share(np.array([found.good, found.bad])))[0])

    @cached_property
    def _threshold(self) -> tuple[float, float]:
        """The threshold, from the good level, and the distance of the nearer level from it."""
        if self._request.change is None:
            return self._gap / 2, abs(self._gap) / 2
        size = float(np.sign(self._gap)) * self._request.change
        place = log1p(size) if self._positive else size
        return place, min(abs(place), abs(self._gap - place))

    @cached_property
    def _references(self) -> tuple[Ints, Floats]:
        """The rows of good and bad, in order, and how far each is from its level."""
        good, bad = self._rows(self._request.good.sha), self._rows(self._request.bad.sha)
        rows = np.concatenate([good, bad])
        drift = np.concatenate([self._values[good], self._values[bad] - self._gap])
        order = np.argsort(rows)
        return rows[order], drift[order]

    def _nearest(self, rows: Ints) -> Ints:
        """Return the places of all references for each run, nearest in time first.

        A reference is not near itself: it comes last. Shape (rows, references).
        """
        distance = np.abs(rows[:, None] - self._references[0]).astype(np.float64)
        distance[distance == 0] = np.inf
        return np.argsort(distance, axis=1, kind="stable")

    @cached_property
    def _window(self) -> tuple[int, float]:
        """The number of references that predict each other best, and the noise that is left."""
        rows, drift = self._references
        nearest = self._nearest(rows)[:, :-1]
        found = []
        for window in _WINDOWS:
            left = np.abs(drift - np.median(drift[nearest[:, :window]], axis=1))
            found.append((float(np.quantile(left, _SHARE)) / _DEVIATIONS, window))
            if window >= len(rows):
                break
        spread, window = min(found)
        return window, spread

    @cached_property
    def _spread(self) -> float:
        of_clock = self._resolution / float(np.sqrt(12)) / self._scale
        return max(self._window[1], of_clock, _SMALLEST)

    def _centered(self, rows: Ints) -> Floats:
        """Return runs without the drift, as distances from the good level."""
        _, drift = self._references
        nearest = self._nearest(rows)[:, : self._window[0]]
        return np.asarray(self._values[rows] - np.median(drift[nearest], axis=1))


def _student(deviations: Any) -> Any:
    """Return the density of Student's distribution, without its constant factor."""
    return (1 + deviations**2 / _FREEDOM) ** (-(_FREEDOM + 1) / 2)

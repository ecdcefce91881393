"""Decides from the runs so far what to run next, and when the answer is known.

Every commit has a probability of being the first bad one. A run of a commit changes the
probabilities of all commits, by as much as its noise allows (Horstein 1963, Waeber 2013). So a
wrong reading is no lasting mistake: commits that contradict it have it measured again. The next
commit is the one that the probability of being bad is nearest to one half for.

Evidence of noisy numbers: the good and the bad commit are run again and again between the others,
because a machine drifts. A commit is compared with the references nearest in time. How many of
them is chosen by how well they predict each other: few where the machine drifts, all where its
noise is independent. Evidence of verdicts: good passes and bad fails, perhaps not in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, exp, inf, log, log1p
from typing import Any, Final, Literal

import numpy as np

from harness.check.history.estimate import Estimate, paired
from harness.check.history.noise import MEDIAN_VARIANCE
from harness.check.history.samples import Floats, Ints, Points
from harness.extensions.bisect.state import BisectRequest, BisectState, Commit, CommitRun

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


Level = tuple[float, float, float]
"""Median of a commit's runs; difference from the good commit, as a share, without drift; half the
width of the 95 % confidence interval of that."""


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
            return value, self._share(float(self._values[rows[-1]] - self._values[good])), 0.0
        if not self.difference.found and not self._searched:
            return value, 0.0, np.inf
        good = self._centered(self._rows(self._request.good.sha))
        change = self._share(float(np.median(self._centered(rows)) - np.median(good)))
        variance = (MEDIAN_VARIANCE if len(rows) > 2 else 1.0) / len(rows)
        bound = _CONFIDENCE * self._spread * float(np.sqrt(variance))
        return value, change, bound * (1 + change if self._positive else 1.0)

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


_P_DIFFERENT = 0.01
"""Largest p-value at which good and bad differ: five passes and five failures have 0.8 %."""


class VerdictEvidence:
    """What passed and failed runs say about which side each commit is on.

    Attributes:
        exact: Every run of a commit has the same verdict, so that one is enough.
        noise: Share of runs of good and bad with the rarer verdict of their commit.
        threshold: Share of failures from which a commit is bad.
    """

    def __init__(self, request: BisectRequest, runs: Sequence[CommitRun]) -> None:
        """Take the runs that passed or failed, in their order."""
        self._request = request
        self._runs = [run for run in runs if run.outcome == "measured"]
        good, bad = self._counts(request.good.sha), self._counts(request.bad.sha)
        alike = all(failed in (0, count) for failed, count in (good, bad))
        enough = good[1] > 1 and bad[1] > 0
        self.exact = enough and alike and all(run.repeatable for run in self._runs)
        rare = sum(min(failed, count - failed) for failed, count in (good, bad))
        self.noise = rare / max(1, good[1] + bad[1])
        self.threshold = 0.5

    @cached_property
    def difference(self) -> Difference:
        """How the shares of failures of the good and the bad commit differ."""
        (a, n), (b, m) = self._counts(self._request.good.sha), self._counts(self._request.bad.sha)
        good, bad = a / max(1, n), b / max(1, m)
        if self.exact:
            return Difference(good, bad, 0.0, 0.0, good != bad)
        # Fisher's exact test: so many failures of bad, or more, if both fail alike.
        more = sum(comb(m, k) * comb(n, a + b - k) for k in range(b, min(m, a + b) + 1))
        p = more / comb(n + m, a + b)
        return Difference(good, bad, inf, 1.0, p <= _P_DIFFERENT)

    def odds(self, commit: str) -> float:
        """Return the log-odds that a commit is on the bad side; 0 if nothing is known."""
        failed, count = self._counts(commit)
        if not count:
            return 0.0
        if self.exact:
            return CERTAIN if (failed / count > self.threshold) == self._fails_later else -CERTAIN
        fails = [self._probability(side.sha) for side in (self._request.good, self._request.bad)]
        passed = count - failed
        return failed * log(fails[1] / fails[0]) + passed * log((1 - fails[1]) / (1 - fails[0]))

    def level(self, commit: str) -> Level | None:
        """Return the share of failures of a commit; None if it never ran."""
        failed, count = self._counts(commit)
        if not count:
            return None
        share = failed / count
        change = share - self.difference.good
        return share, change, 0.0 if self.exact else min(1.0, 3 / count)

    @property
    def _fails_later(self) -> bool:
        return self.difference.bad > self.difference.good

    def _probability(self, commit: str) -> float:
        """Return the probability of a failure, not closer to 0 or 1 than runs in doubt allow."""
        failed, count = self._counts(commit)
        return min(max((failed + 0.5) / (count + 1), DOUBT), 1 - DOUBT)

    def _counts(self, commit: str) -> tuple[int, int]:
        """Return the failures and the runs of a commit."""
        found = [run.value > 0 for run in self._runs if run.commit == commit]
        return sum(found), len(found)


VERDICT: Final = "verdict"
"""The metric of runs that pass or fail."""

CONFIDENCE: Final = 0.99
"""Probability from which a commit counts as found."""

_SETTLED: Final = 0.0005
"""Probability of being bad, or good, from which another run of a commit is of no use."""

_PROBE: Final = 2
"""Runs of good after which it is known whether all runs are the same."""

Role = Literal["good", "bad", "suspect"]


@dataclass(frozen=True, slots=True)
class NextRun:
    """The commit to run next, and why."""

    commit: Commit
    role: Role


@dataclass(frozen=True, slots=True)
class Alike:
    """Good and bad do not differ, or less than was asked for.

    Attributes:
        reason: Why the search cannot begin.
    """

    reason: Literal["no difference", "smaller than the change"]


@dataclass(frozen=True, slots=True)
class Unmeasurable:
    """The good or the bad commit cannot be measured, so nothing can be compared with it."""

    commit: Commit
    role: Role
    infrastructure: bool


@dataclass(frozen=True, slots=True)
class Suspects:
    """The search has ended.

    Attributes:
        commits: Commits one of which is the first bad one, oldest first.
        probability: Probability that it is one of them.
    """

    commits: tuple[Commit, ...]
    probability: float


Decision = NextRun | Alike | Unmeasurable | Suspects


class BisectSearch:
    """What follows from the runs of a bisection so far.

    Attributes:
        evidence: What the runs say about each commit.
        skipped: Hashes of the commits that cannot be measured.
    """

    def __init__(self, state: BisectState) -> None:
        """Evaluate the runs."""
        self.state, self.request = state, state.request
        kind = VerdictEvidence if self.request.metric == VERDICT else NumberEvidence
        self.evidence: NumberEvidence | VerdictEvidence = kind(self.request, state.runs)
        self._counts = Counter(run.commit for run in state.runs if run.outcome == "measured")
        self.skipped = frozenset(filter(self._is_skipped, {run.commit for run in state.runs}))
        self._suspects = self.request.commits[1:]
        self._testable = [
            place
            for place, commit in enumerate(self._suspects)
            if commit.sha not in self.skipped or commit == self.request.bad
        ]

    def decide(self) -> Decision:
        """Return what to run next, or the answer."""
        for commit, role in self.sides:
            if self._is_given_up(commit.sha):
                return Unmeasurable(commit, role, self._failures(commit.sha) > self.request.retries)
        if not self._began:
            comparison = self._compare_sides()
            if comparison is not None:
                return comparison
        first, last, probability = self._likely()
        if probability >= CONFIDENCE and first == last:
            return self.suspects()
        suspect = self._next_suspect()
        if suspect is None:
            return self.suspects()
        if not self.evidence.exact and self._last_is_suspect:
            return self._reference()
        return NextRun(suspect, "suspect")

    def suspects(self) -> Suspects:
        """Return the commits that are most probably the first bad one, in one piece.

        They are more than one where commits between them cannot be measured, or told from good
        and bad.
        """
        first, last, probability = self._likely()
        begin = self._testable[first - 1] + 1 if first else 0
        return Suspects(self._suspects[begin : self._testable[last] + 1], probability)

    def badness(self, commit: Commit) -> float | None:
        """Return the probability that a commit is bad; None if it was never measured."""
        if commit.sha in (self.request.good.sha, self.request.bad.sha):
            return float(commit == self.request.bad)
        if not self._counts[commit.sha]:
            return None
        place = self._testable.index(self._suspects.index(commit))
        return float(np.cumsum(self._probabilities())[place])

    @property
    def is_compared(self) -> bool:
        """Whether good and bad are known to differ, so that other commits can be compared."""
        return self._began or self.evidence.difference.found

    def runs_of(self, commit: Commit) -> int:
        """Return how many runs of a commit measured a value."""
        return self._counts[commit.sha]

    @property
    def sides(self) -> tuple[tuple[Commit, Role], tuple[Commit, Role]]:
        """The good and the bad commit."""
        return (self.request.good, "good"), (self.request.bad, "bad")

    @property
    def _began(self) -> bool:
        """Whether the search among the suspects has begun."""
        sides = {self.request.good.sha, self.request.bad.sha}
        return any(run.commit not in sides for run in self.state.runs)

    @property
    def _last_is_suspect(self) -> bool:
        """Whether the last value is of a suspect, and so has no reference after it yet."""
        measured = [run.commit for run in self.state.runs if run.outcome == "measured"]
        return measured[-1] not in (self.request.good.sha, self.request.bad.sha)

    def _compare_sides(self) -> NextRun | Alike | None:
        """Return the next run of good or bad until they differ; None if they do."""
        good, bad = (self._counts[commit.sha] for commit, _ in self.sides)
        difference = self.evidence.difference
        if good < _PROBE or not bad:
            return self._reference()
        if not difference.found:
            if self.evidence.exact or min(good, bad) >= self.request.max_runs:
                return Alike("no difference")
            return self._reference()
        change, share = self.request.change, difference.share
        if change is not None and share is not None and abs(share) <= change:
            return Alike("smaller than the change")
        return None

    def _reference(self) -> NextRun:
        """Return a run of good or bad, whichever has fewer."""
        counts = [self._counts[commit.sha] for commit, _ in self.sides]
        return NextRun(*self.sides[int(counts[1] < counts[0])])

    def _is_skipped(self, sha: str) -> bool:
        return not self._counts[sha] and self._is_given_up(sha)

    def _is_given_up(self, sha: str) -> bool:
        """Whether a commit is not run again: it was skipped, or the infrastructure fails."""
        cut = any(run.commit == sha and run.outcome == "skipped" for run in self.state.runs)
        return cut or self._failures(sha) > self.request.retries

    def _failures(self, sha: str) -> int:
        """Return the failures of the infrastructure since the last value of a commit."""
        count = 0
        for run in self.state.runs:
            if run.commit == sha:
                count = count + 1 if run.outcome == "infrastructure" else 0
        return count

    def _is_exhausted(self, sha: str) -> bool:
        """Whether no more runs of a commit are allowed."""
        most = 1 if self.evidence.exact else self.request.max_runs
        return self._counts[sha] >= most or self._is_given_up(sha)

    def _likely(self) -> tuple[int, int, float]:
        """Return the first and the last of the most probable testable commits, as places in
        ``_testable``, and the probability that the change came with one of them.
        """
        chances = [0.0, *self._probabilities().tolist(), 0.0]
        first = last = max(range(len(chances)), key=chances.__getitem__)
        total = chances[first]
        while total < CONFIDENCE and (first > 1 or last < len(chances) - 2):
            before, after = chances[first - 1], chances[last + 1]
            if last == len(chances) - 2 or (first > 1 and before > after):
                first, total = first - 1, total + before
            else:
                last, total = last + 1, total + after
        return first - 1, last - 1, min(total, 1.0)

    def _probabilities(self) -> np.ndarray:
        """Return the probability of each testable commit that the change came with it.

        The probability of a skipped commit counts to the next testable one.
        """
        sizes = np.diff([-1, *self._testable])
        shas = [self._suspects[place].sha for place in self._testable[:-1]]
        odds = [self.evidence.odds(sha) if self._counts[sha] else 0.0 for sha in shas]
        # If the change came with one commit, it and all later ones are bad.
        later = np.cumsum([0.0, *reversed(odds)])[::-1]
        weights = np.log(sizes) + later
        chances = np.exp(weights - weights.max())
        return np.asarray(chances / chances.sum())

    def _next_suspect(self) -> Commit | None:
        """Return the commit whose side is least certain; None if no run would help."""
        bad = np.cumsum(self._probabilities())[:-1]
        order: list[int] = np.argsort(np.abs(bad - 0.5), kind="stable").tolist()
        for place in order:
            commit = self._suspects[self._testable[place]]
            if not _SETTLED < bad[place] < 1 - _SETTLED:
                return None
            if not self._is_exhausted(commit.sha):
                return commit
        return None

"""Decides from the runs so far what to run next, and when the answer is known.

Every commit has a probability of being the first bad one. A run of a commit changes the
probabilities of all commits, by as much as its noise allows (Horstein 1963, Waeber 2013). So a
wrong reading is no lasting mistake: commits that contradict it have it measured again. The next
commit is the one that the probability of being bad is nearest to one half for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np

from harness.bisect.commits import Commit
from harness.bisect.levels import Difference, Level, NumberEvidence
from harness.bisect.outcomes import VerdictEvidence
from harness.bisect.state import BisectState

VERDICT: Final = "verdict"
"""The metric of runs that pass or fail."""

CONFIDENCE: Final = 0.99
"""Probability from which a commit counts as found."""

_SETTLED: Final = 0.0005
"""Probability of being bad, or good, from which another run of a commit is of no use."""

_PROBE: Final = 2
"""Runs of good after which it is known whether all runs are the same."""

Role = Literal["good", "bad", "suspect"]


class Evidence(Protocol):
    """What the runs say about the side of each commit."""

    exact: bool

    @property
    def difference(self) -> Difference:
        """How good and bad differ."""
        ...

    @property
    def noise(self) -> float:
        """Noise of one run, as a share."""
        ...

    @property
    def threshold(self) -> float:
        """The change from which a commit is bad, as a share."""
        ...

    def odds(self, commit: str) -> float:
        """Return the log-odds that a commit is on the bad side."""
        ...

    def level(self, commit: str) -> Level | None:
        """Return the value of a commit; None if no run measured it."""
        ...


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
        self.evidence: Evidence = kind(self.request, state.runs)
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

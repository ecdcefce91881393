"""Evidence of verdicts: good passes and bad fails, perhaps not in every run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import comb, inf, log

from harness.bisect.levels import CERTAIN, DOUBT, Difference, Level
from harness.bisect.state import BisectRequest, CommitRun

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
        return Level(share, change, 0.0 if self.exact else min(1.0, 3 / count))

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

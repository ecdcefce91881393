"""Further runs of a measurement: those asked for, and those that look again at a suspect change.

A board can be asked again. A further run can show that a suspect change is gone, so no model of the
noise has to know how likely its tail is. It cannot show that the change holds: noise lasts, too.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from harness.check.history.compare import DEFAULT_LIMITS
from harness.check.history.comparison import HistoryComparison
from harness.check.history.measure import numbers_of
from harness.check.history.samples import Measured, with_results
from harness.history.entries import provenance_of
from harness.records.run_settings import parse_share
from harness.runs.directory import save_history, save_verdict
from harness.runs.evaluation import with_verdict
from harness.runs.request import RunRequest
from harness.runs.source import EvaluatedRun, verdict_record

TIMES_AS_LONG: Final = 5.0
"""Longest time for repeats that were not asked for, in times of the run's own."""


def suspects(comparison: HistoryComparison | None) -> set[Hashable]:
    """Return what measuring again may clear: of what exact clocks say it does not."""
    if comparison is None:
        return set()
    numbers = {
        (number.metric, number.board_unit)
        for number in comparison.numbers
        if number.judgement == "suspect"
        or (number.judgement == "regression" and number.method in ("gross", "between sessions"))
    }
    common = {
        (one.clock, one.board_unit) for one in comparison.common if one.judgement == "suspect"
    }
    return {*numbers, *common}


class Repeats:
    """The runs of one measurement: the first, and those after it, which are judged together.

    Attributes:
        first: The first run, with the verdict of all.
        others: The runs after it.
    """

    def __init__(self, request: RunRequest, first: EvaluatedRun, own_s: float) -> None:
        """Begin after the first run, which took so many seconds."""
        self._request, self._own_s, self._began = request, own_s, time.monotonic()
        self.first, self.others = first, list[EvaluatedRun]()
        self._seen_again: set[Hashable] = set()

    @property
    def asked(self) -> int:
        """Number of further runs that were asked for."""
        return self._request.repeat - 1

    def reason(self) -> str:
        """Return why another run is needed; "" if none is."""
        request, made = self._request, len(self.others)
        if made < self.asked:
            return "as asked for"
        limit_s = request.repeat_time
        if limit_s is None:
            limit_s = TIMES_AS_LONG * self._own_s
        if time.monotonic() - self._began + self._own_s > limit_s:
            return ""
        comparison = self.first.comparison
        if request.detect is not None and not _notices(comparison, request.detect):
            return f"to notice {request.detect}"
        if made - self.asked < request.look_again and suspects(comparison) - self._seen_again:
            return "a change is suspect"
        return ""

    def add(self, run: EvaluatedRun) -> None:
        """Add another run, and judge the first one together with all others."""
        self.others.append(run)
        # What one more run has shown again, further ones of the same session will show as well.
        before = suspects(self.first.comparison)
        history = self.first.history
        if history is not None:
            history = with_results(history, [self._measured(run)])
        self.first = with_verdict(replace(self.first, repeats=tuple(self.others)), history=history)
        if len(self.others) > self.asked:
            self._seen_again |= before & suspects(self.first.comparison)

    def recorded(self) -> EvaluatedRun:
        """Save what the verdict rests on, and return the first run.

        The runs that were asked for are results of their own, with the verdict of all; the others
        are evidence for the verdict of the first.
        """
        history, directory = self.first.history, self.first.directory
        made = min(self.asked, len(self.others))
        if history is None or directory is None:
            return replace(self.first, repeats=tuple(self.others), asked_repeats=made)
        save_history(directory, history)
        everything = with_results(history, [self._measured(self.first)])
        asked = []
        for run in self.others[: self.asked]:
            judged = with_verdict(run, history=everything)
            if run.directory is not None:
                save_history(run.directory, everything)
                save_verdict(run.directory, verdict_record(judged))
            asked.append(judged)
        repeats = (*asked, *self.others[self.asked :])
        return replace(self.first, repeats=repeats, asked_repeats=len(asked))

    def _measured(self, run: EvaluatedRun) -> Measured:
        assert run.subject is not None
        assert run.result is not None
        limits = self.first.comparison.limits if self.first.comparison else DEFAULT_LIMITS
        return Measured(provenance_of(run.result, run.subject), numbers_of(run.subject, limits))


def _notices(comparison: HistoryComparison | None, share: str) -> bool:
    """Return whether a comparison would have noticed a change of this size of most operators."""
    seen = comparison.detectable_median if comparison is not None else None
    return seen is not None and seen <= parse_share(share)

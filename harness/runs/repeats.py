"""Further runs of a measurement: those asked for, and those that look again at a suspect change.

A board can be asked again. A further run can show that a suspect change is gone, so no model of the
noise has to know how likely its tail is. It cannot show that the change holds: noise lasts, too.
Where the baseline's model and firmware are at hand, both run in turns: what lasts is in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from harness.check.history.align import named_as
from harness.check.history.compare import DEFAULT_LIMITS
from harness.check.history.comparison import HistoryComparison
from harness.check.history.samples import History, Measured, Pairs, with_results
from harness.errors import NotComparableError
from harness.history.entries import measured_of
from harness.records.run_settings import parse_share
from harness.runs.baseline import BaselineArm
from harness.runs.directory import save_history, save_verdict
from harness.runs.evaluation import with_verdict
from harness.runs.request import RunRequest
from harness.runs.source import EvaluatedRun, verdict_record

TIMES_AS_LONG: Final = 5.0
"""Longest time for repeats that were not asked for, in times of the run's own, or of a pair's."""

_PAIR_ORDERS: Final = (("baseline", "second look"), ("second look", "baseline"))
"""Roles in a pair, in turns: a steady drift of the session cancels out over two."""


def suspects(comparison: HistoryComparison | None) -> set[Hashable]:
    """Return what measuring again may clear."""
    if comparison is None:
        return set()
    numbers = {
        (number.metric, number.board_unit) for number in comparison.numbers if number.may_be_noise
    }
    common = {
        (one.clock, one.board_unit) for one in comparison.common if one.judgement == "suspect"
    }
    return {*numbers, *common}


def unsure(comparison: HistoryComparison | None) -> bool:
    """Return whether pairs with the baseline would say more about a change.

    They tell what lasts for the session from a change of model or firmware, so they may begin with
    less: with what one of all numbers does by chance.
    """
    if comparison is None:
        return False
    return any(one.unsure for one in comparison.numbers) or any(
        one.unsure for one in comparison.common
    )


class Repeats:
    """The runs of one measurement: the first, and those after it, which are judged together.

    Attributes:
        first: The first run, with the verdict of all.
        others: The runs after it.
        asked: Number of further runs that were asked for.
        beside: The baseline arm, if the next run is a pair with it; None otherwise.
        changed: Whether the verdict of the first run is another one than after this run alone.
    """

    def __init__(
        self,
        request: RunRequest,
        first: EvaluatedRun,
        own_s: float,
        find_baseline: Callable[[History], BaselineArm],
    ) -> None:
        """Begin after the first run, which took so many seconds."""
        self._request, self._own_s, self._began = request, own_s, time.monotonic()
        self.first, self.others = first, list[EvaluatedRun]()
        self.asked = request.repeat - 1
        self.beside: BaselineArm | None = None
        self._find_baseline = find_baseline
        self._baseline: BaselineArm | None = None
        self._seen_again: set[Hashable] = set()
        self.changed = False

    @property
    def pair_order(self) -> tuple[str, str]:
        """Roles of the runs of the next pair."""
        return _PAIR_ORDERS[self._pairs % 2]

    @property
    def _pairs(self) -> int:
        history, result = self.first.history, self.first.result
        pairs = history.pairs_of(result.unit) if history is not None and result else None
        return pairs.count if pairs is not None else 0

    def reason(self) -> str:
        """Return why another run, or pair of runs, is needed; "" if none is."""
        request, made = self._request, len(self.others)
        self.beside = None
        if made < self.asked:
            return "as asked for"
        comparison = self.first.comparison
        if request.detect is not None and not notices(comparison, request.detect):
            return f"to notice {request.detect}" if self._has_time(1) else ""
        if not request.look_again or not (unsure(comparison) or suspects(comparison)):
            return ""
        if (beside := self._baseline_arm()).model is not None:
            if not unsure(comparison) or self._pairs >= request.look_again:
                return ""
            if not self._has_time(2):
                self._note_end_of_time(beside)
                return ""
            self.beside = beside
            return f"a change is suspect: in turns with the baseline's {beside.against}"
        again = made - self.asked < request.look_again and suspects(comparison) - self._seen_again
        return "a change is suspect" if again and self._has_time(1) else ""

    def _has_time(self, runs: int) -> bool:
        limit_s = self._request.repeat_time
        if limit_s is None:
            limit_s = TIMES_AS_LONG * self._own_s * runs
        return time.monotonic() - self._began + runs * self._own_s <= limit_s

    def _note_end_of_time(self, beside: BaselineArm) -> None:
        """Say in the verdict that the time was up before the pairs had decided."""
        history, result = self.first.history, self.first.result
        assert history is not None
        assert result is not None
        pairs = history.pairs_of(result.unit) or Pairs(unit=result.unit)
        note = (
            f"the time was up after {pairs.count} of {self._request.look_again} pairs with the "
            f"baseline's {beside.against}; a pair takes about {2 * self._own_s:.3g} s: give more "
            "with --repeat-time"
        )
        note = "; ".join(filter(None, (pairs.note, note)))
        self._judge(history.with_pairs(msgspec.structs.replace(pairs, note=note)))

    def _baseline_arm(self) -> BaselineArm:
        if self._baseline is None:
            history = self.first.history
            self._baseline = BaselineArm() if history is None else self._find_baseline(history)
        return self._baseline

    def add(self, run: EvaluatedRun) -> None:
        """Add another run, and judge the first one together with all others."""
        self.others.append(run)
        # What one more run has shown again, further ones of the same session will show as well.
        before = suspects(self.first.comparison)
        history = self.first.history
        if history is not None:
            history = with_results(history, [self._measured(run)])
            note = self._baseline.note if self._baseline is not None else ""
            if note and run.result is not None:
                history = history.with_pairs(Pairs(unit=run.result.unit, note=note))
        self._judge(history)
        if len(self.others) > self.asked:
            self._seen_again |= before & suspects(self.first.comparison)

    def add_pair(self, runs: Sequence[EvaluatedRun]) -> None:
        """Add a run of the baseline arm and one of what is tested, in their order.

        Raises:
            NotComparableError: The run of the baseline arm says nothing.
        """
        history, result, beside = self.first.history, self.first.result, self._baseline
        assert history is not None
        assert result is not None
        assert beside is not None
        baseline, candidate = sorted(runs, key=_is_second_look)
        self.others += runs
        if wrong := baseline.verdict.failures:
            what = f"{wrong[0].code} {wrong[0].subject}: {wrong[0].reason}"
            raise NotComparableError(f"the baseline's {beside.against}: {what}")
        pairs = history.pairs_of(result.unit) or _no_pairs(result.unit, beside, baseline)
        tested = self._measured(candidate)
        pairs = pairs.followed_by(named_as(self._measured(baseline), tested), tested)
        if pairs.models_only:  # as a look without pairs, which may show that the change is gone
            history = with_results(history, [tested])
        self._judge(history.with_pairs(pairs))

    def _judge(self, history: History | None) -> None:
        self.changed = True
        self.first = with_verdict(replace(self.first, repeats=tuple(self.others)), history=history)

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
        return measured_of(run.result, run.subject, limits)


def notices(comparison: HistoryComparison | None, share: str) -> bool:
    """Return whether a comparison would have noticed a change of this size of most operators."""
    seen = comparison.detectable_median if comparison is not None else None
    return seen is not None and seen <= parse_share(share)


def _no_pairs(unit: str, beside: BaselineArm, baseline: EvaluatedRun) -> Pairs:
    """Return the pairs before the first one, which has this run of the baseline arm."""
    target = baseline.result.target if baseline.result is not None else None
    now, before = target.build_id if target else "", beside.build_id
    other = before not in ("", now)
    note = (
        f"the pairs compare models only, on the firmware of today: its build is {now}, that of the "
        f"baseline {before}; {beside.note}"
    )
    return Pairs(
        unit=unit,
        commit=beside.commit,
        against=beside.against,
        model_sha256=beside.model.digest.hex() if beside.model is not None else "",
        models_only=other,
        note=note if other else "",
    )


def _is_second_look(run: EvaluatedRun) -> bool:
    return run.result is not None and run.result.role == "second look"

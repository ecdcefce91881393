"""Decides suspect changes by runs of what the baseline ran and of what is tested, in turns.

A burst of the host, a throttled chip or a level that lasts is in all runs of a session, so repeats
of the tested model alone cannot tell it from a regression. It meets both arms alike: the pairs do
not show it. With a second look that strict, the first one may be lenient.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import numpy as np
from msgspec.structs import replace

from harness.check.history.comparison import CommonChange, Compared, Interval, PairedChange
from harness.check.history.estimate import Estimate, paired
from harness.check.history.noise import POOLED, ROUNDING, typical
from harness.check.history.samples import Floats, HistoryLimits, Metric, Pairs, Points, median

_TICKS: Final = 2
"""Ticks that the absolute limit of a time has at least."""

_REMEMBERED: Final = 60
"""Sessions that show what code that moves does."""

_AS_FAR: Final = 0.8
"""Share of a change from which an earlier session had it, too."""

Earlier = Mapping[tuple[str, Metric], Floats]
"""Values of the earlier sound sessions in time, by unit and metric."""

_FEWEST: Final = 2
"""Pairs whose differences have a spread."""


def exceeds_limits(number: Compared, change: float) -> bool:
    """Return whether a change of a number exceeds both limits."""
    if number.baseline is None:
        return False
    relative = number.relative_limit * abs(number.baseline.value)
    return abs(change) > relative and abs(change) > number.absolute_limit


def is_between_modes(number: Compared, change: float) -> bool:
    """Return whether a change of a number with two modes is no larger than from one to the other.

    One is learnt from few values, so their gap may be larger by the relative limit.
    """
    if not number.modes:
        return False
    low, high = number.modes
    beyond = number.relative_limit * high.center + max(low.spread, high.spread)
    return abs(change) <= high.center - low.center + beyond


def judge_in_pairs(
    numbers: Sequence[Compared],
    commons: Sequence[CommonChange],
    pairs: Sequence[Pairs],
    limits: HistoryLimits,
    earlier: Earlier,
) -> tuple[list[Compared], list[CommonChange]]:
    """Judge what is unsure by pairs with the baseline, and mark what they leave unsure.

    A change is shown if the median of the pairs exceeds both limits and Student's t, adjusted for
    what the pairs show (Bonferroni), is significant; it is gone if that median does not exceed
    them, on the firmware of the baseline; otherwise it stays as it was. One that is within what an
    operator with two modes does from run to run is not shown: pairs may have been in one each. Nor
    is one of the firmware that an earlier session had: code that moves has other times.

    Args:
        numbers: All numbers, judged by the sessions of the history.
        commons: What the operators of a clock have in common, likewise.
        pairs: The pairs of each unit; units without pairs stay as they are.
        limits: When a change counts.
        earlier: The earlier sessions of the numbers.
    """
    marked = [replace(one, unsure=_is_unsure(one)) for one in numbers]
    commons = [replace(one, unsure=one.p is not None and _is_unsure(one)) for one in commons]
    for of_unit in pairs:
        if of_unit.count:
            marked, commons = _Turns(of_unit, limits, earlier).judged(marked, commons)
    return marked, commons


def _is_unsure(one: Compared | CommonChange) -> bool:
    """Return whether pairs would say more, also of what grew more than unchanged ones often do."""
    if one.judgement == "same":
        return one.unsure
    if isinstance(one, Compared):
        return one.may_be_noise
    return one.judgement in ("suspect", "scattered", "regression")


_Judged = TypeVar("_Judged", Compared, CommonChange)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What pairs show of a metric, as shares of the baseline.

    Attributes:
        own: Median of its change, apart from what all operators of its clock did.
        whole: Median of its change.
        estimate: The change apart from the others with its error; None for one pair.
    """

    own: float
    whole: float
    estimate: Estimate | None

    @classmethod
    def of(cls, ratios: Floats, common: Floats, usual: float) -> _Shown:
        """Return what ratios of candidate to baseline show beside those of all operators."""
        own = ratios / common
        estimate = None
        if len(own) >= _FEWEST:
            estimate = _compared(own).moderated(usual)
        return cls(median(own) - 1, median(ratios) - 1, estimate)


class _Turns:
    """The pairs of one unit."""

    def __init__(self, pairs: Pairs, limits: HistoryLimits, earlier: Earlier) -> None:
        self._earlier = earlier
        self._unit, self._count, self._limits = pairs.unit, pairs.count, limits
        self._models_only, self._against = pairs.models_only, pairs.against
        self._metrics: dict[Metric, _Shown] = {}
        self._factors: dict[tuple[str, str], _Shown] = {}
        self._scatters: dict[tuple[str, str], float] = {}
        groups: dict[tuple[str, str], dict[Metric, Floats]] = defaultdict(dict)
        alone = np.ones(pairs.count)
        for one in pairs.values:
            before, after = np.array(one.baseline), np.array(one.candidate)
            if not (before > 0).all():
                continue
            if one.metric.kind == "operator":
                groups[one.metric.clock, one.metric.statistic][one.metric] = after / before
            else:
                self._metrics[one.metric] = _Shown.of(after / before, alone, 0.0)
        for key, ratios in groups.items():
            common, usual = alone, 0.0
            if len(ratios) >= POOLED:
                common = np.median(np.array([*ratios.values()]), axis=0)
                self._factors[key] = _Shown.of(common, alone, 0.0)
                if pairs.count >= _FEWEST:
                    usual = typical([_compared(one / common).error for one in ratios.values()])
            shown = {metric: _Shown.of(one, common, usual) for metric, one in ratios.items()}
            self._metrics |= shown
            self._scatters[key] = median(np.array([abs(one.own) for one in shown.values()]))

    def judged(
        self, numbers: Sequence[Compared], commons: Sequence[CommonChange]
    ) -> tuple[list[Compared], list[CommonChange]]:
        """Return the numbers and common changes; those of this unit that were unsure are judged."""
        shown = {
            replace(number.metric, statistic="")
            for number in numbers
            if self._is_open(number) and self._shows(number)
        }
        clocks = {one.clock for one in commons if self._is_open(one) and self._shows_common(one)}
        # The statistics of an operator are one question.
        tests = max(1, len(shown) + len(clocks))
        return (
            [self._number(one, tests) if self._is_open(one) else one for one in numbers],
            [self._common(one, tests) if self._is_open(one) else one for one in commons],
        )

    def _is_open(self, one: Compared | CommonChange) -> bool:
        return one.unsure and one.board_unit == self._unit

    def _shows(self, number: Compared) -> bool:
        found = self._metrics.get(number.metric)
        if found is None or number.baseline is None or number.change is None:
            return False
        level, sign = abs(number.baseline.value), 1 if number.change.value > 0 else -1
        return all(
            share * sign > 0 and exceeds_limits(number, share * level)
            for share in (found.own, found.whole)
        )

    def _shows_common(self, common: CommonChange) -> bool:
        key = common.clock, common.statistic
        if self._is_scatter(common):
            return self._scatters.get(key, 0.0) > common.relative_limit
        return key in self._factors and self._factors[key].own > common.relative_limit

    def _is_scatter(self, common: CommonChange) -> bool:
        """Return whether the operators changed by different factors, more than by a common one."""
        return common.judgement != "same" and common.change.value <= common.relative_limit

    def _number(self, number: Compared, tests: int) -> Compared:
        found = self._metrics.get(number.metric)
        if found is None or number.baseline is None:
            return number
        level = abs(number.baseline.value)
        tick = number.absolute_limit / _TICKS / level if level else 0.0
        outcome = self._outcome(found, tests, tick, shows=self._shows(number))
        if outcome.outcome == "shown" and is_between_modes(number, found.own * level):
            outcome = replace(outcome, outcome="undecided")
        if outcome.outcome in ("shown", "undecided") and self._is_of_builds(number, found.own):
            # Further pairs of the same builds show the same.
            outcome = replace(outcome, outcome="undecided")
            return replace(_with_outcome(number, outcome, number.relative), unsure=False)
        number = _with_outcome(number, outcome, number.relative)
        return replace(number, method="paired sessions") if outcome.outcome == "shown" else number

    def _is_of_builds(self, number: Compared, share: float) -> bool:
        """Return whether firmware differs, and an earlier sound session had such a change, too."""
        earlier = self._earlier.get((number.board_unit, number.metric))
        if "firmware" not in self._against or earlier is None or number.baseline is None:
            return False
        level = number.baseline.value
        as_far = (earlier[-_REMEMBERED:] - level) * np.sign(share) > _AS_FAR * abs(share) * level
        return bool(as_far.any())

    def _common(self, common: CommonChange, tests: int) -> CommonChange:
        found = self._factors.get((common.clock, common.statistic))
        if found is None:
            return common
        outcome = self._outcome(found, tests, 0.0, shows=self._shows_common(common))
        if outcome.outcome == "shown" and self._is_scatter(common):
            outcome = replace(outcome, outcome="undecided")
        return _with_outcome(common, outcome, common.change.value)

    def _outcome(self, found: _Shown, tests: int, tick: float, *, shows: bool) -> PairedChange:
        """Return what pairs say of a change; ``tick`` is that of the clock, as a share."""
        change, p = Interval(found.own, None, None), 1.0
        if found.estimate is not None and shows:
            rounding = tick * ROUNDING * float(np.sqrt(2 / self._count))
            error = max(found.estimate.error, rounding)
            estimate = dataclasses.replace(found.estimate, error=error)
            change, p = estimate.interval(self._limits.confidence), estimate.p
        outcome: Literal["shown", "gone", "undecided", "not the model"]
        outcome = "not the model" if self._models_only else "gone"
        if shows:
            outcome = "shown" if p * tests <= self._limits.fdr else "undecided"
        return PairedChange(
            outcome=outcome, pairs=self._count, against=self._against, change=change, p=p
        )


def _with_outcome(one: _Judged, outcome: PairedChange, first: float | None) -> _Judged:
    """Return a change as pairs judge it; ``first`` is what it was in the first look."""
    if outcome.outcome == "shown":
        return replace(one, judgement="regression", paired=outcome)
    again = outcome.outcome == "undecided"
    if one.judgement == "same":  # nothing was reported of it
        return replace(one, unsure=again)
    if outcome.outcome == "gone":
        return replace(one, judgement="same", paired=outcome, gone=first, unsure=False)
    return replace(one, paired=outcome, unsure=again)


def _compared(ratios: Floats) -> Estimate:
    """Return the mean change that ratios show, as sessions with a result of both sides."""
    pairs = np.arange(len(ratios))
    before, after = (
        Points(values, pairs, np.full(len(pairs), side), 2 * pairs + side)
        for side, values in enumerate((np.ones(len(ratios)), ratios))
    )
    found = paired(before, after, _FEWEST, 0.0)
    assert found is not None
    return found

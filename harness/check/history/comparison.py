"""HistoryComparison: the comparison of results with their history, metric by metric, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from harness.check.history.samples import Decision, HistoryLimits, Metric
from harness.records.verdict import Judgement

CommonJudgement = Literal["regression", "suspect", "improvement", "scattered", "same", "too little"]
"""Outcome for all operators of a unit together."""

Method = Literal["", "exact", "gross", "paired sessions", "between sessions", "slowly"]
"""How a change was distinguished from noise (``docs/verdicts.md``): not; the metric has no noise;
no noise explains a change of this size; by sessions with baseline and candidate results; by what
earlier sessions differed from those before them; by a level of long ago."""


class Interval(msgspec.Struct, frozen=True):
    """An estimate and its confidence interval, in the metric's unit.

    JSON has no infinite numbers, so an unknown bound is null there.

    Attributes:
        value: The estimate.
        lowest: Lower bound; None if unknown (the constructor also accepts -inf).
        highest: Upper bound; None if unknown (the constructor also accepts inf).
    """

    value: float
    lowest: float | None = msgspec.field(name="low")
    highest: float | None = msgspec.field(name="high")

    def __post_init__(self) -> None:
        for name, bound in (("lowest", self.lowest), ("highest", self.highest)):
            if bound is not None and math.isinf(bound):
                msgspec.structs.force_setattr(self, name, None)

    @property
    def low(self) -> float:
        """Lower bound, -inf if unknown."""
        return -math.inf if self.lowest is None else self.lowest

    @property
    def high(self) -> float:
        """Upper bound, inf if unknown."""
        return math.inf if self.highest is None else self.highest


class Mode(msgspec.Struct, frozen=True):
    """One of the two modes of a metric.

    Attributes:
        center: Median of the values in this mode.
        spread: Standard deviation of the values in this mode.
        weight: Share of the values in this mode.
    """

    center: float
    spread: float
    weight: float


class MetricStep(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting change of a metric's level in its history.

    Attributes:
        last_good: Commit of the last result before the step; empty if unknown.
        first_bad: Commit of the first result after it; the change is in (last_good, first_bad].
        last_good_utc: Start time of the last result before the step.
        first_bad_utc: Start time of the first result after the step.
        size: Difference of the levels.
        before: Level before the step.
        p: P-value of a step of this size anywhere in the series.
        undecided: The baseline has results after this increase, and nobody accepted it.
    """

    last_good: str
    first_bad: str
    last_good_utc: str
    first_bad_utc: str
    size: Interval
    before: float
    p: float
    undecided: bool = False


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a metric on another unit.

    Attributes:
        unit: The other unit of this board type.
        change: Change of the metric on this unit; None if unknown.
        confirms: Whether it exceeds both limits, in the same direction.
    """

    unit: str
    change: Interval | None
    confirms: bool


class PairedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change measured against what the baseline ran, in turns in one session.

    Attributes:
        outcome: ``shown``: the pairs show the change; ``gone``: they do not; ``undecided``: the
            noise may explain what they show; ``not the model``: they do not, and the firmware is
            another one than that of the baseline.
        pairs: Number of pairs.
        against: In what they differ: ``model``, ``firmware``, ``firmware and model``.
        change: The change as a share of the baseline.
        p: Its p-value, two-sided.
    """

    outcome: Literal["shown", "gone", "undecided", "not the model"]
    pairs: int
    against: str = "model"
    change: Interval
    p: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of the results on one unit, compared with the baseline.

    Attributes:
        metric: The metric.
        board_unit: Unit (physical board) it was measured on.
        judgement: Outcome of the comparison.
        method: How the change was distinguished from noise.
        baseline: Level in the baseline; None without one.
        current: Level now; None if it vanished.
        change: Difference of the levels.
        relative: Change as a share of the baseline; None if the baseline is unknown or 0.
        p: P-value of the change, two-sided; None for deterministic metrics.
        q: P-value adjusted for the number of comparisons, all statistics counted.
        noise: Standard deviation between sessions as a share of the level; 0 for deterministic
            metrics, None if unknown.
        baseline_results: Number of baseline results with this metric.
        baseline_sessions: Number of their sessions.
        current_results: Number of current results with this metric.
        current_sessions: Number of their sessions.
        modes: The two modes between results, lower first; empty for one mode.
        modes_within: The two modes between executions of one run; empty for one mode.
        steps: Steps in the history, oldest first.
        confirmations: Changes of the metric on other units.
        relative_limit: Relative limit of the change.
        absolute_limit: Absolute limit of the change, in the metric's unit; at least two ticks.
        detectable: Smallest change that would have been found, as a share of the baseline; for an
            operator by the better of its statistics. None if unknown.
        common: Change of all operators, as a share, that the levels are corrected for.
        reason: Explanation of the judgement.
        gone: Change of the first session as a share, where it was suspect and what was measured
            after it does not show it; None where there is nothing of that kind.
        paired: The change against what the baseline ran, where it was suspect and that was
            measured.
        unsure: Whether pairs with the baseline would say more of its change.
        decision: What a person decided about a change of the metric; None for no decision.
        decision_holds: Whether the level of the decision is the baseline.
    """

    metric: Metric
    board_unit: str
    judgement: Judgement
    method: Method = ""
    baseline: Interval | None = None
    current: float | None = None
    change: Interval | None = None
    relative: float | None = None
    p: float | None = None
    q: float | None = None
    noise: float | None = None
    baseline_results: int = 0
    baseline_sessions: int = 0
    current_results: int = 0
    current_sessions: int = 0
    modes: tuple[Mode, ...] = ()
    modes_within: tuple[Mode, ...] = ()
    steps: tuple[MetricStep, ...] = ()
    confirmations: tuple[Confirmation, ...] = ()
    relative_limit: float = 0.0
    absolute_limit: float = 0.0
    detectable: float | None = None
    common: float = 0.0
    reason: str = ""
    gone: float | None = None
    paired: PairedChange | None = None
    unsure: bool = False
    decision: Decision | None = None
    decision_holds: bool = False

    @property
    def may_be_noise(self) -> bool:
        """Whether measuring again may clear a change: of what exact clocks say it does not."""
        by_sessions = self.method in ("gross", "between sessions")
        return self.judgement == "suspect" or (self.judgement == "regression" and by_sessions)

    @property
    def estimated(self) -> bool:
        """Whether its change is known with its noise, so that a small one would have been found."""
        return self.change is not None and self.method != "gross"


class CommonChange(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to all operators of a unit, compared with the baseline.

    Attributes:
        board_unit: Unit (physical board).
        clock: Clock of the operators.
        statistic: Statistic of their times.
        operators: Number of operators.
        moved: Number of operators that are closer to this change than to none.
        judgement: ``regression`` or ``improvement``: most operators changed by the same factor;
            ``scattered``: most changed, by different factors; ``suspect``: either was measured
            once, so that noise may explain it; ``same``; ``too little``.
        change: Median change of the operators, as a share.
        p: P-value of the change, two-sided.
        q: P-value adjusted for the number of comparisons.
        noise: Standard deviation of this share between sessions.
        typical: Median deviation of the operators from this change, as a share of their times.
        relative_limit: Relative limit of a change.
        detectable: Smallest common change that would have been found, as a share.
        gone: The change where it was suspect, and the pairs do not show it; else None.
        paired: As of ``Compared``; likewise ``unsure``.
    """

    board_unit: str
    clock: str
    statistic: str
    operators: int
    moved: int = 0
    judgement: CommonJudgement = "same"
    change: Interval
    p: float | None = None
    q: float | None = None
    noise: float | None = None
    typical: float = 0.0
    relative_limit: float = 0.0
    detectable: float | None = None
    gone: float | None = None
    paired: PairedChange | None = None
    unsure: bool = False


class HistoryComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Results compared with their history.

    Attributes:
        description: Selection of the baseline, for reports.
        limits: When a change counts.
        commit: Commit of the compared results.
        before: Commit of the newest result of the baseline, of the compared unit if it has any;
            empty if unknown or the same.
        units: Units they were measured on.
        numbers: One entry per size and operator, the worst first; for an operator, its most
            significant statistic.
        common: What happened to all operators of a unit; empty with few operators.
        detectable_median: Median over the operators of the smallest change that would have been
            found, as a share; None if no operator was compared, or no change of most of them would
            have been found.
        detectable_worst: The largest of them.
        required: The baseline was asked for, so a comparison that sees too little is a failure.
        rolling: The baseline is the newest results, and grows from night to night.
        notes: Metrics left out of the comparison, with the reason.
        pairs: What pairs with the baseline do not compare, or why there are none.
    """

    description: str
    limits: HistoryLimits
    commit: str
    before: str = ""
    units: tuple[str, ...]
    numbers: tuple[Compared, ...]
    common: tuple[CommonChange, ...] = ()
    detectable_median: float | None = None
    detectable_worst: float | None = None
    required: bool = False
    rolling: bool = False
    notes: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()

    @property
    def disturbed(self) -> bool:
        """Whether what was suspect is in runs of what the baseline ran, too."""
        return bool(self.cleared_against)

    @property
    def cleared_against(self) -> str:
        """In what the pairs differ that do not show what was suspect; empty without any."""
        paired = [*(one.paired for one in self.numbers), *(one.paired for one in self.common)]
        gone = (one.against for one in paired if one is not None and one.outcome == "gone")
        return next(gone, "")


NumberKind = Literal["time", "memory", "count", "energy", "accuracy"]
"""What a number is of."""

_KINDS: Final[Mapping[str, NumberKind]] = {
    **{"bytes": "memory", "count": "count", "nJ": "energy"},
    "error": "accuracy",
}

CHANGE_WORDS: Final[Mapping[NumberKind, tuple[str, str]]] = {
    "time": ("slower", "faster"),
    "memory": ("larger", "smaller"),
    "count": ("more", "fewer"),
    "energy": ("more", "less"),
    "accuracy": ("less accurate", "more accurate"),
}
"""Words for a number that grew and one that shrank."""

OTHER_WORDS: Final[Mapping[Judgement, str]] = {
    "changed": "changed",
    "same": "no detectable change",
    "appeared": "new",
    "vanished": "gone",
    "too little": "too few results to tell",
}
"""Words for numbers of any kind that neither grew nor shrank."""


def number_kind(metric: Metric) -> NumberKind:
    """Return what a metric is of."""
    return _KINDS.get(metric.unit, "time")


def judgement_word(judgement: Judgement, kind: NumberKind) -> str:
    """Return a judgement in a word or a few: slower, larger, gone, no detectable change."""
    grew, shrank = CHANGE_WORDS[kind]
    if judgement == "suspect":
        return f"{grew}, measured once"
    if judgement == "regression":
        return grew
    return shrank if judgement == "improvement" else OTHER_WORDS[judgement]


def detectable_text(comparison: HistoryComparison) -> str:
    """Return which change the comparison would have noticed, in the median and at worst."""
    median, worst = (
        "above 2x" if share is None or share > 1 else percentage(share)
        for share in (comparison.detectable_median, comparison.detectable_worst)
    )
    return f"would have noticed {median} (median operator; worst {worst})"


def gone_text(comparison: HistoryComparison) -> str:
    """Return what was suspect at first, and was gone when it was measured again; else ""."""
    shares = [
        *(number.gone for number in comparison.numbers),
        *(common.gone for common in comparison.common),
    ]
    gone = [share for share in shares if share is not None]
    if not gone:
        return ""
    largest = percentage(max(gone, key=abs))
    many = f"{len(gone)} suspect changes of up to {largest} are"
    against = comparison.cleared_against
    how = f"measured again beside the baseline's {against}" if against else "measured again"
    return f"{how}: {f'a suspect change of {largest} is' if len(gone) == 1 else many} gone"


def percentage(share: float) -> str:
    """Return a share as text: ``3.1 %``, ``240 %``."""
    percent = 100 * share
    return f"{percent:,.0f} %" if percent >= 10 else f"{percent:.2g} %"

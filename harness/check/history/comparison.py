"""Compared: results held against their history, number by number, as reports draw it."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from harness.check.history.samples import Metric
from harness.check.history.settings import HistoryLimits

Judgement = Literal[
    "regression", "improvement", "changed", "same", "appeared", "vanished", "too little"
]
"""What became of a number: worse or better, beyond the limits and the noise; another one, where
there is no noise, but within the limits; none of these; there is none in the baseline, or now; too
little is known of its noise, or nothing."""

Method = Literal[
    "", "exact", "paired sessions", "undisturbed sessions", "within sessions", "between sessions"
]
"""How a change was told from noise (``docs/verdicts.md``): not at all; there is none; by sessions
that hold both sides; by the lowest numbers of these; by the results within such sessions; by the
spread between sessions."""


class Interval(msgspec.Struct, frozen=True):
    """An estimate and its confidence interval, in the metric's unit.

    JSON knows no infinite numbers: there a bound of which nothing is known is null.

    Attributes:
        value: The estimate.
        lowest: Lower bound; None, or infinite when it is made, where nothing is known of it.
        highest: Upper bound, likewise.
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
        """Lower bound, -inf where nothing is known of it."""
        return -math.inf if self.lowest is None else self.lowest

    @property
    def high(self) -> float:
        """Upper bound, inf where nothing is known of it."""
        return math.inf if self.highest is None else self.highest


class Mode(msgspec.Struct, frozen=True):
    """One of two levels between which a number flips.

    Attributes:
        center: The level, the median of the values that are of this mode.
        spread: Standard deviation around it.
        weight: Share of the values that are of this mode.
    """

    center: float
    spread: float
    weight: float


class MetricStep(msgspec.Struct, frozen=True, kw_only=True):
    """A number that went to another level in the course of history, and stayed.

    Attributes:
        last_good: Commit of the last result before it; empty when unknown.
        first_bad: Commit of the first result after it, so the change is in (last_good, first_bad].
        last_good_utc: When the last result before it began.
        first_bad_utc: When the first result after it began.
        size: The difference of the levels.
        before: The level before it.
        p: Probability of a step like this at any place of the series, if there was none.
    """

    last_good: str
    first_bad: str
    last_good_utc: str
    first_bad_utc: str
    size: Interval
    before: float
    p: float


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What another unit says of a change.

    Attributes:
        unit: The other board of this type.
        change: How the number changed there, or None if it cannot be told.
        confirms: Whether it did so beyond both limits, in the same direction.
    """

    unit: str
    change: Interval | None
    confirms: bool


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A number of the results on one unit, held against the baseline.

    Attributes:
        metric: What it is of.
        board_unit: The board of its type it was measured on.
        judgement: What became of it.
        method: How that was found.
        baseline: Its level in the baseline; None where there is none.
        current: Its level now; None where it vanished.
        change: By how much it changed.
        relative: The change as a share of the baseline; None for a baseline of 0, too.
        p: Probability of a change at least so large by chance; None where there is no noise.
        q: The same adjusted for how many numbers were judged, all statistics counted.
        noise: Standard deviation between sessions as a share of the level; 0 where there is none,
            None where it is unknown.
        baseline_results: Results of the baseline that have it.
        baseline_sessions: In so many sessions.
        current_results: Results now.
        current_sessions: In so many sessions.
        modes: The two levels between which it flips, lower first; empty if it does not.
        modes_within: Likewise among the executions of one run.
        steps: Where it went to another level, oldest first.
        confirmations: What other units say of a change.
        relative_limit: What the change was held against.
        absolute_limit: Likewise, in the metric's unit.
        reason: Why it was judged so, in a sentence.
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
    reason: str = ""


class HistoryComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Results held against their history.

    Attributes:
        description: How the baseline was chosen, for people.
        limits: When a change is one.
        commit: Commit of the results that were judged.
        units: Boards they were measured on.
        numbers: One of every size and operator, the worst first: of the statistics of an operator's
            times the one that says most.
        notes: What was left out of the comparison, and why.
    """

    description: str
    limits: HistoryLimits
    commit: str
    units: tuple[str, ...]
    numbers: tuple[Compared, ...]
    notes: tuple[str, ...] = ()

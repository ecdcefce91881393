"""Rules that decide whether a night's run differs from earlier nights, for the study of verdicts.

A rule is a function of the median times of earlier nights, shape (nights, operators), oldest first,
and of tonight's session, which holds its first run and measures again when it is asked. It returns
which operators it reports, and whether it reports a change of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import msgspec
import numpy as np
from scipy.special import stdtr
from scipy.stats import mannwhitneyu

from benchmarks.verdict_counts import provenance
from benchmarks.verdict_noise import OPERATORS, Flags, Session, median_times
from harness import (
    History,
    Measured,
    Metric,
    Pairs,
    Provenance,
    Sample,
    Series,
    compare_with_history,
)
from harness.check.history.samples import Floats
from harness.runs.repeats import suspects, unsure

LIMIT: Final = 0.02
"""Smaller changes do not count, whatever their significance."""

SURE: Final = 0.5
"""Changes that need no second night if nothing else is at hand."""

LEVEL: Final = 0.01
"""Probability of an alarm in a quiet night that the tests are made for."""

LOOKS: Final = 5
"""Times that the harness measures a suspect change again."""

WINDOW: Final = 20
"""Nights of the baseline."""

_STARTED: Final = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night) for night in range(99)]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What a rule reports of a night.

    Attributes:
        operators: Whether each operator changed, shape (operators,).
        everything: Whether all operators together changed.
        kept: Median times that the history keeps of this night; None: of the first run.
        suspect: Something is only suspect: what is at hand cannot decide it tonight.
        gone: Something was suspect, and is not any more.
    """

    operators: Flags
    everything: bool = False
    kept: Floats | None = None
    suspect: bool = False
    gone: bool = False

    @property
    def any(self) -> bool:
        """Whether anything is reported as a change."""
        return not self.suspect and (self.everything or bool(self.operators.any()))

    @property
    def of_all(self) -> bool:
        """Whether a change of all operators is reported, as one or for most of them."""
        return self.everything or bool(self.operators.mean() > 0.5)


Rule = Callable[[Floats, Session], Report]


def _beyond(now: Floats, before: Floats, tick_ns: float, limit: float = LIMIT) -> Flags:
    """Return what differs by more than a share and by more than two ticks."""
    far = np.abs(now - before) > np.maximum(limit * before, 2 * tick_ns)
    return np.asarray(far)


def fixed_limit(history: Floats, session: Session) -> Report:
    """Report operators that differ by 10 % from the median of the baseline."""
    before = np.median(history[-WINDOW:], axis=0)
    return Report(_beyond(median_times(session.first), before, session.tick_ns, 0.1))


def welch(history: Floats, session: Session) -> Report:
    """Compare executions with those of the night before, by Welch's t-test."""
    now, before = session.first, session.previous
    errors = np.array([times.var(axis=0, ddof=1) / len(times) for times in (now, before)])
    both = np.maximum(errors.sum(axis=0), 1e-9)
    degrees = (len(now) - 1) * both**2 / np.maximum((errors**2).sum(axis=0), 1e-18)
    change = now.mean(axis=0) - before.mean(axis=0)
    p = 2 * stdtr(degrees, -np.abs(change) / np.sqrt(both))
    far = _beyond(now.mean(axis=0), before.mean(axis=0), session.tick_ns)
    return Report(far & (p < LEVEL / OPERATORS))


def mann_whitney(history: Floats, session: Session) -> Report:
    """Compare executions with those of the night before, by their ranks."""
    now, before = session.first, session.previous
    far = _beyond(median_times(now), median_times(before), session.tick_ns)
    for operator in np.flatnonzero(far):
        p = mannwhitneyu(now[:, operator], before[:, operator]).pvalue
        far[operator] = p < LEVEL / OPERATORS
    return Report(far)


def asv(history: Floats, session: Session) -> Report:
    """Compare with the night before as ``asv compare`` does, by its default factor of 1.1.

    Of medians that differ by that factor, those count whose executions differ by Mann and Whitney's
    test with p < 0.002 (``asv/_stats.py``, version 0.6.6).
    """
    now, before = session.first, session.previous
    ratio = median_times(now) / median_times(before)
    far = (ratio > 1.1) | (ratio < 1 / 1.1)
    for operator in np.flatnonzero(far):
        far[operator] = mannwhitneyu(now[:, operator], before[:, operator]).pvalue < 0.002
    return Report(far)


def otava(history: Floats, session: Session) -> Report:
    """Report operators with a change point that was not there the night before.

    The change points are those of Apache Otava 0.8.0 with its defaults.
    """
    series = np.vstack([history, median_times(session.first)])
    new = np.zeros(OPERATORS, np.bool_)
    for operator in range(OPERATORS):
        now = _change_points(tuple(series[:, operator].tolist()))
        known = _change_points(tuple(series[:-1, operator].tolist()))
        # A change point that only moves, as more nights are known, is no new one.
        new[operator] = any(min((abs(at - old) for old in known), default=99) > 3 for at in now)
    return Report(new)


@lru_cache(maxsize=4096)
def _change_points(series: tuple[float, ...]) -> tuple[int, ...]:
    return change_points(np.array(series))


def change_points(series: Floats, p_value: float = 0.001, window: int = 50) -> tuple[int, ...]:
    """Return where a series changes, by Hunter's algorithm (Fleming et al. 2023).

    Windows of the series are split by the energy statistic of Matteson and James (2014) while
    Student's t-test of the two parts has a tenfold p-value; then splits with too large a p-value
    between their neighbors are merged.
    """
    found: list[int] = []
    start = 0
    while start < len(series):
        inside = _split(series[start : start + window], 10 * p_value)
        found += [start + at for at in inside if start + at not in found]
        start = max(start + inside[-1] if inside else 0, start + window // 2)
    found.sort()
    p_values = _p_values(series, found)
    while found and max(p_values) >= p_value:
        weakest = p_values.index(max(p_values))
        del found[weakest], p_values[weakest]
        # As Otava does, the split before the deleted one keeps its p-value.
        p_values[weakest : weakest + 2] = _p_values(series, found)[weakest : weakest + 2]
    return tuple(found)


def _split(series: Floats, p_value: float) -> list[int]:
    """Return where the series has to be split, ascending."""
    found: list[int] = []
    distances = np.abs(series[:, None] - series[None, :])
    while True:
        bounds = [0, *found, len(series)]
        best = (-math.inf, 0, 0)
        for place, (begin, end) in enumerate(pairwise(bounds)):
            if end - begin > 1:
                at, size = _largest_energy(distances[begin:end, begin:end])
                best = max(best, (size, begin + at, place), key=lambda item: item[0])
        _, at, place = best
        if not at or _t_test(series[bounds[place] : at], series[at : bounds[place + 1]]) > p_value:
            return found
        found = sorted([*found, at])


def _largest_energy(distances: Floats) -> tuple[int, float]:
    """Return where to split, and the energy between the part before and a part after it."""
    size = len(distances)
    upper = np.triu(distances, 1)
    # within[i, j] is the sum of distances between all pairs of [i, j).
    total = np.zeros((size + 1, size + 1))
    total[1:, 1:] = upper.cumsum(axis=0).cumsum(axis=1)
    split, end = np.arange(1, size)[:, None], np.arange(2, size + 1)[None, :]
    first, second = split, end - split
    before = np.diag(total)[1:size][:, None]
    after = np.diag(total)[2:][None, :] - total[split, end]
    between = total[split, end] - before
    with np.errstate(all="ignore"):
        energy = 2 / end * between
        energy = energy - np.where(first > 1, 2 * second / end / (first - 1) * before, 0.0)
        energy = energy - np.where(second > 1, 2 * first / end / (second - 1) * after, 0.0)
    energy = np.where(second > 0, energy, 0.0)
    at, _ = np.unravel_index(int(np.argmax(energy)), energy.shape)
    return int(at) + 1, float(energy.max())


def _p_values(series: Floats, points: list[int]) -> list[float]:
    bounds = [0, *points, len(series)]
    triples = zip(bounds, bounds[1:], bounds[2:], strict=False)
    return [_t_test(series[begin:at], series[at:end]) for begin, at, end in triples]


def _t_test(left: Floats, right: Floats) -> float:
    """Return the p-value of Student's t-test, from standard deviations as Otava takes them."""
    degrees = len(left) + len(right) - 2
    if degrees < 1:
        return 1.0
    # Otava passes population variances to a test that expects those of samples.
    squares = (len(left) - 1) * left.var() + (len(right) - 1) * right.var()
    error = math.sqrt(squares / degrees * (1 / len(left) + 1 / len(right)))
    difference = abs(float(left.mean() - right.mean()))
    if error == 0:
        return 0.0 if difference else 1.0
    return float(2 * stdtr(degrees, -difference / error))


METRICS: Final = [
    Metric("operator", f"op{number}", "p50", "ns", "Execute", 0, number, clock="cycles")
    for number in range(OPERATORS)
]


@dataclass(frozen=True, slots=True)
class Harness:
    """Compare medians with the last 20 nights, as ``etharness run --baseline last:20`` does.

    It measures again what is suspect, up to five times. A night in which the baseline's model was
    as slow was disturbed, and leaves no trace in later comparisons.

    Attributes:
        pairs: The baseline's model is at hand, so it is measured again in turns with that, on
            tonight's firmware.
        firmware: So is the baseline's firmware, which is another one every night.
    """

    pairs: bool = False
    firmware: bool = False

    def __call__(self, history: Floats, session: Session) -> Report:
        """Return what is reported of tonight."""
        nights = len(history)
        ticks, emulated = {"cycles": session.tick_ns}, session.exact or None
        results = [
            msgspec.structs.replace(
                provenance(f"night {n}", f"c{n}", _STARTED[n].isoformat()),
                ticks=ticks,
                emulated_time=emulated,
            )
            for n in range(nights + 1)
        ]
        series = tuple(
            Series(metric, tuple(range(nights)), tuple(Sample(value, 20) for value in column))
            for metric, column in zip(METRICS, history.T.tolist(), strict=True)
        )
        # The baseline is of the last sound nights; the series has the others, too.
        left_out = session.reported | session.gone
        baseline = np.flatnonzero(~left_out)[-WINDOW:]
        # As the store decides it: what was suspect one night, and is gone the next, failed nothing.
        failed = left_out.copy()
        failed[:-1] &= ~session.suspect[:-1] | left_out[1:]
        known = History(
            tuple(results[:-1]),
            series,
            tuple(baseline.tolist()),
            "the last 20",
            rolling=True,
            failed=tuple(np.flatnonzero(failed).tolist()),
        )
        measured = [_measured(results[-1], session.first)]
        found = compare_with_history(known, measured)
        against = "firmware" if self.firmware else "model"
        turns = Pairs(unit=results[-1].unit, against=against)
        age = nights - int(baseline[-1])
        while self.pairs and unsure(found) and turns.count < LOOKS:
            order = (0, age) if turns.count % 2 else (age, 0)
            times = {
                of: _measured(results[-1], session.measure(of, build=None if self.firmware else 0))
                for of in dict.fromkeys(order)
            }
            turns = turns.followed_by(times[age], times[0])
            known = known.with_pairs(turns)
            found = compare_with_history(known, measured)
        seen = set[object]()
        while not self.pairs and (suspect := suspects(found)) - seen and len(measured) <= LOOKS:
            label = f"{results[-1].session}/{len(measured) + 1}"
            again = msgspec.structs.replace(results[-1], id=label, session=label)
            measured.append(_measured(again, session.measure()))
            found = compare_with_history(known, measured)
            # What one more run has shown again, others of the same session will show as well.
            seen |= suspect & suspects(found)
        judgements = {common.judgement for common in found.common}
        reported, red = (
            np.zeros(OPERATORS, np.bool_),
            bool(judgements & {"regression", "scattered"}),
        )
        for number in found.numbers:
            reported[number.metric.instruction] |= number.judgement in ("regression", "suspect")
            red |= number.judgement in ("regression", "changed")
        everything = bool(judgements & {"regression", "scattered", "suspect"})
        suspect = not red and (everything or bool(reported.any()))
        return Report(reported, everything, suspect=suspect, gone=found.disturbed)


def _measured(result: Provenance, times: Floats) -> Measured:
    values = zip(METRICS, median_times(times).tolist(), strict=True)
    return Measured(result, {metric: Sample(value, 20) for metric, value in values})


SecondLook = Literal["none", "again", "pairs", "next night", "again, next night"]


@dataclass(frozen=True, slots=True)
class Robust:
    """The robust test of one night against earlier ones, with and without a second look.

    Times are divided by the factor that all operators share. An operator, or that factor, is
    suspect if it differs from its median by more than 2 %, by more than two ticks, and by more than
    Student's t allows for the larger of its robust and its standard deviation, with Bonferroni's
    correction. What is suspect is looked at again.

    Attributes:
        level: Probability of a suspect in a quiet night that the test is made for.
        second: ``again``: the median of repeats in the same session is suspect, too; ``pairs``: so
            is the difference to the baseline's firmware, measured in turns; ``next night``: the
            operator was suspect in the night before; ``again, next night``: both, but for changes
            of more than a half, which are reported at once.
        repeats: Most repeats, or pairs, of the second look.
        wait: Durations of a run between repeats.
        divide: Divide by the common factor.
        scales: Deviations of the history, of which the largest counts.
        window: Nights of the history that are used.
    """

    level: float = LEVEL
    second: SecondLook = "none"
    repeats: int = 5
    wait: float = 0.0
    divide: bool = True
    scales: tuple[str, ...] = ("mad", "sd")
    window: int = WINDOW

    def __call__(self, history: Floats, session: Session) -> Report:
        """Return what is reported of tonight."""
        now, tick_ns = median_times(session.first), session.tick_ns
        if self.second == "next night":
            # Both nights are compared with those before the first of them.
            suspects = self.suspects(history[:-1], now, tick_ns)
            yesterday = self.suspects(history[:-1], history[-1], tick_ns)
            suspects = suspects * (suspects == yesterday)
        else:
            suspects = self.suspects(history, now, tick_ns)
        if self.second.startswith("again"):
            suspects = self._again(suspects, history, session)
        elif self.second == "pairs":
            suspects = self._pairs(suspects, session)
        if self.second == "again, next night" and suspects.any():
            yesterday = self.suspects(history[:-1], history[-1], tick_ns)
            level = np.median(history[-self.window :], axis=0)
            change = self.columns((now / level)[None, :])[0] - 1
            suspects = suspects * ((suspects == yesterday) | (np.abs(change) > SURE))
        return Report(suspects[:-1] != 0, bool(suspects[-1]))

    def suspects(self, history: Floats, now: Floats, tick_ns: float) -> Floats:
        """Return the sign of each suspected change, or 0; of operators, then of all together."""
        history = history[-self.window :]
        level = np.median(history, axis=0)
        values = self.columns(np.vstack([history, now]) / level)
        before, after = values[:-1], values[-1]
        middle = np.median(before, axis=0)
        ticks = np.append(tick_ns / level, 0.0)
        scale = np.maximum(ticks / math.sqrt(12), 1e-9)
        if "mad" in self.scales:
            scale = np.maximum(scale, 1.4826 * np.median(np.abs(before - middle), axis=0))
        if "sd" in self.scales:
            scale = np.maximum(scale, before.std(axis=0, ddof=1))
        change = after - middle
        p = 2 * stdtr(len(history) - 1, -np.abs(change) / scale) * len(change)
        counts = (np.abs(change) > np.maximum(LIMIT, 2 * ticks)) & (p < self.level)
        return np.asarray(np.sign(change) * counts)

    def columns(self, ratios: Floats) -> Floats:
        """Return the ratios of operators, and of all together, shape (nights, operators + 1)."""
        if not self.divide:
            return np.column_stack([ratios, np.ones(len(ratios))])
        common = np.median(ratios, axis=1, keepdims=True)
        return np.hstack([ratios / common, common])

    def _again(self, suspects: Floats, history: Floats, session: Session) -> Floats:
        """Return the suspects that are suspect in the median of every number of repeats."""
        runs: list[Floats] = []
        while suspects.any() and len(runs) < self.repeats:
            runs.append(median_times(session.measure(wait=self.wait)))
            now = np.median(runs, axis=0)
            suspects = suspects * (self.suspects(history, now, session.tick_ns) == suspects)
        return suspects

    def _pairs(self, suspects: Floats, session: Session) -> Floats:
        """Return the suspects whose difference to the baseline's firmware is as large."""
        ratios: list[Floats] = []
        while suspects.any() and len(ratios) < self.repeats:
            ratios.append(_pair(session, len(ratios), self.wait))
            values = self.columns(np.array(ratios)) - 1
            change = np.median(values, axis=0)
            suspects = suspects * (suspects * change > LIMIT)
        if suspects.any():
            suspects = suspects * (_paired_p(values) * np.count_nonzero(suspects) < LEVEL)
        return suspects


@dataclass(frozen=True, slots=True)
class Twice:
    """A lenient first look, pairs as the second, and a history of what the second look found.

    Suspects of the first look are measured in pairs with the baseline's firmware, until the median
    ratio no longer exceeds 2 %. Whatever lasts for the session changes both firmwares, so the pairs
    show no difference, and the history keeps the baseline's level times the paired ratio: the noise
    of such a night does not widen later limits. While it lasts, it is expected, and not measured
    again every night.

    Firmware differs from commit to commit, if only by the alignment of its code. So a change that
    the pairs confirm is compared with the commit of the latest night that was as far off: if there
    is no difference between these two, the level is not new.

    Attributes:
        first: The first look.
        level: Probability of an alarm in a night with a second look that its test is made for.
        repeats: Most pairs.
        clean: Keep what the second look found, and not the first run.
        expect: Expect what the second look of the night before attributed to the session.
        earlier: Most earlier commits that a confirmed change is compared with.
        seen: Most nights of the last 60 that were as far off, for an alarm.
        pool: Use the scatter of all operators in the paired test.
    """

    first: Robust = Robust(level=1.0, scales=("mad",))
    level: float = LEVEL
    repeats: int = 5
    clean: bool = True
    expect: bool = True
    earlier: int = 3
    seen: int = 5
    pool: bool = True

    def __call__(self, history: Floats, session: Session) -> Report:
        """Return what is reported of tonight."""
        now, tick_ns = median_times(session.first), session.tick_ns
        past = history[~session.reported]
        suspects, kept = self.first.suspects(past, now, tick_ns), now
        shift = session.earlier[-1] / history[-1]
        if self.expect and suspects.any() and not session.reported[-1] and np.any(shift != 1):
            suspects = suspects * (self.first.suspects(past, now / shift, tick_ns) == suspects)
            kept = now if suspects.any() else now / shift
        if suspects.any():
            suspects, ratio = self._pairs(suspects, session)
            kept = np.median(past[-self.first.window :], axis=0) * ratio
            suspects = self._new(suspects, ratio, history, session)
        return Report(suspects[:-1] != 0, bool(suspects[-1]), kept if self.clean else None)

    def _pairs(self, suspects: Floats, session: Session) -> tuple[Floats, Floats]:
        """Return the suspects that pairs confirm, and the median ratios of the pairs."""
        ratios: list[Floats] = []
        while suspects.any() and len(ratios) < self.repeats:
            ratios.append(_pair(session, len(ratios)))
            values = self.first.columns(np.array(ratios)) - 1
            suspects = suspects * (suspects * np.median(values, axis=0) > LIMIT)
        if suspects.any():
            p = _paired_p(values, self.pool) * np.count_nonzero(suspects)
            suspects = suspects * (p < self.level)
        return suspects, np.asarray(np.median(ratios, axis=0))

    def _new(self, suspects: Floats, ratio: Floats, history: Floats, session: Session) -> Floats:
        """Return the suspects that no earlier commit explains."""
        if not suspects.any():
            return suspects
        first = max(0, len(history) - 60)
        level = np.median(history[-self.first.window :], axis=0)
        before = self.first.columns(history[first:] / level) - 1
        change = self.first.columns(ratio[None, :])[0] - 1
        as_far = (np.sign(change) * before > 0.8 * np.abs(change)) & ~session.reported[first:, None]
        as_far[:, -1] = False  # alignment does not change all operators
        suspects = suspects * (as_far.sum(axis=0) <= self.seen)
        for _ in range(self.earlier):
            nights = np.flatnonzero((as_far & (suspects != 0)).any(axis=1))
            if not len(nights):
                break
            night = nights[-1]
            age = len(before) - night
            values = [_pair(session, number, age=age) for number in range(3)]
            difference = np.median(self.first.columns(np.array(values)), axis=0) - 1
            suspects = suspects * ~(as_far[night] & (suspects * difference < LIMIT))
            as_far[night] = False
        return suspects


def _pair(session: Session, number: int, wait: float = 0.0, age: int = WINDOW // 2) -> Floats:
    """Return the ratios of this firmware's times to those of the baseline's, in turns first."""
    ages = (0, age) if number % 2 else (age, 0)
    times = {age: median_times(session.measure(age, wait)) for age in ages}
    return np.asarray(times[0] / times[age])


def _paired_p(values: Floats, pool: bool = False) -> Floats:
    """Return p-values of the mean of differences, shape (pairs, n) to (n,).

    Args:
        values: The differences.
        pool: The variance is the mean of an operator's own and that of the median operator, which
            has as many degrees of freedom again. Otherwise it is its own, and at least a quarter of
            that of the median operator.
    """
    pairs = len(values)
    own = values.var(axis=0, ddof=1)
    typical = np.median(own[:-1])
    variances = (own + typical) / 2 if pool else np.maximum(own, typical / 4)
    errors = np.maximum(np.sqrt(variances / pairs), 1e-9)
    degrees = (pairs - 1) * (2 if pool else 1)
    return np.asarray(2 * stdtr(degrees, -np.abs(values.mean(axis=0)) / errors))


RULES: Final[Mapping[str, Rule]] = {
    "harness": Harness(),
    "harness, pairs": Harness(pairs=True),
    "harness, firmware": Harness(pairs=True, firmware=True),
    "fixed": fixed_limit,
    "welch": welch,
    "mann-whitney": mann_whitney,
    "asv": asv,
    "otava": otava,
    "once": Robust(),
    "again": Robust(second="again"),
    "again, waiting": Robust(second="again", wait=10.0),
    "pairs": Robust(second="pairs"),
    "next night": Robust(second="next night"),
    "next night, 10 %": Robust(level=0.1, second="next night"),
    "again, 10 %": Robust(level=0.1, second="again"),
    "again, next night": Robust(level=0.1, second="again, next night"),
    "pairs, 10 %": Robust(level=0.1, second="pairs"),
    "twice": Twice(),
    "twice, counting": Twice(earlier=0, seen=2),
    "twice, any commit": Twice(earlier=0, seen=60),
    "twice, only commits": Twice(seen=60),
    "twice, sd": Twice(Robust(level=1.0)),
    "twice, at 10 %": Twice(Robust(level=0.1, scales=("mad",))),
    "twice, first runs kept": Twice(clean=False),
    "twice, not expecting": Twice(expect=False),
    "twice, own scatter": Twice(pool=False),
}
"""The rivals, by name."""

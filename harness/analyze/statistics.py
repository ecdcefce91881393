"""Per-operator statistics of durations, over all repeats of an event in all runs of its block, and
each operator's share of the wall time.

All groups are reduced at once with ``reduceat``. NumPy's percentile and SciPy's labelled statistics
work on one group at a time or sort once per statistic; sums of large uint64 ticks would wrap there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import (
    SIGNATURE,
    block_names,
    block_numbers,
    equal_rows,
    executions,
    in_groups,
)
from harness.analyze.ticks import (
    Ticks,
    durations,
    ends_before_start,
    event_nanoseconds,
    nanoseconds_per_tick,
)
from harness.durations import Duration
from harness.errors import UsageError
from harness.formatting import printable
from harness.records.clock_domain import ClockDomain
from harness.records.signature import Signature
from harness.records.trace import EXECUTION, LOADING, NO_COUNT, Kind, Trace

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Columns = list[npt.NDArray[Any]]


class Summary(msgspec.Struct, frozen=True):
    """Statistics of durations, all in ticks or all in nanoseconds, except ``count``; or of what a
    hardware counter counted.

    Attributes:
        count: Number of durations.
        total: Their sum.
        avg: Their mean.
        p10: 10th percentile, linear between the two nearest durations (as NumPy's default).
        p50: Median.
        p90: 90th percentile.
        min: Shortest.
        max: Longest.
        std: Population standard deviation (divided by ``count``; 0 for a single duration).
    """

    count: int
    total: float
    avg: float
    p10: float
    p50: float
    p90: float
    min: float
    max: float
    std: float


class Operator(Signature, frozen=True):
    """All repeats of one event.

    Attributes:
        clock: Clock domain of its ticks.
        rows: Rows of its events in the trace, in log order, shape (count + unknown,).
        unknown: Number of events that end before they start; their duration is unknown, and they
            are left out of all statistics.
        ticks: Statistics in ticks; None if all durations are unknown.
        ns: Statistics in nanoseconds; None also if the clock rate is unknown.
        cold: Statistics of the cold execution (first after loading), in nanoseconds, or in ticks if
            the rate is unknown; None if it has no such event.
        warm: Likewise, of all later executions.
        share: Its share of the wall time (``WallTimes``); None if unknown.
        loading: Its events are of loading a method, not of executions.
        counters: Statistics of what each hardware counter counted, by its name, over the events
            with a count; without the counters that recorded none of its events.
    """

    clock: ClockDomain
    rows: _Ints
    unknown: int
    ticks: Summary | None
    ns: Summary | None
    cold: Summary | None
    warm: Summary | None
    share: float | None
    loading: bool
    counters: dict[str, Summary] = msgspec.field(default_factory=dict)

    @property
    def times(self) -> Summary | None:
        """Statistics in nanoseconds, or in ticks if the clock rate is unknown."""
        return self.ns or self.ticks

    @property
    def typical_total(self) -> float:
        """Median times calls, in nanoseconds or ticks as ``times``; 0 if no duration is known.

        It ranks operators: one preempted execution makes the sum long, but not this.
        """
        return 0.0 if self.times is None else self.times.p50 * self.times.count


def operator_statistics(trace: Trace, block: str | None = None) -> list[Operator]:
    """Group profile events and summarise each group.

    Events with equal block name, event name, chain, instruction, delegate ids and clock domain are
    one operator. All repeats count, within a run and across runs, except those of unknown duration
    (``harness.analyze.ticks.ends_before_start``).

    Args:
        trace: The trace.
        block: Only blocks with this name; all by default.

    Returns:
        Operators in order of first occurrence.
    """
    return largest_operators(trace, None, block)[0]


def largest_operators(
    trace: Trace, most: int | None, block: str | None = None
) -> tuple[list[Operator], int]:
    """Return the operators with the largest total times, and how many others there are.

    A trace may have as many operators as events; an object for each would take far more memory
    than the trace.

    Args:
        trace: The trace.
        most: Number of operators; None for all.
        block: Only blocks with this name; all by default.
    """
    names, block_of = block_names(trace)
    orders = block_numbers(trace)
    chosen = trace.kind == Kind.PROFILE
    if block is not None:
        chosen = chosen & (block_of == (names.index(block) if block in names else -1))
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return [], 0
    keys = [block_of[rows], *(getattr(trace, column)[rows] for column in SIGNATURE)]
    order, starts = in_groups(equal_rows(keys))
    rows, others = rows[order], 0
    if most is not None and len(starts) > most:
        others = len(starts) - most
        rows, starts = _largest(trace, rows, starts, most)
    blocks = [names[index] for index in block_of[rows[starts]].tolist()]
    return _operators(trace, blocks, orders[rows], rows, starts), others


def _largest(trace: Trace, rows: _Ints, starts: _Ints, most: int) -> tuple[_Ints, _Ints]:
    """Return the groups with the largest total times, in their order."""
    ticks = durations(trace)
    times = event_nanoseconds(trace, ticks)
    totals = np.add.reduceat(np.where(np.isnan(times), ticks, times)[rows], starts)
    kept = np.sort(np.argpartition(totals, -most)[-most:])
    counts = np.diff(starts, append=len(rows))
    in_kept = np.zeros(len(starts), np.bool_)
    in_kept[kept] = True
    return rows[np.repeat(in_kept, counts)], np.cumsum(counts[kept]) - counts[kept]


def _operators(
    trace: Trace, blocks: list[str], orders: _Ints, rows: _Ints, starts: _Ints
) -> list[Operator]:
    """Return the operators of groups of ``rows``, which begin at ``starts``.

    ``orders`` are the block numbers of the rows.
    """
    ticks = durations(trace)[rows]
    keys = [getattr(trace, column)[rows[starts]] for column in SIGNATURE]
    rates = _rates(trace)[keys[-1]]
    timed = ~np.isnan(rates[:, 0])
    unit = np.where(timed[:, None], rates, 1.0)
    columns = _summaries(ticks, starts)
    whole = _objects(columns)
    whole_in_unit = whole if (unit == 1.0).all() else _objects(_scaled(columns, unit))
    known = ~ends_before_start(trace)[rows]
    in_ticks = _partial(known, ticks, starts, np.ones_like(unit), whole)
    in_unit, cold, warm = (
        _partial(chosen & known, ticks, starts, unit, whole_in_unit)
        for chosen in (known, *(chosen[orders] for chosen in _cold_and_warm(trace)))
    )
    unknown = np.add.reduceat(~known, starts, dtype=np.int64).tolist()
    wall = WallTimes(trace)
    behind = [*starts[1:].tolist(), len(rows)]
    parts = zip(
        *(starts.tolist(), behind, unknown, in_ticks, in_unit, timed.tolist(), cold, warm),
        *(wall.shares(rows, starts), wall.loading(rows[starts]).tolist()),
        _counted(trace, rows, starts),
        strict=True,
    )
    identities = zip(blocks, *(key.tolist() for key in keys), strict=True)
    return [
        Operator(
            block,
            trace.text(name) or "",
            chain,
            instruction,
            delegate_int,
            trace.text(delegate_str),
            trace.clocks[clock],
            rows[start:end],
            left_out,
            as_ticks,
            as_time if has_rate else None,
            when_cold,
            when_warm,
            share,
            loading,
            counters,
        )
        for (block, name, chain, instruction, delegate_int, delegate_str, clock), (
            start,
            end,
            left_out,
            as_ticks,
            as_time,
            has_rate,
            when_cold,
            when_warm,
            share,
            loading,
            counters,
        ) in zip(identities, parts, strict=True)
    ]


def _counted(trace: Trace, rows: _Ints, starts: _Ints) -> list[dict[str, Summary]]:
    """Return what the counters counted in each group of ``rows``, which begin at ``starts``."""
    found: list[dict[str, Summary]] = [{} for _ in starts]
    one = np.ones((len(starts), 2))
    for column, counter in enumerate(trace.counters):
        recorded = trace.counts[rows, column] != NO_COUNT
        # What was not recorded is left out, so any number stands for it here.
        counts = np.where(recorded, trace.counts[rows, column], 0).astype(np.uint64)
        whole = _objects(_summaries(counts, starts))
        for group, summary in zip(
            found, _partial(recorded, counts, starts, one, whole), strict=True
        ):
            if summary is not None:
                group[counter.name] = summary
    return found


class WallTimes:
    """Wall times of executions and of loading, to which every share of time refers.

    The wall time of an execution is that of its ``Method::execute``; the wall time of loading is
    that of ``Program::load_method``, or of ``Method::init`` without it. The share of some events is
    their time divided by the wall time of all blocks of the same name. An event contains what is
    within it: the events of a delegate are a part of their call and never add to it. Blocks of
    unknown wall time and events of unknown duration count on neither side.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._orders = block_numbers(trace)
        names, self._name_of = block_names(trace)
        ticks = durations(trace)
        times = event_nanoseconds(trace, ticks)
        self._times = np.where(np.isnan(times), ticks.astype(np.float64), times)
        self._known = ~ends_before_start(trace)
        # Times compare on clocks of known rate, or else on the same clock.
        rateless = [n + 1 if clock.hz is None else 0 for n, clock in enumerate(trace.clocks)]
        self._scale = np.array([*rateless, *[-1] * (256 - len(rateless))])
        self._executes = executions(trace)[0]
        program, method = (self._wall(name) for name in LOADING)
        loading = np.where(np.isnan(program), method, program)
        self._walls = np.stack([self._wall(EXECUTION), loading])
        number = {name: index for index, name in enumerate(names)}
        of_block = [number[block.name] for block in trace.blocks]
        self._totals = np.zeros((2, len(names)))
        np.add.at(self._totals.T, of_block, np.nan_to_num(self._walls).T)

    def _rows(self, *names: str) -> _Ints:
        """Return the rows of the profile events with one of these names."""
        numbers = [number for number, name in enumerate(self._trace.names) if name in names]
        profile = self._trace.kind == Kind.PROFILE
        return np.flatnonzero(profile & np.isin(self._trace.name, numbers))

    def _wall(self, name: str) -> _Floats:
        """Return the time of the events of this name in each block; NaN if unknown or absent."""
        rows = self._rows(name)
        orders, count = self._orders[rows], len(self._trace.blocks)
        sums = np.bincount(orders, self._times[rows], minlength=count).astype(np.float64)
        known = np.bincount(orders, self._known[rows], minlength=count)
        sums[(known == 0) | (known < np.bincount(orders, minlength=count))] = np.nan
        return sums

    def loading(self, rows: _Ints) -> npt.NDArray[np.bool_]:
        """Return True for events outside executions: of loading, or in other blocks."""
        outside: npt.NDArray[np.bool_] = ~self._executes[self._orders[rows]]
        return outside | np.isin(rows, self._rows(*LOADING))

    def shares(self, rows: _Ints, starts: _Ints) -> list[float | None]:
        """Return the share of each group of ``rows``, None if unknown; groups begin at ``starts``.

        The events of a group have the same name and clock, in blocks of the same name.
        """
        if not len(starts):
            return []
        firsts = rows[starts]
        phase = self.loading(firsts).astype(np.int64)
        of_row = np.repeat(phase, np.diff(starts, append=len(rows)))
        counted = self._known[rows] & ~np.isnan(self._walls[of_row, self._orders[rows]])
        sums = np.add.reduceat(np.where(counted, self._times[rows], 0.0), starts)
        wholes = self._totals[phase, self._name_of[firsts]]
        unknown = ~np.logical_or.reduceat(counted, starts) | (wholes <= 0)
        unknown |= self._scale[self._trace.clock[firsts]] != self._scales[phase]
        return [
            None if without else part / whole
            for part, whole, without in zip(
                sums.tolist(), wholes.tolist(), unknown.tolist(), strict=True
            )
        ]

    @cached_property
    def _scales(self) -> _Ints:
        """The scale of the wall times: of executions, and of loading."""
        scopes = self._rows(EXECUTION), self._rows(*LOADING)
        clocks = [int(self._trace.clock[rows[0]]) if len(rows) else 255 for rows in scopes]
        return self._scale[clocks]


@dataclass(frozen=True, slots=True, eq=False)
class DurationSeries:
    """The repeats of an operator, run by run.

    Attributes:
        runs: Numbers of the blocks with this operator, shape (runs,).
        ticks: Durations in ticks, uint64, shape (runs, largest number of repeats); 0 if absent.
        present: False for absent entries, same shape: a run may have fewer repeats than another, or
            repeats of unknown duration.
    """

    runs: _Ints
    ticks: Ticks
    present: npt.NDArray[np.bool_]


def operator_series(trace: Trace, operator: Operator) -> DurationSeries:
    """Return every duration of ``operator``, an operator of this trace, by run."""
    rows = operator.rows[~ends_before_start(trace)[operator.rows]]
    orders = block_numbers(trace)[rows]
    found, place, counts = np.unique(orders, return_inverse=True, return_counts=True)
    repeat = np.arange(len(orders)) - np.repeat(np.cumsum(counts) - counts, counts)
    ticks = np.zeros((len(found), int(counts.max(initial=0))), np.uint64)
    ticks[place, repeat] = durations(trace)[rows]
    return DurationSeries(found, ticks, np.arange(ticks.shape[1]) < counts[:, None])


def summarise(ticks: Ticks) -> Summary:
    """Return the statistics of a non-empty array of durations."""
    return _objects(_summaries(ticks, np.zeros(1, np.int64)))[0]


def _cold_and_warm(trace: Trace) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which blocks are cold executions, and which are warm ones."""
    executed, cold = executions(trace)
    return cold, executed & ~cold


def _partial(
    chosen: npt.NDArray[np.bool_],
    ticks: Ticks,
    starts: _Ints,
    unit: _Floats,
    whole: list[Summary],
) -> list[Summary | None]:
    """Return the statistics of the chosen durations of each group; None for empty groups."""
    counts = np.add.reduceat(chosen, starts, dtype=np.int64)
    all_of = counts == np.diff(starts, append=len(ticks))
    result = [item if every else None for item, every in zip(whole, all_of.tolist(), strict=True)]
    some = np.flatnonzero((counts > 0) & ~all_of)
    if len(some):
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ticks)))
        taken = ticks[chosen & np.isin(group, some)]
        begins = np.cumsum(counts[some]) - counts[some]
        summaries = _objects(_scaled(_summaries(taken, begins), unit[some]))
        for place, summary in zip(some.tolist(), summaries, strict=True):
            result[place] = summary
    return result


def _rates(trace: Trace) -> _Floats:
    """Return numerator and denominator of the ns per tick of each clock; NaN if unknown."""
    ticks = [nanoseconds_per_tick(clock) for clock in trace.clocks]
    return np.array(
        [(np.nan, np.nan) if tick is None else (tick.numerator, tick.denominator) for tick in ticks]
    )


def _scaled(columns: _Columns, factors: _Floats) -> _Columns:
    """Scale statistics to another unit by a fraction per group."""
    # Correctly rounded, like Fraction, as long as the product is below 2**53.
    return columns[:1] + [column * factors[:, 0] / factors[:, 1] for column in columns[1:]]


def _objects(columns: _Columns) -> list[Summary]:
    return list(map(Summary, *(column.tolist() for column in columns)))


def _summaries(ticks: Ticks, starts: _Ints) -> _Columns:
    """Return columns in the order of ``Summary``'s fields for groups that begin at ``starts``."""
    counts = np.diff(starts, append=len(ticks))
    group = np.repeat(np.arange(len(starts)), counts)
    ordered = ticks[np.lexsort((ticks, group))]
    # Sums of uint64 could wrap; sums of their 32-bit halves cannot.
    upper = np.add.reduceat(ordered >> np.uint64(32), starts).astype(np.float64)
    lower = np.add.reduceat(ordered & np.uint64(2**32 - 1), starts).astype(np.float64)
    total = upper * 2.0**32 + lower
    avg = total / counts
    squares = (ordered.astype(np.float64) - avg[group]) ** 2
    return [
        counts,
        total,
        avg,
        *(_percentile(ordered, starts, counts, share) for share in (0.1, 0.5, 0.9)),
        ordered[starts].astype(np.float64),
        ordered[starts + counts - 1].astype(np.float64),
        np.sqrt(np.add.reduceat(squares, starts) / counts),
    ]


def _percentile(ordered: Ticks, starts: _Ints, counts: _Ints, share: float) -> _Floats:
    """Return a percentile of each sorted group, linear between the two nearest values."""
    place = share * (counts - 1)
    below = np.floor(place).astype(np.int64)
    rest = place - below
    low = ordered[starts + below].astype(np.float64)
    high = ordered[starts + np.minimum(below + 1, counts - 1)].astype(np.float64)
    step = high - low
    # Interpolate from the nearer end, so that equal values give exactly this value.
    result: _Floats = np.where(rest < 0.5, low + step * rest, high - step * (1 - rest))
    return result


class _Time:
    """A statistic of an operator's times, as a duration."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, times: OperatorTimes, _owner: type) -> Duration:
        return Duration(getattr(times.in_time, self._name))


class OperatorTimes:
    """How long the repeats of one operator took.

    ``total``, ``avg``, ``p10``, ``p50``, ``p90``, ``min``, ``max`` and ``std`` are durations in
    nanoseconds, which compare as numbers and print with a unit; ``ticks`` has the same in ticks.

    Attributes:
        name: Name of the event.
        block: Name of its block.
        instruction: Its instruction id.
        count: Number of repeats.
        counters: Statistics of what each hardware counter counted, by its name.
        operator: The statistics behind this, with rows in the trace.
    """

    total, avg, p10, p50, p90, min, max, std = (_Time() for _ in range(8))

    def __init__(self, operator: Operator) -> None:
        """Wrap an operator's statistics."""
        self.operator = operator
        self.name, self.block = operator.name, operator.block
        self.instruction, self.count = operator.instruction, len(operator.rows)
        self.counters = operator.counters

    @property
    def ticks(self) -> Summary:
        """The same statistics in ticks of the operator's own clock.

        Raises:
            UsageError: All its events end before they start.
        """
        if self.operator.ticks is None:
            raise UsageError(
                f"the duration of {self.name} is unknown: all its events end before they start",
                hint="see what check I03 says of the clock",
            )
        return self.operator.ticks

    @property
    def in_time(self) -> Summary:
        """The statistics in nanoseconds.

        Raises:
            UsageError: The rate of its clock is unknown.
        """
        _ = self.ticks
        if self.operator.ns is None:
            raise UsageError(
                f"the rate of clock {self.operator.clock.name!r} is unknown, so {self.name} has no "
                "times",
                hint="ask for ticks: .ticks.p50",
            )
        return self.operator.ns

    def __repr__(self) -> str:
        shown = "unknown"
        if self.operator.ticks is not None:
            shown = f"{self.ticks.p50:g} ticks" if self.operator.ns is None else f"{self.p50}"
        return f"<{printable(self.name)}, instruction {self.instruction}: p50 {shown}>"

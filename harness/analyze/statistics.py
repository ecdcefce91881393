"""Per-operator statistics of durations, over all repeats of an event in all runs of its block, and
each operator's share of the wall time.

All groups are reduced at once with ``reduceat``. NumPy's percentile and SciPy's labelled statistics
work on one group at a time or sort once per statistic; sums of large uint64 ticks would wrap there.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

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
    event_nanoseconds,
    nanoseconds_per_tick,
    unknown_durations,
)
from harness.duration import Duration
from harness.errors import UsageError
from harness.formatting import printable
from harness.records.trace import EXECUTION, LOADING, NO_COUNT, ClockDomain, Kind, Signature, Trace

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Columns = list[npt.NDArray[Any]]

Executions = Literal["all", "cold", "warm"]
"""Which executions are compared: all, the cold one (first after loading), or the warm ones."""

Statistic = Literal["p50", "avg", "min", "max", "p10", "p90", "total"]
"""The compared field of a Summary."""

EXECUTIONS: Final[tuple[Executions, ...]] = get_args(Executions)
STATISTICS: Final[tuple[Statistic, ...]] = get_args(Statistic)


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
        unknown: Number of events of unknown duration, which are left out of all statistics
            (``harness.analyze.ticks.unknown_durations``).
        ticks: Statistics in ticks; None if all durations are unknown.
        ns: Statistics in nanoseconds; None also if the clock rate is unknown.
        cold: Statistics of the cold execution (first after loading), in nanoseconds, or in ticks if
            the rate is unknown; None if it has no such event.
        warm: Likewise, of all later executions.
        share: Its share of the wall time (``WallTimes``); None if unknown.
        loading: Its events are of loading a method, not of executions.
        counters: Statistics of what each hardware counter counted, by its name, over the events
            with a count; without the counters that recorded none of its events.
        taken: Time that other tasks and interrupts took from its events together, which no
            statistic contains, in the unit of ``times``; 0 if none are logged.
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
    taken: float = 0.0

    @property
    def times(self) -> Summary | None:
        """Statistics in nanoseconds, or in ticks if the clock rate is unknown."""
        return self.ns or self.ticks


def operator_statistics(trace: Trace, block: str | None = None) -> list[Operator]:
    """Group profile events and summarise each group.

    Events with equal block name, event name, chain, instruction, delegate ids and clock domain are
    one operator. All repeats count, within a run and across runs, except those of unknown duration
    (``harness.analyze.ticks.unknown_durations``).

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
    tick_ns = [nanoseconds_per_tick(clock) for clock in trace.clocks]
    timed = np.array([tick is not None for tick in tick_ns])[keys[-1]]
    # Numerator and denominator of the ns per tick; ticks stay ticks without a rate.
    unit = np.array([(tick or 1).as_integer_ratio() for tick in tick_ns], float)[keys[-1]]
    columns = _summaries(ticks, starts)
    whole = _objects(columns)
    whole_in_unit = whole if (unit == 1.0).all() else _objects(columns, unit)
    known = ~unknown_durations(trace)[rows]
    in_ticks = _partial(known, ticks, starts, np.ones_like(unit), whole)
    executed, cold_blocks = executions(trace)
    in_unit, cold, warm = (
        _partial(chosen & known, ticks, starts, unit, whole_in_unit)
        for chosen in (known, cold_blocks[orders], (executed & ~cold_blocks)[orders])
    )
    wall, taken = WallTimes(trace), np.zeros(len(starts))
    if trace.kind.max(initial=0) >= Kind.TASK:
        lost = durations(trace, wall=True)[rows] - ticks
        taken = np.add.reduceat(lost, starts) * unit[:, 0] / unit[:, 1]
    groups = zip(
        *(blocks, *(key.tolist() for key in keys)),
        *(np.split(rows, starts[1:]), np.add.reduceat(~known, starts, dtype=np.int64).tolist()),
        in_ticks,
        [time if rate else None for time, rate in zip(in_unit, timed.tolist(), strict=True)],
        *(cold, warm, wall.shares(rows, starts), wall.loading(rows[starts]).tolist()),
        *(_counted(trace, rows, starts), taken.tolist()),
        strict=True,
    )
    return [
        Operator(
            *(block, trace.text(name) or "", chain, instruction, number),
            *(trace.text(delegate_str), trace.clocks[clock], *statistics),
        )
        for block, name, chain, instruction, number, delegate_str, clock, *statistics in groups
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
        summaries = _objects(_summaries(taken, begins), unit[some])
        for place, summary in zip(some.tolist(), summaries, strict=True):
            result[place] = summary
    return result


def _objects(columns: _Columns, unit: _Floats | None = None) -> list[Summary]:
    """Return statistics as objects, in another unit if it is given: a fraction per group."""
    if unit is not None:
        # Correctly rounded, like Fraction, as long as the product is below 2**53.
        columns = columns[:1] + [column * unit[:, 0] / unit[:, 1] for column in columns[1:]]
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
    percentiles: list[_Floats] = []
    for share in (0.1, 0.5, 0.9):
        # Linear between the two nearest values.
        place = share * (counts - 1)
        below = np.floor(place).astype(np.int64)
        rest = place - below
        low = ordered[starts + below].astype(np.float64)
        high = ordered[starts + np.minimum(below + 1, counts - 1)].astype(np.float64)
        step = high - low
        # Interpolate from the nearer end, so that equal values give exactly this value.
        percentiles.append(np.where(rest < 0.5, low + step * rest, high - step * (1 - rest)))
    return [
        counts,
        total,
        avg,
        *percentiles,
        ordered[starts].astype(np.float64),
        ordered[starts + counts - 1].astype(np.float64),
        np.sqrt(np.add.reduceat(squares, starts) / counts),
    ]


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
            UsageError: The duration of all its events is unknown.
        """
        if self.operator.ticks is None:
            raise UsageError(
                f"the duration of {self.name} is unknown: all its events end before they start, or "
                "may have lasted longer by whole wraps of the counter",
                hint="see what the checks I03 and I22 say of the clock",
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


class WallTimes:
    """Wall times of executions and of loading, to which every share of time refers.

    The wall time of an execution is that of its ``Method::execute``; the wall time of loading is
    that of ``Program::load_method``, or of ``Method::init`` without it. The share of some events in
    an execution is their time in it divided by its wall time, 0 if it has none of them; their share
    is the median over the executions of the same name, so it is one of a typical execution, as the
    medians beside it are. An event contains what is within it: the events of a delegate are a part
    of their call and never add to it. Left out are blocks of unknown wall time, and for each event
    those in which its duration is unknown.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._orders = block_numbers(trace)
        names, self._name_of = block_names(trace)
        ticks = durations(trace)
        times = event_nanoseconds(trace, ticks)
        self._times = np.where(np.isnan(times), ticks.astype(np.float64), times)
        self._known = ~unknown_durations(trace)
        # Times compare on clocks of known rate, or else on the same clock.
        rateless = [n + 1 if clock.hz is None else 0 for n, clock in enumerate(trace.clocks)]
        self._scale = np.array([*rateless, *[-1] * (256 - len(rateless))])
        self._executes = executions(trace)[0]
        program, method = (self._wall(name) for name in LOADING)
        loading = np.where(np.isnan(program), method, program)
        self._walls = np.stack([self._wall(EXECUTION), loading])
        self._walls[~(self._walls > 0)] = np.nan
        number = {name: index for index, name in enumerate(names)}
        self._block_names = np.array([number[block.name] for block in trace.blocks], np.int64)
        # Of executions and of loading: the blocks of each name with a wall time, and the scale.
        timed = [self._block_names[~np.isnan(walls)] for walls in self._walls]
        self._counts = np.stack([np.bincount(of, minlength=len(names)) for of in timed])
        scopes = self._rows(EXECUTION), self._rows(*LOADING)
        clocks = [int(trace.clock[rows[0]]) if len(rows) else 255 for rows in scopes]
        self._scales = self._scale[clocks]

    def _rows(self, *names: str) -> _Ints:
        """Return the rows of the profile events with one of these names."""
        return np.flatnonzero((self._trace.kind == Kind.PROFILE) & self._trace.named(*names))

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
        firsts, phase = rows[starts], self.loading(rows[starts]).astype(np.int64)
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
        walls = self._walls[phase[group], self._orders[rows]]
        rows, group = rows[~np.isnan(walls)], group[~np.isnan(walls)]
        order = np.lexsort((self._orders[rows], group))
        rows, group, orders = rows[order], group[order], self._orders[rows[order]]
        if not len(rows):
            return [None] * len(starts)
        new = (np.diff(group, prepend=-1) != 0) | (np.diff(orders, prepend=-1) != 0)
        begins = np.flatnonzero(new)
        sums = np.add.reduceat(self._times[rows], begins)
        known = np.logical_and.reduceat(self._known[rows], begins)
        group, orders = group[begins], orders[begins]
        unknown = np.bincount(group[~known], minlength=len(starts))
        counts = self._counts[phase, self._name_of[firsts]] - unknown
        group, orders, sums = group[known], orders[known], sums[known]
        medians = _medians(group, sums / self._walls[phase[group], orders], counts)
        medians[self._scale[self._trace.clock[firsts]] != self._scales[phase]] = np.nan
        return [None if np.isnan(share) else share for share in medians.tolist()]

    def median_blocks(self) -> _Ints:
        """Return the blocks that stand for those of their names: the ones of median wall time.

        All blocks of a name without wall times.
        """
        chosen = []
        walls = np.where(np.isnan(self._walls[0]), self._walls[1], self._walls[0])
        for name in np.unique(self._block_names).tolist():
            blocks = np.flatnonzero(self._block_names == name)
            timed = blocks[~np.isnan(walls[blocks])]
            if len(timed):
                ordered = timed[np.argsort(walls[timed], kind="stable")]
                blocks = ordered[[(len(ordered) - 1) // 2]]
            chosen.append(blocks)
        return np.concatenate(chosen) if chosen else np.empty(0, np.int64)


def _medians(group: _Ints, values: _Floats, counts: _Ints) -> _Floats:
    """Return the median of each group of so many values, of which the ones not given are 0.

    NaN without any given value.

    Args:
        group: Number of the group of each given value, shape (n,).
        values: The given values, at least 0, shape (n,).
        counts: Number of values of each group, the given ones included, shape (groups,).
    """
    given = np.bincount(group, minlength=len(counts))
    ordered = np.append(values[np.lexsort((values, group))], 0.0)
    zeros, first = counts - given, np.cumsum(given) - given
    middle = np.zeros(len(counts))
    for rank in ((counts - 1) // 2, counts // 2):
        place = np.where(rank < zeros, len(values), first + rank - zeros)
        middle += ordered[np.where(given > 0, place, -1)] / 2
    return np.where(given > 0, middle, np.nan)

"""Times of a subject's events, and their sums in each execution, for limits on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.check.rules import UNITS, Executions
from harness.check.subject import Subject
from harness.clock.ticks import Ticks, durations, event_nanoseconds
from harness.clock.unwrap import ends_before_start
from harness.timebase import ClockDomain
from harness.trace import DELEGATE_CALL, Kind
from harness.view.modules import Stack, module_times_by_block
from harness.view.runs import block_names, block_numbers

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

_STATISTICS: Final = {
    "count": len,
    "total": np.sum,
    "avg": np.mean,
    "min": np.min,
    "max": np.max,
    "std": np.std,
    "p10": lambda values: np.percentile(values, 10),
    "p50": lambda values: np.percentile(values, 50),
    "p90": lambda values: np.percentile(values, 90),
}


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Some times, at least one.

    Attributes:
        ns: In nanoseconds, shape (n,); None where the rate of a clock or a duration is unknown.
        ticks: In ticks, same shape; None where they are of several clocks, or one is unknown.
        clock: The clock of these ticks.
    """

    ns: _Floats | None
    ticks: _Floats | None
    clock: ClockDomain | None

    def measure(self, statistic: str, unit: str) -> float | None:
        """A statistic of them; None where it cannot be told in this unit."""
        values = self.ticks if unit in ("ticks", "count") else self.ns
        if unit == "count" and values is None:
            values = self.ns
        if values is None:
            return None
        function: Any = _STATISTICS[statistic]
        return float(function(values)) / UNITS.get(unit, 1.0)


class Durations:
    """What each event of a subject took, in which block."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.trace = subject, subject.trace
        self._sums: dict[tuple[str, Executions], dict[str, Values]] = {}

    @cached_property
    def ticks(self) -> Ticks:
        """Ticks of every event, shape (n,)."""
        return durations(self.trace)

    @cached_property
    def ns(self) -> _Floats:
        """Nanoseconds of every event, nan where rate or duration is unknown, shape (n,)."""
        found = event_nanoseconds(self.trace, self.ticks)
        found[self.unknown] = np.nan
        return found

    @cached_property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """Events that nobody knows the duration of, shape (n,)."""
        return ends_before_start(self.trace)

    @cached_property
    def orders(self) -> _Ints:
        """The block of every event, shape (n,)."""
        return block_numbers(self.trace)

    def blocks(self, executions: Executions) -> npt.NDArray[np.bool_]:
        """Which blocks are meant, shape (blocks,)."""
        return self._blocks[executions]

    @cached_property
    def _blocks(self) -> dict[str, npt.NDArray[np.bool_]]:
        runs = self.subject.runs
        cold = np.array([run.cold for run in runs], np.bool_)
        executed = np.array([run.executes for run in runs], np.bool_)
        return {"all": np.ones(len(runs), np.bool_), "cold": cold, "warm": executed & ~cold}

    def values(self, rows: _Ints, executions: Executions) -> Values | None:
        """Times of single events; None where there are none in these executions."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        return None if not len(rows) else self._values(rows, np.arange(len(rows)))

    def sums(self, rows: _Ints, executions: Executions) -> dict[str, Values]:
        """Sums of events in each block that has any of them, by the name of the blocks."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        names, of_event = self._names_of_blocks
        found = {}
        for number in dict.fromkeys(of_event[rows].tolist()):
            mine = rows[of_event[rows] == number]
            _, place = np.unique(self.orders[mine], return_inverse=True)
            found[names[number]] = self._values(mine, place)
        return found

    @cached_property
    def _names_of_blocks(self) -> tuple[list[str], _Ints]:
        return block_names(self.trace)

    def sums_of(self, name: str, executions: Executions) -> dict[str, Values]:
        """Sums of the events of a name, as ``sums``; computed once."""
        key = name, executions
        if key not in self._sums:
            self._sums[key] = self.sums(self.named(name), executions)
        return self._sums[key]

    def _values(self, rows: _Ints, place: _Ints) -> Values:
        """Values number ``place`` that are the sums of these rows."""
        if self.unknown[rows].any():
            return Values(None, None, None)
        ns = np.bincount(place, self.ns[rows]).astype(np.float64)
        known = None if np.isnan(ns).any() else ns
        numbers = np.unique(self.trace.clock[rows])
        if len(numbers) > 1:
            return Values(known, None, None)
        ticks = np.bincount(place, self.ticks[rows].astype(np.float64)).astype(np.float64)
        return Values(known, ticks, self.trace.clocks[int(numbers[0])])

    def named(self, name: str) -> _Ints:
        """Rows of the profile events of a name."""
        numbers = [number for number, text in enumerate(self.trace.names) if text == name]
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & np.isin(self.trace.name, numbers))

    def outermost(self) -> _Ints:
        """Rows of the profile events that are within no other."""
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & (self.subject.tree.depth == 0))

    def calls(self) -> dict[str, _Ints]:
        """Rows of the calls of delegates, by the name of their backend, as far as it is known."""
        found: dict[str, list[int]] = {}
        for row in self.named(DELEGATE_CALL).tolist():
            known = self.subject.symbols[row] if self.subject.symbols is not None else None
            key = int(self.trace.chain[row]), int(self.trace.instruction[row])
            backend = self.subject.backends.get(key)
            if known is not None and known.backend is not None:
                backend = known.backend
            if backend is not None:
                found.setdefault(backend, []).append(row)
        return {backend: np.array(rows, np.int64) for backend, rows in found.items()}

    def modules(self, executions: Executions) -> dict[tuple[Stack, str], Values]:
        """Times of each module in each execution, by module and name of the blocks.

        Raises:
            ValueError: The subject has no symbols.
        """
        if self.subject.symbols is None:
            raise ValueError("modules need symbols")
        chosen = self.blocks(executions)
        found: dict[tuple[Stack, str], Values] = {}
        by_block = module_times_by_block(self.trace, self.subject.symbols, self.ns)
        for stack, times in by_block.items():
            grouped: dict[str, list[float]] = {}
            for order, time in times.items():
                if chosen[order]:
                    grouped.setdefault(self.trace.blocks[order].name, []).append(time)
            for block, sums in grouped.items():
                ns = np.array(sums)
                found[stack, block] = Values(None if np.isnan(ns).any() else ns, None, None)
        return found

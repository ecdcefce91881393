"""Durations of a subject's events: single, or summed per execution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_names, block_numbers
from harness.analyze.symbols import Stack, module_times_by_block
from harness.analyze.ticks import Ticks, durations, ends_before_start, event_nanoseconds
from harness.check.rules import UNITS, Executions
from harness.check.subject import Subject
from harness.records.clock_domain import ClockDomain
from harness.records.trace import DELEGATE_CALL, Kind

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
class LimitedValues:
    """One or more durations that a limit applies to.

    Attributes:
        ns: In nanoseconds, shape (n,); None if the rate of a clock or a duration is unknown.
        ticks: In ticks, same shape; None with several clocks, or if a duration is unknown.
        clock: The clock of these ticks.
    """

    ns: _Floats | None
    ticks: _Floats | None
    clock: ClockDomain | None

    def measure(self, statistic: str, unit: str) -> float | None:
        """Return a statistic of the durations; None if unknown in this unit."""
        values = self.ticks if unit in ("ticks", "count") else self.ns
        if unit == "count" and values is None:
            values = self.ns
        if values is None:
            return None
        return statistic_of(values, statistic) / UNITS.get(unit, 1.0)


def statistic_of(values: _Floats, statistic: str) -> float:
    """Return a statistic of one or more values, shape (n,)."""
    function: Any = _STATISTICS[statistic]
    return float(function(values))


class Durations:
    """Duration and block of every event of a subject; each array is computed once."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.trace = subject, subject.trace
        self._sums: dict[tuple[str, Executions], dict[str, LimitedValues]] = {}

    @cached_property
    def ticks(self) -> Ticks:
        """Duration of every event in ticks, shape (n,)."""
        return durations(self.trace)

    @cached_property
    def ns(self) -> _Floats:
        """Duration of every event in ns, NaN if rate or duration is unknown, shape (n,)."""
        found = event_nanoseconds(self.trace, self.ticks)
        found[self.unknown] = np.nan
        return found

    @cached_property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """True for events with unknown duration (they end before they start), shape (n,)."""
        return ends_before_start(self.trace)

    @cached_property
    def orders(self) -> _Ints:
        """Block number of every event, shape (n,)."""
        return block_numbers(self.trace)

    def blocks(self, executions: Executions) -> npt.NDArray[np.bool_]:
        """Return True for the blocks of these executions, shape (blocks,)."""
        return self._blocks[executions]

    @cached_property
    def _blocks(self) -> dict[str, npt.NDArray[np.bool_]]:
        runs = self.subject.runs
        cold = np.array([run.cold for run in runs], np.bool_)
        executed = np.array([run.executes for run in runs], np.bool_)
        return {"all": np.ones(len(runs), np.bool_), "cold": cold, "warm": executed & ~cold}

    def values(self, rows: _Ints, executions: Executions) -> LimitedValues | None:
        """Return the durations of single events; None if these executions have none of them."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        return None if not len(rows) else self._values(rows, np.arange(len(rows)))

    def by_block(self, rows: _Ints, executions: Executions) -> dict[str, _Ints]:
        """Return those of ``rows`` that are of these executions, by block name."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        names, of_event = self._names_of_blocks
        numbers = dict.fromkeys(of_event[rows].tolist())
        return {names[number]: rows[of_event[rows] == number] for number in numbers}

    def sums(self, rows: _Ints, executions: Executions) -> dict[str, LimitedValues]:
        """Return the sums of ``rows`` in each block that has any of them, by block name."""
        found = {}
        for name, mine in self.by_block(rows, executions).items():
            _, place = np.unique(self.orders[mine], return_inverse=True)
            found[name] = self._values(mine, place)
        return found

    def counts(self, counter: str) -> _Ints:
        """Return what a hardware counter of the trace counted in every event, shape (n,)."""
        names = [item.name for item in self.trace.counters]
        return self.trace.counts[:, names.index(counter)]

    @cached_property
    def _names_of_blocks(self) -> tuple[list[str], _Ints]:
        return block_names(self.trace)

    def sums_of(self, name: str, executions: Executions) -> dict[str, LimitedValues]:
        """Return the sums of all events with this name, as ``sums``; computed once."""
        key = name, executions
        if key not in self._sums:
            self._sums[key] = self.sums(self.named(name), executions)
        return self._sums[key]

    def _values(self, rows: _Ints, place: _Ints) -> LimitedValues:
        """Sum the durations of ``rows`` into bins; ``place`` is the bin of each row."""
        if self.unknown[rows].any():
            return LimitedValues(None, None, None)
        ns = np.bincount(place, self.ns[rows]).astype(np.float64)
        known = None if np.isnan(ns).any() else ns
        numbers = np.unique(self.trace.clock[rows])
        if len(numbers) > 1:
            return LimitedValues(known, None, None)
        ticks = np.bincount(place, self.ticks[rows].astype(np.float64)).astype(np.float64)
        return LimitedValues(known, ticks, self.trace.clocks[int(numbers[0])])

    def named(self, name: str) -> _Ints:
        """Return the rows of the profile events with this name."""
        numbers = [number for number, text in enumerate(self.trace.names) if text == name]
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & np.isin(self.trace.name, numbers))

    def outermost(self) -> _Ints:
        """Return the rows of the outermost profile events."""
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & (self.subject.tree.depth == 0))

    def calls(self) -> dict[str, _Ints]:
        """Return the rows of delegate calls by backend; calls of unknown backends are left out."""
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

    def modules(self, executions: Executions) -> dict[tuple[Stack, str], LimitedValues]:
        """Return the times of each module in each execution, by module and block name.

        Raises:
            ValueError: The subject has no symbols.
        """
        if self.subject.symbols is None:
            raise ValueError("modules need symbols")
        chosen = self.blocks(executions)
        found: dict[tuple[Stack, str], LimitedValues] = {}
        by_block = module_times_by_block(self.trace, self.subject.symbols, self.ns)
        for stack, times in by_block.items():
            grouped: dict[str, list[float]] = {}
            for order, time in times.items():
                if chosen[order]:
                    grouped.setdefault(self.trace.blocks[order].name, []).append(time)
            for block, sums in grouped.items():
                ns = np.array(sums)
                found[stack, block] = LimitedValues(None if np.isnan(ns).any() else ns, None, None)
        return found

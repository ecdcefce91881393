"""Subject: a trace, and what else is known of its run; the input of all checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from harness.analyze.blocks import BlockRun, runs
from harness.analyze.call_tree import CallTree, call_tree
from harness.analyze.memory import AllocatorTotals, Memory, allocator_totals, memory
from harness.analyze.statistics import Operator, largest_operators
from harness.records.energy import EnergyRecord
from harness.records.measurement import MeasurementSettings
from harness.records.result import AccuracyRecord, ClockQuality, CoreRecord
from harness.records.trace import InstructionRecord, Ping, Trace

if TYPE_CHECKING:
    from harness.records.symbols import EventSymbols


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutput:
    """An output of a run, with its reference.

    Attributes:
        name: The file of the output, relative to the run directory.
        value: Output of the last execution.
        reference: Expected output.
        tolerance: Relative and absolute tolerance per element, which add up; None for the default
            of its type (``harness.check.invariants.executions``).
        note: What the execution began with, where that matters, as the rest of a sentence.
    """

    name: str
    value: np.ndarray
    reference: np.ndarray
    tolerance: tuple[float | None, float | None] = (None, None)
    note: str = ""

    @property
    def largest_difference(self) -> float | None:
        """The largest absolute difference; None if shapes or types differ, or both are empty."""
        value, reference = self.value, self.reference
        if value.shape != reference.shape or value.dtype != reference.dtype or not value.size:
            return None
        with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity
            return float(np.abs(value.astype(float) - reference.astype(float)).max())


@dataclass(frozen=True, eq=False)
class Subject:
    """A trace, and what else is known of its run; None or empty if unknown.

    Derived values are computed once, on first use, so that all checks, reports and the history use
    the same values.

    Attributes:
        trace: The logged events.
        board: Name of the board type.
        unit: Name of the unit (the physical board).
        model: Name of the model's file, without its directory.
        log_bytes: Size of the log as sent by the device.
        trace_capacity: Size of the device's log buffer in bytes.
        arena_capacity: Size of the device's arena in bytes.
        arena_used: Bytes of the arena used by the model.
        method_bytes: Bytes of it that the board counted for the description of the method.
        planned_bytes: Bytes of it that the board counted for the method's tensors and temporary
            memory.
        probe: Duration of an empty event on the device, in ticks of clock 0, without counters.
        qualities: Accuracy of each clock.
        pings: The host's readings of clock 0; None for a trace alone.
        restart: When the run set clock 0 to zero.
        planned: Bytes planned for each allocator, by name.
        image: Section sizes of the firmware in bytes: ``text``, ``data`` and ``bss``.
        symbols: ETRecord data of every event, shape (n,).
        outputs: Outputs that have a reference.
        runs_requested: Number of requested executions.
        runs_completed: Number of completed executions.
        dumps: First rows of the second and further dumps of a file; a dump may be older than the
            one before it.
        method: Name of the method that was asked for.
        chains: Instructions of this method, per chain; None if unknown.
        backends: Names of the backends that instructions call, by chain and instruction.
        day: Day on which waivers are evaluated; None for today.
        emulated_time: Clocks count the steps of an emulator, not real time.
        runtime: Name of the runtime, as the board reports it; "" if unknown.
        settings: How the run was measured; None if unknown.
        test_set: Number of the test set that ran; None for a run of anything else.
        host_clock: Clock 0 is the clock of a host's operating system.
        core: What the board's core can do at most; None if unknown.
        energy: What the run drew; None if no meter recorded it.
        accuracy: How right the model is over samples; None without any.
        most_operators: Number of operators with statistics, those with the largest total times;
            None for all, as checks need them.
    """

    trace: Trace
    board: str = ""
    unit: str = ""
    model: str = ""
    log_bytes: int | None = None
    trace_capacity: int | None = None
    arena_capacity: int | None = None
    arena_used: int | None = None
    method_bytes: int | None = None
    planned_bytes: int | None = None
    probe: Fraction | None = None
    qualities: tuple[ClockQuality, ...] = ()
    pings: tuple[Ping, ...] | None = None
    restart: Ping | None = None
    planned: Mapping[str, int] = field(default_factory=dict)
    image: Mapping[str, int] = field(default_factory=dict)
    symbols: Sequence[EventSymbols | None] | None = None
    outputs: tuple[ModelOutput, ...] = ()
    runs_requested: int | None = None
    runs_completed: int | None = None
    dumps: tuple[int, ...] = ()
    method: str = ""
    chains: tuple[tuple[InstructionRecord, ...], ...] | None = None
    backends: Mapping[tuple[int, int], str] = field(default_factory=dict)
    day: date | None = None
    emulated_time: bool = False
    runtime: str = ""
    settings: MeasurementSettings | None = None
    test_set: int | None = None
    host_clock: bool = False
    core: CoreRecord | None = None
    energy: EnergyRecord | None = None
    accuracy: AccuracyRecord | None = None
    most_operators: int | None = None

    @property
    def single_issue(self) -> bool:
        """Whether the core is known to retire at most one instruction per cycle."""
        return self.core is not None and self.core.issue_width == 1

    @property
    def served(self) -> bool:
        """Whether the board carried the run out for the host: it loaded one method and executed it.

        The logs of other traces begin and end anywhere, and may have several methods.
        """
        return self.method_bytes is not None

    @property
    def operators(self) -> list[Operator]:
        """Statistics of the operators, in order of first occurrence."""
        return self.operators_and_others[0]

    @cached_property
    def operators_and_others(self) -> tuple[list[Operator], int]:
        """The operators, and the number of those beyond ``most_operators``."""
        return largest_operators(self.trace, self.most_operators)

    @cached_property
    def allocators(self) -> list[AllocatorTotals]:
        """Totals of every allocator, in order of first occurrence."""
        return allocator_totals(self.trace)

    @cached_property
    def runs(self) -> list[BlockRun]:
        """The blocks of the trace."""
        return runs(self.trace)

    @cached_property
    def tree(self) -> CallTree:
        """Nesting of the events."""
        return call_tree(self.trace)

    @cached_property
    def memory(self) -> Memory:
        """Memory of every allocator over time."""
        return memory(self.trace, dict(self.planned), self.tree)


def model_name(file: str) -> str:
    """Return the name of a model: its file name without the directory."""
    return PurePath(file).name

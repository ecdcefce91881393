"""Subject: what a verdict is about, a trace and what is known beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from harness.analyze.allocators import AllocatorTotals, allocator_totals
from harness.analyze.blocks import BlockRun, runs
from harness.analyze.call_tree import CallTree, call_tree
from harness.analyze.memory import Memory, memory
from harness.analyze.statistics import Operator, operator_statistics
from harness.records.result import ClockQuality
from harness.records.trace import Trace

if TYPE_CHECKING:
    import numpy as np

    from harness.analyze.symbols import EventSymbols


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutput:
    """An output of a run beside what it should be.

    Attributes:
        name: The file of the output, relative to the run directory.
        value: What came out of the last execution.
        reference: What should have.
        rtol: How far off an element may be, as a share of the reference; None for what its type
            allows (``harness.check.invariants.outputs``).
        atol: Plus this much; likewise.
    """

    name: str
    value: np.ndarray
    reference: np.ndarray
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A trace, and what else is known of its run; None or empty where nothing is.

    What is computed of the trace is computed once, when it is first asked for, so that all checks,
    reports and the history agree about it.

    Attributes:
        trace: What was logged.
        board: Name of the board type.
        unit: The board of this type that it was.
        model: Name of the model's file, without its directory.
        log_bytes: Size of the log as the device sent it.
        trace_capacity: Bytes that the device has for its log.
        arena_capacity: Bytes of the device's arena.
        arena_used: Bytes of it that the model takes.
        probe: Ticks of clock 0 that an empty event took on the device.
        qualities: How well it is known when the events of each clock were.
        planned: Bytes that allocators were given, by name.
        image: Bytes of the firmware: ``text``, ``data`` and ``bss``.
        symbols: What an ETRecord knows of every event, shape (n,).
        outputs: Outputs for which there is a reference.
        runs_requested: Executions that were asked for.
        runs_completed: Executions that ended.
        dumps: Rows at which a further dump begins, of several that stood in one file: it may be
            older than the one before it.
        backends: Names of the backends that instructions call, by chain and instruction.
        day: The day that waivers with an end are asked for; None for today.
    """

    trace: Trace
    board: str = ""
    unit: str = ""
    model: str = ""
    log_bytes: int | None = None
    trace_capacity: int | None = None
    arena_capacity: int | None = None
    arena_used: int | None = None
    probe: Fraction | None = None
    qualities: tuple[ClockQuality, ...] = ()
    planned: Mapping[str, int] = field(default_factory=dict)
    image: Mapping[str, int] = field(default_factory=dict)
    symbols: Sequence[EventSymbols | None] | None = None
    outputs: tuple[ModelOutput, ...] = ()
    runs_requested: int | None = None
    runs_completed: int | None = None
    dumps: tuple[int, ...] = ()
    backends: Mapping[tuple[int, int], str] = field(default_factory=dict)
    day: date | None = None

    @cached_property
    def operators(self) -> list[Operator]:
        """Statistics of every operator, first seen first."""
        return operator_statistics(self.trace)

    @cached_property
    def allocators(self) -> list[AllocatorTotals]:
        """Totals of every allocator, first seen first."""
        return allocator_totals(self.trace)

    @cached_property
    def runs(self) -> list[BlockRun]:
        """The blocks of the trace."""
        return runs(self.trace)

    @cached_property
    def tree(self) -> CallTree:
        """Which event happened within which."""
        return call_tree(self.trace)

    @cached_property
    def memory(self) -> Memory:
        """Every allocator over time."""
        return memory(self.trace, dict(self.planned), self.tree)


def model_name(file: str) -> str:
    """The name under which a model is known: its file's, without the directory."""
    return PurePath(file).name

"""Executions of a run: how long each took, which is typical, and what happened within one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.ticks import durations, ends_before_start, event_nanoseconds
from harness.check.subject import Subject
from harness.records.operator_names import OperatorKind, operator_kind
from harness.records.trace import EXECUTION, OPERATOR_CALL, Kind


@dataclass(frozen=True, slots=True)
class TimedExecution:
    """One execution of a method.

    Attributes:
        number: Its number among the executions of the run, from 1.
        row: Row of its ``Method::execute``.
        block: Number of its block.
        time: How long it took, in nanoseconds, or in ticks if the rate is unknown.
        cold: It is the first after loading.
    """

    number: int
    row: int
    block: int
    time: float
    cold: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """An event directly within an execution.

    Attributes:
        row: Its row.
        name: Its exact name.
        instruction: Its instruction; -1 for none.
        kind: Its kind of work.
        start: When it began after its execution, in the unit of ``TimedExecution.time``.
        time: How long it took, likewise.
    """

    row: int
    name: str
    instruction: int
    kind: OperatorKind
    start: float
    time: float


@dataclass(frozen=True, slots=True)
class Executions:
    """The executions of one method, in order.

    Attributes:
        all: Those of known duration.
        timed: Their times are nanoseconds.
    """

    all: tuple[TimedExecution, ...]
    timed: bool

    @property
    def median(self) -> TimedExecution:
        """The execution in the middle by time; the faster of two."""
        return sorted(self.all, key=_time)[(len(self.all) - 1) // 2]

    @property
    def slowest(self) -> TimedExecution:
        """The execution that took longest, the first of several."""
        return max(self.all, key=_time)

    @property
    def first(self) -> TimedExecution:
        """The execution that began first."""
        return self.all[0]


def _time(execution: TimedExecution) -> float:
    return execution.time


def executions(subject: Subject) -> Executions | None:
    """Return the executions of the first method of ``subject``; None if none was logged."""
    found = next((op for op in subject.operators if op.name == EXECUTION), None)
    if found is None or found.times is None:
        return None
    trace = subject.trace
    ticks = durations(trace)
    times = ticks.astype(np.float64) if found.ns is None else event_nanoseconds(trace, ticks)
    blocks = block_numbers(trace)[found.rows].tolist()
    known = ~ends_before_start(trace)[found.rows]
    return Executions(
        all=tuple(
            TimedExecution(number, row, block, time, subject.runs[block].cold)
            for number, (row, block, time, is_known) in enumerate(
                zip(
                    found.rows.tolist(),
                    blocks,
                    times[found.rows].tolist(),
                    known.tolist(),
                    strict=True,
                ),
                start=1,
            )
            if is_known
        ),
        timed=found.ns is not None,
    )


def slices(subject: Subject, execution: TimedExecution) -> list[Slice]:
    """Return what happened directly within an execution, in the order of time.

    The runtime's scope around an instruction is replaced by what it holds. Events on other clocks
    than that of the execution have no place beside these.

    Raises:
        FormatError: The times cannot be brought into an order.
    """
    trace, tree = subject.trace, subject.tree
    block = trace.blocks[execution.block]
    rows = np.arange(block.first, block.first + block.count)
    timed = (trace.kind[rows] == Kind.PROFILE) & (trace.clock[rows] == trace.clock[execution.row])
    rows = rows[timed & ~trace.delegated[rows] & (tree.start[rows] >= 0)]
    parent = tree.parent[rows]
    direct = rows[parent == execution.row]
    calls = [index for index, name in enumerate(trace.names) if name == OPERATOR_CALL]
    wrappers = direct[np.isin(trace.name[direct], calls)]
    inner = rows[np.isin(parent, wrappers)]
    empty = np.setdiff1d(wrappers, tree.parent[inner])
    kept = np.concatenate([np.setdiff1d(direct, wrappers), inner, empty])
    kept = kept[np.argsort(tree.start[kept], kind="stable")]
    length = max(int(tree.total[execution.row]), 1)
    unit = execution.time / length
    begin = int(tree.start[execution.row])
    found = []
    for row in kept.tolist():
        name = trace.text(int(trace.name[row])) or ""
        found.append(
            Slice(
                row=row,
                name=name,
                instruction=-1 if trace.chain[row] < 0 else int(trace.instruction[row]),
                kind=operator_kind(name),
                start=unit * (int(tree.start[row]) - begin),
                time=unit * int(tree.total[row]),
            )
        )
    return found

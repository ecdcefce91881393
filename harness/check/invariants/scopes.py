"""Finds the scopes of instructions, and the runtime's scopes that enclose them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers, equal_rows
from harness.analyze.call_tree import WRAPPERS, next_row
from harness.check.subject import Subject
from harness.records.trace import EXECUTION, Kind, Losses, Trace

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Scopes:
    """The events of a method's instructions on the tracers' own clock.

    Application scopes are not included: they need not nest.

    Attributes:
        rows: Rows in the trace, in log order, shape (n,).
        block: Block number of each, shape (n,).
        around: Rows of the runtime's enclosing scopes, -1 if absent, each shape (n,): the scope of
            the instruction, and the scope of the execution.
        start: Start of every event of the trace, on the timeline of its clock.
        end: End of every event of the trace, likewise.
    """

    rows: _Ints
    block: _Ints
    around: tuple[_Ints, _Ints]
    start: _Ints
    end: _Ints


def scopes_of(subject: Subject) -> Scopes:
    """Return the scopes of all instructions of the subject's trace."""
    trace, tree = subject.trace, subject.tree
    own, block = own_scopes(trace), block_numbers(trace)
    rows = np.flatnonzero(own & (trace.chain != -1))
    instruction = equal_rows([block, trace.chain, trace.instruction])
    wrapper = own & named(trace, *WRAPPERS)
    of_instruction = next_row(instruction, wrapper, rows)
    of_instruction[wrapper[rows]] = -1
    of_execution = next_row(block, own & named(trace, EXECUTION), rows)
    end = tree.start + tree.total.astype(np.int64)
    return Scopes(rows, block[rows], (of_instruction, of_execution), tree.start, end)


def own_scopes(trace: Trace) -> _Bools:
    """Return True for profile events on a tracer's own clock, without delegates; shape (n,)."""
    return np.asarray((trace.kind == Kind.PROFILE) & ~trace.delegated & (trace.clock == 0))


def order_known(losses: Losses) -> bool:
    """Return whether no events are missing, so that neighbors in the log followed each other."""
    # A chunk is missing only with its records; its number alone is no reason to check nothing.
    return not (losses.events or losses.blocks or losses.records or losses.damaged)


def describe(trace: Trace, row: int) -> str:
    """Return the name, instruction and block of an event as text."""
    name = trace.text(int(trace.name[row])) or "(no name)"
    block = int(block_numbers(trace)[row])
    return f"{name} (instruction {trace.instruction[row]}, block {block})"


def named(trace: Trace, *names: str) -> _Bools:
    """Return True for events with one of these names, shape (n,)."""
    numbers = [index for index, name in enumerate(trace.names) if name in names]
    return np.isin(trace.name, numbers)

"""Finds operators and allocators of a run by name; an error lists the names that the run has."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from harness.analyze.memory import AllocatorTotals
from harness.analyze.statistics import OperatorTimes
from harness.check.subject import Subject
from harness.errors import UsageError
from harness.formatting import printable

EXECUTE: Final = "Execute"
"""Name of the block of an execution."""

_MOST_NAMES: Final = 12
"""Names that a message lists."""


def find_operators(run: str, subject: Subject, pattern: str, block: str) -> list[OperatorTimes]:
    """Return all operators that match, in the order in which they were first seen.

    Args:
        run: The run, for messages.
        subject: Its trace.
        pattern: ``fnmatch`` pattern for the name of the event, case-sensitive.
        block: The same for the name of its block.

    Raises:
        UsageError: None matches.
    """
    known = subject.operators
    in_block = [operator for operator in known if fnmatchcase(operator.block, block)]
    found = [operator for operator in in_block if fnmatchcase(operator.name, pattern)]
    if not found:
        names = _names(operator.name for operator in in_block)
        blocks = _names(operator.block for operator in known)
        raise UsageError(
            f"no event of {run} matches {pattern!r} in block {block!r}",
            hint=f"there are {names}" if in_block else f"its blocks are {blocks}",
        )
    return [OperatorTimes(operator) for operator in found]


def find_operator(
    run: str, subject: Subject, pattern: str, block: str, instruction: int | None
) -> OperatorTimes:
    """Return the one operator that matches, and has this instruction id unless it is None.

    Raises:
        UsageError: None matches, or several.
    """
    found = [
        operator
        for operator in find_operators(run, subject, pattern, block)
        if instruction in (None, operator.instruction)
    ]
    if len(found) != 1:
        listed = ", ".join(map(repr, found[:_MOST_NAMES]))
        raise UsageError(
            f"{len(found)} events of {run} match {pattern!r}, not one",
            hint=f"name one by its instruction, or ask for slowest(): {listed}",
        )
    return found[0]


def find_allocator(run: str, subject: Subject, name: str) -> AllocatorTotals:
    """Return the totals of the allocator of this name.

    Raises:
        UsageError: There is none.
    """
    for totals in subject.allocators:
        if totals.label == name:
            return totals
    names = _names(totals.label for totals in subject.allocators)
    raise UsageError(f"{run} has no allocator {name!r}", hint=f"there are {names}")


def _names(names: Iterable[str]) -> str:
    distinct = [*dict.fromkeys(printable(name) for name in names)]
    more = len(distinct) - _MOST_NAMES
    return ", ".join(distinct[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

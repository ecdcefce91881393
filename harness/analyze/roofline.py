"""The roofline: what limits each operator, by its work, its cycles and what the core can do.

An operator of M multiply-accumulates and B bytes of tensors takes at least M / ``macs_per_cycle``
and at least B / ``bytes_per_cycle`` cycles, whatever its code is (Williams, Waterman and Patterson,
Roofline, 2009). The rest of its measured cycles is overhead: loops, addresses, requantization,
stalls, and bytes that it moves more than once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.analyze.statistics import Operator
from harness.records.core import CoreRecord
from harness.records.instruction import InstructionRecord
from harness.records.trace import OPERATOR_CALL

Bound = Literal["compute", "memory", "overhead"]

CYCLES: Final = "cycles"
"""The counter of the core's cycles."""

_EXPLAINED: Final = 0.5
"""Share of the cycles from which on the roof is what limits an operator, not its overhead."""


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """An operator against what its core can do.

    Attributes:
        operator: The operator.
        macs: Its multiply-accumulates.
        bytes: Bytes of its input and output tensors, each moved once.
        cycles: Median of its measured cycles.
        fewest: Cycles that the core needs at least for this work.
        bound: What limits it: ``compute`` or ``memory``, whichever needs more cycles, where these
            are half of the measured ones or more; else ``overhead``.
    """

    operator: Operator
    macs: int
    bytes: int
    cycles: float
    fewest: float
    bound: Bound

    @property
    def intensity(self) -> float:
        """Multiply-accumulates per byte."""
        return self.macs / self.bytes

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates per measured cycle."""
        return self.macs / self.cycles

    @property
    def share(self) -> float:
        """Part of the measured cycles that the core needs at least; 1 is the roof."""
        return self.fewest / self.cycles


def roofline(
    operators: Iterable[Operator],
    chains: Sequence[Sequence[InstructionRecord]],
    core: CoreRecord,
) -> list[RooflinePoint]:
    """Place every operator of known work and known cycles; in the order of ``operators``.

    Args:
        operators: Operators of executions.
        chains: Instructions of the program with their work, per chain.
        core: What the core can do at most.
    """
    found = []
    for operator in operators:
        work = _work(operator, chains)
        counts = operator.counters.get(CYCLES)
        if work is None or counts is None or not counts.p50:
            continue
        moved = work.bytes_read + work.bytes_written
        compute, memory = work.macs / core.macs_per_cycle, moved / core.bytes_per_cycle
        fewest = max(compute, memory)
        bound: Bound = "compute" if compute >= memory else "memory"
        if fewest < _EXPLAINED * counts.p50:
            bound = "overhead"
        found.append(RooflinePoint(operator, work.macs, moved, counts.p50, fewest, bound))
    return found


def _work(
    operator: Operator, chains: Sequence[Sequence[InstructionRecord]]
) -> InstructionRecord | None:
    """Return the instruction of a kernel's event, if its work is known."""
    if operator.name == OPERATOR_CALL or operator.loading:
        return None
    if operator.delegate_int != -1 or operator.delegate_str is not None:
        return None
    if not 0 <= operator.chain < len(chains):
        return None
    if not 0 <= operator.instruction < len(chains[operator.chain]):
        return None
    found = chains[operator.chain][operator.instruction]
    return found if found.call == "kernel" and found.bytes_read + found.bytes_written else None

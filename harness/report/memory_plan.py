"""The memory plan of the model that a run executed, read from its file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.analyze.planned_memory import PlannedPool, planned_pools
from harness.decode.bundled_program import program_bytes
from harness.decode.pte import read_program
from harness.errors import FormatError
from harness.formatting import operator_title, printable
from harness.records.operator_names import OperatorKind, operator_kind
from harness.report.description import RunDescription

_LARGEST = 256 * 1024**2
"""Bytes of the largest model that is read again for its plan."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The planned memory of a method.

    Attributes:
        pools: Its pools; empty if they are unknown.
        operators: Title of each instruction.
        kinds: Kind of each.
        unknown: Why the plan is unknown; empty if it is not.
    """

    pools: tuple[PlannedPool, ...]
    operators: tuple[str, ...]
    kinds: tuple[OperatorKind, ...]
    unknown: str = ""


def memory_plan(run: RunDescription) -> MemoryPlan | None:
    """Return the memory plan of a run; None if its model plans no memory, or is unknown."""
    result, subject = run.run.result, run.run.subject
    if result is None or result.model is None or not result.model.planned_bytes:
        return None
    model = result.model
    steps = [step for chain in (subject.chains if subject else None) or () for step in chain]
    operators = tuple(operator_title(step.name, n) for n, step in enumerate(steps))
    kinds = tuple(operator_kind(step.name, step.call == "delegate") for step in steps)
    try:
        pools = _pools(model.file, model.nbytes, model.sha256, model.method)
    except (OSError, FormatError) as error:
        why = printable(error.message if isinstance(error, FormatError) else str(error))
        return MemoryPlan((), operators, kinds, f"no memory plan: {why}")
    return MemoryPlan(pools, operators, kinds)


@lru_cache(maxsize=16)
def _pools(file: str, size: int, sha256: str, name: str) -> tuple[PlannedPool, ...]:
    """Read the pools of a method, from a file that is the one that ran."""
    path = Path(file)
    if not path.is_file():
        raise FormatError(f"the model {path.name} is no longer where it ran from")
    if size > _LARGEST or path.stat().st_size != size:
        raise FormatError(f"the model {path.name} is not the one that ran")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise FormatError(f"the model {path.name} is not the one that ran")
    method = read_program(program_bytes(data)).method(name)
    return () if method is None else tuple(planned_pools(method))

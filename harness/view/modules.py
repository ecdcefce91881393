"""How long each module of a model took: every instruction's time counted exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.program.etrecord import Module
from harness.trace import DELEGATE_CALL, NO_NAME, OPERATOR_CALL, Kind, Trace
from harness.view.symbols import Symbols

Stack = tuple[Module, ...]


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """What the operators of a module took.

    Attributes:
        modules: The module, behind those around it; empty for operators of which nothing is known.
        own: Time of its own operators.
        total: The same with the modules within it.
    """

    modules: Stack
    own: float
    total: float

    @property
    def path(self) -> str:
        """Where it is in the model; "" is the model itself."""
        return self.modules[-1].path if self.modules else ""


def module_times(
    trace: Trace, symbols: Sequence[Symbols | None], times: npt.NDArray[np.float64]
) -> list[ModuleTime]:
    """Divide the time of all instructions among modules, in the order of their first operator.

    The time of an instruction is that of its kernel or of its DELEGATE_CALL; OPERATOR_CALL, which
    holds both, counts for nothing. It goes to the innermost module around all its operators. What
    events within a delegate took goes to their own modules and is taken from the call's; unless all
    of them together took longer than the call: then they overlap, or their clock is another one,
    and the whole call is its module's.

    Args:
        trace: What was logged.
        symbols: Of every event, shape (n,).
        times: Duration of every event, all in one unit, shape (n,); nan where it is unknown.
    """
    own: dict[Stack, float] = {}
    for outer, inner in _instructions(trace, symbols):
        of_inner = float(times[inner].sum())
        of_outer = float(times[outer].sum())
        shared = bool(outer) and of_inner <= of_outer
        for row in inner if shared or not outer else ():
            _add(own, symbols[row], float(times[row]))
        if outer:
            _add(own, symbols[outer[0]], of_outer - of_inner if shared else of_outer)
    return _totals(own)


def time_of_module(times: Sequence[ModuleTime], name: str) -> float:
    """Total time within all modules of a name, each operator counted once.

    Args:
        times: From ``module_times``.
        name: A module's key, or its path or whole components of it: ``layers.1`` is in
            ``encoder.layers.1`` and not in ``encoder.layers.12``.
    """
    return sum(
        item.own for item in times if any(_is_called(module, name) for module in item.modules)
    )


def _is_called(module: Module, name: str) -> bool:
    return name in (module.key, module.path) or (name != "" and f".{name}." in f".{module.path}.")


def _instructions(
    trace: Trace, symbols: Sequence[Symbols | None]
) -> list[tuple[list[int], list[int]]]:
    """Rows of each instruction: the scopes around everything, and the events of delegates."""
    groups: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
    chains, instructions = trace.chain.tolist(), trace.instruction.tolist()
    for number, block in enumerate(trace.blocks):
        for row in range(block.first, block.first + block.count):
            if trace.kind[row] != Kind.PROFILE or symbols[row] is None:
                continue
            name = trace.text(int(trace.name[row]))
            if name == OPERATOR_CALL:
                continue
            key = number, chains[row], instructions[row]
            outer, inner = groups.setdefault(key, ([], []))
            delegated = trace.delegate_int[row] != -1 or trace.delegate_str[row] != NO_NAME
            (inner if delegated else outer).append(row)
    return [(_outermost(trace, outer), inner) for outer, inner in groups.values() if outer or inner]


def _outermost(trace: Trace, rows: list[int]) -> list[int]:
    """The DELEGATE_CALLs among the rows if there are any, as nothing else is beside them."""
    calls = [row for row in rows if trace.text(int(trace.name[row])) == DELEGATE_CALL]
    return calls or rows


def _add(own: dict[Stack, float], symbols: Symbols | None, time: float) -> None:
    if symbols is not None:
        own[symbols.module] = own.get(symbols.module, 0.0) + time


def _totals(own: dict[Stack, float]) -> list[ModuleTime]:
    totals: dict[Stack, float] = {}
    for stack, time in own.items():
        for length in range(1 if stack else 0, len(stack) + 1):
            totals[stack[:length]] = totals.get(stack[:length], 0.0) + time
    return [ModuleTime(stack, own.get(stack, 0.0), total) for stack, total in totals.items()]

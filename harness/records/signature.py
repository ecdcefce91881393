"""Signature: identifies an operator within a run, across runs and between traces.

``InstructionRecord`` is an instruction of a program, with its work, as a result records it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec


class Signature(msgspec.Struct, frozen=True):
    """The common fields of all events of one operator. A Struct: there may be 100,000 of them.

    Attributes:
        block: Name of the blocks it ran in.
        name: Its name; "" if it has none.
        chain: Chain index, -1 unset.
        instruction: Instruction id.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id, or None.
    """

    block: str
    name: str
    chain: int
    instruction: int
    delegate_int: int
    delegate_str: str | None

    @property
    def signature(self) -> tuple[str, str, int, int, int, str | None]:
        """All fields as a tuple, for comparison."""
        return (
            *(self.block, self.name, self.chain, self.instruction),
            *(self.delegate_int, self.delegate_str),
        )


_Signed = TypeVar("_Signed", bound=Signature)


def by_block(items: Iterable[_Signed]) -> dict[str, list[_Signed]]:
    """Group items by the name of their block, in order."""
    found: dict[str, list[_Signed]] = defaultdict(list)
    for item in items:
        found[item.block].append(item)
    return dict(found)


CallName = Literal["kernel", "delegate", "move", "jump_false", "free"]
"""Kinds of instructions."""


class InstructionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instruction of the program: a kernel's ``operator.overload``, or a delegate's backend.

    ``target`` is the instruction that a jump goes to, else -1. ``macs`` are a kernel's
    multiply-accumulates, ``bytes_read`` and ``bytes_written`` the sizes of its tensors, as
    ``etharness inspect`` states them; 0 for other instructions and where they are unknown.
    """

    call: CallName
    name: str = ""
    target: int = -1
    macs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

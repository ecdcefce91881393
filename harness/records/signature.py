"""Signature: identifies an operator within a run, across runs and between traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

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

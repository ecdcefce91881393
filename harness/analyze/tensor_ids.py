"""Ids of tensors and storages, as the PyTorch profiler assigns them.

An address does not identify a tensor: freed memory is reused, and a tensor may move. So each
lifetime at an address is a storage of its own, and storages that held the same tensor share its id.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from harness.decode.program import Call, Method, Tensor, ValueList


@dataclass(frozen=True, slots=True)
class TensorReference:
    """An access to an address: an operator's argument, an allocation or a free.

    Attributes:
        address: Address and device of the storage, or any other key unique to its location.
        tensor: Address or number of the operator's tensor; None for an allocation or a free.
        freed: Whether the storage ends here.
    """

    address: Hashable
    tensor: Hashable | None = None
    freed: bool = False


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of a storage and its tensor.

    Attributes:
        storage: Number of the storage, from 1.
        tensor: Number of the tensor, from 0; None if no operator used a tensor in this storage.
    """

    storage: int
    tensor: int | None


def unique_ids(references: Sequence[TensorReference]) -> list[Ids]:
    """Return the ids of storages and tensors.

    Args:
        references: Arguments at the start of operators, and allocations, in order of time.

    Returns:
        Ids per reference. Tensors are numbered in the order of their first storage.
    """
    storages = _storages(references)
    first: dict[Hashable, int] = {}  # storage in which a tensor was seen first
    pairs = set()
    for reference, storage in zip(references, storages, strict=True):
        if reference.tensor is not None:
            earlier = first.setdefault(reference.tensor, storage)
            pairs.add((min(earlier, storage), max(earlier, storage)))
    tensors: dict[int, int] = {}
    count = 0
    for lower, higher in sorted(pairs):
        if lower not in tensors:
            tensors[lower] = count
            count += 1
        tensors.setdefault(higher, tensors[lower])
    return [Ids(storage, tensors.get(storage)) for storage in storages]


def _storages(references: Sequence[TensorReference]) -> list[int]:
    """Return the storage number of each reference: a new one per address after each free."""
    current: dict[Hashable, int] = {}
    count = 0
    found = []
    for reference in references:
        if reference.address not in current:
            count += 1
            current[reference.address] = count
        found.append(current[reference.address])
        if reference.freed:
            del current[reference.address]
    return found


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The range of instructions that need a value, as indices into all instructions of a method.

    Attributes:
        first: First instruction with the value as an argument; -1 if it exists before.
        last: Last instruction; the number of all instructions if it is needed afterwards.
    """

    first: int
    last: int


def lifetimes(method: Method) -> dict[int, Lifetime]:
    """Return the lifetimes of all used tensors of ``method``, by value number.

    Inputs, constants and buffers exist before the first instruction; outputs and mutable buffers
    are needed after the last. Tensors carried through a loop live until its end, members of a list
    as long as the list.
    """
    steps = [step for chain in method.chains for step in chain]
    end = len(steps)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, value in enumerate(method.values):
        if isinstance(value, Tensor) and (value.constant or value.initial_state):
            first[number], last[number] = -1, end
    for number in _tensors(method, method.inputs):
        first[number] = -1
    for place, step in enumerate(steps):
        for number in _tensors(method, step.args):
            first.setdefault(number, place)
            last[number] = max(last.get(number, place), place)
    for begin, behind in _loops(method):
        for number, used in last.items():
            if first[number] < begin <= used < behind:
                last[number] = behind
    for number in _tensors(method, method.outputs):
        first.setdefault(number, end)
        last[number] = end
    return {number: Lifetime(first[number], last.get(number, end)) for number in first}


def _tensors(method: Method, numbers: Sequence[int]) -> list[int]:
    """Return the numbers of the tensors among some values, including members of lists."""
    found = []
    for number in numbers:
        value = method.values[number]
        if isinstance(value, Tensor):
            found.append(number)
        elif isinstance(value, ValueList):
            items = zip(value.items, value.numbers, strict=False)
            found += [inner for item, inner in items if isinstance(item, Tensor)]
    return found


def _loops(method: Method) -> list[tuple[int, int]]:
    """Return the first and last instruction of every loop (backward jump), innermost first."""
    found, base = [], 0
    for chain in method.chains:
        for index, step in enumerate(chain):
            if step.call is Call.JUMP_FALSE and step.target <= index:
                found.append((base + step.target, base + index))
        base += len(chain)
    return sorted(found, key=lambda loop: loop[1] - loop[0])


def planned_ids(method: Method) -> dict[int, Ids]:
    """Return the ids of the tensors of a method, by value number.

    An address in planned memory is a pool and an offset; it is freed at the end of the last
    lifetime there.
    """
    alive = lifetimes(method)
    moments = []
    for number, life in alive.items():
        moments.append((life.first, 0, number))
        moments.append((life.last, 1, number))
    there: dict[Hashable, int] = {}
    references, numbers = [], []
    for _, ending, number in sorted(moments):
        address = _address(method, number)
        there[address] = there.get(address, 0) + (-1 if ending else 1)
        references.append(
            TensorReference(address, number, freed=bool(ending) and not there[address])
        )
        numbers.append(number)
    return dict(zip(numbers, unique_ids(references), strict=True))


def _address(method: Method, number: int) -> Hashable:
    value = method.values[number]
    if isinstance(value, Tensor) and value.pool > 0 and value.offset >= 0:
        return value.pool, value.offset
    return number

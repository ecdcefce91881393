"""Ids of tensors and storages, as the PyTorch profiler assigns them.

An address is no identity: once memory is freed another tensor gets it, and a tensor may move to
other memory. So each stay at an address counts as a storage of its own, and storages that held one
tensor in turn share its id.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from harness.decode.program import Call, Method, Tensor, ValueList


@dataclass(frozen=True, slots=True)
class TensorReference:
    """Something that happened at an address.

    Attributes:
        address: Where the storage lies, and on which device: anything that is the same only for
            the same place.
        tensor: Address or number of the tensor that an operator was given there, or None for an
            allocation or a free.
        freed: The storage ends here.
    """

    address: Hashable
    tensor: Hashable | None = None
    freed: bool = False


@dataclass(frozen=True, slots=True)
class Ids:
    """Whose the memory was.

    Attributes:
        storage: Number of the stay at the address, from 1.
        tensor: Number of the tensor, from 0; None for memory in which no operator saw a tensor.
    """

    storage: int
    tensor: int | None


def unique_ids(references: Sequence[TensorReference]) -> list[Ids]:
    """Number storages and tensors.

    Args:
        references: In order of time: what operators were given when they began, and allocations.

    Returns:
        Ids per reference. Tensors are numbered in the order of the storages that they lie in first.
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
    """Number the stays at each address: a new one after each free."""
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
    """From when to when a value of a method is needed: places in the order of all instructions.

    Attributes:
        first: The first instruction that has it as an argument, -1 for what is there before.
        last: The last one; the number of all instructions for what is there afterwards.
    """

    first: int
    last: int


def lifetimes(method: Method) -> dict[int, Lifetime]:
    """Lifetimes of the tensors of ``method`` that anything uses, by number of their value.

    Inputs, constants and buffers are there before, outputs and mutable buffers afterwards. What is
    carried through a loop lives until the end of it, and what a list holds as long as the list.
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
    """Numbers of the tensors among some values, those within lists included."""
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
    """First and last instruction of every loop: of what a jump leads back over."""
    found, base = [], 0
    for chain in method.chains:
        for index, step in enumerate(chain):
            if step.call is Call.JUMP_FALSE and step.target <= index:
                found.append((base + step.target, base + index))
        base += len(chain)
    return sorted(found, key=lambda loop: loop[1] - loop[0])


def planned_ids(method: Method) -> dict[int, Ids]:
    """Ids of the tensors of a method, by number of their value.

    Memory is planned, so an address is a pool and an offset, and it is freed when nothing that lies
    there is needed any longer.
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

"""The types that kernels take, found by trying: the notation of ``operators.def``.

An operator's sound calls are repeated with other types of their tensors, from every call that was
taken on. Each is tried with whole numbers, too, and with the numbers of the new types where the
call names a type.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from tests.support.calls import fresh
from tests.support.kernels import Out, TensorList, one_call
from tests.support.operators import CALLS, VARIANTS
from tests.support.runtime import DTYPES, RuntimeFailure, load

NONE = "none"
TYPES = [*(dtype.name for dtype in DTYPES), NONE]
CODES = {dtype.name: code for dtype, code in DTYPES.items()}
SMALL = 5
"""Most tensors of one type whose every subset changes its type at once."""

Types = tuple[str, ...]


@dataclass(frozen=True)
class Operands:
    """The tensors of a sound call: where they are, and their types."""

    arguments: list[Any]
    places: tuple[int, ...]

    @classmethod
    def of(cls, arguments: list[Any]) -> Operands:
        """Find the tensors among arguments; a list of tensors is one of them."""
        tensors = (np.ndarray, Out, TensorList)
        places = [i for i, value in enumerate(arguments) if isinstance(value, tensors)]
        return cls(arguments, tuple(places))

    @property
    def types(self) -> Types:
        """Their types, as names."""
        return tuple(_type(self.arguments[place]) for place in self.places)

    def calls(self, types: Types) -> Iterator[list[Any]]:
        """Yield calls with these types, which differ in numbers."""
        arguments = [*self.arguments]
        codes = {}
        for place, before, after in zip(self.places, self.types, types, strict=True):
            arguments[place] = _as(arguments[place], after)
            if after not in (before, NONE):
                codes[CODES[before]] = CODES[after]
        yield from _numbers(arguments)
        named = [i for i, value in enumerate(arguments) if type(value) is int and value in codes]
        for place in named:
            call = [max(value, 0) if type(value) is int else value for value in arguments]
            call[place] = codes[arguments[place]]
            yield from _numbers(call)


def _numbers(call: list[Any]) -> Iterator[list[Any]]:
    yield call
    if any(isinstance(value, float) for value in call):
        yield [round(value) if isinstance(value, float) else value for value in call]


def _type(value: Any) -> str:
    if isinstance(value, TensorList):
        return next(_type(item) for item in value.tensors if item is not None)
    return str(np.dtype(value.dtype).name)


def _as(value: Any, type_: str) -> Any:
    """The tensor with another type; its values stay as far as they can."""
    if type_ == NONE:
        return None
    match value:
        case TensorList():
            items = [None if item is None else _as(item, type_) for item in value.tensors]
            return TensorList(items)
        case Out():
            return replace(value, dtype=np.dtype(type_).type)
        case _:
            # Rounded up, because kernels refuse to divide by a whole number that is 0.
            rounded = value.dtype.kind == "f" and type_[:2] != "fl"
            values = np.ceil(value, out=np.empty_like(value)) if rounded else value
            with np.errstate(invalid="ignore"):
                return values.astype(type_)


def sound_calls(operator: str) -> list[list[Any]]:
    """The sound calls of an operator."""
    others = [call.arguments for name, call in VARIANTS if name == operator]
    return [CALLS[operator].arguments, *others]


def is_taken(library: ct.CDLL, operator: str, operands: Operands, types: Types) -> bool:
    """Whether the kernel takes tensors of these types."""
    for call in operands.calls(types):
        try:
            load(library, one_call(operator, fresh(call))).execute()
        except RuntimeFailure:
            continue
        return True
    return False


def neighbours(types: Types) -> Iterator[Types]:
    """Yield combinations in which few tensors have another type, or all of one type do."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(types):
        groups.setdefault(name, []).append(index)
    sets: list[tuple[int, ...]] = [(index,) for index in range(len(types))]
    for group in groups.values():
        sizes = range(2, len(group) + 1) if len(group) <= SMALL else (2, len(group))
        sets += chain.from_iterable(combinations(group, size) for size in sizes)
    for chosen, name in product(sets, TYPES):
        yield tuple(name if i in chosen else other for i, other in enumerate(types))
    if len(types) <= SMALL - 1:
        for (a, b), one, two in product(combinations(range(len(types)), 2), TYPES, TYPES):
            yield tuple(
                one if i == a else two if i == b else other for i, other in enumerate(types)
            )


def taken(library: ct.CDLL, operator: str) -> tuple[tuple[int, ...], set[Types]]:
    """The places of an operator's tensors, and all combinations of types that its kernel takes."""
    calls = [Operands.of(arguments) for arguments in sound_calls(operator)]
    assert len({operands.places for operands in calls}) == 1
    found = [_taken_from(library, operator, operands) for operands in calls]
    return calls[0].places, set().union(*found)


def _taken_from(library: ct.CDLL, operator: str, operands: Operands) -> set[Types]:
    """Those found from one sound call; of many tensors, some have types of their own."""
    free: dict[int, list[str]] = {}
    if len(operands.places) >= SMALL:
        for index in range(len(operands.places)):
            names = [
                name
                for name in TYPES
                if is_taken(library, operator, operands, _with(operands.types, index, name))
            ]
            if len(names) > 1:
                free[index] = names
    found: set[Types] = set()
    tried, waiting = {operands.types}, [operands.types]
    while waiting:
        types = waiting.pop()
        if not is_taken(library, operator, operands, types):
            continue
        found.add(types)
        others = {other for other in neighbours(types) if all(other[i] == types[i] for i in free)}
        waiting += others - tried
        tried |= others
    for index, names in free.items():
        found = {_with(types, index, name) for types in found for name in names}
    return found


def _with(types: Types, index: int, name: str) -> Types:
    return (*types[:index], name, *types[index + 1 :])


def notation(places: Sequence[int], found: set[Types]) -> str:
    """The combinations in the notation of ``operators.def``."""
    if not places:
        return ""
    return " | ".join(sorted(_alternatives(places, found)))


def _alternatives(places: Sequence[int], found: set[Types]) -> list[str]:
    groups = _tied(found, len(places))
    possible = []
    for group in groups:
        count = len({types[group[0]] for types in found} - {NONE})
        alone = _optional(found, group[0])
        possible.append(
            count + 1 if alone else count * 2 ** sum(_optional(found, i) for i in group)
        )
    if len(found) == np.prod(possible):
        return [_product(places, groups, found)]
    first = groups[0]
    rests: dict[frozenset[Types], set[str]] = {}
    for name in {types[first[0]] for types in found}:
        rest = frozenset(
            tuple(other for i, other in enumerate(types) if i not in first)
            for types in found
            if types[first[0]] == name
        )
        rests.setdefault(rest, set()).add(name)
    others = [place for i, place in enumerate(places) if i not in first]
    return [
        f"{'='.join(str(places[i]) for i in first)}: {_names(names)}, {rest_text}"
        for rest, names in rests.items()
        for rest_text in _alternatives(others, set(rest))
    ]


def _optional(found: set[Types], index: int) -> bool:
    return any(types[index] == NONE for types in found)


def _tied(found: set[Types], count: int) -> list[list[int]]:
    """Tensors that always have one type, or are missing; the first of a group is never missing."""
    groups: list[list[int]] = []
    for index in sorted(range(count), key=lambda i: _optional(found, i)):
        several = len({types[index] for types in found} - {NONE}) > 1
        for group in groups:
            same = all(types[index] in (types[group[0]], NONE) for types in found)
            if several and same and not _optional(found, group[0]):
                group.append(index)
                break
        else:
            groups.append([index])
    return sorted(map(sorted, groups))


def _product(places: Sequence[int], groups: list[list[int]], found: set[Types]) -> str:
    """Groups one after the other; those with the same types share a list."""
    texts: dict[str, list[str]] = {}
    for group in groups:
        names = _names({types[index] for types in found for index in group})
        members = [f"{places[i]}{'?' if _optional(found, i) else ''}" for i in group]
        texts.setdefault(names, []).append("=".join(members))
    return ", ".join(f"{' '.join(numbers)}: {names}" for names, numbers in texts.items())


def _names(names: set[str]) -> str:
    given = [name for name in TYPES if name in names and name != NONE]
    return "any" if len(given) == len(DTYPES) else " ".join(given)


def measured(library: ct.CDLL, operator: str) -> str:
    """What ``operators.def`` says of the operator if it is current."""
    return notation(*taken(library, operator))

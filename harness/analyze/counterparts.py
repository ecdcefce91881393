"""Which operators of two programs are the same: an alignment of their sequences.

After an edit of the graph the instructions behind it have other numbers, so name and number do not
say which operator is which. Instructions of one block and chain are aligned in their order, so that
counterparts never cross:

1. If the shapes of both programs are known, a longest common subsequence of name and shapes; of
   several, one that joins the most operators of the same module of the source (ETRecord). Debug
   handles themselves are numbered anew by every export.
2. Between these, and everywhere without shapes, a longest common subsequence of the names. Only
   what every such subsequence joins counts: what can be joined in two ways is not known.

Events of a delegate are joined within their call: by equal ids, else in the order of their ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from harness.records.trace import InstructionRecord, is_wrapper

_Scores = npt.NDArray[np.int32]
_Pairs = list[tuple[int, int]]

MOST_CELLS: Final = 1 << 23
"""Largest product of two lengths that is aligned; it takes 200 MB and half a second."""


class ProgramOutline(msgspec.Struct, frozen=True):
    """What a model's file says of the instructions of a method, beside their events.

    Attributes:
        operands: Operator or backend with the types and shapes of its tensors, per chain and
            instruction; "" for instructions without.
        modules: Module of the source that each instruction is of, likewise; empty if unknown.
    """

    operands: tuple[tuple[str, ...], ...]
    modules: tuple[tuple[str, ...], ...] = ()

    def with_names(self, change: Callable[[str], str]) -> ProgramOutline:
        """Return the outline with all texts changed, such as escaped."""
        operands, modules = (
            tuple(tuple(map(change, chain)) for chain in table)
            for table in (self.operands, self.modules)
        )
        return ProgramOutline(operands, modules)


def outline_of(
    chains: Sequence[Sequence[InstructionRecord]] | None,
    modules: Mapping[tuple[int, int], str] | None = None,
) -> ProgramOutline | None:
    """Return the outline of a method; None if its shapes are unknown.

    Args:
        chains: Its instructions.
        modules: Module of the source by chain and instruction; None if unknown.
    """
    if not chains or not any(step.operands for chain in chains for step in chain):
        return None
    operands = tuple(
        tuple(f"{step.name} {step.operands}" if step.operands else "" for step in chain)
        for chain in chains
    )
    if not modules:
        return ProgramOutline(operands)
    places = [[(number, n) for n in range(len(chain))] for number, chain in enumerate(chains)]
    return ProgramOutline(
        operands, tuple(tuple(modules.get(place, "") for place in chain) for chain in places)
    )


class OperatorEvent(Protocol):
    """The fields of ``Signature``, which metrics have, too."""

    @property
    def block(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def chain(self) -> int: ...  # noqa: D102
    @property
    def instruction(self) -> int: ...  # noqa: D102
    @property
    def delegate_int(self) -> int: ...  # noqa: D102
    @property
    def delegate_str(self) -> str | None: ...  # noqa: D102


class InstructionPlace(NamedTuple):
    """An instruction of a program: its block, its chain and its number."""

    block: str
    chain: int
    instruction: int


_Id = tuple[int, str | None]
_Inner = tuple[str, _Id]
"""Name and ids of an event of a delegate."""


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """The events of one instruction.

    Attributes:
        names: Names of its events without those of delegates and scopes, sorted.
        inner: Names and ids of the events of its delegate, sorted by id.
        operands: Its entry in the outline; None if unknown.
        module: Likewise; "" if unknown.
    """

    names: tuple[str, ...]
    inner: tuple[_Inner, ...] = ()
    operands: str | None = None
    module: str = ""


Sequences = Mapping[tuple[str, int], tuple[tuple[int, ProgramStep], ...]]
"""Number and events of every instruction in order, by block and chain."""


def sequences_of(events: Iterable[OperatorEvent], outline: ProgramOutline | None) -> Sequences:
    """Return the instructions of a program, from the events that it logs."""
    names: dict[InstructionPlace, set[str]] = defaultdict(set)
    inner: dict[InstructionPlace, set[_Inner]] = defaultdict(set)
    for event in events:
        if event.chain < 0 or is_wrapper(event.name):
            continue
        place = InstructionPlace(event.block, event.chain, event.instruction)
        delegated = event.delegate_int != -1 or event.delegate_str is not None
        if delegated:
            inner[place].add((event.name, (event.delegate_int, event.delegate_str)))
        else:
            names[place].add(event.name)
    found: dict[tuple[str, int], list[tuple[int, ProgramStep]]] = defaultdict(list)
    for place in sorted({*names, *inner}):
        step = ProgramStep(
            tuple(sorted(names[place])),
            tuple(sorted(inner[place], key=lambda one: (one[1][0], one[1][1] or "", one[0]))),
            None if outline is None else _entry(outline.operands, place),
            "" if outline is None else _entry(outline.modules, place),
        )
        found[place.block, place.chain].append((place.instruction, step))
    return {key: tuple(steps) for key, steps in found.items()}


def _entry(table: Sequence[Sequence[str]], place: InstructionPlace) -> str:
    if place.chain >= len(table) or not 0 <= place.instruction < len(table[place.chain]):
        return ""
    return table[place.chain][place.instruction]


class Counterparts:
    """The same operators in an older and a newer program.

    Attributes:
        joined: InstructionPlace in the newer program by place in the older one.
        reshaped: Joined places of the newer program whose tensors have other shapes.
        unclear: Places of the newer program that more than one older one may be.
    """

    def __init__(self, older: Sequences, newer: Sequences) -> None:
        """Align the instructions of both, block by block and chain by chain."""
        self.joined: dict[InstructionPlace, InstructionPlace] = {}
        self.reshaped: list[InstructionPlace] = []
        self.unclear: list[InstructionPlace] = []
        self._inner: dict[InstructionPlace, dict[_Inner, _Id]] = {}
        for key, new in newer.items():
            old = older.get(key, ())
            self._join(key, old, new)

    def _join(
        self,
        key: tuple[str, int],
        old: Sequence[tuple[int, ProgramStep]],
        new: Sequence[tuple[int, ProgramStep]],
    ) -> None:
        pairs, unclear = align([step for _, step in old], [step for _, step in new])
        self.unclear += [InstructionPlace(*key, new[index][0]) for index in unclear]
        for first, second in pairs:
            (before, earlier), (after, later) = old[first], new[second]
            place = InstructionPlace(*key, before)
            self.joined[place] = InstructionPlace(*key, after)
            if None not in (earlier.operands, later.operands) and (
                earlier.operands != later.operands
            ):
                self.reshaped.append(self.joined[place])
            if earlier.inner != later.inner:
                self._inner[place] = _joined_inner(earlier.inner, later.inner)

    @classmethod
    def between(
        cls,
        older: Iterable[OperatorEvent],
        newer: Iterable[OperatorEvent],
        outlines: tuple[ProgramOutline | None, ProgramOutline | None],
    ) -> Counterparts:
        """Join the operators of two programs with these events and outlines."""
        return cls(sequences_of(older, outlines[0]), sequences_of(newer, outlines[1]))

    def of(self, event: OperatorEvent) -> tuple[int, int, str | None] | None:
        """Return instruction and delegate ids of the counterpart of an event of the older program.

        None without one. Events outside of instructions are their own counterparts.
        """
        own = event.instruction, event.delegate_int, event.delegate_str
        if event.chain < 0:
            return own
        place = InstructionPlace(event.block, event.chain, event.instruction)
        if place not in self.joined:
            return None
        found: _Id | None = event.delegate_int, event.delegate_str
        if place in self._inner and found != (-1, None):
            found = self._inner[place].get((event.name, (event.delegate_int, event.delegate_str)))
        return None if found is None else (self.joined[place].instruction, *found)


def _joined_inner(old: Sequence[_Inner], new: Sequence[_Inner]) -> dict[_Inner, _Id]:
    """Join the events of one delegate call: equal ones, the others in the order of their ids."""
    same = {*old} & {*new}
    found = {event: event[1] for event in same}
    rest = [
        # The order of texts says nothing.
        [event for event in side if event not in same and event[1][1] is None]
        for side in (old, new)
    ]
    pairs, _ = align(*([ProgramStep((name,)) for name, _ in side] for side in rest))
    found |= {rest[0][first]: rest[1][second][1] for first, second in pairs}
    return found


def align(old: Sequence[ProgramStep], new: Sequence[ProgramStep]) -> tuple[_Pairs, list[int]]:
    """Return the pairs of indices that are the same operator, and the unclear ones of ``new``.

    Pairs are in ascending order of both indices.
    """
    if len(old) == len(new) and all(map(_may_be, old, new)):
        return [(index, index) for index in range(len(new))], []
    pairs: _Pairs = []
    if all(step.operands is not None for step in (*old, *new)):
        pairs = _with_shapes(old, new)
    found, unclear = [*pairs], []
    ends = [*pairs, (len(old), len(new))]
    for (first, second), (before, after) in zip([(-1, -1), *pairs], ends, strict=True):
        few, some = old[first + 1 : before], new[second + 1 : after]
        if few and some:
            certain, doubtful = _by_name(few, some)
            found += [(first + 1 + i, second + 1 + j) for i, j in certain]
            unclear += [second + 1 + j for j in doubtful]
    return sorted(found), unclear


def _may_be(old: ProgramStep, new: ProgramStep) -> bool:
    """Return whether two steps have equal names, and no different shapes."""
    return old.names == new.names and (None in (old.operands, new.operands) or _same(old, new))


def _same(old: ProgramStep, new: ProgramStep) -> bool:
    return (old.names, old.operands) == (new.names, new.operands)


def _with_shapes(old: Sequence[ProgramStep], new: Sequence[ProgramStep]) -> _Pairs:
    """Join operators of equal names and shapes."""
    sides = [[(step.names, step.operands) for step in side] for side in (old, new)]
    begin = end = 0
    if len(old) * len(new) > MOST_CELLS:
        shorter = min(len(old), len(new))
        while begin < shorter and sides[0][begin] == sides[1][begin]:
            begin += 1
        while end < shorter - begin and sides[0][-1 - end] == sides[1][-1 - end]:
            end += 1
    few, some = old[begin : len(old) - end], new[begin : len(new) - end]
    inside = [[(step.names, step.operands) for step in side] for side in (few, some)]
    weights = _weights(inside[0], inside[1], few, some)
    pairs = [] if weights is None else _traced(weights)
    return [
        *((index, index) for index in range(begin)),
        *((begin + first, begin + second) for first, second in pairs),
        *((len(old) - index, len(new) - index) for index in range(end, 0, -1)),
    ]


def _by_name(
    old: Sequence[ProgramStep], new: Sequence[ProgramStep]
) -> tuple[_Pairs, Sequence[int]]:
    """Join operators of equal names where there is only one way; return unclear ones of ``new``."""
    names = [[step.names for step in side] for side in (old, new)]
    if names[0] == names[1]:
        return [(index, index) for index in range(len(new))], ()
    weights = _weights(names[0], names[1], old, new)
    if weights is None:
        return [], range(len(new))
    forward = _scores(weights)
    backward = _scores(weights[::-1, ::-1])[::-1, ::-1]
    best = forward[-1, -1]
    joins = (weights > 0) & (forward[:-1, :-1] + weights + backward[1:, 1:] == best)
    # The best score where an operator of the older program has no counterpart.
    without = (forward[:-1] + backward[1:]).max(axis=1)
    certain = joins & (joins.sum(axis=1) == 1)[:, None] & (without < best)[:, None]
    rows, columns = np.nonzero(certain)
    unclear = np.flatnonzero(joins.any(axis=0) & ~certain.any(axis=0))
    return [*zip(rows.tolist(), columns.tolist(), strict=True)], unclear.tolist()


def _weights(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    old_steps: Sequence[ProgramStep],
    new_steps: Sequence[ProgramStep],
) -> _Scores | None:
    """Return what joining each pair of steps is worth, shape (old, new): 0 for different keys.

    One more pair is worth more than any number of equal modules. None if there are too many.
    """
    if len(old) * len(new) > MOST_CELLS:
        return None
    codes: dict[Hashable, int] = {}
    first, second = (
        np.array([codes.setdefault(key, len(codes)) for key in side], np.int32)
        for side in (old, new)
    )
    modules: dict[str, int] = {"": -1}
    mine, yours = (
        np.array([modules.setdefault(step.module, len(modules)) for step in side], np.int32)
        for side in (old_steps, new_steps)
    )
    equal = first[:, None] == second[None, :]
    alike = (mine[:, None] == yours[None, :]) & (mine >= 0)[:, None]
    one = min(len(old), len(new)) + 1
    return np.where(equal, one + alike, 0).astype(np.int32)


def _scores(weights: _Scores) -> _Scores:
    """Return the best sum of weights of the first i and j elements, shape (old + 1, new + 1)."""
    scores = np.zeros((weights.shape[0] + 1, weights.shape[1] + 1), np.int32)
    for row, weight in enumerate(weights):
        better = np.maximum(scores[row, 1:], scores[row, :-1] + weight)
        np.maximum.accumulate(better, out=scores[row + 1, 1:])
    return scores


def _traced(weights: _Scores) -> _Pairs:
    """Return one of the alignments with the best sum of weights."""
    scores = _scores(weights)
    row, column = weights.shape
    pairs: _Pairs = []
    while row and column:
        score = scores[row, column]
        if score == scores[row - 1, column]:
            row -= 1
        elif score == scores[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]


def places(sequences: Sequences) -> Iterator[InstructionPlace]:
    """Yield the places of all instructions, in order."""
    for key, steps in sequences.items():
        for instruction, _ in steps:
            yield InstructionPlace(*key, instruction)

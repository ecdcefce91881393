"""Instructions of two programs, joined by their place in the graph.

First equal operators are joined, then between them operators of one family, such as a convolution
in float32 and one in int8. As many as possible are joined in order; of several ways to do so, the
one counts where producers and consumers agree most. Equal operators that were only reordered are
joined last: exporters sort what does not depend on each other anew. What remains between two joined
instructions is a gap: operators that appeared, vanished or were replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.counterparts import MOST_CELLS
from harness.extensions.why.programs import ComparedInstruction, family_of

_DEPTH: Final = 4
"""How far producers and consumers are compared, in steps of the graph."""

Pair = tuple[ComparedInstruction, ComparedInstruction]
"""Joined instructions of the first and of the second program."""

_Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Unjoined:
    """Operators between two joined ones, without counterparts.

    Attributes:
        old: Of the first program.
        new: Of the second program.
        behind: The joined operators before them; None at the start.
        ahead: The joined operators after them; None at the end.
    """

    old: tuple[ComparedInstruction, ...]
    new: tuple[ComparedInstruction, ...]
    behind: Pair | None
    ahead: Pair | None

    @property
    def families(self) -> set[str]:
        """What its operators do."""
        return {family_of(step.name) for step in (*self.old, *self.new)}

    @property
    def delegated(self) -> bool:
        """Whether a delegate executes some of it."""
        return any(step.delegated for step in (*self.old, *self.new))


def join(
    old: Sequence[ComparedInstruction], new: Sequence[ComparedInstruction]
) -> Iterator[Pair | Unjoined]:
    """Yield joined instructions of one chain, and what is between them, in their order."""
    items = [*_in_order(old, new)]
    reordered = _reordered(items)
    joined = [{id(pair[side]) for pair, _ in reordered} for side in (0, 1)]
    for place, item in enumerate(items):
        if not isinstance(item, Unjoined):
            yield item
            continue
        few, some = (
            tuple(step for step in steps if id(step) not in these)
            for steps, these in zip((item.old, item.new), joined, strict=True)
        )
        if few or some:
            yield replace(item, old=few, new=some)
        yield from (pair for pair, where in reordered if where == place)


def _in_order(
    old: Sequence[ComparedInstruction], new: Sequence[ComparedInstruction]
) -> Iterator[Pair | Unjoined]:
    """Yield what is joined in the order of both programs, and what is between."""
    behind: Pair | None = None
    start = (0, 0)
    for first, second in [*_aligned(old, new), (len(old), len(new))]:
        ahead = (old[first], new[second]) if first < len(old) else None
        few, some = tuple(old[start[0] : first]), tuple(new[start[1] : second])
        if few or some:
            yield Unjoined(few, some, behind, ahead)
        if ahead is not None:
            yield ahead
        behind, start = ahead, (first + 1, second + 1)


def _reordered(items: Sequence[Pair | Unjoined]) -> list[tuple[Pair, int]]:
    """Return equal operators of different gaps, each with the place of the later gap.

    They read the same: of each input, both producers are joined, or neither is.
    """
    pairs = [item for item in items if not isinstance(item, Unjoined)]
    partners = {id(old): new for old, new in pairs} | {id(new): old for old, new in pairs}
    gaps = [(place, item) for place, item in enumerate(items) if isinstance(item, Unjoined)]
    sides = [
        [(place, step) for place, gap in gaps for step in gap.old],
        [(place, step) for place, gap in gaps for step in gap.new],
    ]
    makers = [
        {
            item.number: step
            for step in [*(pair[side] for pair in pairs), *(step for _, step in sides[side])]
            for item in step.outputs
        }
        for side in (0, 1)
    ]

    def alike(old: ComparedInstruction, new: ComparedInstruction) -> bool:
        for inputs in zip(old.inputs, new.inputs, strict=True):
            one, two = (side.get(item.number) for side, item in zip(makers, inputs, strict=True))
            if (one is None) != (two is None):
                return False
            if partners.get(id(one), two) is not two or partners.get(id(two), one) is not one:
                return False
        return True

    rest: dict[object, list[tuple[int, ComparedInstruction]]] = {}
    for place, step in sides[0]:
        rest.setdefault(_equality(step), []).append((place, step))
    found = []
    for place, new in sides[1]:
        known = new.blob or not new.delegated
        equal = rest.get(_equality(new), []) if known else []
        taken = next((one for one in equal if alike(one[1], new)), None)
        if taken is not None:
            equal.remove(taken)
            partners |= {id(taken[1]): new, id(new): taken[1]}
            found.append(((taken[1], new), max(taken[0], place)))
    return found


def _equality(step: ComparedInstruction) -> tuple[str, str, str]:
    """Return what is equal of equal operators."""
    return step.name, step.text, step.details


def _aligned(
    old: Sequence[ComparedInstruction], new: Sequence[ComparedInstruction]
) -> list[tuple[int, int]]:
    """Return the places of joined instructions: equal ones, then of one family between them.

    The same operators in the same order are joined one by one, whatever their shapes: behind
    another stride an operator may have the shapes of a later one.
    """
    families = [_codes([(step.delegated, family_of(step.name)) for step in s]) for s in (old, new)]
    if np.array_equal(families[0], families[1]):
        return [(place, place) for place in range(len(old))]
    equal = [_codes([*map(_equality, side)]) for side in (old, new)]
    around = [[*_neighbours(*side)] for side in zip((old, new), families, strict=True)]
    pairs: list[tuple[int, int]] = []
    start = (0, 0)
    for end in [*_best(equal, around), (len(old), len(new))]:
        window = [slice(*bounds) for bounds in zip(start, end, strict=True)]
        inner = _best(
            [codes[part] for codes, part in zip(families, window, strict=True)],
            [[c[part] for c in side] for side, part in zip(around, window, strict=True)],
        )
        pairs += [(start[0] + i, start[1] + j) for i, j in inner]
        pairs += [end] * (end[0] < len(old))
        start = (end[0] + 1, end[1] + 1)
    return pairs


def _codes(keys: Sequence[object]) -> _Weights:
    """Return a number for each key; equal numbers for equal keys, shape (n,)."""
    return np.array([hash(key) for key in keys], np.int64)


def _neighbours(steps: Sequence[ComparedInstruction], families: _Weights) -> Iterator[_Weights]:
    """Yield codes of what is before each instruction in the graph, ever further, and behind it."""
    makers: dict[int, int] = {}
    before: list[list[int]] = []
    behind: list[list[int]] = [[] for _ in steps]
    for place, step in enumerate(steps):
        before.append([makers.get(item.number, -1) for item in step.inputs if not item.constant])
        for maker in before[-1]:
            if maker >= 0:
                behind[maker].append(place)
        makers |= {item.number: place for item in step.outputs}
    for linked in (before, behind):
        codes = families
        for _ in range(_DEPTH):
            around = [tuple(int(codes[i]) if i >= 0 else i for i in near) for near in linked]
            codes = _codes([*zip(families.tolist(), around, strict=True)])
            yield codes


def _equal(few: _Weights, some: _Weights) -> int:
    """Return how many keys are equal from the start on."""
    differ = np.flatnonzero(few != some)
    return int(differ[0]) if len(differ) else len(few)


def _best(keys: Sequence[_Weights], around: Sequence[Sequence[_Weights]]) -> list[tuple[int, int]]:
    """Return the most pairs of equal keys in order, those with the most equal neighbours.

    Of very many keys, only those that are equal from the start on and up to the end.
    """
    few, some = keys
    if not len(few) or not len(some):
        return []
    if len(few) * len(some) > MOST_CELLS:
        size = min(len(few), len(some))
        begin = _equal(few[:size], some[:size])
        end = _equal(few[::-1][: size - begin], some[::-1][: size - begin])
        ends = [(len(few) - place, len(some) - place) for place in range(end, 0, -1)]
        return [*((place, place) for place in range(begin)), *ends]
    context = sum(a[:, None] == b[None, :] for a, b in zip(*around, strict=True))
    pair = (2 * _DEPTH + 1) * min(len(few), len(some)) + 1  # more than all neighbours
    weights = np.where(few[:, None] == some[None, :], pair + context, 0)
    scores = np.zeros((len(few) + 1, len(some) + 1), np.int64)
    for row, weight in enumerate(weights):
        better = np.maximum(scores[row, 1:], scores[row, :-1] + weight)
        np.maximum.accumulate(better, out=scores[row + 1, 1:])
    row, column = len(few), len(some)
    found: list[tuple[int, int]] = []
    while row and column:
        score = scores[row, column]
        if score == scores[row, column - 1]:
            column -= 1
        elif score == scores[row - 1, column]:
            row -= 1
        else:
            row, column = row - 1, column - 1
            found.append((row, column))
    return found[::-1]

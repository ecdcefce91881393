"""Which operators of two programs are the same, whatever was edited between them."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness import InstructionRecord
from harness.analyze.counterparts import (
    Counterparts,
    InstructionPlace,
    ProgramOutline,
    ProgramStep,
    align,
    outline_of,
    sequences_of,
)
from harness.records.trace import Signature

NAMES = st.sampled_from(("add", "conv", "relu", "pad"))
SHAPES = st.sampled_from(("8", "16", "32"))
STEPS = st.builds(lambda name, shape: ProgramStep((name,), operands=shape), NAMES, SHAPES)
PROGRAMS = st.lists(STEPS, max_size=25)


def without_shapes(steps: list[ProgramStep]) -> list[ProgramStep]:
    return [replace(step, operands=None) for step in steps]


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[ProgramStep], list[ProgramStep]]:
    """A program, and what a few insertions, removals, renames and fusions make of it."""
    old = draw(PROGRAMS)
    new = [*old]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(new)))
        match draw(st.sampled_from(("insert", "delete", "rename", "fuse"))):
            case "insert":
                new.insert(place, draw(STEPS))
            case "delete":
                del new[place : place + 1]
            case "rename":
                new[place : place + 1] = [draw(STEPS)]
            case "fuse":
                fused = "_".join(name for step in new[place : place + 2] for name in step.names)
                new[place : place + 2] = [ProgramStep((fused,), operands="8")]
    return old, new


def longest(old: list[ProgramStep], new: list[ProgramStep]) -> int:
    """Length of the longest common subsequence of equal names and shapes."""
    best = [0] * (len(new) + 1)
    for step in old:
        before = best[:]
        for place, other in enumerate(new, 1):
            same = before[place - 1] + 1 if step == other else 0
            best[place] = max(before[place], best[place - 1], same)
    return best[-1]


@given(edits(), st.booleans())
def test_counterparts_never_cross_and_have_equal_names(
    edit: tuple[list[ProgramStep], list[ProgramStep]], known: bool
) -> None:
    old, new = edit if known else map(without_shapes, edit)
    pairs, unclear = align(old, new)
    assert all(old[first].names == new[second].names for first, second in pairs)
    for (first, second), (later, after) in pairwise(pairs):
        assert first < later
        assert second < after
    assert not {second for _, second in pairs} & {*unclear}


@given(edits())
def test_with_shapes_as_many_as_possible_have_equal_ones(
    edit: tuple[list[ProgramStep], list[ProgramStep]],
) -> None:
    old, new = edit
    pairs, _ = align(old, new)
    equal = [pair for pair in pairs if old[pair[0]] == new[pair[1]]]
    if [step.names for step in old] != [step.names for step in new]:
        assert len(equal) == longest(old, new)


@given(PROGRAMS, st.booleans())
def test_a_program_is_its_own_counterpart(program: list[ProgramStep], known: bool) -> None:
    other = program if known else without_shapes(program)
    assert align(program, other) == ([(place, place) for place in range(len(program))], [])


@given(edits())
def test_without_shapes_only_what_is_certain_is_joined(
    edit: tuple[list[ProgramStep], list[ProgramStep]],
) -> None:
    """Dropping any joined operator makes the longest common subsequence shorter."""
    old, new = map(without_shapes, edit)
    if len(old) == len(new) and all(a.names == b.names for a, b in zip(old, new, strict=True)):
        return
    pairs, _ = align(old, new)
    whole = longest(old, new)
    for first, second in pairs:
        assert longest(old[:first] + old[first + 1 :], new) < whole
        assert longest(old, new[:second] + new[second + 1 :]) < whole


def steps(text: str) -> list[ProgramStep]:
    """``c8 r8 c16``: names of one letter with their shapes; a module follows an ``@``."""
    found = []
    for word in text.split():
        word, _, module = word.partition("@")
        found.append(ProgramStep((word[0],), operands=word[1:] or None, module=module))
    return found


def test_neighbours_of_one_name_are_told_apart_by_their_shapes() -> None:
    assert align(steps("c8 c16 r16"), steps("c16 r16")) == ([(1, 0), (2, 1)], [])
    assert align(steps("c8 c16 r16"), steps("c16 c32 r16")) == ([(1, 0), (2, 2)], [])
    # In place of another, it is the same operator with other shapes.
    assert align(steps("a8 c8 r8"), steps("a8 c32 r8"))[0] == [(0, 0), (1, 1), (2, 2)]
    assert align(steps("a8 c8 r8"), steps("a8 c16 c32 r8"))[0] == [(0, 0), (2, 3)]


def test_equal_operators_of_unknown_shapes_are_unclear() -> None:
    assert align(steps("c c r"), steps("c r")) == ([(2, 1)], [0])
    assert align(steps("c r c r"), steps("c c r"))[0] == [(0, 0), (2, 1), (3, 2)]


def test_modules_decide_between_equal_operators() -> None:
    old = steps("c8@one c8@two c8@three")
    assert align(old, steps("c8@one c8@three"))[0] == [(0, 0), (2, 1)]
    assert align(old, steps("c8@two c8@three"))[0] == [(1, 0), (2, 1)]
    assert align(steps("c@one c@two r"), steps("c@two r")) == ([(1, 0), (2, 1)], [])


def test_a_thousand_operators_and_twenty_programs_are_fast() -> None:
    chance = np.random.default_rng(1)
    new = [
        ProgramStep((f"op{chance.integers(9)}",), operands=str(chance.integers(20)))
        for _ in range(1_000)
    ]
    began = time.process_time()
    for program in range(20):
        old = [step for place, step in enumerate(new) if place % (31 + program)]
        pairs, _ = align(old, new)
        assert len(pairs) == len(old)
        align(without_shapes(old), without_shapes(new))
    assert time.process_time() - began < 20


def test_what_is_too_long_to_align_is_joined_at_both_ends() -> None:
    new = [ProgramStep(("op",), operands=str(number)) for number in range(4_000)]
    old = [*new[:1_000], *new[1_001:]]
    pairs, _ = align(old, new)
    assert len(pairs) == 3_999
    assert align(without_shapes(old), without_shapes(new)) == ([], [*range(4_000)])


def event(
    name: str, instruction: int, number: int = -1, text: str | None = None, chain: int = 0
) -> Signature:
    return Signature("Execute", name, chain, instruction, number, text)


def test_events_of_delegates_are_joined_within_their_call() -> None:
    old = [event("conv", 0), event("DELEGATE_CALL", 1)]
    old += [event("a", 1, 4), event("b", 1, 5), event("", 1, text="x"), event("", 1, text="y")]
    new = [event("DELEGATE_CALL", 0), event("a", 0, 4), event("c", 0, 5), event("b", 0, 6)]
    new += [event("", 0, text="y")]
    found = Counterparts(sequences_of(old, None), sequences_of(new, None))
    assert found.joined == {InstructionPlace("Execute", 0, 1): InstructionPlace("Execute", 0, 0)}
    assert [found.of(one) for one in old] == [
        *(None, (0, -1, None), (0, 4, None), (0, 6, None)),
        *(None, (0, -1, "y")),
    ]
    assert found.of(event("Method::execute", 0, chain=-1)) == (0, -1, None)


def test_an_outline_needs_shapes() -> None:
    chain = (InstructionRecord("kernel", "aten::add.out"), InstructionRecord("move"))
    assert outline_of((chain,)) is None
    known = (InstructionRecord("kernel", "aten::add.out", operands="int8[1] -> int8[1]"), chain[1])
    assert outline_of((known,)) == ProgramOutline((("aten::add.out int8[1] -> int8[1]", ""),))
    assert outline_of((known,), {(0, 0): "layers.0"}) == ProgramOutline(
        (("aten::add.out int8[1] -> int8[1]", ""),), (("layers.0", ""),)
    )
    odd = ProgramOutline((("\udc80",),))
    assert odd.with_names(ascii).with_names(lambda text: "\udc80") == odd

"""Events follow from passages through functions: returns, jumps, branches, an inlined function."""

from __future__ import annotations

import random

import numpy as np
import pytest

from harness import Call, Instruction, Method, TargetError, Trace
from harness.extensions.probes.executorch_code import CodeSet, ExecutorchCode, Role
from harness.extensions.probes.follow_executorch import (
    FollowedRuntime,
    Observed,
    calls_of,
    identify,
    trace_of_runtime,
)
from harness.extensions.probes.instruction_counter import Passage, Passages

KERNEL = "_ZN5torch8executor6native{0}RN10executorch7runtime20KernelRuntimeContextE"


def kernel(name: str) -> str:
    return KERNEL.format(f"{len(name)}{name}")


def passages(*records: tuple[int, int, Passage, int]) -> Passages:
    """Records of count, address, kind and set."""
    columns = np.array(records, np.int64).reshape(len(records), 4).T
    return Passages(*columns)


def method(*instructions: Instruction) -> Method:
    return Method("forward", (), (), (), (tuple(instructions),), (), (0,))


def operator(name: str) -> Instruction:
    return Instruction(Call.KERNEL, f"aten::{name}.out", ())


def branch(target: int) -> Instruction:
    return Instruction(Call.JUMP_FALSE, "", (), target)


MOVE = Instruction(Call.MOVE, "", ())
DELEGATE = Instruction(Call.DELEGATE, "EthosUBackend", ())


def observed(each: Instruction, *, named: bool = True) -> Observed:
    if each.call == Call.KERNEL:
        base = each.name.removeprefix("aten::").removesuffix(".out")
        return Observed(Call.KERNEL, function=kernel(f"{base}_out") if named else "")
    return Observed(Call.DELEGATE if each.call == Call.DELEGATE else None)


# A loop over two operators, a branch around a third one, and a delegate.
LOOP = method(
    operator("add"),
    operator("mul"),
    MOVE,
    branch(0),
    branch(6),
    operator("relu"),
    DELEGATE,
    operator("add"),
)


def walk(program: Method, choices: random.Random) -> list[tuple[int, int]]:
    """A path through the first chain."""
    places, at = [], 0
    while at < len(program.chains[0]):
        places.append((0, at))
        instruction = program.chains[0][at]
        jumps = instruction.call == Call.JUMP_FALSE and choices.random() < 0.5
        at = instruction.target if jumps else at + 1
    return places


@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_instructions_are_found_on_any_path_or_left_open(separate: bool, named: bool) -> None:
    found = 0
    for seed in range(100):
        path = walk(LOOP, random.Random(seed))
        seen = [
            place
            for place in path
            if separate or LOOP.chains[0][place[1]].call in (Call.KERNEL, Call.DELEGATE)
        ]
        calls = [observed(LOOP.chains[0][index], named=named) for _, index in seen]
        told = identify(calls, LOOP, separate=separate)
        assert all(place in (true, None) for place, true in zip(told, seen, strict=True))
        found += sum(place is not None for place in told)
        if separate and named:
            assert told == seen
    assert found > 500


def test_two_paths_that_look_the_same_are_left_open() -> None:
    same = method(branch(2), operator("add"), operator("add"), operator("mul"), branch(2))
    calls = [Observed(None), *(observed(operator(name)) for name in ("add", "mul")), Observed(None)]
    # The second one is reached past the first one only by the jump, so it is told.
    assert identify(calls, same) == [(0, 0), (0, 2), (0, 3), (0, 4)]
    either = method(branch(3), operator("add"), branch(4), operator("add"), operator("mul"))
    calls = [observed(operator("add")), observed(operator("mul"))]
    assert identify(calls, either, separate=False) == [None, (0, 4)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("add",), "the execution ended after 1 instruction, before the end of forward"),
        (("add", "mul", "add"), "forward of the model ends before instruction 2"),
        (("add", "add"), r"instruction 1 of its execution called torch::executor::native::add_out"),
    ],
)
def test_another_model_is_named_by_its_first_difference(
    names: tuple[str, ...], message: str
) -> None:
    calls = [observed(operator(name)) for name in names]
    with pytest.raises(TargetError, match=message):
        identify(calls, method(operator("add"), operator("mul")))


def test_calls_end_by_returns_and_jumps_and_not_by_conditional_returns() -> None:
    code = CodeSet(Role.EXECUTE, "f", 0x100, ((0x100, 0x140),))
    (call,) = calls_of(
        code,
        0,
        passages(
            (10, 0x100, Passage.ENTER, 0),
            (14, 0x108, Passage.RETURN, 0),  # conditional, and not taken
            (14, 0x10A, Passage.ENTER, 0),
            (20, 0x112, Passage.LEAVE, 0),  # a call
            (50, 0x114, Passage.ENTER, 0),
            (55, 0x11C, Passage.RETURN, 0),
        ),
    )
    assert (call.begin, call.end, call.returned) == (10, 55, True)
    assert call.excursions == [(20, 50, 0x112)]
    first, second = calls_of(
        code,
        0,
        passages(
            (10, 0x100, Passage.ENTER, 0),
            (14, 0x108, Passage.LEAVE, 0),  # a jump to another function
            (90, 0x100, Passage.ENTER, 0),
            (95, 0x11C, Passage.RETURN, 0),
        ),
    )
    assert (first.begin, first.end, first.returned) == (10, 14, False)
    assert (second.begin, second.end, second.returned) == (90, 95, True)
    # What began before it was watched is not a call.
    assert calls_of(code, 0, passages((50, 0x114, Passage.ENTER, 0))) == []


EXECUTE = CodeSet(Role.EXECUTE, "execute", 0x100, ((0x100, 0x140),))
GENERATED = CodeSet(Role.WRAPPER, "19kernels_to_register", 0x200, ((0x200, 0x220),))
BY_HAND = CodeSet(Role.WRAPPER, "prim_ops", 0x300, ((0x300, 0x320),))
ADD_AT, BACKEND_AT = 0x400, 0x500


def rows(trace: Trace) -> list[tuple[str | None, int, int, int]]:
    columns = trace.name, trace.instruction, trace.start, trace.end
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [(trace.text(name), *others) for name, *others in numbers]


def test_an_inlined_instruction_is_followed_at_what_it_calls() -> None:
    code = ExecutorchCode(
        (EXECUTE, GENERATED, BY_HAND), {ADD_AT: kernel("add_out")}, {BACKEND_AT: "backend"}
    )
    seen = passages(
        (0, 0x100, Passage.ENTER, 0),
        (5, 0x104, Passage.LEAVE, 0),
        (5, 0x200, Passage.ENTER, 1),
        (8, 0x206, Passage.LEAVE, 1),
        (8, ADD_AT, Passage.POINT, 0),
        (30, 0x208, Passage.ENTER, 1),
        (33, 0x20C, Passage.RETURN, 1),
        (33, 0x106, Passage.ENTER, 0),
        (40, 0x110, Passage.LEAVE, 0),  # an interrupt
        (60, 0x112, Passage.ENTER, 0),
        (62, 0x104, Passage.LEAVE, 0),
        (62, 0x300, Passage.ENTER, 2),
        (70, 0x308, Passage.RETURN, 2),
        (70, 0x106, Passage.ENTER, 0),
        (72, 0x114, Passage.LEAVE, 0),
        (75, BACKEND_AT, Passage.POINT, 0),  # behind a veneer
        (90, 0x116, Passage.ENTER, 0),
        (95, 0x120, Passage.RETURN, 0),
    )
    runtime = FollowedRuntime(code, seen)
    assert not runtime.separate
    primitive = Instruction(Call.KERNEL, "executorch_prim::et_view.default", ())
    model = method(operator("add"), MOVE, primitive, DELEGATE)
    assert rows(trace_of_runtime(runtime, model)) == [
        ("native_call_add.out", 0, 8, 30),
        ("OPERATOR_CALL", 0, 5, 33),
        ("OPERATOR_CALL", 2, 62, 70),
        ("DELEGATE_CALL", 3, 72, 90),
        ("Method::execute", 0, 0, 95),
    ]
    without = rows(trace_of_runtime(runtime, None))
    assert [name for name, *_ in without] == [
        "torch::executor::native::add_out",
        "OPERATOR_CALL",
        "prim_ops",
        "backend",
        "Method::execute",
    ]


def test_a_kernel_that_generated_code_jumps_to_ends_where_the_call_does() -> None:
    code = ExecutorchCode((EXECUTE, GENERATED), {ADD_AT: kernel("add_out")}, {})
    seen = passages(
        (0, 0x100, Passage.ENTER, 0),
        (5, 0x104, Passage.LEAVE, 0),
        (5, 0x200, Passage.ENTER, 1),
        (8, 0x206, Passage.LEAVE, 1),
        (8, ADD_AT, Passage.POINT, 0),
        (30, 0x106, Passage.ENTER, 0),
        (35, 0x120, Passage.RETURN, 0),
    )
    trace = trace_of_runtime(FollowedRuntime(code, seen), method(operator("add")))
    assert rows(trace)[:2] == [("native_call_add.out", 0, 8, 30), ("OPERATOR_CALL", 0, 5, 30)]
    unfinished = passages((0, 0x100, Passage.ENTER, 0), (5, 0x104, Passage.LEAVE, 0))
    runtime = FollowedRuntime(code, unfinished)
    assert runtime.executions == []
    assert runtime.unfinished is not None

"""Our reader of .pte files against ExecuTorch's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from executorch.exir import schema
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.tensor import stride_from_dim_order

from harness import Call, Instruction, Method, Tensor, Value, ValueList, read_program
from tests.conftest import MODELS

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("path", sorted(Path(MODELS).glob("*.pte")), ids=lambda path: path.stem)
def test_everything_we_read_is_what_executorch_reads(path: Path) -> None:
    data = path.read_bytes()
    theirs = deserialize_pte_binary(data).program.execution_plan
    ours = read_program(data).methods
    assert [method.name for method in ours] == [plan.name for plan in theirs]
    for method, plan in zip(ours, theirs, strict=True):
        assert [*method.inputs] == plan.inputs
        assert [*method.outputs] == plan.outputs
        assert [*method.planned] == plan.non_const_buffer_sizes
        assert [*method.delegates] == [delegate.id for delegate in plan.delegates]
        for value, expected in zip(method.values, plan.values, strict=True):
            assert_same_value(method, value, expected.val)
        for chain, expected_chain in zip(method.chains, plan.chains, strict=True):
            for step, instruction in zip(chain, expected_chain.instructions, strict=True):
                assert_same_step(plan, step, instruction.instr_args)


def assert_same_value(method: Method, value: Value, expected: Any) -> None:
    if isinstance(value, Tensor):
        allocation = expected.allocation_info
        high_low = (
            (allocation.memory_offset_high, allocation.memory_offset_low) if allocation else ()
        )
        assert value.scalar_type == int(expected.scalar_type)
        assert [*value.sizes] == expected.sizes
        assert bytes(value.dim_order) == bytes(expected.dim_order)
        assert value.dynamism == int(expected.shape_dynamism)
        assert value.pool == (allocation.memory_id if allocation else 0)
        assert value.offset == (high_low[0] << 32 | high_low[1] if allocation else -1)
        assert value.data == expected.data_buffer_idx
        assert value.constant == (expected.data_buffer_idx > 0 and not allocation)
        assert value.initial_state == (expected.data_buffer_idx > 0 and bool(allocation))
        if 0 not in value.sizes:
            assert value.strides == tuple(stride_from_dim_order(expected.sizes, value.dim_order))
    elif isinstance(value, ValueList):
        assert [*(value.numbers or value.items)] == [*expected.items]
        if value.numbers:
            named = [None if n < 0 else method.values[n] for n in value.numbers]
            assert [*value.items] == named
    elif value is None:
        assert isinstance(expected, schema.Null)
    else:
        (content,) = dataclasses.astuple(expected)
        assert (type(value), value) == (type(content), content)


def assert_same_step(plan: Any, step: Instruction, expected: Any) -> None:
    match expected:
        case schema.KernelCall():
            operator = plan.operators[expected.op_index]
            assert step.call is Call.KERNEL
            assert step.name == f"{operator.name}.{operator.overload}".rstrip(".")
            assert [*step.args] == expected.args
        case schema.DelegateCall():
            assert (step.call, step.target) == (Call.DELEGATE, expected.delegate_index)
            assert step.name == plan.delegates[expected.delegate_index].id
            assert [*step.args] == expected.args
        case schema.MoveCall():
            assert (step.call, step.args) == (Call.MOVE, (expected.move_from, expected.move_to))
        case schema.JumpFalseCall():
            assert (step.call, step.args) == (Call.JUMP_FALSE, (expected.cond_value_index,))
            assert step.target == expected.destination_instruction
        case _:
            assert (step.call, step.args) == (Call.FREE, (expected.value_index,))

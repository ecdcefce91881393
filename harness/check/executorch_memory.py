"""How much memory ExecuTorch's runtime needs for a method on a 32-bit core, before it is flashed.

The program decides what the runtime allocates, and in which order (``runtime/executor/method.cpp``
and ``tensor_parser_portable.cpp`` of ExecuTorch), so the sizes of its structures give the exact
number of bytes. They are those of 32-bit Arm, checked against the image of Arm's kit
(``docs/mlek.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from harness.analyze.workload import tensor_bytes
from harness.decode.program import Call, Dynamism, Instruction, Method, Tensor, ValueList

_POINTER: Final = 4
_VALUE: Final = 16
_TENSOR: Final = 32
_CHAIN: Final = 16
_ARGUMENTS: Final = 8
_ARRAY: Final = 8
_BOXED_LIST: Final = 12
_OPTIONAL_TENSOR: Final = 8
_TENSOR_META: Final = 12
"""Bytes of EValue, TensorImpl, Chain, Span, ArrayRef, BoxedEvalueList, optional<Tensor> and
TensorMeta."""

_CANDIDATE: Final = 16
"""Bytes of a number and its index in the portable `topk`, a pair with a 64-bit member."""


class RuntimeMemory(msgspec.Struct, frozen=True):
    """Bytes that ExecuTorch's runtime needs for a method on a 32-bit core.

    Attributes:
        method: Structures of the method: what a method allocator takes, with its alignment.
        requested: The same without alignment, as allocators that sum up requests report it.
        planned: Planned memory, all pools together.
        temporary: Most temporary memory of loading and of `topk`; no other kernel that was checked
            takes any.
        scratch: Most scratch memory that a kernel of CMSIS-NN gets; it is a part of ``planned``.
        kernels: The kernels that it calls, sorted.
    """

    method: int
    requested: int
    planned: int
    temporary: int
    scratch: int
    kernels: tuple[str, ...]


def runtime_memory(method: Method) -> RuntimeMemory | None:
    """Return the memory of a method; None if it has delegates, whose backends take memory, too."""
    if method.delegates:
        return None
    end = requested = 0
    for size, alignment in _allocations(method):
        requested += size
        end += -end % alignment + size
    kernels = {each.name for each in _kernel_calls(method)}
    return RuntimeMemory(
        method=end,
        requested=requested,
        planned=sum(method.planned),
        temporary=max(_of_loading(method), _of_topk(method)),
        scratch=_scratch(method),
        kernels=tuple(sorted(kernels)),
    )


def _allocations(method: Method) -> Iterator[tuple[int, int]]:
    """Yield size and alignment of each piece, in the order of the runtime."""
    yield _VALUE * len(method.values), 8
    yield len(method.inputs), 1
    for value in method.values:
        match value:
            case Tensor():
                rank = len(value.sizes)
                if value.dynamism is not Dynamism.STATIC:
                    yield _POINTER * rank, 4
                    yield rank, 1
                yield _POINTER * rank, 4
                yield _TENSOR, 4
            case ValueList():
                yield from _of_list(value)
            case str():
                yield _ARRAY, 4
    yield 0, 8  # the list of delegates, of which there are none
    yield _CHAIN * len(method.chains), 4
    for chain in method.chains:
        yield _POINTER * len(chain), 4
        yield _ARGUMENTS * len(chain), 4
        for instruction in chain:
            if instruction.call in (Call.KERNEL, Call.DELEGATE):
                yield _POINTER * len(instruction.args), 4


def _of_list(value: ValueList) -> Iterator[tuple[int, int]]:
    count = len(value.items)
    match value.kind:
        case "bool" | "double":
            yield _ARRAY, 4
            return
        case "tensor":
            yield _POINTER * count, 4
        case "optional tensor":
            yield _OPTIONAL_TENSOR * count, 4
    yield _POINTER * count, 4
    if value.kind in ("int", ""):
        yield 8 * count, 8
    yield _BOXED_LIST, 4


def _kernel_calls(method: Method) -> Iterator[Instruction]:
    return (each for chain in method.chains for each in chain if each.call is Call.KERNEL)


def _of_loading(method: Method) -> int:
    """Return the most bytes in which the runtime looks up a kernel by the types of its tensors."""
    most = 0
    for instruction in _kernel_calls(method):
        values = (method.values[number] for number in instruction.args)
        ranks = sum(len(value.sizes) for value in values if isinstance(value, Tensor))
        most = max(most, _TENSOR_META * len(instruction.args) + ranks)
    return most


def _of_topk(method: Method) -> int:
    """Return the most bytes that `topk` sorts in."""
    most = 0
    for instruction in _kernel_calls(method):
        if instruction.name != "aten::topk.values":
            continue
        match [method.values[number] for number in instruction.args[:3]]:
            case [Tensor(sizes=sizes), _, int(dim)] if -len(sizes) <= dim < len(sizes):
                most = max(most, _CANDIDATE * sizes[dim])
    return most


def _scratch(method: Method) -> int:
    """Return the most bytes of planned tensors of a kernel of CMSIS-NN that no kernel returns."""
    calls = [each for each in _kernel_calls(method) if each.args]
    known = {*method.inputs, *method.outputs}
    for call in calls:
        returned = method.values[call.args[-1]]
        known |= {*returned.numbers} if isinstance(returned, ValueList) else {call.args[-1]}
    most = 0
    for call in calls:
        if not call.name.startswith("cortex_m::"):
            continue
        tensors = (method.values[number] for number in {*call.args} - known)
        planned = (
            each
            for each in tensors
            if isinstance(each, Tensor) and each.offset >= 0 and not each.initial_state
        )
        most = max(most, sum(tensor_bytes(each) for each in planned))
    return most

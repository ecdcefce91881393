"""One call of ExecuTorch's own portable kernels on this host, with the arguments of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from executorch.extension.pybindings import portable_lib

from tests.support.calls import fresh
from tests.support.kernels import Array, TensorList, argument, outputs
from tests.support.programs import ProgramBuilder
from tests.support.runtime import ALIGNMENT

torch: Any = __import__("torch")


def contiguous(array: Array) -> Any:
    """A tensor with PyTorch's own strides, also where it has no elements."""
    tensor = torch.from_numpy(np.array(array))
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)


def run_portable(operator: str, *arguments: Any) -> list[Array] | None:
    """Call a kernel by name and overload; return its outputs, or None if it fails.

    Inputs are contiguous arrays. ExecuTorch reads no constants within the program, so they are
    inputs of the method.
    """
    arguments = tuple(fresh([*arguments]))
    arrays: list[Array] = []
    places: list[int] = []
    planned = 0

    def room(nbytes: int) -> int:
        nonlocal planned
        place, planned = planned, planned + -(-nbytes // ALIGNMENT) * ALIGNMENT
        return place

    outs = outputs(arguments)
    for out in outs:
        out.place = room(out.nbytes)
    for value in arguments:
        for item in value.tensors if isinstance(value, TensorList) else [value]:
            if isinstance(item, np.ndarray):
                arrays.append(item)
                places.append(room(item.nbytes))
    program = ProgramBuilder([0, planned])
    inputs = [
        program.tensor(array.shape, array.dtype.type, memory=(1, place))
        for array, place in zip(arrays, places, strict=True)
    ]
    left = iter(inputs)

    def number(value: Any) -> int:
        match value:
            case np.ndarray():
                return next(left)
            case TensorList():
                items = [-1 if item is None else number(item) for item in value.tensors]
                return program.tensors(*items, optional=-1 in items)
            case _:
                return argument(program, value)

    numbers = [number(value) for value in arguments]
    name, _, overload = operator.partition(".")
    # ExecuTorch's own files return the outputs after the arguments, several of them as a list.
    returned = outs[0].number if len(outs) == 1 else program.tensors(*(o.number for o in outs))
    program.call(name, *numbers, returned, overload=overload)
    file = program.finish(inputs=inputs, outputs=[out.number for out in outs], for_executorch=True)
    module = portable_lib._load_for_executorch_from_buffer(file)
    tensors = [contiguous(array) for array in arrays]
    try:
        results = module.run_method("forward", tensors)
    except RuntimeError:
        return None
    return [result.numpy() for result in results]

"""A program at the shapes of given inputs: ``etharness inspect --input-shape``.

A ``.pte`` has the upper bounds of dynamic shapes only. What sizes tensors have for an input is
computed by the kernels, so the method is executed once on this computer, and its log tells.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.analyze.blocks import executed_methods
from harness.analyze.workload import Argument, event_arguments
from harness.decode.program import Dynamism, Method, Program, Tensor, Value, ValueList
from harness.errors import UsageError
from harness.printing import counted
from harness.runs.device import dtype_of
from harness.runs.request import RunRequest
from harness.runs.run import run_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOARD: Final = "native"
FORWARD: Final = "forward"

VIEW: Final = "executorch_prim::et_view."
"""An operator of the runtime itself, whose output is not logged."""

Sizes = tuple[int, ...]


def at_shapes(
    path: Path, program: Program, shapes: Sequence[str], data: Sequence[Path] = ()
) -> Program:
    """Return a program whose tensors have the sizes that they have for inputs of given shapes.

    The method ``forward``, or the only one, is executed with inputs of zeros. Tensors that the
    execution does not reach keep their upper bounds.

    Args:
        path: The program's file.
        program: The program.
        shapes: Of each input, such as ``1x37``.
        data: The ``.ptd`` files of the program.

    Raises:
        UsageError: The shapes are not those of inputs of the method.
        HarnessError: The method cannot be executed on this computer.
    """
    named = [each for each in program.methods if each.name == FORWARD]
    if not named and len(program.methods) != 1:
        raise UsageError(f"--input-shape needs a method {FORWARD!r}, or a program with one method")
    [method] = named or program.methods
    inputs = [_zeros(method, number, shape) for number, shape in _paired(method, shapes)]
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for number, array in enumerate(inputs):
            files.append(Path(scratch) / f"{number}.npy")
            np.save(files[-1], array)
        request = RunRequest(
            *(BOARD, path, 1, Path(scratch) / "run"),
            method=method.name,
            data=tuple(data),
            inputs=tuple(files),
            values="intermediate",
        )
        trace = run_model(request).trace
    assert trace is not None
    sizes = {number: array.shape for number, array in zip(method.inputs, inputs, strict=True)}
    methods = executed_methods(trace, Program((method,)), method.name)
    for arguments in event_arguments(trace, methods):
        if arguments is None:
            continue
        for argument in arguments.outputs:
            if argument.logged is not None:
                sizes[argument.number] = argument.logged.sizes
        if arguments.instruction.name.startswith(VIEW):
            viewed, view = arguments.inputs[0], arguments.outputs[0]
            if viewed.number in sizes and isinstance(view.value, Tensor):
                sizes[view.number] = _of_view(view.value.sizes, prod(sizes[viewed.number]))
    shaped = replace(method, values=tuple(_shaped(method, sizes)))
    return replace(
        program, methods=tuple(shaped if each is method else each for each in program.methods)
    )


def _paired(method: Method, shapes: Sequence[str]) -> list[tuple[int, str]]:
    if len(shapes) != len(method.inputs):
        texts = [Argument(number, method.values[number]).text for number in method.inputs]
        raise UsageError(
            f"{counted(len(shapes), 'shape')} for the {counted(len(texts), 'input')} of method "
            f"{method.name!r}: {', '.join(texts)}",
            hint="give --input-shape once for each input, in this order, such as 1x37",
        )
    return [*zip(method.inputs, shapes, strict=True)]


def _zeros(method: Method, number: int, text: str) -> NDArray[np.generic]:
    """Return an input of a shape."""
    value = method.values[number]
    if not isinstance(value, Tensor):
        raise UsageError(f"input {method.inputs.index(number)} of {method.name!r} is no tensor")
    try:
        sizes = tuple(map(int, text.split("x"))) if text else ()
    except ValueError:
        raise UsageError(
            f"--input-shape {text!r} is no shape", hint="give sizes such as 1x37"
        ) from None
    fits = len(sizes) == len(value.sizes) and all(
        0 <= size <= bound if value.dynamism else size == bound
        for size, bound in zip(sizes, value.sizes, strict=True)
    )
    if not fits:
        input_ = Argument(number, value).text
        most = ", where sizes are upper bounds" if value.dynamism else ""
        raise UsageError(
            f"--input-shape {text} does not fit input {method.inputs.index(number)} of "
            f"{method.name!r}, {input_}{most}"
        )
    return np.zeros(sizes, dtype_of(value.scalar_type))


def _of_view(bounds: Sizes, elements: int) -> Sizes:
    """Return sizes with so many elements, by a change of one dimension where that is possible."""
    for place, bound in enumerate(bounds):
        others = prod(bounds[:place] + bounds[place + 1 :])
        if others and not elements % others and elements // others <= bound:
            return (*bounds[:place], elements // others, *bounds[place + 1 :])
    return bounds


def _shaped(method: Method, sizes: dict[int, Sizes]) -> list[Value]:
    """Return the values of a method with known sizes; lists with their members."""
    values = [
        replace(value, sizes=sizes[number], dynamism=Dynamism.STATIC)
        if isinstance(value, Tensor) and number in sizes
        else value
        for number, value in enumerate(method.values)
    ]
    for place, value in enumerate(values):
        if isinstance(value, ValueList) and "tensor" in value.kind:
            members = (values[number] if number >= 0 else None for number in value.numbers)
            items = tuple(member for member in members if not isinstance(member, ValueList | str))
            values[place] = replace(value, items=items)
    return values

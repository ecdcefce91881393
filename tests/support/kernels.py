"""Calls one kernel of the C runtime, through a program that has nothing else."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness import read_program
from harness.check.fit import refusals
from tests.support.programs import ProgramBuilder
from tests.support.runtime import ALIGNMENT, load

Array = npt.NDArray[np.generic]


@dataclass
class Tensor:
    """A tensor argument with its order in memory."""

    data: Array
    order: Sequence[int] | None = None


@dataclass
class Out:
    """An output to be filled. With ``room``, each size is dynamic and may be as much larger."""

    shape: Sequence[int]
    dtype: type = np.float32
    order: Sequence[int] | None = None
    room: int = 0
    number: int = field(default=-1, init=False)
    place: int = field(default=0, init=False)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.bounds)) * np.dtype(self.dtype).itemsize

    @property
    def bounds(self) -> list[int]:
        return [size + self.room for size in self.shape]

    def arrange(self, stored: bytes) -> Array:
        """The elements in memory, indexed as PyTorch indexes them."""
        order = tuple(range(len(self.shape)) if self.order is None else self.order)
        flat = np.frombuffer(stored, self.dtype)
        return flat.reshape([self.shape[dim] for dim in order]).transpose(np.argsort(order))


@dataclass
class TensorList:
    """A list of tensors, of outputs, or of tensors and None."""

    tensors: Sequence[Array | Tensor | Out | None]


def outputs(arguments: Sequence[object]) -> list[Out]:
    """All outputs among the arguments, also those in lists."""
    found: list[Out] = []
    for value in arguments:
        items = value.tensors if isinstance(value, TensorList) else [value]
        found += [item for item in items if isinstance(item, Out)]
    return found


def scalar(program: ProgramBuilder, value: bool | int | float | str | None) -> int:
    """Append a value that is neither tensor nor list."""
    match value:
        case None:
            return program.value("null")
        case bool():
            return program.value("bool", ("u8", value))
        case int():
            return program.value("int", ("i64", value))
        case float():
            return program.value("double", ("f64", value))
        case str():
            return program.text(value)


def argument(program: ProgramBuilder, value: object) -> int:
    """Append an argument of whatever kind the Python value says."""
    match value:
        case None | bool() | int() | float() | str():
            return scalar(program, value)
        case TensorList():
            numbers = [-1 if item is None else argument(program, item) for item in value.tensors]
            return program.tensors(*numbers, optional=-1 in numbers)
        case [float(), *_]:
            return program.floats(*value)
        case list():
            return program.integers(*value)
        case Tensor():
            return program.constant(value.data, value.order)
        case np.ndarray():
            return program.constant(value)
        case Out():
            value.number = program.tensor(
                value.bounds,
                value.dtype,
                memory=(1, value.place),
                dim_order=value.order,
                dynamism=1 if value.room else 0,
            )
            return value.number
        case _:
            raise TypeError(value)


def one_call(operator: str, arguments: Sequence[object], *, overlapping: bool = False) -> bytes:
    """A program of one call, of an operator by its whole name, that gives its outputs.

    When ``overlapping``, they all lie at the same place, as in a corrupt file.
    """
    outs = outputs(arguments)
    planned = 0
    for out in outs:
        out.place = 0 if overlapping else planned
        planned += -(-out.nbytes // ALIGNMENT) * ALIGNMENT
    program = ProgramBuilder([0, planned])
    numbers = [argument(program, value) for value in arguments]
    name, _, overload = operator.partition(".")
    program.call(name, *numbers, overload=overload)
    return program.finish(outputs=[out.number for out in outs])


def run_all(library: ct.CDLL, operator: str, *arguments: object) -> list[Array]:
    """Call one kernel, by name or by name and overload; return its outputs.

    They are indexed as PyTorch indexes them.
    """
    outs = outputs(arguments)
    file = one_call(operator if "." in operator else f"{operator}.out", arguments)
    loaded = load(library, file)
    loaded.execute()
    [method] = read_program(file).methods
    assert refusals(method) == (), "the host refuses what the kernel takes"
    return [out.arrange(loaded.output(index)) for index, out in enumerate(outs)]


def run(library: ct.CDLL, operator: str, *arguments: object) -> Array:
    """Call one kernel and return its first output."""
    return run_all(library, operator, *arguments)[0]

"""Calls one kernel of the C runtime, through a program that has nothing else."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tests.support.programs import ProgramBuilder
from tests.support.runtime import load

Array = npt.NDArray[np.generic]


@dataclass
class Tensor:
    """A tensor argument with its order in memory."""

    data: Array
    order: Sequence[int] | None = None


@dataclass
class Out:
    """An output to be filled."""

    shape: Sequence[int]
    dtype: type = np.float32
    order: Sequence[int] | None = None
    number: int = field(default=-1, init=False)


def argument(program: ProgramBuilder, value: object) -> int:
    """Append an argument of whatever kind the Python value says."""
    match value:
        case None:
            return program.value("null")
        case bool():
            return program.value("bool", ("u8", value))
        case int():
            return program.value("int", ("i64", value))
        case float():
            return program.value("double", ("f64", value))
        case list():
            return program.integers(*value)
        case Tensor():
            return program.constant(value.data, value.order)
        case np.ndarray():
            return program.constant(value)
        case Out():
            value.number = program.tensor(
                value.shape, value.dtype, memory=(1, 0), dim_order=value.order
            )
            return value.number
        case _:
            raise TypeError(value)


def run(library: ct.CDLL, operator: str, *arguments: object) -> Array:
    """Call one kernel; return its first output, indexed as PyTorch indexes it."""
    out = next(value for value in arguments if isinstance(value, Out))
    count = int(np.prod(out.shape))
    program = ProgramBuilder([0, count * np.dtype(out.dtype).itemsize])
    numbers = [argument(program, value) for value in arguments]
    program.call(operator, *numbers)
    flat = load(library, program.finish(outputs=[out.number])).run(dtype=out.dtype)
    order = tuple(range(len(out.shape)) if out.order is None else out.order)
    stored = flat.reshape([out.shape[dim] for dim in order])
    return stored.transpose(np.argsort(order))

"""A sound call of every operator, and ways to spoil one argument of it.

A spoilt call must be refused, unless the table says that the operator takes it all the same:
``accepts`` holds what is spoilt, as ``"<argument> <what>"``, or ``"<argument> *"`` for an argument
that the kernel does not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.support.kernels import Array, Out, TensorList
from tests.support.runtime import DTYPES

HUGE = 1 << 40


@dataclass(frozen=True)
class Call:
    """Arguments in the file's order, and what of them may be something else."""

    arguments: list[Any]
    accepts: frozenset[str] = frozenset()

    def takes(self, what: str) -> bool:
        """Whether the operator may accept an argument that is spoilt like this."""
        return what.split()[1] == "empty" or self.reads_over(what) is not None

    def reads_over(self, what: str) -> str | None:
        """The entry of ``accepts`` that says so."""
        entries = (what, f"{what.split()[0]} *")
        return next((entry for entry in entries if entry in self.accepts), None)

    def spoilt(self) -> Iterator[tuple[str, list[Any]]]:
        """What is wrong, and the arguments."""
        for index, argument in enumerate(self.arguments):
            for what, other in _spoil(argument):
                yield (
                    f"{index} {what}",
                    [*self.arguments[:index], other, *self.arguments[index + 1 :]],
                )


def call(*arguments: Any, accepts: str = "") -> Call:
    """``accepts`` is a list with commas."""
    return Call(list(arguments), frozenset(filter(None, accepts.split(", "))))


def fresh(arguments: list[Any]) -> list[Any]:
    """The same arguments for another program: outputs know their place in one."""
    return [_fresh(argument) for argument in arguments]


def _fresh(argument: Any) -> Any:
    match argument:
        case Out():
            return replace(argument)
        case TensorList():
            return TensorList([_fresh(item) for item in argument.tensors])
        case _:
            return argument


def _spoil(argument: Any) -> Iterator[tuple[str, Any]]:
    yield "kind", 1 if isinstance(argument, str) else "text"
    match argument:
        case bool() | float() | None:
            return
        case int():
            yield from (("range", limit) for limit in (HUGE, -HUGE))
        case str():
            yield "text", argument + "x"
        case [float(), *_]:
            yield "length", argument[:-1]
            for limit in (float("nan"), float("inf"), -1.0, 1e300):
                yield "range", [limit, *argument[1:]]
        case list():
            yield "length", argument + [1] * 9
            yield from _spoil_items(argument)
        case _:
            yield from _spoil_tensors(argument)


def _spoil_tensors(argument: TensorList | Out | Array) -> Iterator[tuple[str, Any]]:
    match argument:
        case TensorList():
            for index, tensor in enumerate(argument.tensors):
                for what, other in [] if tensor is None else _spoil_tensors(tensor):
                    tensors = [*argument.tensors]
                    tensors[index] = other
                    yield what, TensorList(tensors)
        case Out():
            data = np.zeros(argument.shape, argument.dtype)
            yield "constant", data
            for what, other in _spoil_array(data):
                yield what, Out(other.shape, other.dtype.type)
        case _:
            yield from _spoil_array(argument)
            if argument.dtype in (np.int32, np.int64):
                limits = np.iinfo(argument.dtype)
                for limit in (limits.min, limits.max):
                    yield "values", np.full_like(argument, limit)


def _spoil_items(numbers: list[int]) -> Iterator[tuple[str, list[int]]]:
    for index in range(len(numbers)):
        for limit in (HUGE, -HUGE):
            yield "range", [*numbers[:index], limit, *numbers[index + 1 :]]


def _spoil_array(data: Array) -> Iterator[tuple[str, Array]]:
    for dtype in DTYPES:
        if dtype != data.dtype:
            yield "type", data.astype(dtype)
    yield "deeper", np.stack([data, data])
    if data.ndim > 0 and data.size > 0:
        yield "flatter", np.array(data[0])
    for dim, size in enumerate(data.shape):
        larger = (*data.shape[:dim], size + 1, *data.shape[dim + 1 :])
        yield f"size{dim}", np.resize(data, larger)
        if size > 0:
            yield "empty", np.zeros((*data.shape[:dim], 0, *data.shape[dim + 1 :]), data.dtype)

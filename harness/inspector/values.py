"""Converts logged values to those of ExecuTorch's Inspector: numbers, tensors, lists of tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from harness.analyze.values import tensor_array
from harness.errors import FormatError
from harness.records.values import DebugValue, TensorValue

Tensors = Callable[[np.ndarray], Any]
"""Makes a tensor from an array."""


def tensor_maker(kind: str | None) -> Tensors:
    """Return the function that makes tensors: ``"torch"``, ``"numpy"``, or None for the default.

    By default a program that has imported torch gets torch tensors, as from ExecuTorch; others get
    arrays.
    """
    if kind is None:
        kind = "torch" if "torch" in sys.modules else "numpy"
    if kind == "numpy":
        return lambda array: array
    if kind != "torch":
        raise ValueError(f"tensors must be 'torch' or 'numpy', not {kind!r}")
    from harness.extras import require

    (torch,) = require("oracle", "tensors='torch'", "torch")
    return lambda array: torch.from_numpy(np.array(array))


class LoggedValues:
    """Inflates values."""

    def __init__(self, debug_buffer: bytes | None, tensors: Tensors) -> None:
        """Read elements from ``debug_buffer``, None without one."""
        self._buffer = debug_buffer
        self._tensors = tensors

    def missing(self, values: Iterable[DebugValue]) -> int:
        """Return the number of tensors without elements."""
        contents = (value.value for value in values)
        lists = (item if isinstance(item, tuple) else (item,) for item in contents)
        tensors = (item for items in lists for item in items if isinstance(item, TensorValue))
        return sum(self._array(tensor) is None for tensor in tensors)

    def inflate(self, value: DebugValue) -> Any:
        """Return the value; a tensor without elements stays a ``TensorValue`` with its sizes."""
        content = value.value
        if isinstance(content, TensorValue):
            return self._tensor(content)
        if isinstance(content, tuple):
            return [self._tensor(tensor) for tensor in content]
        return content

    def _tensor(self, tensor: TensorValue) -> Any:
        array = self._array(tensor)
        return tensor if array is None else self._tensors(array)

    def _array(self, tensor: TensorValue) -> np.ndarray | None:
        if self._buffer is None:
            return None
        try:
            return tensor_array(tensor, self._buffer)
        except FormatError:
            return None

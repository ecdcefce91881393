"""Logged values as ExecuTorch's Inspector has them: numbers, tensors, lists of tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.analyze.values import tensor_array
from harness.errors import FormatError
from harness.records.trace import DebugValue, TensorValue

Tensors = Callable[[np.ndarray], Any]
"""What makes a tensor of an array."""


def tensor_maker(kind: str | None) -> Tensors:
    """What tensors are to be: ``"torch"``, ``"numpy"``, or None for what the caller uses.

    A program that has imported torch gets torch's tensors, as from ExecuTorch; others get arrays.
    """
    if kind is None:
        kind = "torch" if "torch" in sys.modules else "numpy"
    if kind == "numpy":
        return lambda array: array
    if kind != "torch":
        raise ValueError(f"tensors are 'torch' or 'numpy', not {kind!r}")
    from harness.extras import require

    (torch,) = require("oracle", "tensors='torch'", "torch")
    return lambda array: torch.from_numpy(np.array(array))


class LoggedValues:
    """Inflates values; counts tensors whose elements nobody has."""

    def __init__(self, debug_buffer: bytes | None, tensors: Tensors) -> None:
        """Take elements from ``debug_buffer``; None when there is none."""
        self._buffer = debug_buffer
        self._tensors = tensors
        self.missing = 0

    def inflate(self, value: DebugValue) -> Any:
        """The value; a tensor without elements stays a ``TensorValue``, which knows its sizes."""
        content = value.value
        if isinstance(content, TensorValue):
            return self._tensor(content)
        if isinstance(content, tuple):
            return [self._tensor(tensor) for tensor in content]
        return content

    def _tensor(self, tensor: TensorValue) -> Any:
        if self._buffer is not None:
            try:
                return self._tensors(tensor_array(tensor, self._buffer))
            except FormatError:
                pass
        self.missing += 1
        return tensor

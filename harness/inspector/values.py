"""Converts logged values to those of ExecuTorch's Inspector: numbers, tensors, lists of tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    """Inflates values, and counts tensors without elements."""

    def __init__(self, debug_buffer: bytes | None, tensors: Tensors) -> None:
        """Read elements from ``debug_buffer``, None without one."""
        self._buffer = debug_buffer
        self._tensors = tensors
        self.missing = 0

    def inflate(self, value: DebugValue) -> Any:
        """Return the value; a tensor without elements stays a ``TensorValue`` with its sizes."""
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

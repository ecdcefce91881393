"""The tensors that a trace logged, with their elements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness import Kind, TensorValue, Trace, tensor_array


class Logged(NamedTuple):
    """Where a tensor belongs, whether the method returned it, and what it holds."""

    chain: int
    instruction: int
    output: bool
    array: np.ndarray

    @property
    def kind(self) -> tuple[object, ...]:
        """All of it but the elements."""
        return (*self[:3], self.array.dtype, self.array.shape)

    @property
    def exact(self) -> tuple[object, ...]:
        """All of it, to be compared bit by bit."""
        return (*self.kind, self.array.tobytes())


def logged_tensors(trace: Trace, debug_buffer: bytes) -> list[Logged]:
    """Every value of the trace, all of which are tensors."""
    found = []
    for row in np.flatnonzero(trace.kind == Kind.DEBUG):
        value = trace.debug_values[int(trace.debug[row])]
        assert isinstance(value.value, TensorValue)
        place = int(trace.chain[row]), int(trace.instruction[row])
        found.append(Logged(*place, bool(value.output), tensor_array(value.value, debug_buffer)))
    return found

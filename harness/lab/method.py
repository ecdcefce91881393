"""What a result records of the method that ran, as its ``.pte`` file says."""

from __future__ import annotations

from harness.errors import FormatError
from harness.program.program import Call, Method
from harness.program.pte import read_program
from harness.result import DelegateCall


def read_method(model: bytes, name: str) -> Method | None:
    """Read a method of a ``.pte`` file; None if it cannot be read, or has no such method."""
    try:
        return read_program(model).method(name)
    except FormatError:  # what the device makes of the file decides, not this
        return None


def delegate_calls(method: Method | None) -> tuple[DelegateCall, ...]:
    """List the calls of delegates."""
    chains = method.chains if method is not None else ()
    return tuple(
        DelegateCall(chain, index, instruction.name)
        for chain, instructions in enumerate(chains)
        for index, instruction in enumerate(instructions)
        if instruction.call == Call.DELEGATE
    )


def planned_sizes(method: Method | None) -> dict[str, int]:
    """Bytes that the compiler planned, by the name of the allocator that has them on a device."""
    planned = method.planned if method is not None else ()
    return {f"planned_{pool}": planned[pool] for pool in range(1, len(planned))}

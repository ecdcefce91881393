"""What delegates do, which plugins read from the program (docs/plugins.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from harness.decode.program import Call, CompiledDelegate, Method
from harness.decode.pte import read_delegates
from harness.errors import FormatError
from harness.plugins import DELEGATES, load_plugin
from harness.records.result import DelegateCall, DelegateWork

DelegateReader: TypeAlias = Callable[[CompiledDelegate], DelegateWork]
"""Reads a delegate of its backend; raises a FormatError if the blob is damaged."""


def delegate_calls(data: bytes, method: Method) -> tuple[DelegateCall, ...]:
    """Return the calls of delegates in a method, each with what the delegate does.

    Args:
        data: The program.
        method: One of its methods.

    Raises:
        FormatError: The data of a delegate is not in the program.
    """
    if not method.delegates:
        return ()
    works = [_work(delegate) for delegate in read_delegates(data)[method.name]]
    return tuple(
        DelegateCall(chain, index, step.name, works[step.target])
        for chain, steps in enumerate(method.chains)
        for index, step in enumerate(steps)
        if step.call is Call.DELEGATE
    )


def _work(delegate: CompiledDelegate) -> DelegateWork:
    """Return what a delegate does, or why that is not known."""
    read = cast("DelegateReader | None", load_plugin(DELEGATES, delegate.backend))
    if read is None:
        size = f"{len(delegate.blob):,} bytes"
        return DelegateWork(notes=(f"no decoder of its blob ({size}) is installed",))
    try:
        return read(delegate)
    except FormatError as error:
        return DelegateWork(notes=(f"its blob is damaged: {error.message}; {error.hint}",))

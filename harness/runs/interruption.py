"""Ends an interrupted run on its board, and keeps the trace of its executions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from harness.errors import HarnessError, LinkError
from harness.interrupts import heed, interrupts, took_effect
from harness.lab.flash_plan import Stages
from harness.link.exchange import Progress
from harness.link.run import RunOutcome
from harness.link.session import Session

CANCEL_S: Final = 5.0
"""Longest wait for the end of the run, seconds: the board completes its current execution."""

_PULL_S: Final = 10.0
"""Longest time for reading the trace, seconds."""


@contextmanager
def heeded_interrupts() -> Iterator[Callable[[], None]]:
    """Yield a function that raises an interrupt again if it had no effect.

    A run of many executions would go on otherwise.
    """
    with interrupts(terminate=False):
        try:
            yield heed
        except KeyboardInterrupt:
            took_effect()
            raise


def end_interrupted_run(
    session: Session, keep: Callable[[RunOutcome, Progress], None], stages: Stages
) -> str:
    """End the run that a session has requested, and keep its trace.

    Args:
        session: The session.
        keep: Reads and saves the trace of the executions so far.
        stages: Called to report progress.

    Returns:
        What became of the run, as the rest of a sentence; empty if none was in progress.
    """
    if not session.is_running:
        return ""
    stages("ending the run on the board", 0, 0)
    try:
        outcome = session.cancel(CANCEL_S)
    except HarnessError as error:
        return f"; the run did not end on the board: {error.message}"
    if outcome is None:
        return f"; the board has not confirmed the end of the run within {CANCEL_S:g} s"
    give_up_at = time.monotonic() + _PULL_S

    def progress(done: int, total: int) -> None:
        stages("pulling", done, total)
        if time.monotonic() > give_up_at:
            raise LinkError(f"not complete within {_PULL_S:g} s")

    try:
        keep(outcome, progress)
    except HarnessError as error:
        return f"; the run has ended on the board, but its trace was not saved: {error.message}"
    return "; the run has ended on the board, and its trace is saved"

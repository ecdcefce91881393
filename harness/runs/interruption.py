"""Ends an interrupted run on its board, and keeps the trace of its executions."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from harness.errors import HarnessError, LinkError
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
    """Yield a function that raises KeyboardInterrupt if Ctrl-C was pressed and had no effect.

    Python raises it wherever the main thread is. In a finalizer, or in what C code calls and whose
    errors it ignores, it gets lost; a run of many executions would then go on. The function does
    nothing after the context.
    """
    pressed = False
    handler = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.default_int_handler(number, frame)

    def heed() -> None:
        if pressed:
            raise KeyboardInterrupt

    # Other threads cannot set handlers, and a caller's own handler knows better what to do.
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = in_main_thread and handler is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield heed
    finally:
        pressed = False  # it had its effect, or the run is over
        if ours:
            signal.signal(signal.SIGINT, handler)


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

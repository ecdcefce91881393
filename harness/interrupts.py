"""Ctrl-C and SIGTERM as exceptions that are raised again when Python loses them.

Python raises KeyboardInterrupt wherever the main thread is. In a finalizer, or in a callback such
as that of an import lock, the exception is printed and dropped, and the command would go on. And
while a program is started or ended, the exception would leave it behind.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_AGAIN_S: Final = 0.02
"""Time until a lost interrupt is raised again: the finalizer has ended by then."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which systemd and CI systems end a command. It ends as with Ctrl-C."""


class _Interrupts:
    """State of the handlers of this process; no dataclass, which would delay their start.

    Attributes:
        raised: Number of the signal that was raised and may have been lost; 0 without one.
        deferred: Depth of `deferred` contexts of the main thread.
        waiting: Number of the signal that came in such a context; 0 without one.
    """

    def __init__(self) -> None:
        self.raised = self.deferred = self.waiting = 0


_state: Final = _Interrupts()


def _raise(number: int) -> None:
    _state.raised = number
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _handle(number: int, _: FrameType | None) -> None:
    if _state.deferred:
        _state.waiting = number
    else:
        _raise(number)


@contextmanager
def interrupts(*, terminate: bool) -> Iterator[None]:
    """Raise Ctrl-C, and SIGTERM if ``terminate``, as exceptions that do not get lost.

    Signals with a handler of the caller, and signals that are ignored, are left alone. Nothing
    happens outside of the main thread, which alone can set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler}
    if terminate:
        wanted[signal.SIGTERM] = signal.SIG_DFL
    before = {
        number: default for number, default in wanted.items() if signal.getsignal(number) == default
    }
    hook = sys.unraisablehook

    def on_unraisable(args: sys.UnraisableHookArgs) -> None:
        if args.exc_type is None or not issubclass(args.exc_type, KeyboardInterrupt):
            hook(args)
            return
        # Not threading.Thread, whose lock the finalizer may have interrupted.
        _thread.start_new_thread(_send_again, (signal.Signals(_state.raised or signal.SIGINT),))

    for number in before:
        signal.signal(number, _handle)
    if before:
        sys.unraisablehook = on_unraisable
    try:
        yield
    finally:
        if before:
            sys.unraisablehook = hook
            _state.raised = 0
        for number, default in before.items():
            signal.signal(number, default)


def _send_again(number: signal.Signals) -> None:
    time.sleep(_AGAIN_S)
    if send := getattr(signal, "pthread_kill", None):
        send(threading.main_thread().ident, number)  # also ends what the main thread waits for
    else:
        _thread.interrupt_main(number)


def heed() -> None:
    """Raise an interrupt again that was raised and had no effect, wherever it was lost."""
    if _state.raised:
        _raise(_state.raised)


def took_effect() -> None:
    """Note that an interrupt has reached the code that handles it."""
    _state.raised = 0


@contextmanager
def deferred() -> Iterator[None]:
    """Delay interrupts until the end of the context, which must be short.

    Only handlers of `interrupts` are delayed, and only in the main thread, which receives them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.deferred += 1
    try:
        yield
    finally:
        _state.deferred -= 1
        if not _state.deferred and (number := _state.waiting):
            _state.waiting = 0
            _raise(number)


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that ended a command with this error; None if it was another cause.

    While modules are imported, Python replaces interrupts by errors: by RuntimeError when a class
    is made, by SyntaxError when the compiler imports a module of its own.
    """
    if isinstance(error, KeyboardInterrupt):
        return error
    if not _state.raised:
        return None
    return Terminated() if _state.raised == signal.SIGTERM else KeyboardInterrupt()


def settle(interrupt: BaseException) -> int:
    """Return the exit code of a command that ends with an interrupt, just before it exits.

    An interrupt that passed through exec(), as dataclasses call it, has left a note in the
    interpreter, which would end with SIGINT instead of this code. The next exec() clears it.
    """
    exec("")
    return exit_code_of(interrupt)


def exit_code_of(interrupt: BaseException) -> int:
    """Return the exit code for an interrupt: 143 for SIGTERM, else 130."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def interrupt_text(interrupt: BaseException) -> str:
    """Return the message for an interrupt, with what it says about its consequences."""
    word = "terminated" if isinstance(interrupt, Terminated) else "interrupted"
    return f"{word}: {interrupt}" if interrupt.args else word


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

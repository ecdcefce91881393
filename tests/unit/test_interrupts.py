"""Ctrl-C and SIGTERM are raised once, also when Python loses them, and not in the wrong place."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

from harness.interrupts import Terminated, deferred, exit_code_of, heed, interrupt_text, interrupts

LONGEST_S = 30.0
"""After that an interrupt is lost."""


def wait(things: list[object]) -> None:
    """Let go of things, and wait for an interrupt, as a command does that has nothing to do."""
    things.clear()  # an error in a callback does not get here
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        time.sleep(0.05)
    pytest.fail("the interrupt was lost")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_a_callback_of_the_interpreter_is_raised_after_it(
    number: signal.Signals,
) -> None:
    """Import locks have such callbacks; their errors are printed and dropped."""

    class Thing:
        pass

    thing = Thing()
    callback = weakref.ref(thing, lambda _: signal.raise_signal(number))
    things = [thing]
    del thing
    with interrupts(terminate=True), pytest.raises(KeyboardInterrupt) as caught:
        wait(things)
    assert callback() is None
    assert exit_code_of(caught.value) == 128 + number
    assert isinstance(caught.value, Terminated) == (number == signal.SIGTERM)
    assert interrupt_text(caught.value) in ("interrupted", "terminated")


def test_an_interrupt_that_somebody_swallowed_is_raised_when_it_is_heeded() -> None:
    with interrupts(terminate=False):
        heed()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            heed()
    heed()


def test_an_interrupt_waits_for_the_end_of_what_must_not_be_cut() -> None:
    reached = []

    def work() -> None:
        with deferred():
            with deferred():
                signal.raise_signal(signal.SIGTERM)
                reached.append("inner")
            reached.append("outer")
        reached.append("after")

    with interrupts(terminate=True), pytest.raises(Terminated):
        work()
    assert reached == ["inner", "outer"]


def test_handlers_of_the_caller_are_left_alone_and_ours_are_removed() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    hook = sys.unraisablehook
    with interrupts(terminate=True):
        with interrupts(terminate=True):
            pass
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert sys.unraisablehook is hook
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts a job in the background
    try:
        with interrupts(terminate=False):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before[0])


def test_another_thread_has_no_interrupts() -> None:
    found = []

    def work() -> None:
        with interrupts(terminate=True), deferred():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "place",
    [
        # Dataclasses and named tuples are made by exec(), of which the interpreter takes a note.
        "exec('signal.raise_signal(signal.SIGINT)', globals())",
        # Python 3.11 turns errors in __set_name__ into RuntimeError.
        "type('Record', (), {'field': Field()})",
    ],
    ids=["exec", "class"],
)
def test_an_interrupt_anywhere_in_an_import_exits_with_130(place: str) -> None:
    program = (
        "import signal\n"
        "from harness.cli import main, setup\n"
        "class Field:\n"
        "    def __set_name__(self, owner, name): signal.raise_signal(signal.SIGINT)\n"
        f"setup.board_names = lambda: {place}\n"
        "main(['boards'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (130, b"")

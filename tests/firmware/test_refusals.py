"""Every kernel, called with one argument spoilt: it says what it refuses, and writes nothing."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import pytest

from harness.link.wire import Status
from tests.firmware.test_registry import names
from tests.support.calls import fresh
from tests.support.kernels import one_call
from tests.support.operators import CALLS
from tests.support.runtime import RuntimeFailure, load

ARENA_SIZE = 1 << 14


def refusal(library: ct.CDLL, operator: str, arguments: list[Any]) -> str | None:
    """Why the kernel refuses the arguments, or None."""
    loaded = load(library, one_call(operator, fresh(arguments)), arena_size=ARENA_SIZE)
    before = loaded.planned
    try:
        loaded.execute()
    except RuntimeFailure as caught:
        failure = caught
    else:
        return None
    assert failure.status == Status.KERNEL_FAILED
    assert failure.message.startswith(f"{operator}: ")
    assert loaded.planned == before, "wrote before it refused"
    return failure.message.removeprefix(f"{operator}: ")


def test_every_kernel_has_a_call(etstub: ct.CDLL) -> None:
    assert sorted(names(etstub)) == sorted(CALLS)


@pytest.mark.parametrize("operator", CALLS)
def test_a_sound_call_is_taken(etstub: ct.CDLL, operator: str) -> None:
    assert refusal(etstub, operator, CALLS[operator].arguments) is None


@pytest.mark.parametrize("operator", CALLS)
def test_what_is_wrong_is_refused(etstub: ct.CDLL, operator: str) -> None:
    call = CALLS[operator]
    taken, unused, reasons = set(), set(call.accepts), set()
    for what, arguments in call.spoilt():
        reason = refusal(etstub, operator, arguments)
        if reason is None:
            unused.discard(call.reads_over(what))
            if not call.takes(what):
                taken.add(what)
        else:
            reasons.add(reason)
    assert not taken, "accepted"
    assert not unused, "never accepted, though the table says so"
    assert reasons
    assert "" not in reasons

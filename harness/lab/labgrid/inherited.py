"""Which places this thread holds already, or whoever started this process holds for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from harness.errors import UsageError

VARIABLE: Final = "ETHARNESS_PLACES"
"""Environment variable: what a parent holds for its children, as JSON."""


class Inherited(msgspec.Struct, frozen=True):
    """A place that is held.

    Attributes:
        place: Its name.
        port: Address of its serial port.
        identity: As whom it is held.
        pid: The process that holds it.
    """

    place: str
    port: str
    identity: str
    pid: int


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.places: dict[str, Inherited] = {}


_of_thread = _OfThread()
_environment = threading.Lock()


def held_already(key: str) -> Inherited | None:
    """What this thread, or another process for us, holds by the name of ``key``; None: nothing.

    What another thread of this process holds is not ours: threads exclude each other, too.

    Raises:
        UsageError: The environment variable holds something else.
    """
    if key in _of_thread.places:
        return _of_thread.places[key]
    found = _published().get(key)
    return None if found is None or found.pid == os.getpid() else found


@contextmanager
def held_for_children(keys: Collection[str], held: Inherited) -> Iterator[None]:
    """Let this thread and processes that it starts have what is held, for as long as this lasts."""
    known = dict.fromkeys(keys, held)
    _of_thread.places.update(known)
    _publish(known)
    try:
        yield
    finally:
        for key in keys:
            del _of_thread.places[key]
        _publish({}, without=keys)


def _published() -> dict[str, Inherited]:
    try:
        return msgspec.json.decode(os.environ.get(VARIABLE) or "{}", type=dict[str, Inherited])
    except msgspec.DecodeError as error:
        raise UsageError(f"${VARIABLE} is not what a parent leaves there: {error}") from error


def _publish(more: dict[str, Inherited], without: Collection[str] = ()) -> None:
    with _environment:
        told = {key: held for key, held in _published().items() if key not in without} | more
        if told:
            os.environ[VARIABLE] = msgspec.json.encode(told).decode()
        else:
            os.environ.pop(VARIABLE, None)

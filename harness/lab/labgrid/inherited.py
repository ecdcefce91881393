"""Places that this thread holds already, or that a parent process holds for this one."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from harness.errors import UsageError

VARIABLE: Final = "ETHARNESS_PLACES"
"""Environment variable: the places that a parent holds for its children, as JSON."""


class Inherited(msgspec.Struct, frozen=True):
    """A place that is held.

    Attributes:
        place: Its name.
        port: Address of its serial port.
        identity: The identity that acquired it.
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
    """Return the place that this thread, or a parent process for it, holds as ``key``; else None.

    A place held by another thread does not count: threads exclude each other, too.

    Raises:
        UsageError: The environment variable is invalid.
    """
    if key in _of_thread.places:
        return _of_thread.places[key]
    found = _published().get(key)
    return None if found is None or found.pid == os.getpid() else found


@contextmanager
def held_for_children(keys: Collection[str], held: Inherited) -> Iterator[None]:
    """Share a held place with this thread and the processes it starts, inside a ``with`` block."""
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
        raise UsageError(f"invalid ${VARIABLE}: {error}") from error


def _publish(more: dict[str, Inherited], without: Collection[str] = ()) -> None:
    with _environment:
        places = {key: held for key, held in _published().items() if key not in without} | more
        if places:
            os.environ[VARIABLE] = msgspec.json.encode(places).decode()
        else:
            os.environ.pop(VARIABLE, None)

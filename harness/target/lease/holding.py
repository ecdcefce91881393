"""Holding places, as programs do: with a deadline, heartbeats, and children who inherit."""

from __future__ import annotations

import getpass
import logging
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from harness.errors import BusyError, InfrastructureError
from harness.files import absolute
from harness.resources import user_cache
from harness.target.lease.clock import LeaseClock, LeaseHolder, host_name, own_start
from harness.target.lease.lock_keys import LockKey
from harness.target.lease.records import new_token
from harness.target.lease.registry import BEAT_S, Busy, HeldLease, LeaseRegistry

_log = logging.getLogger(__name__)

VARIABLE: Final = "ETHARNESS_LEASE"
"""Environment variable: tokens of leases that its process may act under, with commas between."""

OWNER_VARIABLE: Final = "ETHARNESS_OWNER"
"""Environment variable: who holds what this process takes; its user by default."""

DIRECTORY_VARIABLE: Final = "ETHARNESS_LOCK_DIR"
"""Environment variable: where the leases are that all go by who share boards."""

_AT_ONCE_S: Final = 0.05
"""What is not free by then is being waited for, which is worth saying."""

_POLL_S: Final = 0.1


_Take = Callable[[LockKey, Collection[str]], HeldLease | Busy]
"""Takes a place without waiting, with the tokens that are known."""


class _HeldByThread(threading.local):
    """Tokens of what this thread holds. Other threads have their own: they exclude each other."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()


_held = _HeldByThread()
_of_process: set[str] = set()
"""Tokens of what any thread of this process has put into the environment, for its children."""
_environment = threading.Lock()


def lock_directory() -> Path:
    """Where leases are: ``$ETHARNESS_LOCK_DIR``, else below the user's cache directory."""
    configured = os.environ.get(DIRECTORY_VARIABLE)
    return absolute(configured) if configured else user_cache("locks")


def open_book(owner: str | None = None) -> LeaseRegistry:
    """The leases of this host's boards, as this process goes by them; ``owner`` else its user."""
    party = LeaseHolder(
        owner or os.environ.get(OWNER_VARIABLE) or _user(),
        host_name(),
        os.getpid(),
        own_start(),
        Path(sys.argv[0]).name,
    )
    return LeaseRegistry(lock_directory(), party, LeaseClock())


def known_tokens() -> set[str]:
    """Tokens of leases that this thread holds, or whoever started this process."""
    inherited = os.environ.get(VARIABLE, "").split(",")
    return _held.tokens | {token for token in inherited if token and token not in _of_process}


class Lease:
    """Places that this process holds together.

    Attributes:
        what: What is held, as people call it.
        token: By which children act under it.
    """

    def __init__(self, grips: Sequence[HeldLease], what: str, token: str) -> None:
        self.what = what
        self._grips = list(grips)
        self.token = token
        self._mine = _held.tokens
        self._pid = os.getpid()
        self._lost: BusyError | None = None
        self._mine.add(token)
        _publish(token)
        pulse.add(self)

    @property
    def environment(self) -> dict[str, str]:
        """What a child's environment says so that it acts under this lease and no other."""
        return {VARIABLE: self.token}

    def check(self) -> None:
        """Do nothing while everything is held.

        Raises:
            BusyError: Something was lost; the message says what and how.
        """
        for grip in self._grips:
            if lost := grip.lost():
                raise BusyError(
                    f"your lease of {grip.place.name} is lost: {lost}",
                    hint="`etharness lab who` says who holds what",
                )

    def glance(self) -> None:
        """As `check`, by what the last heartbeat has found: it costs nothing, and may be late.

        Raises:
            BusyError: Something was lost by then.
        """
        if self._lost is not None:
            raise self._lost

    def beat(self) -> None:
        """Write down that this process lives, and find out whether everything is held.

        What cannot be written is said and tried again.
        """
        try:
            self.check()
        except BusyError as error:
            self._lost = error
        for grip in self._grips:
            try:
                grip.beat()
            except InfrastructureError as error:
                _log.warning("%s", error.message)

    def release(self) -> None:
        """Let everything go; further calls do nothing."""
        pulse.remove(self)
        self._mine.discard(self.token)
        _withdraw(self.token)
        for grip in reversed(self._grips):
            if os.getpid() == self._pid:
                grip.release()
            else:  # a fork of the holder: it is not ours to end
                grip.abandon()
        self._grips = []


@contextmanager
def hold(
    places: Sequence[LockKey],
    timeout_s: float,
    *,
    owner: str | None = None,
    reason: str = "",
    expires_s: float | None = None,
) -> Iterator[Lease]:
    """Hold places together for as long as this lasts; all or none of them.

    Args:
        places: What to hold; the first is what messages name.
        timeout_s: Longest wait for whoever holds one of them, seconds.
        owner: Who holds them; None for ``$ETHARNESS_OWNER`` or this user.
        reason: What for.
        expires_s: After how long ``check`` says that it is over, seconds; None for never.

    Raises:
        BusyError: They were not free in time; the message says who held which since when.
        InfrastructureError: The directory of leases cannot be used.
    """
    book = open_book(owner)
    token = new_token()
    take = partial(book.take, reason=reason, expires_s=expires_s, token=token)
    lease = Lease(_wait(take, places, timeout_s), places[0].name, token)
    try:
        yield lease
    finally:
        lease.release()


def _wait(take: _Take, places: Sequence[LockKey], timeout_s: float) -> list[HeldLease]:
    """Take all places, or wait until that can be done."""
    tokens = known_tokens()
    began = time.monotonic()
    patient = False
    while True:
        got = _take_all(take, places, tokens)
        if isinstance(got, list):
            return got
        place, busy = got
        waited = time.monotonic() - began
        if waited >= max(timeout_s, _AT_ONCE_S):
            raise BusyError(
                f"{place.name} was not free within {timeout_s:g} s: it is held by {busy.said}",
                hint="wait for that to end, or end it: what a process holds goes with the process",
            )
        if waited >= _AT_ONCE_S and not patient:
            patient = True
            _log.warning("waiting up to %g s for %s, held by %s", timeout_s, place.name, busy.said)
        time.sleep(random.uniform(0.5, 1) * (_POLL_S if patient else _AT_ONCE_S / 5))


def _take_all(
    take: _Take, places: Sequence[LockKey], tokens: Collection[str]
) -> list[HeldLease] | tuple[LockKey, Busy]:
    """Take all places or, having let go what was had, say which one is held."""
    grips: list[HeldLease] = []
    try:
        for place in places:
            got = take(place, tokens)
            if isinstance(got, Busy):
                blocked = (place, got)
                break
            grips.append(got)
        else:
            taken, grips = grips, []
            return taken
    finally:
        for grip in grips:
            grip.release()
    return blocked


class _Pulse:
    """One thread for all heartbeats of this process, which does not keep it from ending.

    Attributes:
        leases: What is held.
    """

    def __init__(self) -> None:
        self.leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._pid = 0

    def add(self, lease: Lease) -> None:
        with self._lock:
            self.leases.add(lease)
            if self._pid != os.getpid():  # none yet, or it stayed with the parent of a fork
                self._pid = os.getpid()
                threading.Thread(target=self._beat, name="heartbeats", daemon=True).start()

    def remove(self, lease: Lease) -> None:
        with self._lock:
            self.leases.discard(lease)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            with self._lock:
                leases = list(self.leases)
            for lease in leases:
                lease.beat()


pulse: Final = _Pulse()


def _publish(token: str) -> None:
    """Have children act under a lease, too."""
    with _environment:
        _of_process.add(token)
        _set(_inherited() | {token})


def _withdraw(token: str) -> None:
    with _environment:
        _of_process.discard(token)
        _set(_inherited() - {token})


def _inherited() -> set[str]:
    return {token for token in os.environ.get(VARIABLE, "").split(",") if token}


def _set(tokens: Collection[str]) -> None:
    if tokens:
        os.environ[VARIABLE] = ",".join(sorted(tokens))
    else:
        os.environ.pop(VARIABLE, None)


def _user() -> str:
    with suppress(OSError, KeyError):  # a container may have no name for its user
        return getpass.getuser()
    return f"user {os.getuid()}"

"""The lease API of programs: hold resources with a timeout, heartbeats and inheritance."""

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
from pathlib import Path
from typing import Final

from harness.errors import BusyError, InfrastructureError
from harness.files import absolute, user_cache
from harness.formatting import ordinal
from harness.target.lease.queue import LeaseQueue, Place, Waiter
from harness.target.lease.records import (
    LeaseClock,
    LeaseHolder,
    LockKey,
    host_name,
    new_token,
    own_start,
)
from harness.target.lease.registry import HEARTBEAT_S, HeldLease, LeaseRegistry

_log = logging.getLogger(__name__)

VARIABLE: Final = "ETHARNESS_LEASE"
"""Environment variable: comma-separated tokens of the leases that a process inherits."""

OWNER_VARIABLE: Final = "ETHARNESS_OWNER"
"""Environment variable: owner of the leases of this process; default: its user."""

DIRECTORY_VARIABLE: Final = "ETHARNESS_LOCK_DIR"
"""Environment variable: the lock directory; everybody who shares boards needs the same one."""

_AT_ONCE_S: Final = 0.05
"""A wait that lasts longer is logged."""

_POLL_S: Final = 0.1
"""Interval at which the first in line looks."""

_LONGEST_POLL_S: Final = 1.0


class _HeldByThread(threading.local):
    """Tokens of the leases of this thread. Threads exclude each other like processes do."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()


_held = _HeldByThread()
_published: set[str] = set()
"""Tokens that threads of this process have put into the environment, for its children."""
_environment_lock = threading.Lock()


def lock_directory() -> Path:
    """Return the lock directory: ``$ETHARNESS_LOCK_DIR``, or one in the user's cache."""
    configured = os.environ.get(DIRECTORY_VARIABLE)
    return absolute(configured) if configured else user_cache("locks")


def open_registry(owner: str | None = None) -> LeaseRegistry:
    """Return the lease registry of this host for this process.

    Args:
        owner: Owner of new leases; None for ``$ETHARNESS_OWNER`` or this user.
    """
    holder = LeaseHolder(
        owner or os.environ.get(OWNER_VARIABLE) or _user(),
        host_name(),
        os.getpid(),
        own_start(),
        Path(sys.argv[0]).name,
    )
    return LeaseRegistry(lock_directory(), holder, LeaseClock())


def known_tokens() -> set[str]:
    """Return the tokens of leases that this thread holds or this process inherited."""
    inherited = os.environ.get(VARIABLE, "").split(",")
    return _held.tokens | {token for token in inherited if token and token not in _published}


class Lease:
    """One or more resources that this process holds together.

    Attributes:
        what: Name of the first resource, for messages.
        token: Token by which child processes inherit the lease.
    """

    def __init__(self, leases: Sequence[HeldLease], what: str, token: str) -> None:
        self.what = what
        self.token = token
        self._leases = list(leases)
        self._thread_tokens = _held.tokens
        self._pid = os.getpid()
        self._lost: BusyError | None = None
        self._thread_tokens.add(token)
        _publish(token)
        heartbeats.add(self)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for a child process that inherits this lease and no other."""
        return {VARIABLE: self.token}

    def check(self) -> None:
        """Do nothing while everything is held.

        Raises:
            BusyError: A resource was lost; the message says how.
        """
        for held in self._leases:
            if loss := held.loss():
                raise BusyError(
                    f"your lease of {held.key.name} is lost: {loss}",
                    hint="list all leases and holders with `etharness lab who`",
                )

    def check_cached(self) -> None:
        """Like `check`, but only with the result of the last heartbeat: free, up to 5 s old.

        Raises:
            BusyError: A resource had been lost by then.
        """
        if self._lost is not None:
            raise self._lost

    def expect(self, seconds: float) -> None:
        """Tell those who wait that the lease probably ends in ``seconds``."""
        for held in self._leases:
            held.expected = held.registry.clock.now().plus(seconds)
        self.heartbeat()

    def wanted_by(self) -> str:
        """Return who waits and goes before others, in words; "" if nobody does."""
        if not self._leases:
            return ""
        waiting = LeaseQueue(self._leases[0].registry).waiting({h.key.stem for h in self._leases})
        first = (each.record for each in waiting if each.goes_first and not each.record.lane)
        return str(next(first, ""))

    def heartbeat(self) -> None:
        """Record that this process lives, and check that everything is still held.

        A record that cannot be written is logged and written again at the next heartbeat.
        """
        try:
            self.check()
        except BusyError as error:
            self._lost = error
        for held in self._leases:
            try:
                held.heartbeat()
            except InfrastructureError as error:
                _log.warning("%s", error.message)

    def release(self) -> None:
        """Release everything; further calls do nothing."""
        heartbeats.remove(self)
        self._thread_tokens.discard(self.token)
        _withdraw(self.token)
        for held in reversed(self._leases):
            if os.getpid() == self._pid:
                held.release()
            else:  # in a forked child: the lease belongs to the parent
                held.abandon()
        self._leases = []


@contextmanager
def hold_keys(
    keys: Sequence[LockKey],
    timeout_s: float,
    *,
    owner: str | None = None,
    reason: str = "",
    expires_s: float | None = None,
    goes_first: Callable[[], bool] = lambda: False,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease]:
    """Hold all of several resources, or none, for the duration of the context.

    Those who wait are served in the order of arrival. Without a timeout, nobody who waits is
    overtaken either: the resources have to be free, and nobody may wait for them.

    Args:
        keys: The resources; messages name the first.
        timeout_s: Longest wait for other holders, seconds.
        owner: Owner of the lease; None for ``$ETHARNESS_OWNER`` or this user.
        reason: Purpose, for messages.
        expires_s: Seconds after which ``check`` reports the lease as lost; None for never.
        goes_first: Whether this process is served before the others that wait, at the moment.
        cancelled: Whether to stop waiting.

    Raises:
        BusyError: Not free in time; the message names the resource, its holder and since when.
        InfrastructureError: The lock directory cannot be used.
    """
    token = new_token()
    waiter = Waiter(
        open_registry(owner),
        keys,
        known_tokens(),
        reason=reason,
        expires_s=expires_s,
        token=token,
        goes_first=goes_first,
    )
    try:
        held = _wait(waiter, keys[0].name, timeout_s, cancelled)
    finally:
        waiter.leave()
    lease = Lease(held, keys[0].name, token)
    try:
        yield lease
    finally:
        lease.release()


def _wait(
    waiter: Waiter, what: str, timeout_s: float, cancelled: Callable[[], bool]
) -> list[HeldLease]:
    """Stand in line until it is our turn and everything is free."""
    began = time.monotonic()
    announced: Place | None = None
    while True:
        place = waiter.attempt(join=timeout_s > 0)
        if isinstance(place, list):
            return place
        waited = time.monotonic() - began
        if waited >= max(timeout_s, _AT_ONCE_S) or cancelled():
            raise _busy_error(place, what, waited, timeout_s)
        if waited >= _AT_ONCE_S and (announced is None or announced.number != place.number):
            announced = place
            _log.warning("%s; waiting up to %g s", _in_line(place, what), timeout_s)
        # Those behind look less often. The interval is random, so that those who come at the same
        # time get out of step.
        poll_s = min(_POLL_S * place.number, _LONGEST_POLL_S) if announced else _AT_ONCE_S / 5
        time.sleep(random.uniform(0.5, 1) * poll_s)


def _in_line(place: Place, what: str) -> str:
    """Return our place and who has the resource, in words."""
    busy = place.busy
    who = busy.record.brief if busy.record is not None else busy.description
    state = "kept for" if place.reserved else "held by"
    return f"{ordinal(place.number)} in line for {what}; {state} {who}"


def _busy_error(place: Place, what: str, waited: float, timeout_s: float) -> BusyError:
    name, holder = place.key.name, place.busy.description
    if waited < timeout_s:
        return BusyError(f"the wait for {what} was ended: it is in use by {holder}")
    if timeout_s > 0:
        name += f" was not free within {timeout_s:g} s:"
        holder += f"; {ordinal(place.number)} in line" if place.number > 1 else ""
    else:
        name += " is"
    if place.reserved:
        return BusyError(
            f"{name} kept for {holder}",
            hint="wait longer, or end that process; `etharness lab status` shows who waits",
        )
    return BusyError(
        f"{name} already in use by {holder}",
        hint="wait until it is free, or end that process; "
        "`etharness lab release --force UNIT` ends the lease of a unit",
    )


class _Heartbeats:
    """One daemon thread that writes the heartbeats of all leases of this process.

    Attributes:
        leases: The leases held.
    """

    def __init__(self) -> None:
        self.leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._pid = 0

    def add(self, lease: Lease) -> None:
        with self._lock:
            self.leases.add(lease)
            if self._pid != os.getpid():  # no thread yet, or we are a fork without it
                self._pid = os.getpid()
                threading.Thread(target=self._run, name="heartbeats", daemon=True).start()

    def remove(self, lease: Lease) -> None:
        with self._lock:
            self.leases.discard(lease)

    def _run(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            with self._lock:
                leases = list(self.leases)
            for lease in leases:
                lease.heartbeat()


heartbeats: Final = _Heartbeats()


def _publish(token: str) -> None:
    """Add a token to the environment, so that children inherit the lease."""
    with _environment_lock:
        _published.add(token)
        _set(_in_environment() | {token})


def _withdraw(token: str) -> None:
    with _environment_lock:
        _published.discard(token)
        _set(_in_environment() - {token})


def _in_environment() -> set[str]:
    return {token for token in os.environ.get(VARIABLE, "").split(",") if token}


def _set(tokens: Collection[str]) -> None:
    if tokens:
        os.environ[VARIABLE] = ",".join(sorted(tokens))
    else:
        os.environ.pop(VARIABLE, None)


def _user() -> str:
    # The user of a container may have no name; Windows has no module pwd, which getpass asks last.
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    number = getattr(os, "getuid", lambda: None)()
    return "unknown user" if number is None else f"user {number}"

"""The lease API of programs: wait in line for resources, and hold them with heartbeats.

Processes that wait are served in the order of arrival. All resources of a lock directory share one
queue, so two processes that each want several resources never wait for each other. A waiting
process draws a ticket: a number above all drawn ones, a file that it locks, and a record of the
resources it wants. The kernel's lock says whether the process still waits, so a killed one loses
its place at once. A process that lives and does not act, such as a stopped one, stops renewing its
record and is passed over after ``TURN_S``.

The queue only decides who tries next. That a resource has one holder is up to the registry: so no
error in the order, and no clock, can make two holders.

This module is the plugin ``etharness.leases``: it leases units for a process, or for a person.
"""

from __future__ import annotations

import getpass
import itertools
import logging
import os
import random
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from harness.config.unit import Unit
from harness.errors import BusyError, InfrastructureError, UsageError
from harness.extensions.lab.labgrid import HeldPlace, hold_place
from harness.extensions.lab.leases import (
    HEARTBEAT_S,
    HeldLease,
    Holder,
    Instant,
    LeaseClock,
    LeaseRecord,
    LeaseRegistry,
    new_token,
    own_start,
    read_record,
    utc_text,
    write_record,
)
from harness.formatting import ordinal
from harness.target.selection import (
    Flock,
    LockKey,
    host_name,
    lock_directory,
    lock_keys_of,
    make_directory,
)

RENEW_S: Final = 2.0
"""Interval at which a waiting process renews its record, seconds."""

TURN_S: Final = 10.0
"""A waiting process whose record is older does not take its turn: others pass it over, seconds."""

_NAME: Final = re.compile(r"queue\.(\d+)\.(?:json|ticket)")


Ticket = tuple[int, LeaseRecord]
"""A drawn number, and the record of the process that waits with it."""


class LeaseQueue:
    """The tickets in a lock directory."""

    def __init__(self, registry: LeaseRegistry) -> None:
        self._directory, self._clock = registry.directory, registry.clock
        self._host = registry.holder.host

    def waiting(self, stems: Collection[str] | None = None) -> list[Ticket]:
        """Return the tickets of those who wait for one of ``stems``, or for anything; in order.

        Those who are passed over at the moment are left out.
        """
        now = self._clock.now()
        return [
            (number, record)
            for number, record in self._tickets(stems)
            if not _is_silent(record, now) and self._is_there(number, record)
        ]

    def draw(self, record: LeaseRecord) -> tuple[int, Flock]:
        """Draw the next number for ``record``, and remove the files of those who are gone.

        Raises:
            InfrastructureError: The lock directory cannot be used.
        """
        make_directory(self._directory)
        self._tidy()
        for number in itertools.count(1 + max(self._numbers(), default=0)):
            lock = Flock(self._ticket_file(number))
            if not lock.acquire():
                continue  # another process draws this number at this moment
            if lock.is_held:
                write_record(self.record_file(number), record)
                return number, lock
            lock.release()  # another process has removed the file before we locked it
        raise AssertionError

    def remove(self, number: int, lock: Flock) -> None:
        """Remove the files of a ticket whose lock we hold."""
        with suppress(OSError):
            self.record_file(number).unlink(missing_ok=True)
        _unlink_locked(lock)

    def pass_over(self, record: LeaseRecord, number: int) -> None:
        """End the tickets of processes of this host before ``number`` that missed their turn."""
        for other, waiter in self._tickets(record.stems):
            missed = waiter.host == self._host and _is_silent(waiter, record.beat)
            if missed and other < number:
                with suppress(OSError):
                    self.record_file(other).unlink(missing_ok=True)

    def _tickets(self, stems: Collection[str] | None) -> Iterable[Ticket]:
        for number in sorted(self._numbers(".json")):
            # A damaged record is passed over until its process has renewed it.
            record = read_record(self.record_file(number), LeaseRecord)
            if isinstance(record, LeaseRecord) and (
                stems is None or not set(stems).isdisjoint(record.stems)
            ):
                yield number, record

    def _is_there(self, number: int, record: LeaseRecord) -> bool:
        # The kernel's locks may not reach a process on another host; its record is all there is.
        return record.host != self._host or Flock(self._ticket_file(number)).is_locked()

    def _tidy(self) -> None:
        """Remove what killed processes have left."""
        now = self._clock.now()
        for number in self._numbers():
            record = read_record(self.record_file(number), LeaseRecord)
            record = record if isinstance(record, LeaseRecord) else None
            if record and record.host != self._host and not _is_silent(record, now):
                continue  # its lock may not be visible here
            lock = Flock(self._ticket_file(number))
            with suppress(InfrastructureError):  # it may be no file, or not ours to remove
                if lock.acquire():
                    self.remove(number, lock)

    def _numbers(self, suffix: str = "") -> set[int]:
        names = (_NAME.fullmatch(file.name) for file in self._directory.glob(f"queue.*{suffix}"))
        return {int(name[1]) for name in names if name}

    def _ticket_file(self, number: int) -> Path:
        return self._directory / f"queue.{number}.ticket"

    def record_file(self, number: int) -> Path:
        """Return the path of a ticket's record; others remove it when they pass the ticket over."""
        return self._directory / f"queue.{number}.json"


def _is_silent(record: LeaseRecord, now: Instant) -> bool:
    return record.beat.seconds_until(now) >= TURN_S


def _unlink_locked(lock: Flock) -> None:
    """Remove the file of a held lock, and release it."""
    with suppress(OSError):
        if lock.is_held:
            lock.path.unlink()
    lock.release()
    # There a file that is open cannot be removed; nor can one that another has opened.
    if os.name == "nt":
        with suppress(OSError):
            lock.path.unlink()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands in line.

    Attributes:
        number: Its place, from 1.
        key: The resource that was not free.
        holder: Its holder; or who is served first.
        reserved: Whether the resource is free, and kept for who is served first.
    """

    number: int
    key: LockKey
    holder: Holder
    reserved: bool = False


class Waiter:
    """A process that wants resources, all together; it waits as long as ``attempt`` is called."""

    def __init__(
        self,
        registry: LeaseRegistry,
        keys: Sequence[LockKey],
        tokens: Collection[str] = (),
        *,
        reason: str = "",
        token: str = "",
    ) -> None:
        """Prepare to wait; nothing is written yet.

        Args:
            registry: The leases.
            keys: The resources.
            tokens: Tokens of leases that admit this process.
            reason: Purpose, for messages.
            token: Token shared by the leases of all resources.
        """
        self._registry, self._keys, self._tokens = registry, keys, tokens
        self._reason, self._token = reason, token
        self._stems = tuple(key.stem for key in keys)
        self._queue = LeaseQueue(registry)
        self._since = registry.clock.now()
        self._ticket: tuple[int, Flock, LeaseRecord] | None = None

    def attempt(self, *, join: bool = True) -> list[HeldLease] | Place:
        """Acquire everything if it is our turn and free, else stand in line.

        Args:
            join: Draw a ticket if we have none; without one, others are served before us.

        Raises:
            InfrastructureError: The lock directory cannot be used.
        """
        admitted = any(self._registry.admits(key, self._tokens) for key in self._keys)
        if admitted:
            self.leave()  # a holder lends to one at a time, in no order
        self._renew()
        ahead = [] if admitted else self._ahead()
        place = self._acquire_all() if not ahead else None
        if isinstance(place, list):
            # Look again: somebody may have drawn a ticket, or passed us over, since we looked.
            ahead = [] if admitted else self._ahead()
            if not ahead and self._is_valid():
                if not admitted:
                    self._queue.pass_over(self._record(), self._number())
                self.leave()
                return place
            _release(place)
            place = None
        if self._ticket is None and join and not admitted:
            record = self._record()
            self._ticket = (*self._queue.draw(record), record)
        if place is None:
            place = self._blocked(ahead)
        return Place(1 + len(ahead), place.key, place.holder, place.reserved)

    def leave(self) -> None:
        """Leave the line; further calls do nothing."""
        if self._ticket is not None:
            number, lock, _ = self._ticket
            self._ticket = None
            self._queue.remove(number, lock)

    def abandon(self) -> None:
        """Release our lock and leave our files, as the kernel does for a killed process."""
        if self._ticket is not None:
            self._ticket[1].release()
            self._ticket = None

    def _record(self) -> LeaseRecord:
        return replace(
            self._registry.holder,
            kind="waiter",
            what=self._keys[0].name,
            stems=self._stems,
            reason=self._reason,
            since=self._since,
            beat=self._registry.clock.now(),
        )

    def _renew(self) -> None:
        """Renew our record; give up a ticket that others have passed over."""
        if self._ticket is None:
            return
        number, lock, record = self._ticket
        if not self._is_valid():
            self.leave()
            return
        renewed = self._record()
        if record.beat.seconds_until(renewed.beat) >= RENEW_S:
            write_record(self._queue.record_file(number), renewed)
            self._ticket = (number, lock, renewed)

    def _is_valid(self) -> bool:
        if self._ticket is None:
            return True
        number, lock, _ = self._ticket
        return lock.is_held and self._queue.record_file(number).exists()

    def _number(self) -> int:
        return self._ticket[0] if self._ticket else 1 << 62

    def _ahead(self) -> list[Ticket]:
        """Return those who are served before us."""
        own = self._number()
        return [ticket for ticket in self._queue.waiting(self._stems) if ticket[0] < own]

    def _acquire_all(self) -> list[HeldLease] | Place:
        """Acquire everything; on failure release it and return what was not free."""
        held: list[HeldLease] = []
        try:
            for key in self._keys:
                got = self._registry.acquire(
                    key,
                    self._tokens,
                    reason=self._reason,
                    token=self._token,
                )
                if isinstance(got, Holder):
                    return Place(1, key, got)
                held.append(got)
            acquired, held = held, []
            return acquired
        finally:
            _release(held)

    def _blocked(self, ahead: Sequence[Ticket]) -> Place:
        """Return what those ahead of us wait for, or that it is theirs next."""
        for key in self._keys:
            for holder in self._registry.holders(key):
                return Place(0, key, holder)
        text = str(ahead[0][1]) if ahead else "another process"
        return Place(0, self._keys[0], Holder(text), reserved=True)


def _release(leases: Sequence[HeldLease]) -> None:
    for held in reversed(leases):
        held.release()


_log = logging.getLogger(__name__)

VARIABLE: Final = "ETHARNESS_LEASE"
"""Environment variable: comma-separated tokens of the leases that a process inherits."""

OWNER_VARIABLE: Final = "ETHARNESS_OWNER"
"""Environment variable: owner of the leases of this process; default: its user."""

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


def open_registry() -> LeaseRegistry:
    """Return the lease registry of this host for this process."""
    holder = LeaseRecord(
        owner=os.environ.get(OWNER_VARIABLE) or _user(),
        host=host_name(),
        pid=os.getpid(),
        started=own_start(),
        command=Path(sys.argv[0]).name,
    )
    return LeaseRegistry(lock_directory(), holder, LeaseClock())


def known_tokens() -> set[str]:
    """Return the tokens of leases that this thread holds or this process inherited."""
    inherited = os.environ.get(VARIABLE, "").split(",")
    return _held.tokens | {token for token in inherited if token and token not in _published}


class Lease:
    """One or more resources that this process holds together.

    Attributes:
        token: Token by which child processes inherit the lease.
    """

    def __init__(self, leases: Sequence[HeldLease], token: str) -> None:
        self.token = token
        self._leases = list(leases)
        self._thread_tokens = _held.tokens
        self._pid = os.getpid()
        self._lost: BusyError | None = None
        self._thread_tokens.add(token)
        _publish(token)
        heartbeats.add(self)

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
    reason: str = "",
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease]:
    """Hold all of several resources, or none, for the duration of the context.

    Those who wait are served in the order of arrival. Without a timeout, nobody who waits is
    overtaken either: the resources have to be free, and nobody may wait for them.

    Args:
        keys: The resources; messages name the first.
        timeout_s: Longest wait for other holders, seconds.
        reason: Purpose, for messages.
        cancelled: Whether to stop waiting.

    Raises:
        BusyError: Not free in time; the message names the resource, its holder and since when.
        InfrastructureError: The lock directory cannot be used.
    """
    token = new_token()
    waiter = Waiter(open_registry(), keys, known_tokens(), reason=reason, token=token)
    try:
        held = _wait(waiter, keys[0].name, timeout_s, cancelled)
    finally:
        waiter.leave()
    lease = Lease(held, token)
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
    record = place.holder.record
    who = place.holder.text if record is None else record.brief
    state = "kept for" if place.reserved else "held by"
    return f"{ordinal(place.number)} in line for {what}; {state} {who}"


def _busy_error(place: Place, what: str, waited: float, timeout_s: float) -> BusyError:
    name, holder = place.key.name, place.holder.text
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


WAIT_S = 60.0
"""Default for the longest wait for a unit that is held, seconds."""


class LeasedDocument(msgspec.Struct, frozen=True):
    """A lease as ``etharness lab lease --json`` prints it; ``token``: for ``$ETHARNESS_LEASE``."""

    unit: str
    token: str
    until_utc: str
    reason: str


class ReleasedDocument(msgspec.Struct, frozen=True):
    """A released unit and its former holders, as printed by ``etharness lab release --json``."""

    unit: str
    ended: list[str]


LEASED = list[LeasedDocument]


RELEASED = list[ReleasedDocument]


@contextmanager
def hold(
    unit: Unit,
    *,
    reason: str = "",
    timeout_s: float = WAIT_S,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease | HeldPlace]:
    """Hold a unit inside a ``with`` block; processes started in the block act under the lease.

    ``unit.lease`` selects who manages the lease: this host, or a labgrid coordinator.

    Args:
        unit: The unit.
        reason: Why the unit is held; shown to others who wait for it.
        timeout_s: Longest wait for the current lease holder, seconds.
        cancelled: Whether to stop waiting.

    Raises:
        BusyError: The unit was not free in time; the message names the lease holder.
        InfrastructureError: The lease directory cannot be used, or the coordinator does not answer.
    """
    if unit.lease == "labgrid":
        with hold_place(unit, timeout_s) as place:
            yield place
        return
    with hold_keys(
        lock_keys_of(unit),
        timeout_s,
        reason=reason,
        cancelled=cancelled,
    ) as lease:
        yield lease


@contextmanager
def hold_unit(unit: Unit, timeout_s: float, *, reason: str = "") -> Iterator[Unit]:
    """Hold a unit as ``hold`` does.

    Yields:
        The unit with its current port and, if labgrid chose it among several places, the name of
        that place.
    """
    with hold(unit, reason=reason, timeout_s=timeout_s) as held:
        yield held.unit if isinstance(held, HeldPlace) else unit


def lease(
    units: Sequence[Unit], seconds: float, *, reason: str = "", wait_s: float = 0.0
) -> list[LeasedDocument]:
    """Lease units to this user without a process that holds them; all of them or none.

    Args:
        units: The units.
        seconds: Duration of the lease.
        reason: Purpose, for messages.
        wait_s: Longest wait for the current lease holders, seconds.

    Returns:
        The leases; the token of each lets other processes act under it.

    Raises:
        BusyError: A unit is already in use.
        UsageError: The leases of a unit are not managed by this host.
    """
    names = [
        LockKey(key.stem, f"unit {unit.id!r}")
        for unit in _managed_here(units)
        for key in lock_keys_of(unit)
    ]
    with hold_keys(names, wait_s, reason=reason or "lease"):
        return [_reserve(unit, seconds, reason) for unit in units]


def _reserve(unit: Unit, seconds: float, reason: str) -> LeasedDocument:
    """Lease a unit that this process holds."""
    registry = open_registry()
    token = new_token()
    until = ""
    for key in lock_keys_of(unit):
        got = registry.reserve(key, seconds, known_tokens(), reason=reason, token=token)
        if isinstance(got, Holder):  # its holder has just lost it
            raise BusyError(f"unit {unit.id!r} is already in use by {got.text}", hint="try again")
        until = utc_text(got.until or got.since)
    return LeasedDocument(unit.id, token, until, reason)


def release(units: Sequence[Unit], *, force: bool = False) -> list[ReleasedDocument]:
    """End the leases of units: a person's at once, a process's at its next ``check``.

    Args:
        units: The units.
        force: Also end the leases of other users and of processes.

    Returns:
        The former lease holders of each unit.

    Raises:
        BusyError: Another user holds a unit, and ``force`` is not set.
        UsageError: The leases of a unit are not managed by this host.
    """
    registry = open_registry()
    released = []
    for unit in _managed_here(units):
        holders: dict[str, None] = {}
        for key in lock_keys_of(unit):
            holders |= dict.fromkeys(registry.release(key, known_tokens(), force=force))
        released.append(ReleasedDocument(unit.id, list(holders)))
    return released


def _managed_here(units: Sequence[Unit]) -> Sequence[Unit]:
    for unit in units:
        if unit.lease != "local":
            raise UsageError(
                f"unit {unit.id!r} is leased through {unit.lease}, not by this host",
                hint=f"a run waits for it by itself; people reserve it with {unit.lease}",
            )
    return units

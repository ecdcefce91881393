"""Queue for leases: who waits is served in the order of arrival.

All resources of a lock directory share one queue, so two processes that each want several resources
never wait for each other. A waiting process draws a ticket: a number above all drawn ones, a file
that it locks, and a record of the resources it wants. The kernel's lock says whether the process
still waits, so a killed one loses its place at once. A process that lives and does not act, such
as a stopped one, stops renewing its record and is passed over after ``TURN_S``.

The queue only decides who tries next. That a resource has one holder is up to the registry: so no
error in the order, and no clock, can make two holders.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from harness.errors import InfrastructureError
from harness.target.lease.flock import Flock, make_directory
from harness.target.lease.records import (
    Instant,
    LeaseHolder,
    LockKey,
    read_record,
    write_record,
)
from harness.target.lease.registry import Busy, HeldLease, LeaseRegistry

RENEW_S: Final = 2.0
"""Interval at which a waiting process renews its record, seconds."""

TURN_S: Final = 10.0
"""A waiting process whose record is older does not take its turn: others pass it over, seconds."""

_NAME: Final = re.compile(r"queue\.(\d+)\.(?:json|ticket)")


class TicketRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a waiting process.

    Attributes:
        owner, host, pid, started, command: The process, as in `LeaseHolder`.
        stems: Stems of the resources it wants.
        rank: 0 goes before 1, whoever came first.
        lane: Token of the lease that admits it although the resource is held; "" for none. Those
            that a holder admits wait for each other, and not for those that it does not admit.
        reason: Purpose, for messages.
        since: When it began to wait.
        renewed: When it last looked.
    """

    owner: str
    host: str
    pid: int
    started: int
    command: str
    stems: tuple[str, ...]
    rank: int
    lane: str
    reason: str
    since: Instant
    renewed: Instant

    def __str__(self) -> str:
        """Owner, host, reason and process in one line."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.owner} on {self.host}{reason}, process {self.pid} ({self.command})"


_TICKET: Final = msgspec.json.Decoder(TicketRecord)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A drawn number, and the record of the process that waits with it."""

    number: int
    record: TicketRecord

    @property
    def order(self) -> tuple[int, int]:
        """What tickets are sorted by: the lowest is served first."""
        return self.record.rank, self.number

    @property
    def goes_first(self) -> bool:
        """Whether it is served before those who came earlier."""
        return self.record.rank == 0


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
        found = (ticket for ticket in self._tickets(stems) if not _is_silent(ticket.record, now))
        return sorted((each for each in found if self._is_there(each)), key=lambda each: each.order)

    def draw(self, record: TicketRecord) -> tuple[int, Flock]:
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
                write_record(self._record_file(number), record)
                return number, lock
            lock.release()  # another process has removed the file before we locked it
        raise AssertionError

    def renew(self, number: int, record: TicketRecord) -> None:
        """Replace the record of a ticket."""
        write_record(self._record_file(number), record)

    def is_valid(self, number: int) -> bool:
        """Whether a number still has its record; others remove it when they pass it over."""
        return self._record_file(number).exists()

    def remove(self, number: int, lock: Flock) -> None:
        """Remove the files of a ticket whose lock we hold."""
        with suppress(OSError):
            self._record_file(number).unlink(missing_ok=True)
        _unlink_locked(lock)

    def pass_over(self, record: TicketRecord, order: tuple[int, int]) -> None:
        """End the tickets of processes of this host before ``record`` that missed their turn."""
        for ticket in self._tickets(record.stems):
            missed = ticket.record.host == self._host and _is_silent(ticket.record, record.renewed)
            if missed and ticket.order < order and _is_before(ticket.record, record):
                with suppress(OSError):
                    self._record_file(ticket.number).unlink(missing_ok=True)

    def _tickets(self, stems: Collection[str] | None) -> Iterable[Ticket]:
        for number in self._numbers(".json"):
            # A damaged record is passed over until its process has renewed it.
            record = read_record(self._record_file(number), _TICKET)
            if isinstance(record, TicketRecord) and (
                stems is None or not set(stems).isdisjoint(record.stems)
            ):
                yield Ticket(number, record)

    def _is_there(self, ticket: Ticket) -> bool:
        # The kernel's locks may not reach a process on another host; its record is all there is.
        elsewhere = ticket.record.host != self._host
        return elsewhere or Flock(self._ticket_file(ticket.number)).is_locked()

    def _tidy(self) -> None:
        """Remove what killed processes have left."""
        now = self._clock.now()
        for number in self._numbers():
            record = read_record(self._record_file(number), _TICKET)
            record = record if isinstance(record, TicketRecord) else None
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

    def _record_file(self, number: int) -> Path:
        return self._directory / f"queue.{number}.json"


def _is_before(other: TicketRecord, record: TicketRecord) -> bool:
    """Whether the order of two processes matters: a holder does not admit only the other one."""
    return not record.lane or other.lane == record.lane


def _is_silent(record: TicketRecord, now: Instant) -> bool:
    return record.renewed.seconds_until(now) >= TURN_S


def _unlink_locked(lock: Flock) -> None:
    """Remove the file of a held lock, and release it."""
    with suppress(OSError):
        if lock.is_held:
            lock.path.unlink()
    lock.release()
    if (
        os.name == "nt"
    ):  # a file that is open cannot be removed; nor can one that another has opened
        with suppress(OSError):
            lock.path.unlink()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands in line.

    Attributes:
        number: Its place, from 1.
        key: The resource that was not free.
        busy: Its holder; or who is served first.
        reserved: Whether the resource is free, and kept for who is served first.
    """

    number: int
    key: LockKey
    busy: Busy
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
        expires_s: float | None = None,
        token: str = "",
        goes_first: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare to wait; nothing is written yet.

        Args:
            registry: The leases.
            keys: The resources.
            tokens: Tokens of leases that admit this process.
            reason: Purpose, for messages.
            expires_s: Seconds until the lease expires; None for no expiry.
            token: Token shared by the leases of all resources.
            goes_first: Whether it is served before others at the moment.
        """
        self._registry, self._keys, self._tokens = registry, keys, tokens
        self._reason, self._expires_s, self._token = reason, expires_s, token
        self._goes_first = goes_first
        self._stems = tuple(key.stem for key in keys)
        self._queue = LeaseQueue(registry)
        self._since = registry.clock.now()
        self._ticket: tuple[int, Flock, TicketRecord] | None = None

    def attempt(self, *, join: bool = True) -> list[HeldLease] | Place:
        """Acquire everything if it is our turn and free, else stand in line.

        Args:
            join: Draw a ticket if we have none; without one, others are served before us.

        Raises:
            InfrastructureError: The lock directory cannot be used.
        """
        wanted = self._record()
        self._renew(wanted)
        ahead = self._ahead(wanted)
        place = self._acquire_all() if not ahead else None
        if isinstance(place, list):
            # Look again: somebody may have drawn a ticket, or passed us over, since we looked.
            ahead = self._ahead(wanted)
            if not ahead and self._is_valid():
                self._queue.pass_over(wanted, self._order(wanted))
                self.leave()
                return place
            _release(place)
            place = None
        if self._ticket is None and join:
            self._ticket = (*self._queue.draw(wanted), wanted)
        if place is None:
            place = self._blocked(ahead)
        return Place(1 + len(ahead), place.key, place.busy, place.reserved)

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

    def _record(self) -> TicketRecord:
        holder: LeaseHolder = self._registry.holder
        admitted = (self._registry.admission(key, self._tokens) for key in self._keys)
        return TicketRecord(
            *(holder.owner, holder.host, holder.pid, holder.started, holder.command),
            stems=self._stems,
            rank=0 if self._goes_first() else 1,
            lane=next(filter(None, admitted), ""),
            reason=self._reason,
            since=self._since,
            renewed=self._registry.clock.now(),
        )

    def _renew(self, wanted: TicketRecord) -> None:
        """Renew our record; give up a ticket that others have passed over."""
        if self._ticket is None:
            return
        number, lock, record = self._ticket
        if not self._is_valid():
            self.leave()
            return
        due = record.renewed.seconds_until(wanted.renewed) >= RENEW_S
        if due or replace(record, renewed=wanted.renewed) != wanted:
            self._queue.renew(number, wanted)
            self._ticket = (number, lock, wanted)

    def _is_valid(self) -> bool:
        if self._ticket is None:
            return True
        number, lock, _ = self._ticket
        return lock.is_held and self._queue.is_valid(number)

    def _order(self, wanted: TicketRecord) -> tuple[int, int]:
        return wanted.rank, self._ticket[0] if self._ticket else 1 << 62

    def _ahead(self, wanted: TicketRecord) -> list[Ticket]:
        """Return those who are served before us."""
        order = self._order(wanted)
        tickets = self._queue.waiting(self._stems)
        return [
            ticket
            for ticket in tickets
            if ticket.order < order and _is_before(ticket.record, wanted)
        ]

    def _acquire_all(self) -> list[HeldLease] | Place:
        """Acquire everything; on failure release it and return what was not free."""
        held: list[HeldLease] = []
        try:
            for key in self._keys:
                got = self._registry.acquire(
                    key,
                    self._tokens,
                    reason=self._reason,
                    expires_s=self._expires_s,
                    token=self._token,
                )
                if isinstance(got, Busy):
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
                return Place(0, key, holder.busy)
        text = str(ahead[0].record) if ahead else "another process"
        return Place(0, self._keys[0], Busy(None, text), reserved=True)


def _release(leases: Sequence[HeldLease]) -> None:
    for held in reversed(leases):
        held.release()

"""Lease registry: a directory of kernel locks and lease records shared by all who use the boards.

Each resource has numbered lock levels. A new holder takes level 0; processes it starts inherit the
token of its lease and take the next level, and so on. A resource is free when no level is locked,
so a process that outlives its parent keeps the resource until it ends.

The kernel's lock decides wherever it can. Records only add what a lock cannot say: the holder's
name, the token that its children present, a person's lease without a process, and, for a directory
shared with hosts that the kernel's locks do not reach, the heartbeat of a process there.

Two processes may try at the same time. Each takes its lock, then writes its record, then looks for
the other's; so at least one of them sees the other and backs off.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from harness.errors import BusyError
from harness.target.lease.flock import Flock, make_directory
from harness.target.lease.records import (
    Damaged,
    Instant,
    LeaseHolder,
    LeaseRecord,
    LockKey,
    TakenLease,
    new_record,
    read_record,
    write_record,
)

_log = logging.getLogger(__name__)

_Record = TypeVar("_Record", LeaseRecord, TakenLease)

HEARTBEAT_S: Final = 5.0
"""Interval of heartbeats, seconds."""

STALE_S: Final = 30.0
"""A process on another host counts as gone when its record has not changed for this long."""


_FORCE: Final = "`etharness lab release --force UNIT`"


class Ticking(Protocol):
    """A lease clock."""

    def now(self) -> Instant:
        """Return the current time."""
        ...


@dataclass(frozen=True, slots=True)
class Busy:
    """A resource that could not be acquired.

    Attributes:
        record: The record of its holder; None if unknown.
        description: The holder in words, for messages.
    """

    record: LeaseRecord | None
    description: str


class Holder(NamedTuple):
    """A holder of a resource: kind, lock level, and its record, None if it has no valid one."""

    kind: Literal["process", "person"]
    level: int
    record: LeaseRecord | None

    @property
    def busy(self) -> Busy:
        """The resource as it is for others."""
        if self.record is None and self.kind == "person":
            return Busy(None, "an unknown person")
        return Busy(self.record, _describe(self.record))


@dataclass(slots=True)
class HeldLease:
    """One lock level that this process holds, and the record beside it.

    Attributes:
        expected: When the holder expects to be done; None if unknown.
    """

    registry: LeaseRegistry
    key: LockKey
    level: int
    lock: Flock
    record: LeaseRecord
    expected: Instant | None = None
    _released: bool = False

    def heartbeat(self) -> None:
        """Record that this process lives.

        Raises:
            InfrastructureError: The record cannot be written.
        """
        if self._released or self.loss():
            return
        self.record = replace(
            self.record,
            beats=self.record.beats + 1,
            beat=self.registry.clock.now(),
            expected=self.expected,
        )
        write_record(self.registry.record_file(self.key, self.level), self.record)

    def loss(self) -> str:
        """Return how the lease was lost, in words; "" while it is held."""
        if self._released:
            return "it has ended"
        taken = _read_valid(self.registry.taken_file(self.key), TakenLease)
        if taken is not None and self.record.token in taken.tokens:
            return f"it was taken by {taken.by} on {taken.host}"
        other = _read_valid(self.registry.record_file(self.key, self.level), LeaseRecord)
        if other is not None and other.token != self.record.token:
            return f"it went to {other}, because this process wrote no heartbeats"
        now = self.registry.clock.now()
        if self.record.is_expired(now):
            return f"it expired {-now.seconds_until(self.record.until or now):.0f} s ago"
        return "" if self.lock.is_held else f"{self.lock.path} was removed"

    def release(self) -> None:
        """Release the level; further calls do nothing."""
        if self._released:
            return
        self._released = True
        file = self.registry.record_file(self.key, self.level)
        current = _read_valid(file, LeaseRecord)
        replaced = current is not None and current.token != self.record.token
        if self.lock.is_held and not replaced:
            # It may stay behind: a record without a lock is stale.
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        self.lock.release()

    def abandon(self) -> None:
        """Close our copy of the lock in a forked child; the lease stays with the parent."""
        self._released = True
        self.lock.release()


@dataclass(slots=True)
class LeaseRegistry:
    """The leases in a directory, seen from one process.

    Attributes:
        directory: The lock directory; created on first use.
        holder: This process.
        clock: The lease clock.
    """

    directory: Path
    holder: LeaseHolder
    clock: Ticking
    _watched: dict[tuple[str, int], tuple[Instant, object]] = field(default_factory=dict)
    """Per record of another host: when it last changed, and its content or file version then."""

    def acquire(
        self,
        key: LockKey,
        tokens: Collection[str] = (),
        *,
        reason: str = "",
        expires_s: float | None = None,
        token: str = "",
    ) -> HeldLease | Busy:
        """Acquire a resource without waiting, if it is free or held by one of ``tokens``.

        Args:
            key: The resource.
            tokens: Tokens of the leases held by this process or inherited from its parents.
            reason: Purpose, for messages.
            expires_s: Seconds until the lease expires; None for no expiry.
            token: Token shared by a lease of several resources; "" for a new one.

        Raises:
            InfrastructureError: The lock directory cannot be used.
        """
        make_directory(self.directory)
        lender = self._lender(key, tokens)
        level = 0 if lender is None else lender + 1
        if level == 0 and (busy := self._held_by_person(key, tokens)):
            return busy  # before taking the lock, so that a waiting process never blocks others
        lock = Flock(self._lock_file(key, level))
        if not lock.acquire():
            return self._busy(key, level)
        record = new_record(
            self.holder,
            key.name,
            self.clock.now(),
            reason=reason,
            expires_s=expires_s,
            token=token,
        )
        held = HeldLease(self, key, level, lock, record)
        with contextlib.ExitStack() as undo:
            undo.callback(lock.release)
            if level == 0 and (busy := self._held_without_lock(key, tokens)):
                return busy
            undo.callback(held.release)
            write_record(self.record_file(key, level), record)
            # Others can see our record from here on. Look again for any that we missed before.
            if lender is not None and self._lender(key, tokens, below=level) is None:
                return Busy(None, "another process, after the holder that lent it has just ended")
            for higher in self._levels(key):
                if higher > level and Flock(self._lock_file(key, higher)).is_locked():
                    return self._busy(key, higher)
            undo.pop_all()
        return held

    def reserve(
        self,
        key: LockKey,
        seconds: float,
        tokens: Collection[str] = (),
        *,
        reason: str = "",
        token: str = "",
    ) -> LeaseRecord | Busy:
        """Lease a resource to this process's owner, a person, for ``seconds``.

        The lease lasts without a process and replaces an earlier one of the same person. ``token``
        is as for `acquire`.

        Raises:
            InfrastructureError: The lock directory cannot be used.
        """
        held = self.acquire(key, tokens)
        if isinstance(held, Busy):
            return held
        try:
            record = new_record(
                *(self.holder, key.name, self.clock.now()),
                kind="person",
                reason=reason,
                expires_s=seconds,
                token=token,
            )
            with self._editing_person(key):
                write_record(self._person_file(key), record)
            return record
        finally:
            held.release()

    def release(
        self, key: LockKey, tokens: Collection[str] = (), *, force: bool = False
    ) -> list[str]:
        """End the leases of a resource.

        A person's lease ends at once. A process has to release its own: ``force`` marks its lease
        as taken, and the process holds the lock until it notices that.

        Returns:
            The former holders in words; empty if there were none.

        Raises:
            BusyError: Somebody else holds it, and ``force`` is not given.
            InfrastructureError: The lock directory cannot be used.
        """
        ended = []
        with self._editing_person(key):
            person = self.person(key)
            if person is not None:
                if (
                    isinstance(person, LeaseRecord)
                    and not force
                    and not self._admits(person, tokens)
                ):
                    raise self._not_ours(key, str(person))
                if person == "damaged" and not force:
                    raise self._not_ours(key, self._unreadable(key))
                self._person_file(key).unlink(missing_ok=True)
                ended.append(self._unreadable(key) if person == "damaged" else str(person))
        processes = self.process_records(key)
        if force and processes:
            taken_tokens = tuple(record.token for record in processes if record is not None)
            taken = TakenLease(self.holder.owner, self.holder.host, self.clock.now(), taken_tokens)
            write_record(self.taken_file(key), taken)
            ended += [_describe(record) for record in processes]
        elif processes and not ended:
            raise self._not_ours(
                key, _describe(processes[0]), f"end that process, or its lease: {_FORCE}"
            )
        return ended

    def person(self, key: LockKey) -> LeaseRecord | Damaged | None:
        """Return the person's lease in force, None without one, "damaged" if it is unreadable."""
        record = read_record(self._person_file(key), LeaseRecord)
        if isinstance(record, LeaseRecord) and record.is_expired(self.clock.now()):
            return None
        return record

    def admission(self, key: LockKey, tokens: Collection[str]) -> str:
        """Return the token of the lease that admits a process with ``tokens``; "" for none."""
        lender = self._lender(key, tokens)
        if lender is not None:
            record = _read_valid(self.record_file(key, lender), LeaseRecord)
            return record.token if record is not None else ""
        person = self.person(key)
        if isinstance(person, LeaseRecord) and self._admits(person, tokens):
            return person.token
        return ""

    def holders(self, key: LockKey) -> list[Holder]:
        """Return all holders of a resource: a person first, then processes by lock level.

        Includes processes of other hosts with a recent heartbeat, although their locks may not be
        visible here.
        """
        held = []
        if person := self.person(key):
            held.append(Holder("person", 0, None if person == "damaged" else person))
        now = self.clock.now()
        for level in self._levels(key):
            record = _read_valid(self.record_file(key, level), LeaseRecord)
            elsewhere = record is not None and record.host != self.holder.host
            alive = record is not None and record.beat.seconds_until(now) < STALE_S
            if (elsewhere and alive) or Flock(self._lock_file(key, level)).is_locked():
                held.append(Holder("process", level, record))
        return held

    def process_records(self, key: LockKey) -> list[LeaseRecord | None]:
        """Return the record of each process that holds a resource; None where it has no record."""
        return [holder.record for holder in self.holders(key) if holder.kind == "process"]

    def all_keys(self) -> list[LockKey]:
        """Return the key of every resource that was ever held, with its last known name."""
        found = {}
        for file in sorted(self.directory.glob("*")):
            if named := re.fullmatch(r"([^.].*)\.(?:(\d+)\.lock|person\.json)", file.name):
                stem = named[1]
                record = _read_valid(file.with_suffix(".json"), LeaseRecord)
                if record is not None or stem not in found:
                    found[stem] = record.what if record is not None else stem
        return [LockKey(stem, name) for stem, name in found.items()]

    def record_file(self, key: LockKey, level: int) -> Path:
        """Return the path of the record of a lock level."""
        return self.directory / f"{key.stem}.{level}.json"

    def taken_file(self, key: LockKey) -> Path:
        """Return the path of the record of forced releases."""
        return self.directory / f"{key.stem}.taken.json"

    def _person_file(self, key: LockKey) -> Path:
        return self.directory / f"{key.stem}.person.json"

    def _lock_file(self, key: LockKey, level: int) -> Path:
        return self.directory / f"{key.stem}.{level}.lock"

    def _levels(self, key: LockKey) -> list[int]:
        """Return the lock levels that have ever been used, ascending."""
        pattern = re.compile(re.escape(key.stem) + r"\.(\d+)\.lock")
        names = (pattern.fullmatch(file.name) for file in self.directory.glob("*.lock"))
        return sorted(int(name[1]) for name in names if name)

    def _lender(
        self, key: LockKey, tokens: Collection[str], below: int | None = None
    ) -> int | None:
        """Return the highest level held by one of ``tokens``, or None."""
        if not tokens:
            return None
        taken = _read_valid(self.taken_file(key), TakenLease)
        taken_tokens = taken.tokens if taken is not None else ()
        for level in reversed(self._levels(key)):
            if below is not None and level >= below:
                continue
            record = _read_valid(self.record_file(key, level), LeaseRecord)
            if (
                record is not None
                and record.token in tokens
                and record.token not in taken_tokens
                and Flock(self._lock_file(key, level)).is_locked()
            ):
                return level
        return None

    def _held_by_person(self, key: LockKey, tokens: Collection[str]) -> Busy | None:
        person = self.person(key)
        if person == "damaged":
            return Busy(None, self._unreadable(key))
        if person is not None and not self._admits(person, tokens):
            return Busy(person, str(person))
        return None

    def _held_without_lock(self, key: LockKey, tokens: Collection[str]) -> Busy | None:
        """Return a holder that has no lock we can see: a person, or a process on another host."""
        if busy := self._held_by_person(key, tokens):
            return busy
        first: Busy | None = None
        for level in self._levels(key):
            file = self.record_file(key, level)
            record = read_record(file, LeaseRecord)
            valid = record if isinstance(record, LeaseRecord) else None
            if record is None or (valid is not None and valid.host == self.holder.host):
                self._watched.pop((key.stem, level), None)
                continue
            content = _file_version(file) if valid is None else (valid.token, valid.beats)
            now = self.clock.now()
            since, known = self._watched.setdefault((key.stem, level), (now, content))
            if known != content:
                since, _ = self._watched[key.stem, level] = (now, content)
            if since.seconds_until(now) < STALE_S:
                text = f"{_describe(valid)}, until it writes no heartbeat for {STALE_S:g} s"
                # No early return: further levels have to be watched from now on, too.
                first = first or Busy(valid, text)
        return first

    def _admits(self, record: LeaseRecord, tokens: Collection[str]) -> bool:
        """Whether a person's lease admits us: we know its token, or are that user on this host."""
        ours = (record.owner, record.host) == (self.holder.owner, self.holder.host)
        return ours or record.token in tokens

    def _busy(self, key: LockKey, level: int) -> Busy:
        record = _read_valid(self.record_file(key, level), LeaseRecord)
        return Busy(record, _describe(record))

    def _not_ours(
        self, key: LockKey, holder: str, hint: str = f"ask them, or end their lease: {_FORCE}"
    ) -> BusyError:
        return BusyError(f"{key.name} cannot be released: already in use by {holder}", hint=hint)

    def _unreadable(self, key: LockKey) -> str:
        return f"an unknown person; the lease cannot be read: {self._person_file(key)}"

    @contextlib.contextmanager
    def _editing_person(self, key: LockKey) -> Iterator[None]:
        """Exclude other processes while a person's lease is changed."""
        make_directory(self.directory)
        lock = Flock(self.directory / f"{key.stem}.person.change")
        if not lock.acquire():
            raise BusyError(
                f"another process is changing the lease of {key.name}", hint="try again"
            )
        try:
            yield
        finally:
            lock.release()


def _read_valid(file: Path, type_: type[_Record]) -> _Record | None:
    """Return the record in a file; None if it is missing or damaged."""
    record = read_record(file, type_)
    return None if record == "damaged" else record


def _describe(record: LeaseRecord | None) -> str:
    return "a process without a lease record" if record is None else str(record)


def _file_version(file: Path) -> object:
    """Return inode and modification time, to detect changes of a damaged record."""
    with contextlib.suppress(OSError):
        status = file.stat()
        return status.st_ino, status.st_mtime_ns
    return None

"""Leases: which process or person may use a board at the moment.

Each resource has numbered lock levels. A new holder takes level 0; processes it starts inherit the
token of its lease and take the next level, and so on. A resource is free when no level is locked,
so a process that outlives its parent keeps the resource until it ends.

The kernel's lock (`flock`) decides wherever it can. Records, JSON files beside the locks, only add
what a lock cannot say: the holder's name, the token that its children present, a person's lease
without a process, and, for a directory shared with hosts that the kernel's locks do not reach, the
heartbeat of a process there.

Two processes may try at the same time. Each takes its lock, then writes its record, then looks for
the other's; so at least one of them sees the other and backs off.

The lease clock is immune to changes of the system time: within one boot of a host it is the time
since boot (``CLOCK_BOOTTIME``), which advances while the machine sleeps and which nobody can set.
Across reboots, between hosts, and on systems without that clock (Windows, macOS) only the time of
day is available.

Not ``filelock`` 4.2: its kernel locks carry no record of the holder, its leases and soft locks are
marker files that outlive a killed process, and neither can be lent to child processes or tested
without being acquired.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from harness.errors import BusyError, InfrastructureError
from harness.files import NotRegularFileError, decode_json, read_regular, replace_file
from harness.target.process_group import read_process
from harness.target.selection import (
    Flock,
    LockKey,
    host_name,
    make_directory,
    share_permissions,
    warn_not_regular,
)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


_MOST_BYTES: Final = 1 << 16
"""Size limit of a record file. Real records have a few hundred bytes; longer files are damaged."""


_T = TypeVar("_T")


class Instant(msgspec.Struct, frozen=True):
    """A point in time, as a host saw it.

    Attributes:
        boot: The kernel's random boot id; "" if the system has none.
        since_boot_s: Seconds since that boot, including suspend.
        day_s: Time of day, seconds since 1970; a record with a later year than 4147 is damaged.
    """

    boot: str
    since_boot_s: float
    day_s: Annotated[float, msgspec.Meta(ge=0, lt=1 << 36)]

    def seconds_until(self, later: Instant) -> float:
        """Seconds until ``later``: exact within one boot, otherwise by the time of day."""
        if self.boot and self.boot == later.boot:
            return later.since_boot_s - self.since_boot_s
        return later.day_s - self.day_s

    def plus(self, seconds: float) -> Instant:
        """Return the instant ``seconds`` later."""
        return Instant(self.boot, self.since_boot_s + seconds, self.day_s + seconds)


_NEVER: Final = Instant("", 0.0, 0.0)


class LeaseClock:
    """The clocks of this host."""

    def __init__(self) -> None:
        self._boot = ""
        self._since_boot_s: Callable[[], float] = time.monotonic
        number = getattr(time, "CLOCK_BOOTTIME", None)
        if number is None:
            return  # without a boot id, only the time of day is compared
        self._since_boot_s = partial(getattr(time, "clock_gettime", time.monotonic), number)
        with suppress(OSError):
            self._boot = _BOOT_ID.read_text().strip()

    def now(self) -> Instant:
        """Return the current time."""
        return Instant(self._boot, self._since_boot_s(), time.time())


def process_start(pid: int) -> int | None:
    """Return when a process of this host started, in kernel ticks; None if it is not running."""
    process = read_process(pid)
    return process.started if process is not None and process.is_living else None


def is_alive(host: str, pid: int, started: int) -> bool | None:
    """Whether that process is still running; None if it is on another host, or without /proc."""
    return process_start(pid) == started if host == host_name() and own_start() else None


def own_start() -> int:
    """Return when this process started, in kernel ticks; 0 without ``/proc``."""
    return process_start(os.getpid()) or 0


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process or a person that holds a resource, or a process that waits for some.

    Attributes:
        kind: A ``process`` holds until it ends, a ``person`` until ``until``.
        token: Random token of the lease; processes that know it act for its holder.
        what: Name of the resource.
        stems: Stems of the resources that a ``waiter`` wants.
        owner: The person or job that it is for: ``$ETHARNESS_OWNER``, or its user.
        host: Host of the process.
        pid: Process id; for a person's lease, of the command that made it.
        started: Start time of that process, in kernel ticks; tells it from a later one.
        command: Program name of that process.
        since: Start of the lease, or of the wait.
        until: Expiry; None for a lease that ends with its process.
        reason: Purpose, for messages.
        beats: Heartbeat counter, incremented while the process lives.
        beat: Time of the last heartbeat.
        expected: When a process expects to be done; None if it does not know.
    """

    kind: Literal["process", "person", "waiter"] = "process"
    token: str = ""
    what: str = ""
    stems: tuple[str, ...] = ()
    owner: str
    host: str
    pid: int
    started: int
    command: str
    since: Instant = _NEVER
    until: Instant | None = None
    reason: str = ""
    beats: int = 0
    beat: Instant = _NEVER
    expected: Instant | None = None

    def is_expired(self, now: Instant) -> bool:
        """Whether the lease has expired."""
        return self.until is not None and now.seconds_until(self.until) <= 0

    def __str__(self) -> str:
        """Owner, host, start, expiry, reason and process in one line."""
        text = f"{self.owner} on {self.host}"
        text += f" since {utc_text(self.since)}" if self.kind != "waiter" else ""
        text += f" until {utc_text(self.until)}" if self.until is not None else ""
        text += f" ({self.reason})" if self.reason else ""
        if self.kind != "person":
            text += f", process {self.pid} ({self.command})"
        return text

    @property
    def brief(self) -> str:
        """Purpose, owner and end in a few words, for those who wait."""
        who = f"{self.owner} on {self.host}"
        if self.kind == "process":
            text = f"{self.reason or self.command} ({who})"
        else:
            text = f"{who} ({self.reason})" if self.reason else who
        if self.until is not None:
            return f"{text} until {local_text(self.until)}"
        return f"{text} until ~{local_text(self.expected)}" if self.expected is not None else text


class TakenLease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A forced release: who took the leases with these tokens, and when."""

    by: str
    host: str
    at: Instant
    tokens: tuple[str, ...]


Damaged = Literal["damaged"]
"""A record file exists, but cannot be read or parsed."""


def new_token() -> str:
    """Return an unguessable token."""
    return uuid.uuid4().hex


def read_record(path: Path, type_: type[_T]) -> _T | Damaged | None:
    """Read a record file; None if it does not exist, "damaged" if it is not a valid record.

    A path that is not a regular file counts as missing, with a warning.
    """
    try:
        data = read_regular(path, _MOST_BYTES + 1, follow=False)
    except FileNotFoundError:
        return None
    except NotRegularFileError as error:
        warn_not_regular(error)
        return None
    except OSError:
        return "damaged"
    try:
        return decode_json(data, type_=type_)
    except msgspec.DecodeError:
        return "damaged"


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Write a record file atomically.

    Raises:
        InfrastructureError: The file cannot be written.
    """
    written = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        with written.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
            share_permissions(file.fileno(), path.parent)
        replace_file(written, path)
    except OSError as error:
        with suppress(OSError):
            written.unlink(missing_ok=True)
        raise InfrastructureError(
            f"cannot write the lease record {path}: {error.strerror}",
            hint=f"check the free space and the permissions of {path.parent}",
        ) from error


def utc_text(instant: Instant) -> str:
    """Return the time of day as ISO 8601, UTC, in seconds."""
    return datetime.fromtimestamp(instant.day_s, UTC).isoformat(timespec="seconds")


def local_text(instant: Instant) -> str:
    """Return the local time of day, with the date unless that is today."""
    moment = datetime.fromtimestamp(instant.day_s)
    return f"{moment:%H:%M}" if moment.date() == datetime.now().date() else f"{moment:%m-%d %H:%M}"


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


class Holder(NamedTuple):
    """Who holds a resource.

    Attributes:
        text: The holder in words, for messages.
        record: Its record; None if it has no valid one.
        level: Its lock level; None for a person, who has no lock.
    """

    text: str
    record: LeaseRecord | None = None
    level: int | None = 0


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
        holder: This process: the record of its leases, but for their own fields.
        clock: The lease clock.
    """

    directory: Path
    holder: LeaseRecord
    clock: Ticking
    _watched: dict[tuple[str, int], tuple[Instant, object]] = field(default_factory=dict)
    """Per record of another host: when it last changed, and its content or file version then."""

    def acquire(
        self,
        key: LockKey,
        tokens: Collection[str] = (),
        *,
        reason: str = "",
        token: str = "",
    ) -> HeldLease | Holder:
        """Acquire a resource without waiting, if it is free or held by one of ``tokens``.

        Args:
            key: The resource.
            tokens: Tokens of the leases held by this process or inherited from its parents.
            reason: Purpose, for messages.
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
        record = self._record(key, reason, None, token)
        held = HeldLease(self, key, level, lock, record)
        with contextlib.ExitStack() as undo:
            undo.callback(lock.release)
            if level == 0 and (busy := self._held_without_lock(key, tokens)):
                return busy
            undo.callback(held.release)
            write_record(self.record_file(key, level), record)
            # Others can see our record from here on. Look again for any that we missed before.
            if lender is not None and self._lender(key, tokens, below=level) is None:
                return Holder("another process, after the holder that lent it has just ended")
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
    ) -> LeaseRecord | Holder:
        """Lease a resource to this process's owner, a person, for ``seconds``.

        The lease lasts without a process and replaces an earlier one of the same person. ``token``
        is as for `acquire`.

        Raises:
            InfrastructureError: The lock directory cannot be used.
        """
        held = self.acquire(key, tokens)
        if isinstance(held, Holder):
            return held
        try:
            record = replace(self._record(key, reason, seconds, token), kind="person")
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
        processes = [holder for holder in self.holders(key) if holder.level is not None]
        if force and processes:
            taken_tokens = tuple(each.record.token for each in processes if each.record is not None)
            taken = TakenLease(self.holder.owner, self.holder.host, self.clock.now(), taken_tokens)
            write_record(self.taken_file(key), taken)
            ended += [holder.text for holder in processes]
        elif processes and not ended:
            raise self._not_ours(
                key, processes[0].text, f"end that process, or its lease: {_FORCE}"
            )
        return ended

    def _record(
        self, key: LockKey, reason: str, expires_s: float | None, token: str
    ) -> LeaseRecord:
        now = self.clock.now()
        return replace(
            self.holder,
            token=token or new_token(),
            what=key.name,
            since=now,
            until=None if expires_s is None else now.plus(expires_s),
            reason=reason,
            beat=now,
        )

    def person(self, key: LockKey) -> LeaseRecord | Damaged | None:
        """Return the person's lease in force, None without one, "damaged" if it is unreadable."""
        record = read_record(self._person_file(key), LeaseRecord)
        if isinstance(record, LeaseRecord) and record.is_expired(self.clock.now()):
            return None
        return record

    def admits(self, key: LockKey, tokens: Collection[str]) -> bool:
        """Whether a holder of the resource admits a process with ``tokens``."""
        if self._lender(key, tokens) is not None:
            return True
        person = self.person(key)
        return isinstance(person, LeaseRecord) and self._admits(person, tokens)

    def holders(self, key: LockKey) -> list[Holder]:
        """Return all holders of a resource: a person first, then processes by lock level.

        Includes processes of other hosts with a recent heartbeat, although their locks may not be
        visible here.
        """
        held = []
        if person := self.person(key):
            record = None if person == "damaged" else person
            held.append(Holder(str(record or "an unknown person"), record, level=None))
        now = self.clock.now()
        for level in self._levels(key):
            record = _read_valid(self.record_file(key, level), LeaseRecord)
            elsewhere = record is not None and record.host != self.holder.host
            alive = record is not None and record.beat.seconds_until(now) < STALE_S
            if (elsewhere and alive) or Flock(self._lock_file(key, level)).is_locked():
                held.append(Holder(_describe(record), record, level=level))
        return held

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

    def _held_by_person(self, key: LockKey, tokens: Collection[str]) -> Holder | None:
        person = self.person(key)
        if person == "damaged":
            return Holder(self._unreadable(key))
        if person is not None and not self._admits(person, tokens):
            return Holder(str(person), person)
        return None

    def _held_without_lock(self, key: LockKey, tokens: Collection[str]) -> Holder | None:
        """Return a holder that has no lock we can see: a person, or a process on another host."""
        if busy := self._held_by_person(key, tokens):
            return busy
        first: Holder | None = None
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
                first = first or Holder(text, valid)
        return first

    def _admits(self, record: LeaseRecord, tokens: Collection[str]) -> bool:
        """Whether a person's lease admits us: we know its token, or are that user on this host."""
        ours = (record.owner, record.host) == (self.holder.owner, self.holder.host)
        return ours or record.token in tokens

    def _busy(self, key: LockKey, level: int) -> Holder:
        record = _read_valid(self.record_file(key, level), LeaseRecord)
        return Holder(_describe(record), record)

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

"""Lease records, JSON files beside the locks, and the lease clock.

A record has holder, start, expiry and reason. The clock is immune to changes of the system time:
within one boot of a host it is the time since boot (``CLOCK_BOOTTIME``), which advances while the
machine sleeps and which nobody can set. Across reboots, between hosts, and on systems without that
clock (Windows, macOS) only the time of day is available.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from harness.errors import InfrastructureError
from harness.files import NotRegularFileError, read_regular, replace_file
from harness.link.ports import device_path, is_device, port_identity
from harness.target.lease.flock import share_permissions, warn_not_regular
from harness.target.ports import list_ports
from harness.target.process_group import read_process

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


_MOST_BYTES: Final = 1 << 16
"""Size limit of a record file. Real records have a few hundred bytes; longer files are damaged."""


_T = TypeVar("_T")


class Instant(msgspec.Struct, frozen=True):
    """A point in time, as a host saw it.

    Attributes:
        boot: The kernel's random boot id; "" if the system has none.
        since_boot_s: Seconds since that boot, including suspend.
        day_s: Time of day, seconds since 1970.
    """

    boot: str
    since_boot_s: float
    day_s: float

    def seconds_until(self, later: Instant) -> float:
        """Seconds until ``later``: exact within one boot, otherwise by the time of day."""
        if self.boot and self.boot == later.boot:
            return later.since_boot_s - self.since_boot_s
        return later.day_s - self.day_s

    def plus(self, seconds: float) -> Instant:
        """Return the instant ``seconds`` later."""
        return Instant(self.boot, self.since_boot_s + seconds, self.day_s + seconds)


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


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A process that can hold leases.

    Attributes:
        owner: The person or job it acts for: ``$ETHARNESS_OWNER``, or its user.
        host: Host name.
        pid: Process id on that host.
        started: Start time in kernel ticks; tells it from a later process with the same id.
        command: Program name.
    """

    owner: str
    host: str
    pid: int
    started: int
    command: str


def host_name() -> str:
    """Return the name of this host; hosts that share a lock directory need different names."""
    return socket.gethostname()


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


@dataclass(frozen=True, slots=True)
class LockKey:
    """A resource with one holder at a time.

    Attributes:
        stem: Stem of its lock files: unique to the resource, equal for all its names.
        name: Name of the resource in messages.
    """

    stem: str
    name: str = field(compare=False)


def unit_key(unit: str) -> LockKey:
    """Return the key of a lab unit, wherever it is plugged in."""
    return _key(f"unit {unit}", f"unit {unit!r}")


def probe_key(selector: str) -> LockKey:
    """Return the key of a debug probe of this host, by its VID:PID:Serial."""
    return _key(f"probe {host_name()} {selector}", f"probe {selector}")


def port_key(port: str) -> LockKey:
    """Return the key of a serial port, by any of its device names or its network address.

    A USB port is identified by its USB location and interface, because its name in ``/dev`` can
    change every time it is plugged in.
    """
    if is_device(port):
        device = device_path(port)
        for known in list_ports():
            if known.location and device_path(known.device) == device:
                socket = f"{known.location} interface {known.interface}"
                return _key(f"port {host_name()} usb {socket}", port)
    return _key(f"port {port_identity(port)}", port)


def _key(identity: str, name: str) -> LockKey:
    # The readable part is cut and not unique; the digest is what tells identities apart.
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", identity).strip("-.")[:60]
    return LockKey(f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}", name)


class LeaseRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of one lease.

    Attributes:
        token: Random token of this lease; processes that know it act for its holder.
        kind: ``process`` leases end with the process, ``person`` leases when they expire.
        what: Name of the resource.
        owner: The person or job that holds it.
        host: Host of the process.
        pid: Process id; for a person's lease, of the command that made it.
        started: Start time of that process, in kernel ticks.
        command: Program name of that process.
        since: Start of the lease.
        until: Expiry; None for a lease that ends with its process.
        reason: Purpose, for messages.
        beats: Heartbeat counter, incremented while the process lives.
        beat: Time of the last heartbeat.
        expected: When a process expects to be done; None if it does not know.
    """

    token: str
    kind: Literal["process", "person"]
    what: str
    owner: str
    host: str
    pid: int
    started: int
    command: str
    since: Instant
    until: Instant | None
    reason: str
    beats: int
    beat: Instant
    expected: Instant | None = None

    def is_expired(self, now: Instant) -> bool:
        """Whether the lease has expired."""
        return self.until is not None and now.seconds_until(self.until) <= 0

    def __str__(self) -> str:
        """Owner, host, start, expiry, reason and process in one line."""
        text = f"{self.owner} on {self.host} since {utc_text(self.since)}"
        text += f" until {utc_text(self.until)}" if self.until is not None else ""
        text += f" ({self.reason})" if self.reason else ""
        if self.kind == "process":
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


# Made at import: msgspec 0.22 describes a type when it is first decoded, and crashes when two
# threads do that at the same time.
LEASE: Final = msgspec.json.Decoder(LeaseRecord)
TAKEN: Final = msgspec.json.Decoder(TakenLease)

Damaged = Literal["damaged"]
"""A record file exists, but cannot be read or parsed."""


def new_token() -> str:
    """Return an unguessable token."""
    return uuid.uuid4().hex


def new_record(
    holder: LeaseHolder,
    what: str,
    now: Instant,
    *,
    kind: Literal["process", "person"] = "process",
    reason: str = "",
    expires_s: float | None = None,
    token: str = "",
) -> LeaseRecord:
    """Return the record of a lease that starts ``now``; with a new token unless one is given."""
    return LeaseRecord(
        token=token or new_token(),
        kind=kind,
        what=what,
        owner=holder.owner,
        host=holder.host,
        pid=holder.pid,
        started=holder.started,
        command=holder.command,
        since=now,
        until=None if expires_s is None else now.plus(expires_s),
        reason=reason,
        beats=0,
        beat=now,
    )


def read_record(path: Path, decoder: msgspec.json.Decoder[_T]) -> _T | Damaged | None:
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
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
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

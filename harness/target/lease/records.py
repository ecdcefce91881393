"""Lease records: JSON files beside the locks with holder, start, expiry and reason."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from harness.errors import InfrastructureError
from harness.files import NotRegularFileError, read_regular
from harness.target.lease.clock import Instant, LeaseHolder
from harness.target.lease.flock import share_permissions, warn_not_regular

_MOST_BYTES: Final = 1 << 16
"""Size limit of a record file. Real records have a few hundred bytes; longer files are damaged."""


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


class TakenLease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A forced release: who took the leases with these tokens, and when."""

    by: str
    host: str
    at: Instant
    tokens: tuple[str, ...]


Damaged = Literal["damaged"]
"""A record file exists, but cannot be read or parsed."""

_T = TypeVar("_T")


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
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, RecursionError):
        return "damaged"


def write_record(path: Path, record: LeaseRecord | TakenLease) -> None:
    """Write a record file atomically.

    Raises:
        InfrastructureError: The file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        with partial.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
            share_permissions(file.fileno(), path.parent)
        partial.rename(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise InfrastructureError(
            f"cannot write the lease record {path}: {error.strerror}",
            hint=f"check the free space and the permissions of {path.parent}",
        ) from error


def utc_text(instant: Instant) -> str:
    """Return the time of day as ISO 8601, UTC, in seconds."""
    return datetime.fromtimestamp(instant.day_s, UTC).isoformat(timespec="seconds")

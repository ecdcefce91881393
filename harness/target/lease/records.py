"""Notes beside locks: who has them, since when, until when, and why."""

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
from harness.target.lease.flock import pass_over, share

_MOST_BYTES: Final = 1 << 16
"""A note is some hundred bytes; whatever is longer is none."""


class LeaseRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who holds something.

    Attributes:
        token: Drawn for this lease; who knows it acts for its holder.
        kind: A process's, which ends with it, or a person's, which lasts until it expires.
        what: What is held, as people call it.
        owner: Who holds it.
        host: Where from.
        pid: The process, or the one that a person made it with.
        started: When that began, in the kernel's ticks.
        command: What that process is.
        since: Since when.
        until: When it expires; None for when its process ends.
        reason: What for.
        beats: Counts on while the process lives.
        beat: When it was last counted.
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

    @property
    def party(self) -> LeaseHolder:
        """The process that wrote it."""
        return LeaseHolder(self.owner, self.host, self.pid, self.started, self.command)

    def is_over(self, now: Instant) -> bool:
        """Whether it has expired."""
        return self.until is not None and now.seconds_until(self.until) <= 0

    def __str__(self) -> str:
        """By whom, since when, until when, and why."""
        text = f"{self.owner} on {self.host} since {day(self.since)}"
        text += f" until {day(self.until)}" if self.until is not None else ""
        text += f" ({self.reason})" if self.reason else ""
        if self.kind == "process":
            text += f", process {self.pid} ({self.command})"
        return text


class TakenLease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lease that was taken away: by whom, and which."""

    by: str
    host: str
    at: Instant
    tokens: tuple[str, ...]


Damaged = Literal["damaged"]
"""What is there where a note should be, and is none."""

_T = TypeVar("_T")


def new_token() -> str:
    """A token that nobody guesses."""
    return uuid.uuid4().hex


def new_note(
    party: LeaseHolder,
    what: str,
    now: Instant,
    *,
    kind: Literal["process", "person"] = "process",
    reason: str = "",
    expires_s: float | None = None,
    token: str = "",
) -> LeaseRecord:
    """A note of what begins now; with a token of its own, unless one is given."""
    return LeaseRecord(
        token=token or new_token(),
        kind=kind,
        what=what,
        owner=party.owner,
        host=party.host,
        pid=party.pid,
        started=party.started,
        command=party.command,
        since=now,
        until=None if expires_s is None else now.plus(expires_s),
        reason=reason,
        beats=0,
        beat=now,
    )


def read_note(path: Path, type_: type[_T]) -> _T | Damaged | None:
    """Read a note; None if there is none, "damaged" if it is none.

    What is no regular file is passed over, with a warning: nobody's lease is written into one.
    """
    try:
        data = read_regular(path, _MOST_BYTES + 1, follow=False)
    except FileNotFoundError:
        return None
    except NotRegularFileError as error:
        pass_over(error)
        return None
    except OSError:
        return "damaged"
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, RecursionError):
        return "damaged"


def write_note(path: Path, note: LeaseRecord | TakenLease) -> None:
    """Write a note so that it is there whole or not at all.

    Raises:
        InfrastructureError: It cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        with partial.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(note), indent=2) + b"\n")
            share(file.fileno(), path.parent)
        partial.rename(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise InfrastructureError(
            f"cannot write down who holds {path.stem}: {error.strerror}",
            hint=f"is there space on the disk of {path.parent}, and may you write there?",
        ) from error


def day(instant: Instant) -> str:
    """The time of day, ISO 8601."""
    return datetime.fromtimestamp(instant.day_s, UTC).isoformat(timespec="seconds")

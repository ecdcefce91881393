"""The identity under which a place is acquired: it encodes process, host and expiry.

labgrid knows a holder as HOST/USER, has no expiry, and cannot tell processes of one host apart. So
each acquisition uses a HOST of its own, which encodes the process and the expiry. Extensions are
stored as users who are allowed to use the place, which labgrid clears at the release. All of it is
stored at the coordinator with the acquisition, where every host can see it.
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import UsageError
from harness.records.decode_json import decode_json
from harness.target.lease.records import own_start, process_start

_MARK: Final = "etharness"
_OURS: Final = re.compile(
    rf"(?P<node>[^/~]+)~{_MARK}~(?P<pid>\d{{1,10}})~(?P<started>\d{{1,20}})"
    r"~(?P<system>[0-9a-f]{12})~(?P<since>\d{1,12})~(?P<until>\d{1,12})~(?P<nonce>[0-9a-f]{8})/(?P<user>[^/]+)"
)
_PROLONGED: Final = re.compile(rf"{_MARK}~until~(\d{{1,12}})/")

CLOCKS_DIFFER_S: Final = 60
"""Clock difference between two hosts up to which neither takes a place of the other too early."""


VARIABLE: Final = "ETHARNESS_PLACES"
"""Environment variable: the places that a parent holds for its children, as JSON."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of one acquisition.

    Attributes:
        node: The host that made it.
        user: The user who made it.
        pid: The process that holds it.
        started: Start time of that process in clock ticks; distinguishes it from a later process
            with the same pid.
        system: Identifies the boot and pid namespace that the pid belongs to.
        since: When it was made, seconds since 1970.
        until: When it expires unless extended, seconds since 1970.
        nonce: Distinguishes the acquisitions of a process.
    """

    node: str
    user: str
    pid: int
    started: int
    system: str
    since: int
    until: int
    nonce: str

    @classmethod
    def new(cls, term_s: float) -> Identity:
        """Return an identity valid for ``term_s`` seconds, at most until this process ends."""
        return cls(
            node=re.sub(r"[/~\s]", "-", socket.gethostname()) or "host",
            user=re.sub(r"[/\s]", "-", getpass.getuser()) or "user",
            pid=os.getpid(),
            started=own_start(),
            system=_this_system(),
            since=int(time.time()),
            until=int(time.time() + term_s),
            nonce=secrets.token_hex(4),
        )

    @classmethod
    def parse(cls, acquired: str) -> Identity | None:
        """Parse the holder of a place; None if it is not an identity of this package."""
        match = _OURS.fullmatch(acquired)
        if match is None:
            return None
        return cls(
            node=match["node"],
            user=match["user"],
            pid=int(match["pid"]),
            started=int(match["started"]),
            system=match["system"],
            since=int(match["since"]),
            until=int(match["until"]),
            nonce=match["nonce"],
        )

    @property
    def host(self) -> str:
        """The host name to pass to labgrid."""
        return (
            f"{self.node}~{_MARK}~{self.pid}~{self.started}~{self.system}~{self.since}"
            f"~{self.until}~{self.nonce}"
        )

    def __str__(self) -> str:
        return f"{self.host}/{self.user}"

    def prolonged(self, until: int) -> str:
        """Return the allowed user that records an extension until ``until``."""
        return f"{_MARK}~until~{until}/{self.user}"

    def ends(self, allowed: Iterable[str]) -> int:
        """Return the expiry with extensions, seconds since 1970, given the allowed users."""
        extensions = [int(match[1]) for name in allowed if (match := _PROLONGED.match(name))]
        return max([self.until, *extensions])

    @property
    def lives(self) -> bool | None:
        """Whether its process is alive; None for a process of another system."""
        if self.system != _this_system():
            return None
        return process_start(self.pid) == self.started

    def is_over(self, allowed: Iterable[str]) -> str:
        """Return why the place can be released; "" unless the holder has provably ended."""
        if self.lives is False:
            return f"process {self.pid} has ended"
        ends = self.ends(allowed)
        if ends + CLOCKS_DIFFER_S < time.time():
            return f"it expired at {utc(ends)}"
        return ""

    def describe(self, allowed: Iterable[str] = ()) -> str:
        """Return process, user, host and times, for messages."""
        times = f"since {utc(self.since)}, until {utc(self.ends(allowed))}"
        return f"process {self.pid} of {self.user} on {self.node}, {times}"


def utc(seconds: int) -> str:
    """Format a time in seconds since 1970 as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(seconds, 253_402_300_799)))


@cache
def _this_system() -> str:
    """Return an id of this boot and pid namespace: pids of other systems cannot be checked."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        container = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        # Not Linux: no process of another run can be checked.
        boot, container = secrets.token_hex(8), ""
    parts = (socket.gethostname(), boot, container)
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


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
        return decode_json(os.environ.get(VARIABLE) or "{}", type_=dict[str, Inherited])
    except msgspec.DecodeError as error:
        raise UsageError(f"invalid ${VARIABLE}: {error}") from error


def _publish(more: dict[str, Inherited], without: Collection[str] = ()) -> None:
    with _environment:
        places = {key: held for key, held in _published().items() if key not in without} | more
        if places:
            os.environ[VARIABLE] = msgspec.json.encode(places).decode()
        else:
            os.environ.pop(VARIABLE, None)

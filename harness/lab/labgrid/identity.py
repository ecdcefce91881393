"""Under which name we acquire a place, and what that name tells others.

labgrid knows a holder as HOST/USER, has no expiry, and cannot tell processes of one host apart. So
each of our acquisitions has a HOST of its own, which says which process made it and until when it
is for; longer terms are added as users who may use the place, which labgrid forgets at its release.
All of it is therefore at the coordinator, with the acquisition itself, for every host to see.
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

_MARK: Final = "etharness"
_OURS: Final = re.compile(
    rf"(?P<node>[^/~]+)~{_MARK}~(?P<pid>\d{{1,10}})~(?P<started>\d{{1,20}})"
    r"~(?P<system>[0-9a-f]{12})~(?P<since>\d{1,12})~(?P<until>\d{1,12})~(?P<nonce>[0-9a-f]{8})/(?P<user>[^/]+)"
)
_PROLONGED: Final = re.compile(rf"{_MARK}~until~(\d{{1,12}})/")

CLOCKS_DIFFER_S: Final = 60
"""How far the clocks of two hosts may be apart before one takes the other's places."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One acquisition of ours.

    Attributes:
        node: The computer that made it.
        user: Its user.
        pid: The process; 0 when it is nobody's and only ends with its time.
        started: When that began, in ticks of its system: tells it from a later one of its number.
        system: Which boot of which system counts the processes.
        since: When it was made, seconds since 1970.
        until: When it ends, seconds since 1970, unless it is prolonged.
        nonce: Tells the acquisitions of a process apart.
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
    def new(cls, term_s: float, *, outlives_process: bool = False) -> Identity:
        """A new one for so many seconds from now, or until this process ends if that is sooner."""
        pid = 0 if outlives_process else os.getpid()
        return cls(
            node=re.sub(r"[/~\s]", "-", socket.gethostname()) or "host",
            user=re.sub(r"[/\s]", "-", getpass.getuser()) or "user",
            pid=pid,
            started=_start_of(pid) or 0,
            system=_this_system(),
            since=int(time.time()),
            until=int(time.time() + term_s),
            nonce=secrets.token_hex(4),
        )

    @classmethod
    def parse(cls, acquired: str) -> Identity | None:
        """Read who has acquired a place; None if that is none of us."""
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
        """What labgrid is told as the host."""
        return (
            f"{self.node}~{_MARK}~{self.pid}~{self.started}~{self.system}~{self.since}"
            f"~{self.until}~{self.nonce}"
        )

    def __str__(self) -> str:
        return f"{self.host}/{self.user}"

    def prolonged(self, until: int) -> str:
        """The name that says, among those who may use a place, that ours is ours until then."""
        return f"{_MARK}~until~{until}/{self.user}"

    def ends(self, allowed: Iterable[str]) -> int:
        """When it ends, seconds since 1970, given who may use the place."""
        told = [int(match[1]) for name in allowed if (match := _PROLONGED.match(name))]
        return max(self.until, *told) if told else self.until

    @property
    def lives(self) -> bool | None:
        """Whether its process is there still; None for that of another system, or for none."""
        if not self.pid or self.system != _this_system():
            return None
        return _start_of(self.pid) == self.started

    def is_over(self, allowed: Iterable[str]) -> str:
        """Why nobody needs it any more, "" if somebody may: provably, or it counts as needed."""
        if self.lives is False:
            return f"process {self.pid} has ended"
        ends = self.ends(allowed)
        if ends + CLOCKS_DIFFER_S < time.time():
            return f"it was for the time until {utc(ends)}"
        return ""

    def describe(self, allowed: Iterable[str] = ()) -> str:
        """Who that is, for people."""
        process = f"process {self.pid} of " if self.pid else ""
        times = f"since {utc(self.since)}, until {utc(self.ends(allowed))}"
        return f"{process}{self.user} on {self.node}, {times}"


def utc(seconds: int) -> str:
    """A time in seconds since 1970, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(seconds, 253_402_300_799)))


def _start_of(pid: int) -> int | None:
    """When a process began, in ticks since the system did; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # behind its name, which may hold anything
    return None if fields[0] in b"ZX" else int(fields[19])


@cache
def _this_system() -> str:
    """Tells systems apart that count processes on their own: boots, and containers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        container = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, container = secrets.token_hex(8), ""  # nothing can be proved there
    parts = (socket.gethostname(), boot, container)
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()

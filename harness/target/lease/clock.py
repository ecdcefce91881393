"""What time it is, for leases: nobody's setting of a clock may end one early, or keep it.

On one host, between one start of it and the next, time since that start counts: it goes on while
the machine sleeps, and no one can set it. Only across starts and between hosts the time of day is
all there is.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Instant(msgspec.Struct, frozen=True):
    """A point in time, as a host saw it.

    Attributes:
        boot: Which start of which host: an id that the kernel draws; "" where it has none.
        since_boot_s: Seconds since then, those asleep included.
        day_s: The time of day, seconds since 1970.
    """

    boot: str
    since_boot_s: float
    day_s: float

    def seconds_until(self, later: Instant) -> float:
        """How long it is to ``later``: exact within one start of a host, else by time of day."""
        if self.boot and self.boot == later.boot:
            return later.since_boot_s - self.since_boot_s
        return later.day_s - self.day_s

    def plus(self, seconds: float) -> Instant:
        """The instant so much later."""
        return Instant(self.boot, self.since_boot_s + seconds, self.day_s + seconds)


class LeaseClock:
    """The clocks of this host."""

    def now(self) -> Instant:
        """What time it is."""
        return Instant(self._boot, time.clock_gettime(time.CLOCK_BOOTTIME), time.time())

    def __init__(self) -> None:
        self._boot = ""
        with suppress(OSError):
            self._boot = _BOOT_ID.read_text().strip()


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A process that may hold something.

    Attributes:
        owner: For whom it acts: ``$ETHARNESS_OWNER``, else its user.
        host: Its host.
        pid: Its id there.
        started: When it began, in the kernel's ticks: another of the same id began later.
        command: What it is, in a word.
    """

    owner: str
    host: str
    pid: int
    started: int
    command: str


def host_name() -> str:
    """The name of this host; those that share a directory of leases need different ones."""
    return socket.gethostname()


def start_of(pid: int) -> int | None:
    """When a process of this host began, in the kernel's ticks; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is a name, which may hold anything; the rest are numbers.
    fields = stat.rpartition(b")")[2].split()
    dead = fields[:1] == [b"Z"]
    return None if dead or len(fields) < 20 else int(fields[19])


def is_alive(party_host: str, pid: int, started: int) -> bool | None:
    """Whether that very process is there still; None if it is of another host."""
    return start_of(pid) == started if party_host == host_name() else None


def own_start() -> int:
    """When this process began."""
    return start_of(os.getpid()) or 0

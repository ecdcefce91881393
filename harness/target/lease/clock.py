"""Lease clock, immune to changes of the system time, and the identity of processes.

Within one boot of a host, leases use the time since boot (``CLOCK_BOOTTIME``): it advances while
the machine sleeps, and nobody can set it. Across reboots and between hosts only the time of day
is available.
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
        with suppress(OSError):
            self._boot = _BOOT_ID.read_text().strip()

    def now(self) -> Instant:
        """Return the current time."""
        return Instant(self._boot, time.clock_gettime(time.CLOCK_BOOTTIME), time.time())


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
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program name, which may contain spaces and parentheses.
    fields = stat.rpartition(b")")[2].split()
    dead = fields[:1] == [b"Z"]
    return None if dead or len(fields) < 20 else int(fields[19])


def is_alive(host: str, pid: int, started: int) -> bool | None:
    """Whether that process is still running; None if it is on another host."""
    return process_start(pid) == started if host == host_name() else None


def own_start() -> int:
    """Return when this process started, in kernel ticks."""
    return process_start(os.getpid()) or 0

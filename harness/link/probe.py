"""Debug probe: reads and writes the memory of a board, halts it and lets it go.

    gdb://host:port        any gdbserver: OpenOCD, pyOCD, J-Link, probe-rs, QEMU
    pyocd://[PROBE]        a probe of this host through pyOCD; PROBE is its unique id

Both may end in ``?timeout=SECONDS``, the longest wait for an answer, and ``pyocd://`` in
``?target=NAME``, the chip as pyOCD calls it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

from harness.errors import UsageError
from harness.link.ports import is_probe, parse_address


@dataclass
class ProbeStatistics:
    """What a probe did to a board.

    Attributes:
        halts: Number of halts.
        halted_s: Time between a halt and its end, as the host sees it, seconds.
        longest_halt_s: The longest of these, seconds.
        bytes_read: Bytes of memory read.
        requests: Requests sent to the probe.
    """

    halts: int = 0
    halted_s: float = 0.0
    longest_halt_s: float = 0.0
    bytes_read: int = 0
    requests: int = 0


class DebugProbe(Protocol):
    """A connection to a debug probe. Addresses and sizes are bytes, times are seconds."""

    @property
    def statistics(self) -> ProbeStatistics:
        """What the probe has done so far."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def halt(self) -> None:
        """Halt the board; nothing happens if it is halted.

        Raises:
            ProbeError: It did not halt in time, or the probe failed.
        """
        ...

    def resume(self) -> None:
        """Let the board run; nothing happens if it runs.

        Raises:
            ProbeError: The probe failed.
        """
        ...

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the halted board.

        Raises:
            ProbeError: The memory cannot be read.
        """
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write memory of the halted board.

        Raises:
            ProbeError: The memory cannot be written.
        """
        ...

    def run_to(self, address: int, timeout_s: float) -> None:
        """Let the board run until it is about to execute ``address``; it is halted then.

        Raises:
            TargetError: It stopped elsewhere, or did not get there in time.
            ProbeError: The probe failed, or has no breakpoint.
        """
        ...

    def reset(self, command: str) -> None:
        """Reset the board; it is halted then.

        Args:
            command: The server's command for it, such as ``reset halt`` of OpenOCD.

        Raises:
            ProbeError: The probe does not know the command, or the board did not halt.
        """
        ...

    def close(self) -> None:
        """Remove breakpoints, let the board run, and end the connection; never raises."""
        ...


@contextmanager
def halted(probe: DebugProbe) -> Iterator[None]:
    """Halt the board, and let it run at the end, also after an error."""
    probe.halt()
    try:
        yield
    finally:
        probe.resume()


def record_halt(statistics: ProbeStatistics, began: float) -> None:
    """Count a halt that began at ``began`` of the monotonic clock and ends now."""
    seconds = time.monotonic() - began
    statistics.halts += 1
    statistics.halted_s += seconds
    statistics.longest_halt_s = max(statistics.longest_halt_s, seconds)


def open_probe(address: str) -> DebugProbe:
    """Connect to a debug probe by its address (see above). The board may be halted afterwards.

    Raises:
        UsageError: The address is invalid, or a package is missing.
        ProbeError: The probe cannot be reached, or does not answer.
    """
    if not is_probe(address):
        raise UsageError(
            f"{address!r} is not the address of a debug probe",
            hint="use gdb://host:port or pyocd://",
        )
    if address.startswith("pyocd://"):
        from harness.link.pyocd_probe import PyocdProbe

        return PyocdProbe(address)
    from harness.link.gdb_remote import GdbRemote

    network = parse_address(address)
    assert network is not None
    return GdbRemote(address, network)
